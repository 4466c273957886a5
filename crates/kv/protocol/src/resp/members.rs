//! Commands that sets, sorted sets and hashes have alike: random elements, removed ones, and scans.

use super::batch::{Batch, ReplyKind, integer};
use super::command::Call;
use super::glob;
use super::keyspace::{cursor, option_count};
use super::number::{seed, write_f64};
use super::reply::{ErrorReply, SYNTAX};
use overside_kv_store::{Answer, Element, Operation, Popped, Request, Transaction, ValueKind};

type HandlerResult = Result<ReplyKind, ErrorReply>;

const NOT_POSITIVE: ErrorReply = ErrorReply::new("ERR value is out of range, must be positive");

/// Options behind the count of a command for random elements.
pub(super) enum Count {
    /// None.
    Only,
    /// This word, for scores or values.
    With(&'static [u8]),
}

/// `SRANDMEMBER`, `ZRANDMEMBER`, `HRANDFIELD`: `key [count [OPTION]]`
pub(super) fn choose<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
    kind: ValueKind,
    options: Count,
) -> HandlerResult {
    let (count, reply) = match (&arguments[2..], options) {
        ([], _) => (1, ReplyKind::First),
        ([count], Count::Only) => (chosen(count)?, ReplyKind::List { len: 0 }),
        ([count], Count::With(_)) => (chosen(count)?, ReplyKind::Half { values: false }),
        ([count, option], Count::With(word)) if option.eq_ignore_ascii_case(word) => {
            let count = chosen(count)?;
            if count.unsigned_abs() > i64::MAX as u64 / 2 {
                return Err(ErrorReply::new("ERR value is out of range"));
            }
            (count, ReplyKind::Scored)
        }
        _ => return Err(SYNTAX),
    };
    batch.request(arguments[1], Operation::Choose { kind, count, seed: seed() })?;
    Ok(reply)
}

/// Number of elements to choose.
fn chosen(count: &[u8]) -> Result<i64, ErrorReply> {
    match integer(count)? {
        i64::MIN => Err(ErrorReply::new(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        )),
        count => Ok(count),
    }
}

/// `SPOP key [count]`
pub(super) fn pop_random<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
    let which = Popped::Random(seed());
    pop(batch, arguments, ValueKind::Set, which, [ReplyKind::First, ReplyKind::Set])
}

/// `ZPOPMIN key [count]` and `ZPOPMAX key [count]`
pub(super) fn pop_sorted<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
    which: Popped,
) -> HandlerResult {
    let replies = [ReplyKind::List { len: 0 }, ReplyKind::Scored];
    pop(batch, arguments, ValueKind::SortedSet, which, replies)
}

fn pop<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
    kind: ValueKind,
    which: Popped,
    [one, several]: [ReplyKind; 2],
) -> HandlerResult {
    let (count, reply) = match &arguments[2..] {
        [] => (1, one),
        [count] => {
            let count = integer(count).ok().and_then(|count| u64::try_from(count).ok());
            (count.ok_or(NOT_POSITIVE)?, several)
        }
        _ => return Err(SYNTAX),
    };
    batch.request(arguments[1], Operation::Pop { kind, count, which })?;
    Ok(reply)
}

/// `HSCAN`, `SSCAN`, `ZSCAN`: `key cursor [MATCH pattern] [COUNT count]`. All elements are in one reply.
pub(super) fn scan(
    call: &mut Call<'_>,
    arguments: &[&[u8]],
    kind: ValueKind,
) -> Result<(), ErrorReply> {
    cursor(arguments[2])?;
    let elements = call.read_list(arguments[1], Operation::Members(kind))?;
    let mut pattern = None;
    if !elements.is_empty() {
        let (options, rest) = arguments[3..].as_chunks();
        for [option, value] in options {
            match option.to_ascii_uppercase().as_slice() {
                b"COUNT" => _ = option_count(value)?,
                b"MATCH" => pattern = Some(glob::pattern(value)?),
                _ => return Err(SYNTAX),
            }
        }
        if !rest.is_empty() {
            return Err(SYNTAX);
        }
    }
    let width = if kind == ValueKind::Set { 1 } else { 2 };
    let found = elements.chunks(width);
    let matches = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, false));
    let found: Vec<_> = found.filter(|element| matches(&element[0])).collect();
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(b"0");
    reply.array(found.len() * width);
    found.into_iter().flatten().for_each(|text| reply.bulk(text));
    Ok(())
}

impl Call<'_> {
    /// Executes an operation on a key and passes on its answer, unless that is a refusal.
    pub(super) fn read(
        &mut self,
        key: &[u8],
        operation: Operation<'_>,
        answered: &mut dyn FnMut(&Answer<'_>),
    ) -> Result<(), ErrorReply> {
        let request = Request::new(key, self.hasher, operation);
        let mut refusal = None;
        let mut take = |_, answer: Answer<'_>| match answer {
            Answer::Refused(reason) => refusal = Some(reason),
            answer => answered(&answer),
        };
        self.server.engine().execute(&[request], self.now_ms, &mut take);
        refusal.map_or(Ok(()), |reason| Err(self.refusal(reason)))
    }

    /// Executes an operation that answers with a list, and returns its elements; scores as texts.
    pub(super) fn read_list(
        &mut self,
        key: &[u8],
        operation: Operation<'_>,
    ) -> Result<Vec<Vec<u8>>, ErrorReply> {
        let mut elements = Vec::new();
        self.read(key, operation, &mut |answer| {
            if let Answer::List(list) = answer {
                elements.extend(list.iter().map(|element| match element {
                    Element::Bytes(bytes) => bytes.to_vec(),
                    Element::Score(score) => {
                        let mut text = Vec::new();
                        write_f64(score, &mut text);
                        text
                    }
                    Element::Nil => Vec::new(),
                }));
            }
        })?;
        Ok(elements)
    }

    /// Executes a transaction. Returns `false` if a watched key has changed; fails with the first refusal.
    pub(super) fn write_all(&mut self, transaction: &Transaction<'_>) -> Result<bool, ErrorReply> {
        let mut refusal = None;
        let mut take = |_, answer: Answer<'_>| {
            if let Answer::Refused(reason) = answer {
                refusal.get_or_insert(reason);
            }
        };
        let engine = self.server.engine();
        let is_done = engine.execute_transaction(transaction, self.now_ms, &mut take);
        refusal.map_or(Ok(is_done), |reason| Err(self.refusal(reason)))
    }
}
