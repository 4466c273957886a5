//! A client of the datagram protocol, as the load generator drives connections.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use slab::Slab;

use super::connection::{Connection, Counts};
use super::port::PortChannel;
use super::protocol::OVERHEAD_BYTES;
use super::transport::Transport;
use super::workload::{Kind, Requests};
use super::{BenchError, Settings};
use overside_kv_datagram::client::{Exchange, ExchangeError, ExchangeOptions};
use overside_kv_datagram::udp::ReceiveBuffers;
use overside_kv_protocol::datagram::{ETHERNET_BYTES, Reply};
use overside_kv_store::{Answer, Operation, Request};

/// Client that a thread of the load generator drives.
#[derive(Debug)]
pub(super) enum Client {
    Stream(Box<Connection>),
    Datagram(Box<DatagramConnection>),
}

impl Client {
    /// `port`: by which it goes, instead of a socket.
    pub(crate) fn open(
        settings: &Settings,
        number: u64,
        port: Option<PortChannel>,
    ) -> Result<Self, BenchError> {
        match settings.protocol {
            protocol if protocol.is_datagram() => DatagramConnection::open(settings, number, port)
                .map(|connection| Self::Datagram(Box::new(connection))),
            _ => Connection::open(settings, number)
                .map(|connection| Self::Stream(Box::new(connection))),
        }
    }

    /// Returns the descriptor that becomes readable when something has arrived; `None` if it must
    /// be polled.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Stream(connection) => Some(connection.fd()),
            Self::Datagram(connection) => connection.transport.fd(),
        }
    }

    /// Returns the index of its endpoint among the server's.
    pub(crate) fn endpoint(&self) -> usize {
        match self {
            Self::Stream(connection) => connection.endpoint,
            Self::Datagram(_) => 0,
        }
    }

    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        match self {
            Self::Stream(connection) => connection.oldest_ns(),
            Self::Datagram(connection) => {
                let all = connection.outstanding.iter();
                all.map(|(_, request)| request.started_ns).min()
            }
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        match self {
            Self::Stream(connection) => connection.in_flight(),
            Self::Datagram(connection) => connection.outstanding.len(),
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Stream(connection) => connection.has_unsent(),
            // What finds no room is lost.
            Self::Datagram(_) => false,
        }
    }

    pub(crate) fn ask(&mut self, started_ns: u64) -> Result<(), BenchError> {
        match self {
            Self::Stream(connection) => {
                connection.ask(started_ns);
                Ok(())
            }
            Self::Datagram(connection) => connection.ask_next(started_ns),
        }
    }

    pub(crate) fn insert(&mut self, record: u64, started_ns: u64) -> Result<(), BenchError> {
        match self {
            Self::Stream(connection) => {
                connection.insert(record, started_ns);
                Ok(())
            }
            Self::Datagram(connection) => connection.store(record, started_ns),
        }
    }

    /// Sends as many datagrams as possible now.
    pub(crate) fn flush(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Stream(connection) if connection.has_unsent() => connection.flush(),
            Self::Stream(_) => Ok(()),
            Self::Datagram(connection) => connection.flush(),
        }
    }

    pub(crate) fn receive(&mut self, done: &mut impl FnMut(u64)) -> Result<Counts, BenchError> {
        match self {
            Self::Stream(connection) => connection.receive(done),
            Self::Datagram(connection) => connection.receive(done),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Value,
    /// Then it is updated.
    ValueToUpdate,
    Stored,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    expect: Expect,
    record: u64,
    started_ns: u64,
}

/// A client, with its unanswered requests.
#[derive(Debug)]
pub(super) struct DatagramConnection {
    transport: Transport,
    buffers: ReceiveBuffers,
    exchange: Exchange,
    begin: Instant,
    settings: Settings,
    requests: Requests,
    outstanding: Slab<Outstanding>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Requests that wait for the first answer, which has the number of the server's partitions.
    /// Without it, they would reach cores that do not have their keys.
    held: Vec<Held>,
}

/// Request that waits for the first answer: its token, its key, and the value to store, if any.
#[derive(Debug)]
struct Held {
    token: u64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl DatagramConnection {
    fn open(
        settings: &Settings,
        number: u64,
        port: Option<PortChannel>,
    ) -> Result<Self, BenchError> {
        let failed =
            |source| BenchError::Connection { address: settings.address.to_string(), source };
        let transport = Transport::connect(settings, port).map_err(failed)?;
        let longest = settings.records.value_bytes + OVERHEAD_BYTES;
        let options = ExchangeOptions {
            answer_bytes: longest.max(ETHERNET_BYTES),
            datagram_bytes: transport.datagram_bytes(),
            in_flight: transport.in_flight_max().unwrap_or(usize::MAX),
            ..ExchangeOptions::default()
        };
        let (count, seed) = (settings.records.count, settings.seed);
        let connections = (settings.connections * settings.generator.count) as u64;
        Ok(Self {
            transport,
            buffers: ReceiveBuffers::new(),
            exchange: Exchange::new(options),
            begin: Instant::now(),
            requests: Requests::new(&settings.workload, count, seed, number, connections),
            settings: settings.clone(),
            outstanding: Slab::new(),
            key: Vec::new(),
            value: Vec::new(),
            held: Vec::new(),
        })
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn failed(&self, source: io::Error) -> BenchError {
        let address = self.settings.address.to_string();
        BenchError::Connection { address, source }
    }

    fn broken(&self, error: ExchangeError) -> BenchError {
        self.failed(io::Error::other(error))
    }

    fn ask_next(&mut self, started_ns: u64) -> Result<(), BenchError> {
        match self.requests.kind() {
            Kind::Read => {
                let record = self.requests.record();
                self.fetch(record, Expect::Value, started_ns)
            }
            Kind::ReadModifyWrite => {
                let record = self.requests.record();
                self.fetch(record, Expect::ValueToUpdate, started_ns)
            }
            Kind::Update => {
                let record = self.requests.record();
                self.store(record, started_ns)
            }
            Kind::Insert => {
                let record = self.requests.insert();
                self.store(record, started_ns)
            }
            // Refused by `Workload::check`.
            Kind::Scan => Err(self.failed(ErrorKind::Unsupported.into())),
        }
    }

    fn fetch(&mut self, record: u64, expect: Expect, started_ns: u64) -> Result<(), BenchError> {
        self.key.clear();
        self.settings.records.key(record, &mut self.key);
        let request = Outstanding { expect, record, started_ns };
        self.put(request)
    }

    fn store(&mut self, record: u64, started_ns: u64) -> Result<(), BenchError> {
        self.key.clear();
        self.value.clear();
        let nonce = self.requests.nonce();
        self.settings.records.key(record, &mut self.key);
        (self.settings.records).value(record, nonce, &mut self.value);
        let request = Outstanding { expect: Expect::Stored, record, started_ns };
        self.put(request)
    }

    /// Sends a request with the key, and the value to store, if any.
    fn put(&mut self, outstanding: Outstanding) -> Result<(), BenchError> {
        let value = match outstanding.expect {
            Expect::Value | Expect::ValueToUpdate => None,
            Expect::Stored => Some(&*self.value),
        };
        let token = self.outstanding.insert(outstanding) as u64;
        if self.exchange.steering().is_none() && self.outstanding.len() > 1 {
            self.held.push(Held { token, key: self.key.clone(), value: value.map(<[u8]>::to_vec) });
            return Ok(());
        }
        let asked = ask(&mut self.exchange, token, &self.key, value);
        asked.map_err(|error| self.broken(error))
    }

    fn flush(&mut self) -> Result<(), BenchError> {
        let now_ns = self.now_ns();
        let mut is_lost = false;
        (self.exchange).time_out(now_ns, &mut |_, _| is_lost = true);
        if is_lost {
            return Err(self.failed(ErrorKind::TimedOut.into()));
        }
        self.exchange.flush();
        let (bytes, ends) = self.exchange.transmit(now_ns);
        let sent = self.transport.send(bytes, ends);
        sent.map_err(|error| self.failed(error))
    }

    fn receive(&mut self, done: &mut impl FnMut(u64)) -> Result<Counts, BenchError> {
        let mut counts = Counts::default();
        let (mut wrong, mut refused, mut updates) = (None, None, Vec::new());
        let now_ns = self.now_ns();
        let (outstanding, records) = (&mut self.outstanding, &self.settings.records);
        let requests = &mut self.requests;
        let mut take = |token: u64, reply: Option<Reply<'_>>| {
            let request = outstanding.remove(token as usize);
            match (request.expect, reply) {
                (Expect::Stored, Some(Reply::Answer(Answer::Stored { .. }) | Reply::Repeated)) => {
                    requests.stored(request.record);
                }
                (Expect::Stored, _) | (_, None) => refused = Some(format!("{reply:?}")),
                (_, Some(Reply::Answer(Answer::Missing))) => counts.misses += 1,
                (_, Some(Reply::Answer(Answer::Value(value))))
                    if records.is_value(request.record, value.data) =>
                {
                    counts.hits += 1;
                }
                (_, Some(Reply::Answer(Answer::Value(_)))) => wrong = Some(request.record),
                (_, Some(_)) => refused = Some(format!("{reply:?}")),
            }
            match request.expect {
                Expect::ValueToUpdate => updates.push(request),
                _ => {
                    counts.done += 1;
                    done(request.started_ns);
                }
            }
        };
        let (exchange, mut broken) = (&mut self.exchange, None);
        let received = self.transport.receive(&mut self.buffers, &mut |datagram| {
            broken = exchange.receive(datagram, now_ns, &mut take).err().or(broken);
        });
        received.map_err(|error| self.failed(error))?;
        if let Some(error) = broken {
            return Err(self.broken(error));
        }
        if self.exchange.steering().is_some() {
            for held in std::mem::take(&mut self.held) {
                let value = held.value.as_deref();
                let asked = ask(&mut self.exchange, held.token, &held.key, value);
                asked.map_err(|error| self.broken(error))?;
            }
        }
        if let Some(answer) = refused {
            let address = self.settings.address.to_string();
            return Err(BenchError::Answer { address, answer });
        }
        if let Some(record) = wrong {
            let mut key = Vec::new();
            self.settings.records.key(record, &mut key);
            return Err(BenchError::WrongValue {
                address: self.settings.address.to_string(),
                key: key.escape_ascii().to_string(),
            });
        }
        for update in updates {
            self.store(update.record, update.started_ns)?;
        }
        Ok(counts)
    }
}

/// Requests a key's value, or stores it.
fn ask(
    exchange: &mut Exchange,
    token: u64,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), ExchangeError> {
    let operation = value.map_or(Operation::Get, Operation::set);
    let request = Request { key, hash: 0, operation };
    exchange.ask(&request, token)
}
