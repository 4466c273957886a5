//! `MULTI`, `EXEC`, `DISCARD`, `WATCH` and `UNWATCH`.
//!
//! 1. After `MULTI` commands are kept as bytes. One that cannot be executed at all makes `EXEC` refuse
//!    the transaction.
//! 2. `WATCH` remembers the versions of keys.
//! 3. `EXEC` executes all commands as one transaction of the processing engine, if every watched key
//!    still has its version.
//!
//! Commands that are not made of requests (`DBSIZE`, `FLUSHALL`) divide the transaction: nobody sees a
//! state in between, since the engine is not given up, but each part is written to the log by itself.

use super::batch::{Batch, KEY_TOO_LONG};
use super::call::{CROSS_SLOT, Call};
use super::command::{Action, Command, resolve};
use super::replication;
use super::reply::ErrorReply;
use crate::protocol::{ARGUMENTS_MAX, COMMAND_MAX_BYTES, OUTPUT_MAX_BYTES, Session};
use crate::{Answer, KEY_MAX_BYTES, KeyHasher, Operation, ProcessingEngine, Request};

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub(in crate::protocol) struct CommandQueue {
    /// For each command the number of its arguments, and for each of these its length and its bytes.
    bytes: Vec<u8>,
    commands: usize,
    arguments: usize,
    is_aborted: bool,
}

/// Length of a number in the queue.
const NUMBER_BYTES: usize = 4;

impl CommandQueue {
    /// Memory that it takes.
    pub(in crate::protocol) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// A command of it was refused.
    pub(super) fn abort(&mut self) {
        self.is_aborted = true;
        self.bytes = Vec::new();
    }

    pub(super) fn push(&mut self, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
        if self.is_aborted {
            return Ok(());
        }
        let len: usize = arguments.iter().map(|a| NUMBER_BYTES + a.len()).sum();
        self.arguments += arguments.len();
        if self.bytes.len() + NUMBER_BYTES + len > COMMAND_MAX_BYTES
            || self.arguments > ARGUMENTS_MAX
        {
            self.abort();
            return Err(ErrorReply::new("ERR transaction is too long"));
        }
        self.commands += 1;
        // Commands are shorter than 4 GiB.
        let mut number = |number: usize, bytes: &[u8]| {
            self.bytes.extend_from_slice(&(number as u32).to_le_bytes());
            self.bytes.extend_from_slice(bytes);
        };
        number(arguments.len(), &[]);
        arguments.iter().for_each(|a| number(a.len(), a));
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let arguments = take_number(&mut rest)?;
            (0..arguments)
                .map(|_| {
                    let len = take_number(&mut rest)?;
                    rest.split_off(..len)
                })
                .collect()
        })
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number) as usize)
}

/// Keys that must not change before `EXEC`, with their versions; 0: missing.
#[derive(Debug, Default)]
pub(in crate::protocol) struct WatchedKeys {
    keys: Vec<(Box<[u8]>, u64)>,
    bytes: usize,
}

impl WatchedKeys {
    const KEYS_MAX: usize = 4 << 10;
    const BYTES_MAX: usize = 16 << 20;

    /// Memory that they take.
    pub(in crate::protocol) fn bytes(&self) -> usize {
        self.bytes + self.keys.capacity() * size_of::<(Box<[u8]>, u64)>()
    }

    fn watch(
        &mut self,
        key: &[u8],
        hash: u64,
        engine: &mut dyn ProcessingEngine,
        now_ms: u64,
    ) -> Result<(), ErrorReply> {
        // The version that was seen first is the one that counts.
        if self.keys.iter().any(|(watched, _)| **watched == *key) {
            return Ok(());
        }
        self.bytes += key.len();
        if self.keys.len() >= Self::KEYS_MAX || self.bytes > Self::BYTES_MAX {
            return Err(ErrorReply::new("ERR too many watched keys"));
        }
        let mut version = 0;
        let operation = Operation::Watch;
        let request = Request {
            key,
            hash,
            operation,
        };
        engine.execute(&[request], now_ms, &mut |_, answer| {
            if let Answer::Number(number) = answer {
                version = number as u64;
            }
        });
        self.keys.push((key.into(), version));
        Ok(())
    }

    fn with_hashes(&self, hasher: &KeyHasher) -> Vec<(&[u8], u64, u64)> {
        let keys = self.keys.iter();
        keys.map(|(key, version)| (&**key, hasher.hash(key), *version))
            .collect()
    }
}

/// Ends a transaction that has not been executed, and forgets what was watched.
fn forget(session: &mut Session) {
    session.transaction = None;
    session.watched = WatchedKeys::default();
}

/// Ends a transaction whose `EXEC` itself is wrong.
pub(super) fn abort(session: &mut Session, error: &ErrorReply) -> ErrorReply {
    forget(session);
    let reason = error.0.strip_prefix(b"ERR ").unwrap_or(&error.0);
    let text = b"EXECABORT Transaction discarded because of: ";
    ErrorReply::from_bytes([text, reason].concat())
}

pub(super) fn multi(call: &mut Call<'_>, _: &[&[u8]]) -> Result<(), ErrorReply> {
    if call.session.transaction.is_some() {
        return Err(ErrorReply::new("ERR MULTI calls can not be nested"));
    }
    call.session.transaction = Some(Box::default());
    call.ok()
}

pub(super) fn discard(call: &mut Call<'_>, _: &[&[u8]]) -> Result<(), ErrorReply> {
    if call.session.transaction.is_none() {
        return Err(ErrorReply::new("ERR DISCARD without MULTI"));
    }
    forget(call.session);
    call.ok()
}

pub(super) fn watch(call: &mut Call<'_>, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
    if call.session.transaction.is_some() {
        return Err(ErrorReply::new("ERR WATCH inside MULTI is not allowed"));
    }
    let watched = std::mem::take(&mut call.session.watched);
    let before = watched.keys.iter().map(|(key, _)| &**key);
    let are_together = call.are_together(before.chain(arguments[1..].iter().copied()));
    call.session.watched = watched;
    if !are_together {
        return Err(CROSS_SLOT);
    }
    for key in &arguments[1..] {
        if key.len() > KEY_MAX_BYTES {
            return Err(KEY_TOO_LONG);
        }
        let engine = call.server.engine();
        let hash = call.hasher.hash(key);
        (call.session.watched).watch(key, hash, engine, call.now_ms)?;
    }
    call.ok()
}

pub(super) fn unwatch(call: &mut Call<'_>, _: &[&[u8]]) -> Result<(), ErrorReply> {
    call.session.watched = WatchedKeys::default();
    call.ok()
}

pub(super) fn exec(call: &mut Call<'_>, _: &[&[u8]]) -> Result<(), ErrorReply> {
    let Some(queue) = call.session.transaction.take() else {
        return Err(ErrorReply::new("ERR EXEC without MULTI"));
    };
    let watched = std::mem::take(&mut call.session.watched);
    if queue.is_aborted {
        return Err(ErrorReply::new(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if call.server.engine().partitions() > 1 {
        let watched = watched.keys.iter().map(|(key, _)| &**key);
        let keys: Vec<&[u8]> = watched.chain(queue.iter().flat_map(keys)).collect();
        if !call.are_together(keys.into_iter()) {
            return Err(CROSS_SLOT);
        }
    }
    let mut watched = Some(watched.with_hashes(call.hasher)).filter(|keys| !keys.is_empty());
    let start = call.out.len();
    call.reply().array(queue.commands);
    let mut part = Batch::new(call.hasher, call.now_ms);
    for arguments in queue.iter() {
        let command = resolve(&arguments)?;
        let refusal = match command.action {
            Action::Requests(handler) | Action::Transaction(handler) => {
                match call.add(&mut part, handler, &arguments) {
                    Ok(()) => continue,
                    Err(error) => Some(error),
                }
            }
            _ => None,
        };
        let part = std::mem::replace(&mut part, Batch::new(call.hasher, call.now_ms));
        if !execute_part(call, part, &mut watched) {
            return conflict(call, start);
        }
        if call.out.len() > OUTPUT_MAX_BYTES {
            // Nothing more is executed: the caller closes the connection.
            return Ok(());
        }
        match refusal {
            Some(error) => call.reply().error(&error),
            None => execute_direct(call, command, &arguments),
        }
    }
    if execute_part(call, part, &mut watched) {
        Ok(())
    } else {
        conflict(call, start)
    }
}

/// Those of a command's arguments that are keys.
fn keys(arguments: Vec<&[u8]>) -> Vec<&[u8]> {
    let Ok(command) = resolve(&arguments) else {
        return Vec::new();
    };
    let [first, last, step] = command.keys;
    let last = match last {
        // From the end.
        ..0 => arguments.len() as i32 + last,
        _ => last,
    };
    let (Ok(first @ 1..), Ok(step @ 1..)) = (usize::try_from(first), usize::try_from(step)) else {
        return Vec::new();
    };
    let places = (first..arguments.len().min(last.max(0) as usize + 1)).step_by(step);
    places.map(|place| arguments[place]).collect()
}

/// A watched key has changed.
fn conflict(call: &mut Call<'_>, start: usize) -> Result<(), ErrorReply> {
    call.out.truncate(start);
    call.reply().null_array();
    Ok(())
}

/// Whether it was executed. What was watched counts for the first part.
fn execute_part<'a>(
    call: &mut Call<'_>,
    part: Batch<'a>,
    watched: &mut Option<Vec<(&'a [u8], u64, u64)>>,
) -> bool {
    let watched = watched.take();
    if part.requests.is_empty() && watched.is_none() {
        return true;
    }
    call.execute_transaction(part, watched.unwrap_or_default())
}

fn execute_direct(call: &mut Call<'_>, command: &Command, arguments: &[&[u8]]) {
    let start = call.out.len();
    if let Err(error) = call.execute(command, arguments) {
        call.out.truncate(start);
        call.reply().error(&error);
    }
    // Nothing waits within a transaction.
    replication::end_wait_now(call);
}
