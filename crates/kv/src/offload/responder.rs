//! The side that has the processing engine.

use super::OffloadError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::channel::{Channel, Traffic};
use super::message::Topic;
use crate::clock::Clock;
use crate::codec::{
    DecodeError, decode, decode_answer, encode, encode_answer, put_varint, take_string, take_varint,
};
use crate::server::{Backing, TICK_MS};
use crate::{
    Answer, KEY_MAX_BYTES, KeyHasher, Metadata, Refusal, Request, ScanPosition, Statistics,
    Transaction,
};

/// Answers are sent when they are as long as this; the rest follows when it is asked for.
const ANSWER_BYTES: usize = 1 << 20;
/// Requests that are executed before their answers are looked at: what these take is not known before.
const PART: usize = 64;
/// Answers of a message above which reads are refused.
const ANSWER_MAX_BYTES: usize = 512 << 20;
/// Longest question: the longest transaction that a client can make, and what it watches.
const QUESTION_MAX_BYTES: usize = 256 << 20;
/// Most requests of a transaction, and most keys that it watches.
const TRANSACTION_MAX: usize = 1 << 20;
const WATCHED_MAX: u64 = 1 << 16;
/// Memory that is kept between messages.
const KEPT_BYTES: usize = 2 << 20;
/// Most keys of a scan, whatever is asked for.
const SCAN_MAX: usize = 4096;

/// Answers what a [`RemoteEngine`](super::RemoteEngine) asks.
#[derive(Debug)]
pub struct Responder {
    channel: Channel,
    hasher: KeyHasher,
    question: Vec<u8>,
    body: Vec<u8>,
    /// Bytes of an answer, as the last call of the engine had them.
    answer_bytes: usize,
    requests: u64,
}

impl Responder {
    /// For the engine that hashes keys with `hasher`.
    #[must_use]
    pub fn new(mut channel: Channel, hasher: KeyHasher) -> Self {
        channel.limit_bodies(QUESTION_MAX_BYTES);
        Self {
            channel,
            hasher,
            question: Vec::new(),
            body: Vec::new(),
            answer_bytes: 0,
            requests: 0,
        }
    }

    /// What was sent and fetched.
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

    /// Answers the next message if there is one; says whether there was. Does not wait. Writes reach
    /// the disk as the engine's [`Backing::before_replies`] says before they are answered.
    ///
    /// # Errors
    /// [`OffloadError`]: the other side is lost, or breaks the rules; its requests may have been
    /// executed.
    pub fn poll(&mut self, engine: &mut dyn Backing, now_ms: u64) -> Result<bool, OffloadError> {
        let Some((count, question)) = self.channel.receive()? else {
            return Ok(false);
        };
        self.question.clear();
        self.question.extend_from_slice(question);
        let question = std::mem::take(&mut self.question);
        let answered = self.answer(usize::from(count), &question, engine, now_ms);
        self.question = question;
        self.question.shrink_to(KEPT_BYTES);
        self.body.shrink_to(KEPT_BYTES);
        answered?;
        Ok(true)
    }

    fn answer(
        &mut self,
        count: usize,
        question: &[u8],
        engine: &mut dyn Backing,
        now_ms: u64,
    ) -> Result<(), OffloadError> {
        let (topic, mut rest) = question
            .split_first()
            .ok_or(OffloadError::Violation("an empty message"))?;
        self.body.clear();
        match Topic::from_byte(*topic) {
            Some(Topic::Requests) => {
                take_varint(&mut rest)?;
                return self.execute(count, rest, engine, now_ms);
            }
            Some(Topic::Transaction) => self.execute_transaction(rest, engine, now_ms)?,
            Some(Topic::Scan) => self.scan(rest, engine, now_ms)?,
            Some(Topic::Flush) => {
                let refused = |refusal| Answer::Refused(refusal);
                let answer = engine.flush().map_or_else(refused, |()| Answer::Done);
                encode_answer(&answer, &mut self.body);
            }
            Some(Topic::Statistics) => put_statistics(&engine.statistics(), &mut self.body),
            Some(Topic::Continue) | None => {
                return Err(OffloadError::Violation("a message out of turn"));
            }
        }
        self.sync(engine)?;
        self.channel.send(0, &self.body)
    }

    /// The other side must not take for granted what is not kept.
    fn sync(&self, engine: &mut dyn Backing) -> Result<(), OffloadError> {
        let kept = engine.before_replies();
        kept.map_err(|_| OffloadError::Violation("writes that cannot be kept"))
    }

    fn execute(
        &mut self,
        count: usize,
        mut rest: &[u8],
        engine: &mut dyn Backing,
        now_ms: u64,
    ) -> Result<(), OffloadError> {
        let mut requests = Vec::with_capacity(count);
        for _ in 0..count {
            requests.push(decode(&mut rest, &self.hasher)?);
        }
        if !rest.is_empty() {
            return Err(OffloadError::Violation("more than its requests"));
        }
        self.requests += count as u64;
        let mut left = &requests[..];
        let mut answered = 0;
        while !left.is_empty() {
            let most = (ANSWER_BYTES / (self.answer_bytes + 1))
                .clamp(1, PART)
                .min(left.len());
            let before = self.body.len();
            let body = &mut self.body;
            engine.execute(&left[..most], now_ms, &mut |index, answer| {
                put_answer(&left[index], &answer, body);
            });
            self.answer_bytes = (self.body.len() - before) / most;
            left = &left[most..];
            answered += most;
            if self.body.len() > ANSWER_BYTES && !left.is_empty() {
                self.sync(engine)?;
                self.channel.send(answered as u16, &self.body)?;
                self.wait_for_continue()?;
                self.body.clear();
                answered = 0;
            }
        }
        self.sync(engine)?;
        self.channel.send(answered as u16, &self.body)
    }

    fn wait_for_continue(&mut self) -> Result<(), OffloadError> {
        match self.channel.wait(super::remote_engine::ANSWER_MAX)? {
            (0, [topic]) if *topic == Topic::Continue as u8 => Ok(()),
            _ => Err(OffloadError::Violation("a message out of turn")),
        }
    }

    fn execute_transaction(
        &mut self,
        mut rest: &[u8],
        engine: &mut dyn Backing,
        now_ms: u64,
    ) -> Result<(), OffloadError> {
        take_varint(&mut rest)?;
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
        while !rest.is_empty() {
            if transaction.requests.len() == TRANSACTION_MAX {
                return Err(OffloadError::Violation("too long a transaction"));
            }
            transaction.requests.push(decode(&mut rest, &self.hasher)?);
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
        engine: &mut dyn Backing,
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
        put_varint(next.0, &mut self.body);
        self.body.extend_from_slice(&keys);
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

pub(super) fn read_keys(
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

pub(super) fn put_transaction(transaction: &Transaction<'_>, now_ms: u64, body: &mut Vec<u8>) {
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

fn put_statistics(all: &Statistics, body: &mut Vec<u8>) {
    for number in numbers(&mut all.clone()) {
        put_varint(*number, body);
    }
}

pub(super) fn read_statistics(mut bytes: &[u8]) -> Result<Statistics, OffloadError> {
    let mut all = Statistics::default();
    for number in numbers(&mut all) {
        *number = take_varint(&mut bytes)?;
    }
    match bytes.is_empty() {
        true => Ok(all),
        false => Err(DecodeError::InvalidOperand.into()),
    }
}

/// Every figure, in the order in which they are sent.
fn numbers(all: &mut Statistics) -> [&mut u64; 10] {
    let Statistics {
        items,
        items_with_expiry,
        payload_bytes,
        memory_bytes,
        memory_limit_bytes,
        hits,
        misses,
        evictions,
        expirations,
        refusals,
    } = all;
    [
        items,
        items_with_expiry,
        payload_bytes,
        memory_bytes,
        memory_limit_bytes,
        hits,
        misses,
        evictions,
        expirations,
        refusals,
    ]
}

/// Turns without a message after which the loop lets others run, and then sleeps between turns.
const IDLE_YIELD: u32 = 256;
const IDLE_SLEEP: u32 = 4096;
/// How long it sleeps: what a message waits at most after a pause.
const PAUSE: Duration = Duration::from_micros(50);

/// Serves the other sides, one message of each in turn, until `stop` or until one is lost. Never sleeps if
/// it `busy_polls`.
///
/// # Errors
/// Why one was lost. What was answered is kept as [`Backing`] says.
pub fn serve(
    responders: &mut [Responder],
    engine: &mut dyn Backing,
    clock: &Clock,
    busy_polls: bool,
    stop: &AtomicBool,
) -> Result<(), OffloadError> {
    let mut idle = 0u32;
    let mut next_tick_ms = clock.now_ms();
    while !stop.load(Ordering::Relaxed) {
        let now_ms = clock.now_ms();
        let mut any = false;
        for responder in &mut *responders {
            any |= responder.poll(engine, now_ms)?;
        }
        if now_ms >= next_tick_ms {
            let is_busy = engine.tick(now_ms);
            next_tick_ms = now_ms + if is_busy { 1 } else { TICK_MS };
            for responder in &mut *responders {
                responder.check()?;
            }
        }
        idle = if any { 0 } else { idle.saturating_add(1) };
        match idle {
            _ if busy_polls => std::hint::spin_loop(),
            0..IDLE_YIELD => std::hint::spin_loop(),
            IDLE_YIELD..IDLE_SLEEP => std::thread::yield_now(),
            _ => std::thread::sleep(PAUSE),
        }
    }
    Ok(())
}
