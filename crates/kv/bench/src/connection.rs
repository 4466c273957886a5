//! One connection of the load generator.

mod scans;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::protocol::{Reply, Unexpected};
use super::settings::READ_BYTES;
use super::stream::{PATIENCE, Stream};
use super::workload::{Kind, Requests};
use super::{Address, BenchError, Records, Settings};

/// Answer that a request must get, and the request that follows it.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// A value of the record, or nothing.
    Value,
    /// A value of the record, or nothing; then it is updated.
    ValueToUpdate,
    /// Ends the request.
    Stored,
    /// Does not end it: more is in flight.
    PartStored,
    /// Keys, whose values are read next.
    Keys,
    /// Values.
    Values,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    expect: Expect,
    record: u64,
    started_ns: u64,
}

/// Number of requests that answers have completed, and of their hits and misses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub done: u64,
    pub hits: u64,
    pub misses: u64,
}

/// A connection, with its unanswered requests.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    address: Address,
    /// Index of its endpoint among the server's.
    pub endpoint: usize,
    settings: Settings,
    /// Generator of the requests. Loading records does not draw from it.
    requests: Requests,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    filled: usize,
    outstanding: VecDeque<Outstanding>,
    /// Records of the scans whose values were requested, as far as they were loaded.
    scanned: VecDeque<Vec<Option<u64>>>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Connection {
    /// Connects, and authenticates.
    pub(crate) fn open(settings: &Settings, number: u64) -> Result<Self, BenchError> {
        let endpoint = settings.endpoint(number);
        let address = settings.endpoints().nth(endpoint).unwrap_or(&settings.address);
        let failed = |source| BenchError::Connection { address: address.to_string(), source };
        let workload = &settings.workload;
        let (count, seed) = (settings.records.count, settings.seed);
        let connections = (settings.connections * settings.generator.count) as u64;
        let mut connection = Self {
            stream: Stream::connect(address, settings.tls.as_ref()).map_err(failed)?,
            address: address.clone(),
            endpoint,
            requests: Requests::new(workload, count, seed, number, connections),
            settings: settings.clone(),
            out: Vec::new(),
            sent: 0,
            input: vec![0; READ_BYTES],
            filled: 0,
            outstanding: VecDeque::new(),
            scanned: VecDeque::new(),
            key: Vec::new(),
            value: Vec::new(),
        };
        if let Some(password) = &settings.password {
            connection.authenticate(password)?;
        }
        connection.stream.set_nonblocking().map_err(failed)?;
        Ok(connection)
    }

    fn authenticate(&mut self, password: &[u8]) -> Result<(), BenchError> {
        let protocol = self.settings.protocol;
        if !protocol.authenticate(password, &mut self.out) {
            return Ok(());
        }
        let outstanding = Outstanding { expect: Expect::Stored, record: 0, started_ns: 0 };
        self.outstanding.push_back(outstanding);
        self.stream.set_patience().map_err(|e| self.failed(e))?;
        self.flush()?;
        let begin = Instant::now();
        while !self.outstanding.is_empty() {
            self.receive(&mut |_| {})?;
            if begin.elapsed() > PATIENCE {
                return Err(self.failed(ErrorKind::TimedOut.into()));
            }
        }
        Ok(())
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn failed(&self, source: io::Error) -> BenchError {
        let address = self.address.to_string();
        BenchError::Connection { address, source }
    }

    fn records(&self) -> &Records {
        &self.settings.records
    }

    /// Returns the time at which the oldest request without an answer was sent, or should have
    /// been, in nanoseconds; `None` if there is none.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.outstanding.front().map(|request| request.started_ns)
    }

    /// Requests that have not been answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.outstanding.len()
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.out.len() || self.stream.has_unsent()
    }

    /// Sends the next requests, as of `started_ns`.
    pub(crate) fn ask(&mut self, started_ns: u64) {
        match self.requests.kind() {
            Kind::Read => {
                let record = self.requests.record();
                self.ask_for(record, Expect::Value, started_ns);
            }
            Kind::ReadModifyWrite => {
                let record = self.requests.record();
                self.ask_for(record, Expect::ValueToUpdate, started_ns);
            }
            Kind::Update => {
                let record = self.requests.record();
                self.store(record, started_ns);
            }
            Kind::Insert => {
                let record = self.requests.insert();
                self.insert(record, started_ns);
            }
            Kind::Scan => {
                let record = self.requests.record();
                let (score, len) = (score(record), self.requests.scan_len());
                self.settings.protocol.scan(score, len, &mut self.out);
                self.expect(Expect::Keys, record, started_ns);
            }
        }
    }

    /// Stores a new record, in the index too if there is one.
    pub(crate) fn insert(&mut self, record: u64, started_ns: u64) {
        if self.settings.workload.has_scans() {
            self.key.clear();
            self.settings.records.key(record, &mut self.key);
            let protocol = self.settings.protocol;
            protocol.add_to_index(score(record), &self.key, &mut self.out);
            self.expect(Expect::PartStored, record, started_ns);
        }
        self.store(record, started_ns);
    }

    fn ask_for(&mut self, record: u64, expect: Expect, started_ns: u64) {
        self.key.clear();
        self.settings.records.key(record, &mut self.key);
        self.settings.protocol.get(&self.key, &mut self.out);
        self.expect(expect, record, started_ns);
    }

    fn store(&mut self, record: u64, started_ns: u64) {
        self.key.clear();
        self.value.clear();
        let nonce = self.requests.nonce();
        self.settings.records.key(record, &mut self.key);
        (self.settings.records).value(record, nonce, &mut self.value);
        let protocol = self.settings.protocol;
        protocol.set(&self.key, &self.value, &mut self.out);
        self.expect(Expect::Stored, record, started_ns);
    }

    fn expect(&mut self, expect: Expect, record: u64, started_ns: u64) {
        self.outstanding.push_back(Outstanding { expect, record, started_ns });
    }

    /// Sends as much as the socket takes now.
    pub(crate) fn flush(&mut self) -> Result<(), BenchError> {
        while self.has_unsent() {
            let rest = &self.out[self.sent..];
            let written = match rest.is_empty() {
                true => self.stream.flush().map(|()| 0),
                false => self.stream.write(rest),
            };
            match written {
                Ok(0) if !rest.is_empty() => {
                    return Err(self.failed(ErrorKind::WriteZero.into()));
                }
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Receives available replies. `done` gets the start of each request that is answered, once it
    /// is known when that was received.
    pub(crate) fn receive(&mut self, done: &mut impl FnMut(u64)) -> Result<Counts, BenchError> {
        let mut counts = Counts::default();
        self.receive_some(&mut counts, done)?;
        while self.stream.has_buffered() {
            self.receive_some(&mut counts, done)?;
        }
        Ok(counts)
    }

    fn receive_some(
        &mut self,
        counts: &mut Counts,
        done: &mut impl FnMut(u64),
    ) -> Result<(), BenchError> {
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(self.failed(ErrorKind::UnexpectedEof.into())),
            Ok(len) => self.filled += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(self.failed(error)),
        }
        let mut input = std::mem::take(&mut self.input);
        let answered = self.answers(&input[..self.filled], counts, done);
        if let Ok(consumed) = answered {
            input.copy_within(consumed..self.filled, 0);
            self.filled -= consumed;
            if self.filled == input.len() {
                input.resize(2 * input.len(), 0);
            }
        }
        self.input = input;
        answered.map(|_| ())
    }

    fn answers(
        &mut self,
        input: &[u8],
        counts: &mut Counts,
        done: &mut impl FnMut(u64),
    ) -> Result<usize, BenchError> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let parsed = self.settings.protocol.parse(rest);
            let Some((reply, len)) = parsed.map_err(|Unexpected| self.unexpected(rest))? else {
                break;
            };
            let Some(request) = self.outstanding.pop_front() else {
                return Err(self.unexpected(rest));
            };
            if self.answer(request, &reply, rest, counts)? {
                counts.done += 1;
                done(request.started_ns);
            }
            at += len;
        }
        Ok(at)
    }

    /// Takes the answer to a request. Returns `true` if it was complete.
    fn answer(
        &mut self,
        request: Outstanding,
        reply: &Reply,
        input: &[u8],
        counts: &mut Counts,
    ) -> Result<bool, BenchError> {
        let Outstanding { record, started_ns, .. } = request;
        match (request.expect, reply) {
            (Expect::Stored, Reply::Stored) => {
                self.requests.stored(record);
                Ok(true)
            }
            (Expect::PartStored, Reply::Stored) => Ok(false),
            (Expect::Value | Expect::ValueToUpdate, Reply::Value(_) | Reply::Missing) => {
                match reply {
                    Reply::Value(range) => {
                        self.check(record, &input[range.clone()])?;
                        counts.hits += 1;
                    }
                    _ => counts.misses += 1,
                }
                let is_all = matches!(request.expect, Expect::Value);
                if !is_all {
                    self.store(record, started_ns);
                }
                Ok(is_all)
            }
            (Expect::Keys, Reply::List(keys)) => {
                self.fetch_all(record, started_ns, keys, input, counts)
            }
            (Expect::Values, Reply::List(values)) => {
                self.check_all(values, input, counts)?;
                Ok(true)
            }
            _ => Err(self.unexpected(input)),
        }
    }

    fn check(&self, record: u64, value: &[u8]) -> Result<(), BenchError> {
        if self.records().is_value(record, value) {
            return Ok(());
        }
        let mut key = Vec::new();
        self.records().key(record, &mut key);
        Err(BenchError::WrongValue {
            address: self.address.to_string(),
            key: key.escape_ascii().to_string(),
        })
    }

    fn unexpected(&self, input: &[u8]) -> BenchError {
        let line = input.split(|byte| *byte == b'\n').next().unwrap_or(input);
        BenchError::Answer {
            address: self.address.to_string(),
            answer: line[..line.len().min(200)].trim_ascii_end().escape_ascii().to_string(),
        }
    }
}

/// Returns the score of a record in the index, the sorted set of all keys.
fn score(record: u64) -> u64 {
    record
}
