//! Requests of many commands, and what is made of their answers.

use super::number::parse_i64;
use super::reply::{ErrorReply, NOT_AN_INTEGER};
use crate::batch;
use overside_kv_store::{KEY_MAX_BYTES, Operation, Request};

/// Makes requests of a command's arguments, and says what its reply is made of.
pub(super) type BatchHandler =
    for<'a> fn(&mut Batch<'a>, &[&'a [u8]]) -> Result<ReplyKind, ErrorReply>;

/// Requests of commands.
pub(super) type Batch<'a> = batch::Batch<'a, ReplyFormat>;
/// A command whose requests are in a batch.
pub(super) type Pending = batch::Pending<ReplyFormat>;

/// Format of the reply to a command: its shape, and the version of RESP.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyFormat {
    pub(super) shape: ReplyKind,
    pub(super) is_resp3: bool,
}

/// Shape of a reply: how it is built from the answers to a command's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
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
    /// Number of requests that found their key.
    Found,
    /// `OK` if none was refused.
    Ok,
    /// 1 if none was refused.
    AllStored,
    /// The number.
    Number,
    /// The kind of value.
    Kind,
    /// Time until the key expires, in seconds or milliseconds.
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
    /// Number of fields of a hash.
    Fields,
    /// Members with their scores.
    Scored,
    /// The score or null.
    Score,
}

impl ReplyKind {
    /// Returns `true` if the reply is built from a list.
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
    pub(super) fn add(
        &mut self,
        handler: BatchHandler,
        arguments: &[&'a [u8]],
        place: (u32, usize),
        is_resp3: bool,
    ) -> Result<(), ErrorReply> {
        let first = self.requests.len();
        match handler(self, arguments) {
            Ok(shape) => {
                self.command(place, first, ReplyFormat { shape, is_resp3 });
                Ok(())
            }
            Err(error) => {
                self.requests.truncate(first);
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
