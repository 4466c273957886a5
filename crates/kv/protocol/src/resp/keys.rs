//! Commands on keys of every kind of value.

use super::batch::{Batch, ReplyKind, integer};
use super::command::Call;
use super::expiry::{self, TimeUnit};
use super::reply::{ErrorReply, SYNTAX};
use super::sets::update;
use overside_kv_store::{Answer, ExpiryCondition, Operation, Refusal, codec};

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

const NO_SUCH_KEY: ErrorReply = ErrorReply::new("ERR no such key");

/// `RENAME key newkey` and, with `only_new`, `RENAMENX`. The value is copied before the old key is removed.
pub(super) fn rename(
    call: &mut Call<'_>,
    arguments: &[&[u8]],
    only_new: bool,
) -> Result<(), ErrorReply> {
    let [_, from, to] = *arguments else {
        return Err(SYNTAX);
    };
    let copied = copy_value(call, [from, to], !only_new && from != to, Some(NO_SUCH_KEY))?;
    if copied > 0 {
        call.read(from, Operation::Delete { version: None }, &mut |_| {})?;
    }
    match only_new {
        true => call.reply().count(copied as u64),
        false => call.reply().ok(),
    }
    Ok(())
}

/// `COPY source destination [DB 0] [REPLACE]`
pub(super) fn copy(call: &mut Call<'_>, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
    let (from, to, mut replaces) = (arguments[1], arguments[2], false);
    let mut options = arguments[3..].iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"REPLACE") {
            replaces = true;
        } else if option.eq_ignore_ascii_case(b"DB")
            && let Some(database) = options.next()
        {
            if integer(database)? != 0 {
                return Err(ErrorReply::new("ERR DB index is out of range"));
            }
        } else {
            return Err(SYNTAX);
        }
    }
    if from == to {
        return Err(ErrorReply::new("ERR source and destination objects are the same"));
    }
    let copied = copy_value(call, [from, to], replaces, None)?;
    call.reply().count(copied as u64);
    Ok(())
}

/// Returns 1 if the value was copied, 0 if not: one of the keys is missing, or there. A full store refuses it, and then
/// has no part of it.
fn copy_value(
    call: &mut Call<'_>,
    [from, to]: [&[u8]; 2],
    replaces: bool,
    missing: Option<ErrorReply>,
) -> Result<usize, ErrorReply> {
    let copied = update(
        call,
        &[from, to],
        &|call| {
            let requests = call.read_list(from, Operation::Dump)?;
            let mut is_free = true;
            call.read(to, Operation::Inspect, &mut |answer| is_free = *answer == Answer::Missing)?;
            match &missing {
                Some(error) if requests.is_empty() => Err(error.clone()),
                _ => Ok((to.to_vec(), requests, is_free || replaces)),
            }
        },
        &|(to, requests, is_allowed), batch| {
            if requests.is_empty() || !is_allowed {
                return Ok(0);
            }
            batch.request(to, Operation::Delete { version: None })?;
            for mut bytes in requests.iter().map(Vec::as_slice) {
                let request = codec::decode(&mut bytes, batch.hasher);
                let request = request
                    .map_err(|error| ErrorReply::from_bytes(format!("ERR {error}").into_bytes()))?;
                batch.request(to, request.operation)?;
            }
            Ok(1)
        },
    );
    if copied == Err(call.refusal(Refusal::OutOfMemory)) {
        call.read(to, Operation::Delete { version: None }, &mut |_| {})?;
    }
    copied
}
