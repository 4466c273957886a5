//! Messages without requests: each has one answer.

use overside_link::codec::clean;

use super::{InFlight, RemoteEngine};
use crate::OffloadError;
use crate::backing::UNREACHABLE;
use crate::channel::KEPT_BYTES;
use crate::codec::{decode_answer, encode, put_varint, take_string, take_varint};
use crate::statistics::read_told;
use crate::topic::Topic;
use crate::{
    Answer, Answers, KEY_MAX_BYTES, Metadata, Refusal, Request, ScanPosition, Transaction,
};

/// Longest reason of the other side.
const REASON_MAX_BYTES: usize = 256;

impl RemoteEngine {
    /// Sends the message in `body`, which has no requests: its traffic is not counted with theirs.
    fn begin_question(&mut self) {
        self.before_question = Some(self.traffic());
        self.send_question();
    }

    fn send_question(&mut self) {
        self.expect_idle();
        let Some(channel) = &mut self.channel else {
            return;
        };
        self.in_flight.push_back(InFlight { left: 1, sent_ticks: self.counts.clock.now() });
        if let Err(error) = channel.send(0, &self.body) {
            self.fail(error);
        }
    }

    /// Passes the answer to `read` once it has arrived; returns `Some(None)` if there will be none.
    fn poll_answer<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<T, OffloadError>,
    ) -> Option<Option<T>> {
        let answer = match self.receive() {
            Ok(None) if self.failure.is_some() => return Some(None),
            Ok(None) => return None,
            // It could not be kept.
            Ok(Some((_, body))) if body.bytes().is_empty() => {
                self.in_flight.clear();
                return Some(None);
            }
            Ok(Some((_, body))) => read(body.bytes()),
            Err(error) => Err(error),
        };
        self.in_flight.clear();
        if let Some(before) = self.before_question.take() {
            self.questions.add(&self.traffic().since(&before));
        }
        self.show_counts();
        match answer {
            Ok(answer) => Some(Some(answer)),
            Err(error) => {
                self.fail(error);
                Some(None)
            }
        }
    }

    /// Begins to execute a transaction.
    pub fn begin_transaction(&mut self, transaction: &Transaction<'_>, now_ms: u64) {
        put_transaction(transaction, now_ms, &mut self.body);
        self.requests += transaction.requests.len() as u64;
        self.send_question();
        self.body.shrink_to(KEPT_BYTES);
    }

    /// Returns the result of [`ProcessingEngine::execute_transaction`] for the transaction that was
    /// begun; `None` until it is answered.
    pub fn poll_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        answers: Answers<'_>,
    ) -> Option<bool> {
        let count = transaction.requests.len();
        let mut done = 0;
        let executed = self.poll_answer(|bytes| {
            let (is_executed, mut bytes) =
                bytes.split_first().ok_or(OffloadError::Violation("no answer"))?;
            while *is_executed == 1 && done < count {
                answers(done, decode_answer(&mut bytes)?);
                done += 1;
            }
            Ok(*is_executed == 1)
        })?;
        if executed.is_none() {
            (done..count).for_each(|index| answers(index, Answer::Refused(Refusal::Unreachable)));
        }
        Some(executed.unwrap_or(true))
    }

    /// Begins a part of a scan.
    pub fn begin_scan(&mut self, position: ScanPosition, count: usize, now_ms: u64) {
        self.body.clear();
        self.body.push(Topic::Scan as u8);
        for number in [position.0, count as u64, now_ms] {
            put_varint(number, &mut self.body);
        }
        self.begin_question();
    }

    /// Returns the result of [`ProcessingEngine::scan`] for the part that was begun; `None` until
    /// it is answered.
    pub fn poll_scan(
        &mut self,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Option<Result<ScanPosition, Refusal>> {
        let next = self.poll_answer(|bytes| read_keys(bytes, keys));
        next.map(|next| next.ok_or(Refusal::Unreachable))
    }

    /// Begins to remove everything.
    pub fn begin_flush(&mut self) {
        self.ask(Topic::Flush);
    }

    /// Returns the result of [`ProcessingEngine::flush`]; `None` until it is answered.
    pub fn poll_flush(&mut self) -> Option<Result<(), Refusal>> {
        let done = self.poll_answer(|mut bytes| Ok(decode_answer(&mut bytes)? == Answer::Done))?;
        Some(match done {
            Some(true) => Ok(()),
            Some(false) => Err(Refusal::ReadOnly),
            None => Err(Refusal::Unreachable),
        })
    }

    /// Begins to fetch counts and sizes.
    pub fn begin_statistics(&mut self) {
        self.ask(Topic::Statistics);
    }

    /// Returns `true` once they have arrived, or the other side is lost.
    /// [`ProcessingEngine::statistics`] then returns the last ones that arrived.
    pub fn poll_statistics(&mut self) -> bool {
        let Some(answer) = self.poll_answer(read_told) else {
            return false;
        };
        if let Some(told) = answer {
            self.told = told;
        }
        true
    }

    /// Makes the other side start writing everything to disk.
    pub fn begin_save(&mut self) {
        self.ask(Topic::Save);
    }

    /// Returns `Ok` if the other side has begun to save, otherwise the reason why not; `None` until
    /// it is answered.
    pub fn poll_save(&mut self) -> Option<Result<(), String>> {
        let answer = self.poll_answer(|bytes| match bytes {
            [1] => Ok(Ok(())),
            [0, reason @ ..] => Ok(Err(clean(&String::from_utf8_lossy(reason), REASON_MAX_BYTES))),
            _ => Err(OffloadError::Violation("something else than whether it is saved")),
        })?;
        Some(answer.unwrap_or_else(|| Err(UNREACHABLE.into())))
    }

    fn ask(&mut self, topic: Topic) {
        self.body.clear();
        self.body.push(topic as u8);
        self.begin_question();
    }
}

fn read_keys(
    mut bytes: &[u8],
    keys: &mut dyn FnMut(&[u8], Metadata),
) -> Result<ScanPosition, OffloadError> {
    let next = ScanPosition(take_varint(&mut bytes)?);
    while !bytes.is_empty() {
        let key = take_string(&mut bytes, KEY_MAX_BYTES)?;
        match decode_answer(&mut bytes)? {
            Answer::Metadata(metadata) => keys(key, metadata),
            _ => return Err(OffloadError::Violation("something else than keys")),
        }
    }
    Ok(next)
}

fn put_transaction(transaction: &Transaction<'_>, now_ms: u64, body: &mut Vec<u8>) {
    body.clear();
    body.push(Topic::Transaction as u8);
    put_varint(now_ms, body);
    put_varint(transaction.watched.len() as u64, body);
    for (key, _, version) in &transaction.watched {
        put_varint(key.len() as u64, body);
        body.extend_from_slice(key);
        put_varint(*version, body);
    }
    let requests = transaction.requests.iter();
    requests.for_each(|request: &Request<'_>| encode(request, body));
}
