//! Commands on keys of every kind of value.

use super::batch::{Batch, ReplyKind, integer};
use super::expiry::{self, TimeUnit};
use super::reply::{ErrorReply, SYNTAX};
use overside_kv_store::{ExpiryCondition, Operation};

type HandlerResult = Result<ReplyKind, ErrorReply>;

/// Condition of `PERSIST`.
pub(super) const IF_SOME: ExpiryCondition =
    ExpiryCondition { if_never: false, if_some: true, if_later: false, if_earlier: false };

/// `MEMORY USAGE key [SAMPLES count]`
pub(super) fn memory_usage<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
    match &arguments[3..] {
        [] => {}
        [word, samples] if word.eq_ignore_ascii_case(b"SAMPLES") => {
            if integer(samples)? < 0 {
                return Err(SYNTAX);
            }
        }
        _ => return Err(SYNTAX),
    }
    batch.request(arguments[2], Operation::Inspect)?;
    Ok(ReplyKind::Memory)
}

/// `EXPIRE` and its variants.
pub(super) fn expire<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
    unit: TimeUnit,
    command: &str,
) -> HandlerResult {
    let condition = expiry_condition(&arguments[3..])?;
    let time = integer(arguments[2])?;
    let expiry = expiry::of_key(time, unit, batch.now_ms, command)?;
    batch.request(arguments[1], Operation::Expire { expiry, condition })?;
    Ok(ReplyKind::IsDone)
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
                text.extend_from_slice(option);
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
        return Err(ErrorReply::new("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(condition)
}
