//! Which requests have changed something, and what is written of them.

use crate::request::{Condition, Expiry, Operation, Request};
use crate::{Answer, codec};

/// Appends what has to be executed again, if `request` changed something and was answered so.
///
/// Requests are written as they were: executed in the same order, at the same times, from the same
/// state, they do the same. Only versions are others then, so conditions on them are left out, as they
/// were met.
pub(crate) fn record(request: &Request<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
    if !has_changed(&request.operation, answer) {
        return;
    }
    match request.operation {
        Operation::Set {
            value,
            flags,
            expiry,
            condition: Condition::IfVersion(_),
            return_old,
        } => {
            let operation = Operation::Set {
                value,
                flags,
                expiry,
                condition: Condition::Always,
                return_old,
            };
            codec::encode(&with(request, operation), out);
        }
        Operation::Delete { version: Some(_) } => {
            codec::encode(&with(request, Operation::Delete { version: None }), out);
        }
        _ => codec::encode(request, out),
    }
}

fn with<'a>(request: &Request<'a>, operation: Operation<'a>) -> Request<'a> {
    Request {
        key: request.key,
        hash: request.hash,
        operation,
    }
}

fn has_changed(operation: &Operation<'_>, answer: &Answer<'_>) -> bool {
    match answer {
        Answer::NotStored | Answer::VersionDiffers | Answer::Refused(_) => return false,
        _ => {}
    }
    match operation {
        // Answers with the old value whether or not it was stored.
        Operation::Set {
            condition,
            return_old: true,
            ..
        } => match (condition, answer) {
            (Condition::IfAbsent, Answer::Value(_)) | (Condition::IfPresent, Answer::Missing) => {
                false
            }
            (Condition::IfVersion(version), Answer::Value(old)) => old.version == *version,
            (Condition::IfVersion(_), _) => false,
            _ => true,
        },
        Operation::GetAndExpire(Expiry::Keep) => false,
        Operation::HashDelete { .. } | Operation::SortedRemove { .. } => {
            *answer != Answer::Number(0)
        }
        operation => operation.is_write() && *answer != Answer::Missing,
    }
}
