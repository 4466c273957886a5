//! Keys of whatever kind.

use super::batch::{Batch, Shape, integer};
use super::expiry::{self, TimeUnit};
use super::reply::{ErrorReply, SYNTAX};
use crate::{Expiry, ExpiryCondition, Operation};

type Made = Result<Shape, ErrorReply>;

pub(super) fn del<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    for key in &arguments[1..] {
        batch.request(key, Operation::Delete { version: None })?;
    }
    Ok(Shape::Found)
}

pub(super) fn exists<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    for key in &arguments[1..] {
        batch.request(key, Operation::Inspect)?;
    }
    Ok(Shape::Found)
}

fn inspect<'a>(batch: &mut Batch<'a>, key: &'a [u8], shape: Shape) -> Made {
    batch.request(key, Operation::Inspect)?;
    Ok(shape)
}

pub(super) fn type_<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    inspect(batch, arguments[1], Shape::Kind)
}

pub(super) fn ttl<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    inspect(batch, arguments[1], Shape::TimeToLive { in_seconds: true })
}

pub(super) fn pttl<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    inspect(batch, arguments[1], Shape::TimeToLive { in_seconds: false })
}

pub(super) fn expiretime<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    inspect(batch, arguments[1], Shape::ExpiresAt { in_seconds: true })
}

pub(super) fn pexpiretime<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    inspect(batch, arguments[1], Shape::ExpiresAt { in_seconds: false })
}

/// `MEMORY USAGE key [SAMPLES count]`
pub(super) fn memory_usage<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    match &arguments[3..] {
        [] => {}
        [word, samples] if word.eq_ignore_ascii_case(b"SAMPLES") => {
            if integer(samples)? < 0 {
                return Err(SYNTAX);
            }
        }
        _ => return Err(SYNTAX),
    }
    inspect(batch, arguments[2], Shape::Memory)
}

pub(super) fn persist<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let condition = ExpiryCondition {
        if_some: true,
        ..ExpiryCondition::default()
    };
    let expiry = Expiry::Never;
    batch.request(arguments[1], Operation::Expire { expiry, condition })?;
    Ok(Shape::IsDone)
}

pub(super) fn expire<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    expire_in(batch, arguments, TimeUnit::SECONDS, "expire")
}

pub(super) fn pexpire<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    expire_in(batch, arguments, TimeUnit::MILLISECONDS, "pexpire")
}

pub(super) fn expireat<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    expire_in(batch, arguments, TimeUnit::SECONDS_SINCE_1970, "expireat")
}

pub(super) fn pexpireat<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let unit = TimeUnit::MILLISECONDS_SINCE_1970;
    expire_in(batch, arguments, unit, "pexpireat")
}

fn expire_in<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
    unit: TimeUnit,
    command: &str,
) -> Made {
    let condition = expiry_condition(&arguments[3..])?;
    let time = integer(arguments[2])?;
    let expiry = expiry::of_key(time, unit, batch.now_ms, command)?;
    batch.request(arguments[1], Operation::Expire { expiry, condition })?;
    Ok(Shape::IsDone)
}

fn expiry_condition(options: &[&[u8]]) -> Result<ExpiryCondition, ErrorReply> {
    let mut condition = ExpiryCondition::default();
    for option in options {
        let flag = match option.to_ascii_uppercase().as_slice() {
            b"NX" => &mut condition.if_never,
            b"XX" => &mut condition.if_some,
            b"GT" => &mut condition.if_later,
            b"LT" => &mut condition.if_earlier,
            _ => {
                let mut text = b"ERR Unsupported option ".to_vec();
                text.extend_from_slice(&option[..option.len().min(128)]);
                return Err(ErrorReply::from_bytes(text));
            }
        };
        *flag = true;
    }
    let c = &condition;
    if c.if_never && (c.if_some || c.if_later || c.if_earlier) {
        return Err(ErrorReply::new(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if c.if_later && c.if_earlier {
        return Err(ErrorReply::new(
            "ERR GT and LT options at the same time are not compatible",
        ));
    }
    Ok(condition)
}
