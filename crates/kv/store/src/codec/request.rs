//! Requests.

use super::DecodeError;
use super::bytes::{Reader, Writer};
use super::tables::{Numbered, numbered, structs};
use crate::operations::operations;
use crate::request::{
    Condition, CounterChange, Expiry, ExpiryCondition, Operation, Popped, Request, ScoreBound,
    SetOptions, SortedAddOptions, SortedRange, SortedRangeBy,
};
use crate::{KEY_MAX_BYTES, KeyHasher, VALUE_MAX_BYTES};

operations!(numbered);

numbered! {
    enum Expiry {
        0 Keep;
        1 Never;
        2 At(ms = varint);
    }
}

numbered! {
    enum Popped {
        0 Least;
        1 Greatest;
        2 Random(seed = varint);
    }
}

numbered! {
    enum Condition {
        0 Always;
        1 IfAbsent;
        2 IfPresent;
        3 IfVersion(version = version);
    }
}

numbered! {
    enum SortedRangeBy<'a> {
        0 Rank { start = signed, end = signed };
        1 Score { min = score_bound, max = score_bound };
        2 Member { min = member_bound, max = member_bound };
    }
}

structs! {
    set_options: SetOptions {
        flags = flags, expiry = numbered, [return_old], condition = numbered
    }
    expiry_condition: ExpiryCondition { [if_never, if_some, if_later, if_earlier] }
    sorted_add_options: SortedAddOptions {
        [if_absent, if_present, if_greater, if_less, count_changed, increment]
    }
    sorted_range: SortedRange<'a> {
        by = numbered, [reverse, with_scores], offset = varint, count = varint
    }
    score_bound: ScoreBound { score = score, [is_exclusive] }
}

/// A `Get`, and a `Set` that [`Operation::set`] makes: the number, and what follows the value.
const GET: u8 = 0;
const SET: u8 = 5;
const PLAIN_SET_OPTIONS: &[u8] = &[0, 1, 0, 0];
const PLAIN_SET: Request<'static> = Request { key: &[], hash: 0, operation: Operation::set(&[]) };

/// Scores and members.
type Members<'a> = Box<[(f64, &'a [u8])]>;

/// Appends a request.
pub fn encode(request: &Request<'_>, out: &mut Vec<u8>) {
    encode_operation(request.key, &request.operation, out);
}

/// Appends an operation on a key.
#[inline]
pub(crate) fn encode_operation(key: &[u8], operation: &Operation<'_>, out: &mut Vec<u8>) {
    let mut out = Writer(out);
    out.0.push(operation.number());
    out.value(key);
    operation.write_operands(&mut out);
}

/// Removes the first request from the front of `bytes`.
///
/// # Errors
/// If there is none; then `bytes` are unchanged.
pub fn decode<'a>(bytes: &mut &'a [u8], hasher: &KeyHasher) -> Result<Request<'a>, DecodeError> {
    let mut elements_max = usize::MAX;
    decode_any(bytes, hasher, &mut elements_max)
}

/// Takes off one of the most frequent requests, and adds it: a `Get`, or a `Set` without conditions, flags and expiry,
/// of a key and a value shorter than 128 bytes. `None`: it is something else, or malformed.
///
/// Each is written where it stays. Processors wait where bytes are read in wider parts than they have just been
/// written in, as they are when a request is moved on.
#[inline(always)]
fn take_short<'a>(
    bytes: &mut &'a [u8],
    hasher: &KeyHasher,
    requests: &mut Vec<Request<'a>>,
) -> Option<()> {
    let [number @ (GET | SET), rest @ ..] = *bytes else {
        return None;
    };
    let (key, rest) = split_short_string(rest)?;
    let hash = hasher.hash(key);
    if *number == GET {
        requests.push(Request { key, hash, operation: Operation::Get });
        *bytes = rest;
        return Some(());
    }
    let (value, rest) = split_short_string(rest)?;
    let rest = rest.strip_prefix(PLAIN_SET_OPTIONS)?;
    requests.push(PLAIN_SET);
    if let Some(request) = requests.last_mut()
        && let Operation::Set { value: to, .. } = &mut request.operation
    {
        (request.key, request.hash, *to) = (key, hash, value);
    }
    *bytes = rest;
    Some(())
}

/// A string whose length takes one byte, and the rest.
#[inline]
fn split_short_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [len @ ..0x80, rest @ ..] = bytes else {
        return None;
    };
    rest.split_at_checked(usize::from(*len))
}

/// Decodes a request like [`decode`] and appends it to `requests`. Its lists may have at most
/// `elements_max` elements, from which their number is subtracted.
#[inline(always)]
pub fn decode_into<'a>(
    bytes: &mut &'a [u8],
    hasher: &KeyHasher,
    elements_max: &mut usize,
    requests: &mut Vec<Request<'a>>,
) -> Result<(), DecodeError> {
    if take_short(bytes, hasher, requests).is_none() {
        requests.push(decode_any(bytes, hasher, elements_max)?);
    }
    Ok(())
}

#[inline(never)]
fn decode_any<'a>(
    bytes: &mut &'a [u8],
    hasher: &KeyHasher,
    elements_max: &mut usize,
) -> Result<Request<'a>, DecodeError> {
    let mut from = Reader { rest: bytes, elements_max: *elements_max };
    let number = from.byte()?;
    let key = from.string(KEY_MAX_BYTES)?;
    let operation = Operation::read(number, &mut from)?;
    let operation = operation.ok_or(DecodeError::UnknownOperation(number))?;
    if let Operation::SortedAdd { members, options } = &operation
        && options.increment
        && members.len() != 1
    {
        return Err(DecodeError::InvalidOperand);
    }
    *bytes = from.rest;
    *elements_max = from.elements_max;
    Ok(Request::new(key, hasher, operation))
}

impl Writer<'_> {
    fn counter_change(&mut self, change: &CounterChange) {
        self.varint(&change.delta);
        self.bools(&[change.down, change.initial.is_some()]);
        if let Some((first, expiry)) = &change.initial {
            self.varint(first);
            self.numbered(expiry);
        }
        self.numbered(&change.expiry);
    }

    fn optional_version(&mut self, version: &Option<u64>) {
        self.bools(&[version.is_some()]);
        version.iter().for_each(|version| self.version(version));
    }

    fn members(&mut self, members: &[(f64, &[u8])]) {
        self.count(members.len());
        for (score, member) in members {
            self.score(score);
            self.value(member);
        }
    }

    fn member_bound(&mut self, bound: &Option<(&[u8], bool)>) {
        let (member, is_included) = bound.unwrap_or_default();
        self.bools(&[bound.is_some(), is_included]);
        self.value(member);
    }
}

impl<'a> Reader<'a> {
    fn counter_change(&mut self) -> Result<CounterChange, DecodeError> {
        let delta = self.varint()?;
        let [down, has_initial] = self.bools()?;
        let initial = match has_initial {
            true => Some((self.varint()?, self.numbered()?)),
            false => None,
        };
        Ok(CounterChange { delta, down, initial, expiry: self.numbered()? })
    }

    fn optional_version(&mut self) -> Result<Option<u64>, DecodeError> {
        let [is_some] = self.bools()?;
        is_some.then(|| self.version()).transpose()
    }

    fn members(&mut self) -> Result<Members<'a>, DecodeError> {
        // A member takes nine bytes at least.
        let count = self.count(9)?;
        (0..count).map(|_| Ok((self.score()?, self.value()?))).collect()
    }

    fn member_bound(&mut self) -> Result<Option<(&'a [u8], bool)>, DecodeError> {
        let [is_some, is_included] = self.bools()?;
        let member = self.string(VALUE_MAX_BYTES)?;
        Ok(is_some.then_some((member, is_included)))
    }
}
