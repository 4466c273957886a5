//! Strings.

use super::batch::{Batch, Shape, integer};
use super::call::{CROSS_SLOT, Call};
use super::expiry::{self, TimeUnit};
use super::reply::{ErrorReply, SYNTAX};
use crate::{Condition, Expiry, Operation};

type Made = Result<Shape, ErrorReply>;

pub(super) fn get<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    batch.request(arguments[1], Operation::Get)?;
    Ok(Shape::Value)
}

pub(super) fn mget<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    for key in &arguments[1..] {
        batch.request(key, Operation::Get)?;
    }
    Ok(Shape::Values)
}

pub(super) fn getdel<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    batch.request(arguments[1], Operation::GetAndDelete)?;
    Ok(Shape::Value)
}

/// A time and what it counts.
type Time<'a> = Option<(&'a [u8], TimeUnit)>;

/// Reads an option that gives a time. The same one may be given again, as in Redis.
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

pub(super) fn getex<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
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
    Ok(Shape::Value)
}

pub(super) fn getset<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let operation = Operation::Set {
        value: arguments[2],
        flags: 0,
        expiry: Expiry::Never,
        condition: Condition::Always,
        return_old: true,
    };
    batch.request(arguments[1], operation)?;
    Ok(Shape::Value)
}

fn set_always(value: &[u8], expiry: Expiry) -> Operation<'_> {
    Operation::Set {
        value,
        flags: 0,
        expiry,
        condition: Condition::Always,
        return_old: false,
    }
}

#[inline]
pub(super) fn set<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    if let [_, key, value] = arguments {
        batch.request(key, set_always(value, Expiry::Never))?;
        return Ok(Shape::Stored);
    }
    set_with_options(batch, arguments)
}

fn set_with_options<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
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
        flags: 0,
        expiry,
        condition: condition.unwrap_or_default(),
        return_old,
    };
    batch.request(arguments[1], operation)?;
    Ok(if return_old {
        Shape::Value
    } else {
        Shape::Stored
    })
}

pub(super) fn setnx<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let operation = Operation::Set {
        value: arguments[2],
        flags: 0,
        expiry: Expiry::Never,
        condition: Condition::IfAbsent,
        return_old: false,
    };
    batch.request(arguments[1], operation)?;
    Ok(Shape::IsDone)
}

pub(super) fn setex<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let expiry = expiry::of_value(arguments[2], TimeUnit::SECONDS, batch.now_ms, "setex")?;
    batch.request(arguments[1], set_always(arguments[3], expiry))?;
    Ok(Shape::Stored)
}

pub(super) fn psetex<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let expiry = expiry::of_value(arguments[2], TimeUnit::MILLISECONDS, batch.now_ms, "psetex")?;
    batch.request(arguments[1], set_always(arguments[3], expiry))?;
    Ok(Shape::Stored)
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

pub(super) fn mset<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    set_pairs(batch, arguments, "mset")?;
    Ok(Shape::Ok)
}

/// A transaction that is executed if every key is missing, of which the version is 0.
pub(super) fn msetnx(call: &mut Call<'_>, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
    fn requests<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
        set_pairs(batch, arguments, "msetnx")?;
        Ok(Shape::AllStored)
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

pub(super) fn append<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let operation = Operation::Append {
        value: arguments[2],
        front: false,
        create: true,
    };
    batch.request(arguments[1], operation)?;
    Ok(Shape::Number)
}

pub(super) fn strlen<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    batch.request(arguments[1], Operation::Length)?;
    Ok(Shape::Number)
}

pub(super) fn getrange<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let operation = Operation::GetRange {
        start: integer(arguments[2])?,
        end: integer(arguments[3])?,
    };
    batch.request(arguments[1], operation)?;
    Ok(Shape::ValueOrEmpty)
}

pub(super) fn setrange<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let offset = u64::try_from(integer(arguments[2])?)
        .map_err(|_| ErrorReply::new("ERR offset is out of range"))?;
    let value = arguments[3];
    batch.request(arguments[1], Operation::SetRange { offset, value })?;
    Ok(Shape::Number)
}
