//! Answers.

use super::DecodeError;
use super::bytes::{Reader, Writer};
use super::tables::{Numbered, numbered, structs};
use crate::answer::{Answer, List, Metadata, Refusal, Value, ValueKind, answers};

answers!(numbered);

numbered! {
    enum Refusal {
        0 WrongKind;
        1 NotAnInteger;
        2 Overflow;
        3 NotAFloat;
        4 NotFinite;
        5 TooLarge;
        6 OutOfMemory;
        7 ReadOnly;
        8 Unreachable;
        9 Loading;
    }
}

numbered! {
    enum ValueKind {
        0 String;
        1 Hash;
        2 SortedSet;
        3 Set;
    }
}

structs! {
    stored_value: Value<'a> { data = value, flags = flags, version = version, expires_at_ms = time }
    metadata: Metadata {
        kind = numbered, flags = flags, version = version, expires_at_ms = time, len = varint, memory_bytes = varint
    }
}

/// Appends an answer.
pub fn encode_answer(answer: &Answer<'_>, out: &mut Vec<u8>) {
    Writer(out).numbered(answer);
}

/// Removes the first answer from the front of `bytes`.
///
/// # Errors
/// If there is none; then `bytes` are unchanged.
pub fn decode_answer<'a>(bytes: &mut &'a [u8]) -> Result<Answer<'a>, DecodeError> {
    let mut from = Reader::new(bytes);
    let number = from.byte()?;
    let answer = Answer::read(number, &mut from)?.ok_or(DecodeError::UnknownOperation(number))?;
    *bytes = from.rest;
    Ok(answer)
}

impl Writer<'_> {
    fn time(&mut self, ms: &Option<u64>) {
        self.bools(&[ms.is_some()]);
        ms.iter().for_each(|ms| self.varint(ms));
    }

    fn list(&mut self, list: &List<'_>) {
        self.count(list.len());
        self.value(list.as_bytes());
    }
}

impl<'a> Reader<'a> {
    fn time(&mut self) -> Result<Option<u64>, DecodeError> {
        let [is_some] = self.bools()?;
        is_some.then(|| self.varint()).transpose()
    }

    fn list(&mut self) -> Result<List<'a>, DecodeError> {
        let len = self.varint()?;
        let bytes = self.string(usize::MAX)?;
        List::from_bytes(len, bytes).ok_or(DecodeError::InvalidOperand)
    }
}
