//! `MULTI`, `EXEC`, `DISCARD`, `WATCH` and `UNWATCH`.
//!
//! 1. After `MULTI`, commands are stored as bytes. If one cannot be executed at all, `EXEC` refuses the
//!    transaction.
//! 2. `WATCH` stores the versions of keys.
//! 3. `EXEC` executes all commands as one transaction of the processing engine, if every watched key
//!    still has its version.
//!
//! Commands without requests (`DBSIZE`, `FLUSHALL`) split the transaction into parts. No other client sees a
//! state between the parts, because the engine is not released, but each part is a log record of its own.

use super::batch::{Batch, KEY_TOO_LONG};
use super::command::{Action, Call, Command, queued_keys};
use super::replication;
use super::reply::{CROSS_SLOT, ErrorReply};
use super::transaction_state::WatchedKeys;
use crate::OUTPUT_MAX_BYTES;
use overside_kv_store::KEY_MAX_BYTES;

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
    call.session.forget_transaction();
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
        return Err(ErrorReply::new("EXECABORT Transaction discarded because of previous errors."));
    }
    if call.server.engine().partitions() > 1 {
        let watched = watched.keys.iter().map(|(key, _)| &**key);
        let keys: Vec<&[u8]> = watched.chain(queued_keys(&queue, call.table)).collect();
        if !call.are_together(keys.into_iter()) {
            return Err(CROSS_SLOT);
        }
    }
    let mut watched = Some(watched.with_hashes(call.hasher)).filter(|keys| !keys.is_empty());
    let start = call.out.len();
    call.reply().array(queue.commands);
    let mut part = Batch::new(call.hasher, call.now_ms);
    for arguments in queue.iter() {
        let command = call.table.resolve(&arguments)?;
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
            None => {
                call.is_in_exec = true;
                execute_direct(call, command, &arguments);
                call.is_in_exec = false;
            }
        }
    }
    if execute_part(call, part, &mut watched) { Ok(()) } else { conflict(call, start) }
}

/// Replies that a watched key has changed.
fn conflict(call: &mut Call<'_>, start: usize) -> Result<(), ErrorReply> {
    call.out.truncate(start);
    call.reply().null_array();
    Ok(())
}

/// Executes a part of a transaction. Returns `true` if it was executed. Watched keys are compared
/// before the first part only.
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
    // `WAIT` does not wait within a transaction.
    replication::end_wait_now(call);
}
