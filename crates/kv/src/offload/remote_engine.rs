//! A processing engine on the other side of a link.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use overside_base::lock;

use super::backing::RemoteStatus;
use super::channel::{Channel, Traffic};
use super::message::Topic;
use super::{OffloadError, responder};
use crate::codec::{decode_answer, encode, put_varint};
use crate::{
    Answer, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics, Transaction,
};

/// How long the other side may take to answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// A batch is sent when it is as long as this, so that what one message takes is bounded.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_REQUESTS: usize = 1024;

/// How requests are put into messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batching {
    /// A batch of requests is one message.
    #[default]
    Batch,
    /// Each request is a message of its own, as in a naive port; to compare with.
    Request,
}

/// The engine that a communication engine sees. Once the other side is lost, everything is answered with
/// [`Refusal::Unreachable`].
#[derive(Debug)]
pub struct RemoteEngine {
    /// `None` once the other side is lost: then it finds the link lost too, and comes again.
    channel: Option<Channel>,
    batching: Batching,
    body: Vec<u8>,
    requests: u64,
    /// Of the channel that was.
    traffic: Traffic,
    failure: Option<OffloadError>,
    statistics: Statistics,
    /// How it does, for other threads.
    pub(super) status: Arc<Mutex<RemoteStatus>>,
    pub(super) next_refresh_ms: u64,
}

impl RemoteEngine {
    /// The engine behind `channel`, where a [`Responder`](super::Responder) answers.
    #[must_use]
    pub fn new(channel: Channel, batching: Batching) -> Self {
        Self {
            channel: Some(channel),
            traffic: Traffic::default(),
            batching,
            body: Vec::new(),
            requests: 0,
            failure: None,
            statistics: Statistics::default(),
            status: Arc::default(),
            next_refresh_ms: 0,
        }
    }

    /// Why the other side cannot be reached, once that is so.
    #[must_use]
    pub fn failure(&self) -> Option<&OffloadError> {
        self.failure.as_ref()
    }

    /// What was sent and fetched.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.channel.as_ref().map_or(self.traffic, Channel::traffic)
    }

    /// Requests that were sent.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Says now and then how it does, while it serves ([`Backing::tick`](crate::server::Backing::tick)).
    pub(super) fn report_to(&mut self, status: Arc<Mutex<RemoteStatus>>) {
        self.status = status;
    }

    pub(super) fn report_status(&self) {
        let traffic = self.traffic();
        *lock(&self.status) = RemoteStatus {
            requests: self.requests,
            link_writes: traffic.writes,
            link_written_bytes: traffic.written_bytes,
            link_read_bytes: traffic.read_bytes,
            failure: self.failure.as_ref().map(ToString::to_string),
        };
    }

    fn fail(&mut self, error: OffloadError) {
        if self.failure.is_none() {
            tracing::error!("the processing engine cannot be reached: {error}");
            self.traffic = self.traffic();
            self.channel = None;
            self.failure = Some(error);
        }
    }

    /// How many requests go into the next message, which is in `body` then.
    fn encode(&mut self, requests: &[Request<'_>], now_ms: u64) -> usize {
        let most = match self.batching {
            Batching::Batch => BATCH_REQUESTS,
            Batching::Request => 1,
        };
        self.body.clear();
        self.body.push(Topic::Requests as u8);
        put_varint(now_ms, &mut self.body);
        let mut count = 0;
        for request in requests.iter().take(most) {
            if self.body.len() > BATCH_BYTES {
                break;
            }
            encode(request, &mut self.body);
            count += 1;
        }
        count
    }

    /// Sends the requests of `body` and hands their answers over, which may come in several messages.
    /// Says how many were handed over, if that was not all.
    fn exchange(
        &mut self,
        first: usize,
        count: usize,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) -> Result<(), (usize, OffloadError)> {
        let mut done = 0;
        let mut step = |done: &mut usize| -> Result<(), OffloadError> {
            let channel = self.channel.as_mut().ok_or(OffloadError::Timeout)?;
            channel.send(count as u16, &self.body)?;
            loop {
                let (received, mut bytes) = channel.wait(ANSWER_MAX)?;
                let received = usize::from(received);
                if received == 0 || received > count - *done {
                    return Err(OffloadError::Violation("another number of answers"));
                }
                for _ in 0..received {
                    answers(first + *done, decode_answer(&mut bytes)?);
                    *done += 1;
                }
                if *done == count {
                    return Ok(());
                }
                channel.send(0, &[Topic::Continue as u8])?;
            }
        };
        step(&mut done).map_err(|error| (done, error))
    }

    /// Sends `body` and gives the answer to `read`.
    fn ask<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<T, OffloadError>,
    ) -> Result<T, OffloadError> {
        let channel = self.channel.as_mut().ok_or(OffloadError::Timeout)?;
        channel.send(0, &self.body)?;
        let (_, bytes) = channel.wait(ANSWER_MAX)?;
        read(bytes)
    }

    fn ask_or_fail<T>(&mut self, read: impl FnOnce(&[u8]) -> Result<T, OffloadError>) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        match self.ask(read) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// Fetches counts and sizes, which [`ProcessingEngine::statistics`] then has.
    pub fn refresh_statistics(&mut self) {
        self.body.clear();
        self.body.push(Topic::Statistics as u8);
        if let Some(statistics) = self.ask_or_fail(responder::read_statistics) {
            self.statistics = statistics;
        }
    }
}

impl ProcessingEngine for RemoteEngine {
    fn execute(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        let mut first = 0;
        while first < batch.len() && self.failure.is_none() {
            let count = self.encode(&batch[first..], now_ms);
            self.requests += count as u64;
            match self.exchange(first, count, answers) {
                Ok(()) => first += count,
                Err((done, error)) => {
                    first += done;
                    self.fail(error);
                }
            }
        }
        for index in first..batch.len() {
            answers(index, Answer::Refused(Refusal::Unreachable));
        }
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) -> bool {
        let count = transaction.requests.len();
        responder::put_transaction(transaction, now_ms, &mut self.body);
        self.requests += count as u64;
        let mut done = 0;
        let executed = self.ask_or_fail(|bytes| {
            let (is_executed, mut bytes) = bytes
                .split_first()
                .ok_or(OffloadError::Violation("no answer"))?;
            while *is_executed == 1 && done < count {
                answers(done, decode_answer(&mut bytes)?);
                done += 1;
            }
            Ok(*is_executed == 1)
        });
        if executed.is_none() {
            (done..count).for_each(|index| answers(index, Answer::Refused(Refusal::Unreachable)));
        }
        executed.unwrap_or(true)
    }

    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> ScanPosition {
        self.body.clear();
        self.body.push(Topic::Scan as u8);
        for number in [position.0, count as u64, now_ms] {
            put_varint(number, &mut self.body);
        }
        let next = self.ask_or_fail(|bytes| responder::read_keys(bytes, keys));
        next.unwrap_or_default()
    }

    /// The other side does it by itself.
    fn expire_some(&mut self, _: u64, _: usize) -> usize {
        0
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.body.clear();
        self.body.push(Topic::Flush as u8);
        let done = self.ask_or_fail(|mut bytes| Ok(decode_answer(&mut bytes)? == Answer::Done));
        match done {
            Some(true) => {
                self.refresh_statistics();
                Ok(())
            }
            Some(false) => Err(Refusal::ReadOnly),
            None => Err(Refusal::Unreachable),
        }
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}
