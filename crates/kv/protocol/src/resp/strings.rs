//! Commands on strings.

use super::batch::{Batch, ReplyKind, integer};
use super::command::Call;
use super::expiry::{self, TimeUnit};
use super::reply::{CROSS_SLOT, ErrorReply, SYNTAX};
use overside_kv_store::{Condition, Expiry, Operation, SetOptions};

type HandlerResult = Result<ReplyKind, ErrorReply>;

/// Time with its unit.
type Time<'a> = Option<(&'a [u8], TimeUnit)>;

/// Parses an option that gives a time. As in Redis, the same option may be repeated.
fn time_option<'a>(
    option: &[u8],
    options: &mut std::slice::Iter<'_, &'a [u8]>,
    time: &mut Time<'a>,
) -> Result<(), ErrorReply> {
    let unit = TimeUnit::of_option(option).ok_or(SYNTAX)?;
    if time.is_some_and(|(_, other)| other != unit) {
        return Err(SYNTAX);
    }
    *time = Some((options.next().ok_or(SYNTAX)?, unit));
    Ok(())
}

pub(super) fn getex<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
    let mut time = None;
    let mut persists = false;
    let mut options = arguments[2..].iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"PERSIST") && time.is_none() {
            persists = true;
        } else if persists {
            return Err(SYNTAX);
        } else {
            time_option(option, &mut options, &mut time)?;
        }
    }
    let operation = match time {
        Some((time, unit)) => {
            Operation::GetAndExpire(expiry::of_value(time, unit, batch.now_ms, "getex")?)
        }
        None if persists => Operation::GetAndExpire(Expiry::Never),
        None => Operation::Get,
    };
    batch.request(arguments[1], operation)?;
    Ok(ReplyKind::Value)
}

fn set_always(value: &[u8], expiry: Expiry) -> Operation<'_> {
    Operation::Set { value, options: SetOptions { expiry, ..SetOptions::default() } }
}

#[inline]
pub(super) fn set<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
    if let [_, key, value] = arguments {
        batch.request(key, set_always(value, Expiry::Never))?;
        return Ok(ReplyKind::Stored);
    }
    set_with_options(batch, arguments)
}

fn set_with_options<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
    let mut condition = None;
    let mut time = None;
    let mut keeps_expiry = false;
    let mut return_old = false;
    let mut options = arguments[3..].iter();
    while let Some(option) = options.next() {
        let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
        if is(b"NX") && condition != Some(Condition::IfPresent) {
            condition = Some(Condition::IfAbsent);
        } else if is(b"XX") && condition != Some(Condition::IfAbsent) {
            condition = Some(Condition::IfPresent);
        } else if is(b"GET") {
            return_old = true;
        } else if is(b"KEEPTTL") && time.is_none() {
            keeps_expiry = true;
        } else if keeps_expiry {
            return Err(SYNTAX);
        } else {
            time_option(option, &mut options, &mut time)?;
        }
    }
    let expiry = match time {
        Some((time, unit)) => expiry::of_value(time, unit, batch.now_ms, "set")?,
        None if keeps_expiry => Expiry::Keep,
        None => Expiry::Never,
    };
    let operation = Operation::Set {
        value: arguments[2],
        options: SetOptions {
            expiry,
            return_old,
            condition: condition.unwrap_or_default(),
            ..SetOptions::default()
        },
    };
    batch.request(arguments[1], operation)?;
    Ok(if return_old { ReplyKind::Value } else { ReplyKind::Stored })
}

/// `SETEX` and `PSETEX`
pub(super) fn set_until<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
    unit: TimeUnit,
    command: &str,
) -> HandlerResult {
    let expiry = expiry::of_value(arguments[2], unit, batch.now_ms, command)?;
    batch.request(arguments[1], set_always(arguments[3], expiry))?;
    Ok(ReplyKind::Stored)
}

fn set_pairs<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
    command: &str,
) -> Result<(), ErrorReply> {
    let (pairs, rest) = arguments[1..].as_chunks();
    if !rest.is_empty() {
        return Err(ErrorReply::wrong_arity(command));
    }
    for [key, value] in pairs {
        batch.request(key, set_always(value, Expiry::Never))?;
    }
    Ok(())
}

pub(super) fn mset<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
    set_pairs(batch, arguments, "mset")?;
    Ok(ReplyKind::Ok)
}

/// `MSETNX`: a transaction that requires every key to be missing, which is version 0.
pub(super) fn msetnx(call: &mut Call<'_>, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
    fn requests<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
        set_pairs(batch, arguments, "msetnx")?;
        Ok(ReplyKind::AllStored)
    }
    let mut batch = Batch::new(call.hasher, call.now_ms);
    call.add(&mut batch, requests, arguments)?;
    if !call.are_together(batch.requests.iter().map(|r| r.key)) {
        return Err(CROSS_SLOT);
    }
    let watched = batch.requests.iter().map(|r| (r.key, r.hash, 0)).collect();
    if !call.execute_transaction(batch, watched) {
        call.reply().integer(0);
    }
    Ok(())
}

pub(super) fn append(value: &[u8]) -> Operation<'_> {
    Operation::Append { value, front: false, create: true }
}

pub(super) fn get_range(start: &[u8], end: &[u8]) -> Result<Operation<'static>, ErrorReply> {
    Ok(Operation::GetRange { start: integer(start)?, end: integer(end)? })
}

pub(super) fn set_range<'a>(offset: &[u8], value: &'a [u8]) -> Result<Operation<'a>, ErrorReply> {
    let offset = u64::try_from(integer(offset)?)
        .map_err(|_| ErrorReply::new("ERR offset is out of range"))?;
    Ok(Operation::SetRange { offset, value })
}

pub(super) fn decrement(amount: &[u8]) -> Result<Operation<'static>, ErrorReply> {
    let delta = integer(amount)?.checked_neg();
    let delta = delta.ok_or(ErrorReply::new("ERR decrement would overflow"))?;
    Ok(Operation::Increment { delta })
}
