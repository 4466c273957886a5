//! The side that has the processing engine.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use super::OffloadError;
use super::channel::{Body, Channel, KEPT_BYTES, Traffic};
use super::statistics::put_told;
use super::topic::Topic;
use super::work::{self, ServingWork};
use crate::codec::{decode_into, encode_answer, put_varint, take_string, take_varint};
use crate::protocol::ARGUMENTS_MAX;
use crate::stages::Stage;
use crate::{Answer, KEY_MAX_BYTES, KeyHasher, Refusal, Request, ScanPosition, Transaction};
use overside_kv_backend::StorageBackend;

/// Number of bytes of answers from which on they are sent; the rest follows on request.
const ANSWER_BYTES: usize = 1 << 20;
/// Requests that are executed before the length of their answers is checked, which is not known before.
const PART: usize = 64;
/// Answers of a message above which reads are refused.
const ANSWER_MAX_BYTES: usize = 512 << 20;
/// Length of the longest request message: the longest transaction of a client, with its watched keys.
const QUESTION_MAX_BYTES: usize = 192 << 20;
/// Maximum number of requests, fields and members of a transaction, and fields and members of the requests that are
/// executed together. A client's have fewer, since each takes an argument.
const ELEMENTS_MAX: usize = ARGUMENTS_MAX;
/// Maximum number of keys that a transaction watches.
const WATCHED_MAX: u64 = 1 << 16;
/// Furthest that the client's clock may be ahead. The clocks differ by the time that setting up takes, which is less.
const AHEAD_MAX_MS: u64 = 1000;
/// Maximum number of keys of a scan, for any request.
const SCAN_MAX: usize = 4096;

/// Answers the messages of a [`RemoteEngine`](super::RemoteEngine).
#[derive(Debug)]
pub struct Responder {
    channel: Channel,
    hasher: KeyHasher,
    /// Requests whose answers wait until the other side has taken those before.
    rest: Option<Requests>,
    /// Messages that the other side has sent meanwhile: at most one per slot, none of which has to be fetched.
    questions: VecDeque<(u16, Body)>,
    body: Vec<u8>,
    /// Bytes of an answer, as the last call of the engine had them.
    answer_bytes: usize,
    requests: u64,
    failure: Option<io::Error>,
    /// Maximum observed lead of the other side's clock over this one's, in milliseconds.
    ahead_ms: u64,
}

/// Requests that are being answered.
#[derive(Debug)]
struct Requests {
    body: Body,
    /// Offset in the body at which the next request begins.
    at: usize,
    left: usize,
}

impl Responder {
    /// Makes a responder for the engine that hashes keys with `hasher`.
    #[must_use]
    pub fn new(channel: Channel, hasher: KeyHasher) -> Self {
        Self {
            channel,
            hasher,
            rest: None,
            questions: VecDeque::new(),
            body: Vec::new(),
            answer_bytes: 0,
            requests: 0,
            failure: None,
            ahead_ms: 0,
        }
    }

    /// Returns the counts of sent and fetched bytes.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.channel.traffic()
    }

    /// Requests that were executed.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Finds out whether the link is lost.
    ///
    /// # Errors
    /// [`OffloadError::Link`].
    pub fn check(&mut self) -> Result<(), OffloadError> {
        self.channel.check()
    }

    /// Readable once something has come, after [`Responder::arm`]; `None`: messages are found only by polling.
    pub(crate) fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.channel.event_fd()
    }

    /// Requests a wake-up by the next message. Returns `true` if there is something to do instead of sleeping.
    pub(crate) fn arm(&mut self) -> Result<bool, OffloadError> {
        let has_question = self.rest.is_none() && !self.questions.is_empty();
        Ok(has_question || self.channel.arm()?)
    }

    /// The time here, `now_ms`, or the client's if that is a little ahead: keys that it takes for
    /// expired must be expired here too. A clock that is far ahead is not believed.
    fn as_of(&mut self, asked_ms: u64, now_ms: u64) -> u64 {
        let ahead_ms = asked_ms.saturating_sub(now_ms).min(AHEAD_MAX_MS);
        self.ahead_ms = self.ahead_ms.max(ahead_ms);
        now_ms + self.ahead_ms
    }

    /// Removes and returns the error because of which changes of the last messages could not be
    /// kept; `None` if there was none.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Returns `true` if the executed writes are kept. Otherwise the other side must not rely on
    /// them, and gets an empty answer.
    fn keeps(&mut self, engine: &mut dyn StorageBackend) -> bool {
        let kept = engine.before_replies();
        let is_kept = kept.is_ok();
        self.failure = kept.err().or(self.failure.take());
        is_kept
    }

    /// Answers the next message. Returns `true` if there was one. Does not wait: where an answer is
    /// too long for one message, its rest is sent by a later call. Writes reach the disk by the
    /// engine's [`StorageBackend::before_replies`] before they are answered.
    ///
    /// # Errors
    /// [`OffloadError`]: the other side is lost, or breaks the rules; its requests may have been
    /// executed.
    #[inline]
    pub fn poll(
        &mut self,
        engine: &mut dyn StorageBackend,
        now_ms: u64,
    ) -> Result<bool, OffloadError> {
        self.poll_timed(engine, now_ms, None)
    }

    /// Polls as [`Responder::poll`], and adds the time to the calling thread's `work`.
    ///
    /// # Errors
    /// As [`Responder::poll`].
    #[inline]
    pub fn poll_timed(
        &mut self,
        engine: &mut dyn StorageBackend,
        now_ms: u64,
        work: Option<&ServingWork>,
    ) -> Result<bool, OffloadError> {
        if self.rest.is_some() {
            return self.poll_continue(engine, now_ms, work);
        }
        let (count, question) = match self.questions.pop_front() {
            Some(question) => question,
            None => {
                self.channel.limit_bodies(QUESTION_MAX_BYTES);
                match self.channel.receive()? {
                    None => return Ok(false),
                    Some((count, _)) => (count, self.channel.take_body()),
                }
            }
        };
        work::end(work, Stage::Receive);
        self.answer(usize::from(count), question, (engine, work), now_ms)?;
        work::end(work, Stage::Respond);
        self.body.shrink_to(KEPT_BYTES);
        Ok(true)
    }

    /// Continues a long answer once the other side has taken its first part. Its earlier messages wait.
    fn poll_continue(
        &mut self,
        engine: &mut dyn StorageBackend,
        now_ms: u64,
        work: Option<&ServingWork>,
    ) -> Result<bool, OffloadError> {
        // While a message that must be fetched is unanswered, no other is sent.
        self.channel.limit_bodies(0);
        let Some((count, body)) = self.channel.receive()? else {
            return Ok(false);
        };
        if (count, body) == (0, &[Topic::Continue as u8]) {
            work::end(work, Stage::Receive);
            if let Some(rest) = self.rest.take() {
                self.execute(rest, (engine, work), now_ms + self.ahead_ms)?;
            }
            work::end(work, Stage::Respond);
        } else if self.questions.len() < self.channel.slots() {
            let question = self.channel.take_body();
            self.questions.push_back((count, question));
        } else {
            return Err(OffloadError::Violation("more messages than slots"));
        }
        Ok(true)
    }

    fn answer(
        &mut self,
        count: usize,
        question: Body,
        (engine, work): (&mut dyn StorageBackend, Option<&ServingWork>),
        now_ms: u64,
    ) -> Result<(), OffloadError> {
        let (topic, mut rest) =
            question.bytes().split_first().ok_or(OffloadError::Violation("an empty message"))?;
        self.body.clear();
        match Topic::from_byte(*topic) {
            Some(Topic::Requests) => {
                let now_ms = self.as_of(take_varint(&mut rest)?, now_ms);
                let requests = Requests {
                    at: question.bytes().len() - rest.len(),
                    left: count,
                    body: question,
                };
                return self.execute(requests, (engine, work), now_ms);
            }
            Some(Topic::Transaction) => self.execute_transaction(rest, engine, now_ms)?,
            Some(Topic::Scan) => self.scan(rest, engine, now_ms)?,
            Some(Topic::Flush) => {
                let refused = |refusal| Answer::Refused(refusal);
                let answer = engine.flush().map_or_else(refused, |()| Answer::Done);
                encode_answer(&answer, &mut self.body);
            }
            Some(Topic::Statistics) => {
                engine.refresh();
                put_told(engine, work, &mut self.body);
            }
            Some(Topic::Save) => {
                // Other threads send messages too, so nothing waits here.
                let saved = engine.save(true);
                self.body.push(u8::from(saved.is_ok()));
                self.body.extend(saved.err().unwrap_or_default().into_bytes());
            }
            Some(Topic::Continue) | None => {
                return Err(OffloadError::Violation("a message out of turn"));
            }
        }
        self.channel.reuse(question);
        if !self.keeps(engine) {
            self.body.clear();
        }
        self.channel.send(0, &self.body)
    }

    /// Executes requests until all are executed, or until the answers are long enough to be sent.
    fn execute(
        &mut self,
        mut all: Requests,
        (engine, work): (&mut dyn StorageBackend, Option<&ServingWork>),
        now_ms: u64,
    ) -> Result<(), OffloadError> {
        self.body.clear();
        let before = all.left;
        let mut rest = &all.body.bytes()[all.at..];
        while all.left > 0 && self.body.len() <= ANSWER_BYTES {
            let most = (ANSWER_BYTES / (self.answer_bytes + 1)).clamp(1, PART).min(all.left);
            let mut elements_max = ELEMENTS_MAX;
            let mut part = Vec::with_capacity(most);
            for _ in 0..most {
                decode_into(&mut rest, &self.hasher, &mut elements_max, &mut part)?;
            }
            work::end(work, Stage::Parse);
            let begin = self.body.len();
            let body = &mut self.body;
            let mut put =
                |index: usize, answer: Answer<'_>| put_answer(&part[index], &answer, body);
            match work.and_then(|work| work.stages.begin_batch()) {
                None => engine.execute(&part, now_ms, &mut put),
                Some(mut timer) => {
                    let mut timed = |index, answer: Answer<'_>| timer.time(|| put(index, answer));
                    engine.execute(&part, now_ms, &mut timed);
                    work.inspect(|work| work.stages.end_sampled_batch(&timer));
                }
            }
            if let Some(work) = work {
                work.stages.end_execution();
                work.requests.set(work.requests.get() + most as u64);
            }
            self.answer_bytes = (self.body.len() - begin) / most;
            all.left -= most;
            self.requests += most as u64;
        }
        let answered = before - all.left;
        if all.left == 0 && !rest.is_empty() {
            return Err(OffloadError::Violation("more than its requests"));
        }
        let keeps = self.keeps(engine);
        work::end(work, Stage::Persist);
        if !keeps {
            // Nor is the rest of the message executed.
            self.channel.reuse(all.body);
            return self.channel.send(0, &[]);
        }
        self.channel.send(answered as u16, &self.body)?;
        if all.left > 0 {
            all.at = all.body.bytes().len() - rest.len();
            self.rest = Some(all);
        } else {
            self.channel.reuse(all.body);
        }
        Ok(())
    }

    fn execute_transaction(
        &mut self,
        mut rest: &[u8],
        engine: &mut dyn StorageBackend,
        now_ms: u64,
    ) -> Result<(), OffloadError> {
        let now_ms = self.as_of(take_varint(&mut rest)?, now_ms);
        let mut transaction = Transaction::default();
        let watched = take_varint(&mut rest)?;
        if watched > WATCHED_MAX {
            return Err(OffloadError::Violation("too many watched keys"));
        }
        for _ in 0..watched {
            let key = take_string(&mut rest, KEY_MAX_BYTES)?;
            let version = take_varint(&mut rest)?;
            let hash = self.hasher.hash(key);
            transaction.watched.push((key, hash, version));
        }
        let mut elements_max = ELEMENTS_MAX;
        while !rest.is_empty() {
            elements_max = (elements_max.checked_sub(1))
                .ok_or(OffloadError::Violation("too long a transaction"))?;
            let requests = &mut transaction.requests;
            decode_into(&mut rest, &self.hasher, &mut elements_max, requests)?;
        }
        self.requests += transaction.requests.len() as u64;
        self.body.push(1);
        let body = &mut self.body;
        let requests = &transaction.requests;
        let is_executed = engine.execute_transaction(&transaction, now_ms, &mut |index, answer| {
            put_answer(&requests[index], &answer, body);
        });
        self.body[0] = u8::from(is_executed);
        Ok(())
    }

    fn scan(
        &mut self,
        mut rest: &[u8],
        engine: &mut dyn StorageBackend,
        now_ms: u64,
    ) -> Result<(), OffloadError> {
        let position = ScanPosition(take_varint(&mut rest)?);
        let count = take_varint(&mut rest)?.min(SCAN_MAX as u64) as usize;
        let mut keys = Vec::new();
        let next = engine.scan(position, count, now_ms, &mut |key, metadata| {
            put_varint(key.len() as u64, &mut keys);
            keys.extend_from_slice(key);
            encode_answer(&Answer::Metadata(metadata), &mut keys);
        });
        // An empty answer says that there is none.
        if let Ok(next) = next {
            put_varint(next.0, &mut self.body);
            self.body.extend_from_slice(&keys);
        }
        Ok(())
    }
}

/// Adds an answer; a read whose answer would make the message too long is refused.
fn put_answer(request: &Request<'_>, answer: &Answer<'_>, body: &mut Vec<u8>) {
    let is_full = body.len() > ANSWER_MAX_BYTES && !request.operation.is_write();
    match is_full {
        true => encode_answer(&Answer::Refused(Refusal::TooLarge), body),
        false => encode_answer(answer, body),
    }
}
