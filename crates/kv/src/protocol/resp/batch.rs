//! Requests of many commands, and what is made of their answers.

use super::number::parse_i64;
use super::reply::{ErrorReply, NOT_AN_INTEGER};
use crate::{KEY_MAX_BYTES, KeyHasher, Operation, Request};

/// Makes requests of a command's arguments, and says what its reply is made of.
pub(super) type BatchHandler = for<'a> fn(&mut Batch<'a>, &[&'a [u8]]) -> Result<Shape, ErrorReply>;

/// Requests that are executed together.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) requests: Vec<Request<'a>>,
    pub(super) pending: Vec<Pending>,
    pub(super) hasher: &'a KeyHasher,
    pub(super) now_ms: u64,
}

/// A command whose requests are in the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Whose it is: an index.
    pub(super) connection: u32,
    /// How many requests it has.
    pub(super) requests: u32,
    /// Where it ends in the connection's input.
    pub(super) end: usize,
    pub(super) shape: Shape,
    pub(super) is_resp3: bool,
}

/// How a reply is made of the answers to a command's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The string or null.
    Value,
    /// The string, empty if there is none.
    ValueOrEmpty,
    /// An array of strings and nulls, one a request.
    Values,
    /// `OK` if it was stored, otherwise null.
    Stored,
    /// 1 if it was stored or done, otherwise 0.
    IsDone,
    /// How many requests found their key.
    Found,
    /// `OK` if none was refused.
    Ok,
    /// 1 if none was refused.
    AllStored,
    /// The number.
    Number,
    /// The kind of value.
    Kind,
    /// How long the key lives.
    TimeToLive { in_seconds: bool },
    /// Until when the key lives.
    ExpiresAt { in_seconds: bool },
    /// The memory that a key takes.
    Memory,
    /// The first element of a list or null.
    First,
    /// 1 if the first element is there.
    HasFirst,
    /// An array of so many elements of a list, or nulls.
    List { len: u32 },
    /// Elements as names with values.
    Map,
    /// The names, or the values, of a map.
    Half { values: bool },
    /// How many fields a hash has.
    Fields,
    /// Members with their scores.
    Scored,
    /// The score or null.
    Score,
}

impl Shape {
    /// Whether the reply is made of a list.
    pub(super) fn is_list(self) -> bool {
        matches!(
            self,
            Self::First
                | Self::HasFirst
                | Self::List { .. }
                | Self::Map
                | Self::Half { .. }
                | Self::Scored
        )
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(hasher: &'a KeyHasher, now_ms: u64) -> Self {
        Self {
            requests: Vec::new(),
            pending: Vec::new(),
            hasher,
            now_ms,
        }
    }

    /// Adds a request of the command.
    #[inline]
    pub(super) fn request(
        &mut self,
        key: &'a [u8],
        operation: Operation<'a>,
    ) -> Result<(), ErrorReply> {
        if key.len() > KEY_MAX_BYTES {
            return Err(KEY_TOO_LONG);
        }
        self.requests.push(Request {
            key,
            hash: self.hasher.hash(key),
            operation,
        });
        Ok(())
    }

    /// Adds a command of a connection, unless it is refused.
    #[inline]
    pub(super) fn command(
        &mut self,
        handler: BatchHandler,
        arguments: &[&'a [u8]],
        (connection, end): (u32, usize),
        is_resp3: bool,
    ) -> Result<(), ErrorReply> {
        let before = self.requests.len();
        match handler(self, arguments) {
            Ok(shape) => {
                self.pending.push(Pending {
                    connection,
                    requests: (self.requests.len() - before) as u32,
                    end,
                    shape,
                    is_resp3,
                });
                Ok(())
            }
            Err(error) => {
                self.requests.truncate(before);
                Err(error)
            }
        }
    }
}

pub(super) const KEY_TOO_LONG: ErrorReply = ErrorReply::new("ERR key is longer than 65536 bytes");

/// The argument as a whole number.
#[inline]
pub(super) fn integer(argument: &[u8]) -> Result<i64, ErrorReply> {
    parse_i64(argument).ok_or(NOT_AN_INTEGER)
}

/// A vector of another lifetime with the same memory.
pub(super) fn recycle<'b>(mut requests: Vec<Request<'_>>) -> Vec<Request<'b>> {
    // So much is kept: one long command must not hold its memory for ever.
    const KEPT: usize = 4096;
    requests.clear();
    requests.shrink_to(KEPT);
    requests
        .into_iter()
        .map(|_| unreachable!("it has been cleared"))
        .collect()
}

/// A vector of another lifetime with the same memory.
pub(super) fn recycle_slices<'b>(mut slices: Vec<&[u8]>) -> Vec<&'b [u8]> {
    const KEPT: usize = 4096;
    slices.clear();
    slices.shrink_to(KEPT);
    slices.into_iter().map(|_| [].as_slice()).collect()
}
