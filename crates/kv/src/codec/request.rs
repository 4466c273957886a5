//! Requests.

use super::DecodeError;
use super::bytes::{Reader, Writer};
use crate::request::{
    Condition, Expiry, ExpiryCondition, Operation, Request, ScoreBound, SortedAddOptions,
    SortedRange, SortedRangeBy,
};
use crate::{KEY_MAX_BYTES, KeyHasher, VALUE_MAX_BYTES};

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
const WATCH: u8 = 22;

/// A `Set` without conditions, flags and expiry.
const PLAIN_SET: Request<'static> = Request {
    key: &[],
    hash: 0,
    operation: Operation::Set {
        value: &[],
        flags: 0,
        expiry: Expiry::Never,
        condition: Condition::Always,
        return_old: false,
    },
};

/// No expiry, and no condition.
const NEVER: u8 = 1;
const ALWAYS: u8 = 0;

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
        | Operation::Watch
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
                Condition::Always => out.0.push(ALWAYS),
                Condition::IfAbsent => out.0.push(1),
                Condition::IfPresent => out.0.push(2),
                Condition::IfVersion(version) => {
                    out.0.push(3);
                    out.version(*version);
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
                out.version(*version);
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
        Operation::Watch => WATCH,
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
    let mut elements_max = usize::MAX;
    decode_any(bytes, hasher, &mut elements_max)
}

/// Takes off what is asked most, and adds it: a `Get`, or a `Set` without conditions, flags and expiry, of a key
/// and a value shorter than 128 bytes. `None`: it is something else, or malformed.
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
        requests.push(Request {
            key,
            hash,
            operation: Operation::Get,
        });
        *bytes = rest;
        return Some(());
    }
    let (value, rest) = split_short_string(rest)?;
    // Flags, expiry, whether the old value is wanted, and the condition.
    let rest = rest.strip_prefix(&[0, NEVER, 0, ALWAYS])?;
    requests.push(PLAIN_SET);
    if let Some(request) = requests.last_mut()
        && let Operation::Set { value: to, .. } = &mut request.operation
    {
        (request.key, request.hash, *to) = (key, hash, value);
    }
    *bytes = rest;
    Some(())
}

/// A string whose length takes one byte, and what follows.
#[inline]
fn split_short_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [len @ ..0x80, rest @ ..] = bytes else {
        return None;
    };
    rest.split_at_checked(usize::from(*len))
}

/// As [`decode`], and adds the request to others; its lists have at most `elements_max` elements, which are counted
/// off.
#[inline(always)]
pub(crate) fn decode_into<'a>(
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
    let mut from = Reader {
        rest: bytes,
        elements_max: *elements_max,
    };
    let number = from.byte()?;
    let key = from.string(KEY_MAX_BYTES)?;
    let operation = from.operation(number)?;
    *bytes = from.rest;
    *elements_max = from.elements_max;
    Ok(Request {
        key,
        hash: hasher.hash(key),
        operation,
    })
}

impl Writer<'_> {
    fn expiry(&mut self, expiry: Expiry) {
        match expiry {
            Expiry::Keep => self.0.push(0),
            Expiry::Never => self.0.push(NEVER),
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
                let version = has_version.then(|| self.version()).transpose()?;
                Operation::Delete { version }
            }
            INSPECT => Operation::Inspect,
            WATCH => Operation::Watch,
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

    fn expiry(&mut self) -> Result<Expiry, DecodeError> {
        Ok(match self.byte()? {
            0 => Expiry::Keep,
            NEVER => Expiry::Never,
            2 => Expiry::At(self.varint()?),
            _ => return Err(DecodeError::InvalidOperand),
        })
    }

    fn condition(&mut self) -> Result<Condition, DecodeError> {
        Ok(match self.byte()? {
            ALWAYS => Condition::Always,
            1 => Condition::IfAbsent,
            2 => Condition::IfPresent,
            3 => Condition::IfVersion(self.version()?),
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
