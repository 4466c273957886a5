//! Answers.

use super::DecodeError;
use super::bytes::{Reader, Writer};
use crate::VALUE_MAX_BYTES;
use crate::answer::{Answer, List, Metadata, Refusal, Value, ValueKind};

const VALUE: u8 = 0;
const MISSING: u8 = 1;
const DONE: u8 = 2;
const STORED: u8 = 3;
const NOT_STORED: u8 = 4;
const VERSION_DIFFERS: u8 = 5;
const NUMBER: u8 = 6;
const COUNTER: u8 = 7;
const SCORE: u8 = 8;
const METADATA: u8 = 9;
const LIST: u8 = 10;
const REFUSED: u8 = 11;

const REFUSALS: [Refusal; 10] = [
    Refusal::WrongKind,
    Refusal::NotAnInteger,
    Refusal::Overflow,
    Refusal::NotAFloat,
    Refusal::NotFinite,
    Refusal::TooLarge,
    Refusal::OutOfMemory,
    Refusal::ReadOnly,
    Refusal::Unreachable,
    Refusal::Loading,
];
const KINDS: [ValueKind; 3] = [ValueKind::String, ValueKind::Hash, ValueKind::SortedSet];

/// Appends an answer.
pub fn encode_answer(answer: &Answer<'_>, out: &mut Vec<u8>) {
    let mut out = Writer(out);
    match answer {
        Answer::Value(value) => {
            out.0.push(VALUE);
            out.string(value.data);
            out.varint(u64::from(value.flags));
            out.version(value.version);
            out.time(value.expires_at_ms);
        }
        Answer::Missing => out.0.push(MISSING),
        Answer::Done => out.0.push(DONE),
        Answer::Stored { version } => {
            out.0.push(STORED);
            out.version(*version);
        }
        Answer::NotStored => out.0.push(NOT_STORED),
        Answer::VersionDiffers => out.0.push(VERSION_DIFFERS),
        Answer::Number(number) => {
            out.0.push(NUMBER);
            out.signed(*number);
        }
        Answer::Counter { value, version } => {
            out.0.push(COUNTER);
            out.varint(*value);
            out.version(*version);
        }
        Answer::Score(score) => {
            out.0.push(SCORE);
            out.score(*score);
        }
        Answer::Metadata(found) => {
            out.0.push(METADATA);
            out.0.push(found.kind as u8);
            out.varint(u64::from(found.flags));
            out.version(found.version);
            out.time(found.expires_at_ms);
            out.varint(found.len);
            out.varint(found.memory_bytes);
        }
        Answer::List(list) => {
            out.0.push(LIST);
            out.varint(list.len() as u64);
            out.string(list.as_bytes());
        }
        Answer::Refused(refusal) => {
            out.0.push(REFUSED);
            let number = REFUSALS.iter().position(|other| other == refusal);
            out.0.push(number.unwrap_or_default() as u8);
        }
    }
}

/// Takes the first answer off `bytes`, which are behind it afterwards.
///
/// # Errors
/// If there is none; `bytes` are then where they were.
pub fn decode_answer<'a>(bytes: &mut &'a [u8]) -> Result<Answer<'a>, DecodeError> {
    let mut from = Reader::new(bytes);
    let answer = from.answer()?;
    *bytes = from.rest;
    Ok(answer)
}

impl Writer<'_> {
    fn time(&mut self, ms: Option<u64>) {
        self.bools(&[ms.is_some()]);
        if let Some(ms) = ms {
            self.varint(ms);
        }
    }
}

impl<'a> Reader<'a> {
    fn answer(&mut self) -> Result<Answer<'a>, DecodeError> {
        Ok(match self.byte()? {
            VALUE => Answer::Value(Value {
                data: self.string(VALUE_MAX_BYTES)?,
                flags: self.flags()?,
                version: self.version()?,
                expires_at_ms: self.time()?,
            }),
            MISSING => Answer::Missing,
            DONE => Answer::Done,
            STORED => Answer::Stored {
                version: self.version()?,
            },
            NOT_STORED => Answer::NotStored,
            VERSION_DIFFERS => Answer::VersionDiffers,
            NUMBER => Answer::Number(self.signed()?),
            COUNTER => Answer::Counter {
                value: self.varint()?,
                version: self.version()?,
            },
            SCORE => Answer::Score(self.score()?),
            METADATA => Answer::Metadata(Metadata {
                kind: self.one_of(&KINDS)?,
                flags: self.flags()?,
                version: self.version()?,
                expires_at_ms: self.time()?,
                len: self.varint()?,
                memory_bytes: self.varint()?,
            }),
            LIST => {
                let len = self.varint()?;
                let bytes = self.string(usize::MAX)?;
                let list = List::from_bytes(len, bytes).ok_or(DecodeError::InvalidOperand)?;
                Answer::List(list)
            }
            REFUSED => Answer::Refused(self.one_of(&REFUSALS)?),
            other => return Err(DecodeError::UnknownOperation(other)),
        })
    }

    fn flags(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError::InvalidOperand)
    }

    fn time(&mut self) -> Result<Option<u64>, DecodeError> {
        let [is_some] = self.bools()?;
        is_some.then(|| self.varint()).transpose()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<T, DecodeError> {
        let number = usize::from(self.byte()?);
        all.get(number).copied().ok_or(DecodeError::InvalidOperand)
    }
}
