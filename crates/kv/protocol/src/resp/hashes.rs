//! Commands on hashes.

use super::batch::{Batch, ReplyKind, integer};
use super::members::{self, Count};
use super::reply::{ErrorReply, NOT_A_FLOAT};
use overside_kv_store::{Operation, ValueKind, parse_double};

/// `HSET` and `HMSET`
pub(super) fn set<'a>(arguments: &[&'a [u8]], command: &str) -> Result<Operation<'a>, ErrorReply> {
    let (fields, rest) = arguments[2..].as_chunks();
    if !rest.is_empty() {
        return Err(ErrorReply::wrong_arity(command));
    }
    let fields = fields.into();
    Ok(Operation::HashSet { fields })
}

pub(super) fn increment<'a>(arguments: &[&'a [u8]]) -> Result<Operation<'a>, ErrorReply> {
    Ok(Operation::HashIncrement { field: arguments[2], delta: integer(arguments[3])? })
}

pub(super) fn increment_float<'a>(arguments: &[&'a [u8]]) -> Result<Operation<'a>, ErrorReply> {
    let delta = arguments[3];
    match parse_double(delta) {
        None => Err(NOT_A_FLOAT),
        Some(number) if number.value.is_infinite() && number.is_in_range => {
            Err(ErrorReply::new("ERR value is NaN or Infinity"))
        }
        Some(_) => Ok(Operation::HashIncrementFloat { field: arguments[2], delta }),
    }
}

/// `HRANDFIELD key [count [WITHVALUES]]`
pub(super) fn random<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
) -> Result<ReplyKind, ErrorReply> {
    members::choose(batch, arguments, ValueKind::Hash, Count::With(b"WITHVALUES"))
}
