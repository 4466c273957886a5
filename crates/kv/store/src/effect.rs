//! Effects of requests: the requests that must be executed again so that a log, or a replica, reaches the
//! same state.
//!
//! Requests are recorded unchanged: executed in the same order, at the same times, from the same state, they
//! have the same effects. Only versions differ then, so conditions on versions are left out, since they were
//! met.

use std::borrow::Cow;

use crate::operations::operations;
use crate::request::{Condition, Expiry, Operation, Request, SetOptions};
use crate::{Answer, codec};

/// Operation that is executed again; `None` if nothing was changed.
type Effect<'r, 'a> = Option<Cow<'r, Operation<'a>>>;

/// Appends the request to execute again, if `request` changed something according to its answer.
pub fn record(request: &Request<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
    if let Answer::NotStored | Answer::VersionDiffers | Answer::Refused(_) = answer {
        return;
    }
    if let Some(operation) = effect(&request.operation, answer) {
        codec::encode_operation(request.key, &operation, out);
    }
}

macro_rules! effects {
    (
        $(#[$meta:meta])*
        pub enum $type:ident<$life:lifetime> { $(
            $(#[$doc:meta])*
            $number:literal $name:ident $(( $($only:tt)* ))? $({ $($fields:tt)* })?
            => $access:ident $(if $effect:ident)?;
        )* }
    ) => {
        /// Returns the effect of an operation that was done.
        fn effect<'r, $life>(operation: &'r $type<$life>, answer: &Answer<'_>) -> Effect<'r, $life> {
            match operation {
                $($type::$name { .. } => effects!($access $($effect)?)(operation, answer),)*
            }
        }
    };
    (read) => { nothing };
    (write $effect:ident) => { $effect };
}

operations!(effects);

fn nothing<'r, 'a>(_: &'r Operation<'a>, _: &Answer<'_>) -> Effect<'r, 'a> {
    None
}

fn found<'r, 'a>(operation: &'r Operation<'a>, answer: &Answer<'_>) -> Effect<'r, 'a> {
    (*answer != Answer::Missing).then_some(Cow::Borrowed(operation))
}

fn counted<'r, 'a>(operation: &'r Operation<'a>, answer: &Answer<'_>) -> Effect<'r, 'a> {
    (*answer != Answer::Number(0)).then_some(Cow::Borrowed(operation))
}

fn listed<'r, 'a>(operation: &'r Operation<'a>, answer: &Answer<'_>) -> Effect<'r, 'a> {
    let is_empty = matches!(answer, Answer::List(list) if list.is_empty());
    (!is_empty).then_some(Cow::Borrowed(operation))
}

fn renewed<'r, 'a>(operation: &'r Operation<'a>, answer: &Answer<'_>) -> Effect<'r, 'a> {
    found(operation, answer).filter(|_| *operation != Operation::GetAndExpire(Expiry::Keep))
}

fn deleted<'r, 'a>(operation: &'r Operation<'a>, answer: &Answer<'_>) -> Effect<'r, 'a> {
    found(operation, answer).map(|_| Cow::Owned(Operation::Delete { version: None }))
}

fn stored<'r, 'a>(operation: &'r Operation<'a>, answer: &Answer<'_>) -> Effect<'r, 'a> {
    let Operation::Set { value, options } = operation else {
        return None;
    };
    let is_stored = match (options.condition, answer) {
        _ if !options.return_old => *answer != Answer::Missing,
        // Answers with the old value whether or not it was stored.
        (Condition::IfAbsent, Answer::Value(_)) | (Condition::IfPresent, Answer::Missing) => false,
        (Condition::IfVersion(version), Answer::Value(old)) => old.version == version,
        (Condition::IfVersion(_), _) => false,
        _ => true,
    };
    is_stored.then_some(match options.condition {
        Condition::IfVersion(_) => Cow::Owned(Operation::Set {
            value,
            options: SetOptions { condition: Condition::Always, ..*options },
        }),
        _ => Cow::Borrowed(operation),
    })
}
