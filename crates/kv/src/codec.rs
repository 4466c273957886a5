//! Requests as bytes: one encoding for the log, snapshots, replicas, datagrams and links.
//!
//! ```text
//!   operation (1) | key length (varint) | key | operands
//! ```
//!
//! Lengths, counts and times are LEB128 varints (DWARF 5, section 7.6), signed numbers zigzag ones,
//! scores IEEE 754 doubles in little endian. A string is its length and its bytes. Hashes of keys are
//! not part of it: who decodes computes them with its own seed. Nothing that is read is believed: every
//! length lies within what is there and within its limit.

use crate::request::{
    Condition, Expiry, ExpiryCondition, Operation, Request, ScoreBound, SortedAddOptions,
    SortedRange, SortedRangeBy,
};
use crate::{KEY_MAX_BYTES, KeyHasher, VALUE_MAX_BYTES};

/// What is wrong with bytes that should be a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("the request is cut off")]
    Truncated,
    /// No operation has this number.
    #[error("operation {0} is unknown")]
    UnknownOperation(u8),
    /// An operand has a value that it cannot have.
    #[error("the request has an invalid operand")]
    InvalidOperand,
    /// A key or value is longer than allowed.
    #[error("the request has a key or value that is too long")]
    TooLong,
}

const GET: u8 = 0;
const GET_AND_EXPIRE: u8 = 1;
const GET_AND_DELETE: u8 = 2;
const GET_RANGE: u8 = 3;
const LENGTH: u8 = 4;
const SET: u8 = 5;
const APPEND: u8 = 6;
const SET_RANGE: u8 = 7;
const INCREMENT: u8 = 8;
const INCREMENT_FLOAT: u8 = 9;
const COUNT: u8 = 10;
const DELETE: u8 = 11;
const INSPECT: u8 = 12;
const EXPIRE: u8 = 13;
const HASH_SET: u8 = 14;
const HASH_GET: u8 = 15;
const HASH_GET_ALL: u8 = 16;
const HASH_DELETE: u8 = 17;
const SORTED_ADD: u8 = 18;
const SORTED_REMOVE: u8 = 19;
const SORTED_RANGE: u8 = 20;
const SORTED_LENGTH: u8 = 21;

/// Appends a request.
pub fn encode(request: &Request<'_>, out: &mut Vec<u8>) {
    let mut out = Writer(out);
    let operation = &request.operation;
    out.0.push(number(operation));
    out.string(request.key);
    match operation {
        Operation::Get
        | Operation::GetAndDelete
        | Operation::Length
        | Operation::Inspect
        | Operation::HashGetAll
        | Operation::SortedLength => {}
        Operation::GetAndExpire(expiry) => out.expiry(*expiry),
        Operation::GetRange { start, end } => {
            out.signed(*start);
            out.signed(*end);
        }
        Operation::Set {
            value,
            flags,
            expiry,
            condition,
            return_old,
        } => {
            out.string(value);
            out.varint(u64::from(*flags));
            out.expiry(*expiry);
            out.bools(&[*return_old]);
            match condition {
                Condition::Always => out.0.push(0),
                Condition::IfAbsent => out.0.push(1),
                Condition::IfPresent => out.0.push(2),
                Condition::IfVersion(version) => {
                    out.0.push(3);
                    out.varint(*version);
                }
            }
        }
        Operation::Append {
            value,
            front,
            create,
        } => {
            out.string(value);
            out.bools(&[*front, *create]);
        }
        Operation::SetRange { offset, value } => {
            out.varint(*offset);
            out.string(value);
        }
        Operation::Increment { delta } => out.signed(*delta),
        Operation::IncrementFloat { delta } => out.string(delta),
        Operation::Count {
            delta,
            down,
            initial,
            expiry,
        } => {
            out.varint(*delta);
            out.bools(&[*down, initial.is_some()]);
            if let Some((first, expiry)) = initial {
                out.varint(*first);
                out.expiry(*expiry);
            }
            out.expiry(*expiry);
        }
        Operation::Delete { version } => {
            out.bools(&[version.is_some()]);
            if let Some(version) = version {
                out.varint(*version);
            }
        }
        Operation::Expire { expiry, condition } => {
            out.expiry(*expiry);
            let c = condition;
            out.bools(&[c.if_never, c.if_some, c.if_later, c.if_earlier]);
        }
        Operation::HashSet { fields }
        | Operation::HashGet { fields }
        | Operation::HashDelete { fields } => out.strings(fields),
        Operation::SortedAdd { members, options } => {
            let o = options;
            out.bools(&[
                o.if_absent,
                o.if_present,
                o.if_greater,
                o.if_less,
                o.count_changed,
                o.increment,
            ]);
            out.varint(members.len() as u64);
            for (score, member) in members {
                out.score(*score);
                out.string(member);
            }
        }
        Operation::SortedRemove { members } => out.strings(members),
        Operation::SortedRange(range) => out.range(range),
    }
}

fn number(operation: &Operation<'_>) -> u8 {
    match operation {
        Operation::Get => GET,
        Operation::GetAndExpire(_) => GET_AND_EXPIRE,
        Operation::GetAndDelete => GET_AND_DELETE,
        Operation::GetRange { .. } => GET_RANGE,
        Operation::Length => LENGTH,
        Operation::Set { .. } => SET,
        Operation::Append { .. } => APPEND,
        Operation::SetRange { .. } => SET_RANGE,
        Operation::Increment { .. } => INCREMENT,
        Operation::IncrementFloat { .. } => INCREMENT_FLOAT,
        Operation::Count { .. } => COUNT,
        Operation::Delete { .. } => DELETE,
        Operation::Inspect => INSPECT,
        Operation::Expire { .. } => EXPIRE,
        Operation::HashSet { .. } => HASH_SET,
        Operation::HashGet { .. } => HASH_GET,
        Operation::HashGetAll => HASH_GET_ALL,
        Operation::HashDelete { .. } => HASH_DELETE,
        Operation::SortedAdd { .. } => SORTED_ADD,
        Operation::SortedRemove { .. } => SORTED_REMOVE,
        Operation::SortedRange(_) => SORTED_RANGE,
        Operation::SortedLength => SORTED_LENGTH,
    }
}

/// Takes the first request off `bytes`, which are behind it afterwards.
///
/// # Errors
/// If there is none; `bytes` are then where they were.
pub fn decode<'a>(bytes: &mut &'a [u8], hasher: &KeyHasher) -> Result<Request<'a>, DecodeError> {
    let mut from = Reader(bytes);
    let number = from.byte()?;
    let key = from.string(KEY_MAX_BYTES)?;
    let operation = from.operation(number)?;
    *bytes = from.0;
    Ok(Request {
        key,
        hash: hasher.hash(key),
        operation,
    })
}

struct Writer<'o>(&'o mut Vec<u8>);

impl Writer<'_> {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.varint((value.wrapping_shl(1) ^ (value >> 63)) as u64);
    }

    fn string(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn strings(&mut self, strings: &[&[u8]]) {
        self.varint(strings.len() as u64);
        strings.iter().for_each(|string| self.string(string));
    }

    fn score(&mut self, score: f64) {
        self.0.extend_from_slice(&score.to_le_bytes());
    }

    /// At most eight, the first in the lowest bit.
    fn bools(&mut self, bools: &[bool]) {
        let bits = bools.iter().enumerate();
        self.0
            .push(bits.fold(0, |byte, (bit, is)| byte | u8::from(*is) << bit));
    }

    fn expiry(&mut self, expiry: Expiry) {
        match expiry {
            Expiry::Keep => self.0.push(0),
            Expiry::Never => self.0.push(1),
            Expiry::At(ms) => {
                self.0.push(2);
                self.varint(ms);
            }
        }
    }

    fn range(&mut self, range: &SortedRange<'_>) {
        match &range.by {
            SortedRangeBy::Rank { start, end } => {
                self.0.push(0);
                self.signed(*start);
                self.signed(*end);
            }
            SortedRangeBy::Score { min, max } => {
                self.0.push(1);
                for bound in [min, max] {
                    self.score(bound.score);
                    self.bools(&[bound.is_exclusive]);
                }
            }
            SortedRangeBy::Member { min, max } => {
                self.0.push(2);
                for bound in [min, max] {
                    let (member, is_included) = bound.unwrap_or_default();
                    self.bools(&[bound.is_some(), is_included]);
                    self.string(member);
                }
            }
        }
        self.bools(&[range.reverse, range.with_scores]);
        self.varint(range.offset);
        self.varint(range.count);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn operation(&mut self, number: u8) -> Result<Operation<'a>, DecodeError> {
        Ok(match number {
            GET => Operation::Get,
            GET_AND_EXPIRE => Operation::GetAndExpire(self.expiry()?),
            GET_AND_DELETE => Operation::GetAndDelete,
            GET_RANGE => Operation::GetRange {
                start: self.signed()?,
                end: self.signed()?,
            },
            LENGTH => Operation::Length,
            SET => {
                let value = self.string(VALUE_MAX_BYTES)?;
                let flags = u32::try_from(self.varint()?);
                let expiry = self.expiry()?;
                let [return_old] = self.bools()?;
                Operation::Set {
                    value,
                    flags: flags.map_err(|_| DecodeError::InvalidOperand)?,
                    expiry,
                    condition: self.condition()?,
                    return_old,
                }
            }
            APPEND => {
                let value = self.string(VALUE_MAX_BYTES)?;
                let [front, create] = self.bools()?;
                Operation::Append {
                    value,
                    front,
                    create,
                }
            }
            SET_RANGE => Operation::SetRange {
                offset: self.varint()?,
                value: self.string(VALUE_MAX_BYTES)?,
            },
            INCREMENT => Operation::Increment {
                delta: self.signed()?,
            },
            INCREMENT_FLOAT => Operation::IncrementFloat {
                delta: self.string(VALUE_MAX_BYTES)?,
            },
            COUNT => {
                let delta = self.varint()?;
                let [down, has_initial] = self.bools()?;
                let initial = match has_initial {
                    true => Some((self.varint()?, self.expiry()?)),
                    false => None,
                };
                Operation::Count {
                    delta,
                    down,
                    initial,
                    expiry: self.expiry()?,
                }
            }
            DELETE => {
                let [has_version] = self.bools()?;
                let version = has_version.then(|| self.varint()).transpose()?;
                Operation::Delete { version }
            }
            INSPECT => Operation::Inspect,
            EXPIRE => {
                let expiry = self.expiry()?;
                let [if_never, if_some, if_later, if_earlier] = self.bools()?;
                let condition = ExpiryCondition {
                    if_never,
                    if_some,
                    if_later,
                    if_earlier,
                };
                Operation::Expire { expiry, condition }
            }
            HASH_SET => {
                let fields = self.strings()?;
                if fields.len() % 2 != 0 {
                    return Err(DecodeError::InvalidOperand);
                }
                Operation::HashSet { fields }
            }
            HASH_GET => Operation::HashGet {
                fields: self.strings()?,
            },
            HASH_GET_ALL => Operation::HashGetAll,
            HASH_DELETE => Operation::HashDelete {
                fields: self.strings()?,
            },
            SORTED_ADD => {
                let [a, b, c, d, e, f] = self.bools()?;
                let options = SortedAddOptions {
                    if_absent: a,
                    if_present: b,
                    if_greater: c,
                    if_less: d,
                    count_changed: e,
                    increment: f,
                };
                // A member takes nine bytes at least.
                let count = self.count(9)?;
                let member = |_| Ok((self.score()?, self.string(VALUE_MAX_BYTES)?));
                let members: Box<[_]> = (0..count).map(member).collect::<Result<_, _>>()?;
                if options.increment && members.len() != 1 {
                    return Err(DecodeError::InvalidOperand);
                }
                Operation::SortedAdd { members, options }
            }
            SORTED_REMOVE => Operation::SortedRemove {
                members: self.strings()?,
            },
            SORTED_RANGE => Operation::SortedRange(self.range()?),
            SORTED_LENGTH => Operation::SortedLength,
            other => return Err(DecodeError::UnknownOperation(other)),
        })
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&byte, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::InvalidOperand)
    }

    fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn string(&mut self, max: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.varint()?;
        if len > max as u64 {
            return Err(DecodeError::TooLong);
        }
        let split = self.0.split_at_checked(len as usize);
        let (string, rest) = split.ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(string)
    }

    /// A count of things that take `size` bytes each at least.
    fn count(&mut self, size: usize) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        match count <= (self.0.len() / size) as u64 {
            true => Ok(count as usize),
            false => Err(DecodeError::Truncated),
        }
    }

    fn strings(&mut self) -> Result<Box<[&'a [u8]]>, DecodeError> {
        let count = self.count(1)?;
        (0..count).map(|_| self.string(VALUE_MAX_BYTES)).collect()
    }

    fn score(&mut self) -> Result<f64, DecodeError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        let score = f64::from_le_bytes(*bytes);
        match score.is_nan() {
            true => Err(DecodeError::InvalidOperand),
            false => Ok(score),
        }
    }

    fn bools<const N: usize>(&mut self) -> Result<[bool; N], DecodeError> {
        let byte = self.byte()?;
        match u32::from(byte) >> N {
            0 => Ok(std::array::from_fn(|bit| byte >> bit & 1 == 1)),
            _ => Err(DecodeError::InvalidOperand),
        }
    }

    fn expiry(&mut self) -> Result<Expiry, DecodeError> {
        Ok(match self.byte()? {
            0 => Expiry::Keep,
            1 => Expiry::Never,
            2 => Expiry::At(self.varint()?),
            _ => return Err(DecodeError::InvalidOperand),
        })
    }

    fn condition(&mut self) -> Result<Condition, DecodeError> {
        Ok(match self.byte()? {
            0 => Condition::Always,
            1 => Condition::IfAbsent,
            2 => Condition::IfPresent,
            3 => Condition::IfVersion(self.varint()?),
            _ => return Err(DecodeError::InvalidOperand),
        })
    }

    fn range(&mut self) -> Result<SortedRange<'a>, DecodeError> {
        let by = match self.byte()? {
            0 => SortedRangeBy::Rank {
                start: self.signed()?,
                end: self.signed()?,
            },
            1 => SortedRangeBy::Score {
                min: self.score_bound()?,
                max: self.score_bound()?,
            },
            2 => SortedRangeBy::Member {
                min: self.member_bound()?,
                max: self.member_bound()?,
            },
            _ => return Err(DecodeError::InvalidOperand),
        };
        let [reverse, with_scores] = self.bools()?;
        Ok(SortedRange {
            by,
            reverse,
            offset: self.varint()?,
            count: self.varint()?,
            with_scores,
        })
    }

    fn score_bound(&mut self) -> Result<ScoreBound, DecodeError> {
        let score = self.score()?;
        let [is_exclusive] = self.bools()?;
        Ok(ScoreBound {
            score,
            is_exclusive,
        })
    }

    fn member_bound(&mut self) -> Result<Option<(&'a [u8], bool)>, DecodeError> {
        let [is_some, is_included] = self.bools()?;
        let member = self.string(VALUE_MAX_BYTES)?;
        Ok(is_some.then_some((member, is_included)))
    }
}
