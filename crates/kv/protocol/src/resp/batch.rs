//! Requests of many commands, and the formats of their replies.

use super::number::parse_i64;
use super::reply::{CROSS_SLOT, ErrorReply, NOT_AN_INTEGER};
use crate::batch;
use crate::cluster::SlotAccess;
use overside_kv_store::partition::slot_of;
use overside_kv_store::{KEY_MAX_BYTES, Operation, Request, ValueKind};

/// Function that makes requests from a command's arguments and returns the kind of its reply.
pub(super) type BatchHandler =
    for<'a> fn(&mut Batch<'a>, &[&'a [u8]]) -> Result<ReplyKind, ErrorReply>;

/// Requests of commands of Redis.
pub(super) type Batch<'a> = batch::Batch<'a, ReplyFormat>;
/// Command whose requests are in a batch.
pub(super) type Pending = batch::Pending<ReplyFormat>;

/// Format of the reply to a command: its kind, and the version of RESP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyFormat {
    pub(super) shape: ReplyKind,
    pub(super) is_resp3: bool,
}

/// Kind of reply: how it is built from the answers to a command's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    /// The string, or null if there is none.
    Value,
    /// The string, empty if there is none.
    ValueOrEmpty,
    /// An array of strings and nulls, one for each request.
    Values,
    /// `OK` if it was stored, otherwise null.
    Stored,
    /// 1 if it was stored or done, otherwise 0.
    IsDone,
    /// Number of requests whose key exists.
    Found,
    /// `OK` if no request was refused.
    Ok,
    /// 1 if no request was refused.
    AllStored,
    /// The number in the answer.
    Number,
    /// The number in the answer, of a field of a hash.
    HashNumber,
    /// The number in the answer, or null if there is none.
    NumberOrNull,
    /// The text in the answer, of a field of a hash.
    HashValue,
    /// Name of the kind of value.
    Kind,
    /// Time until the key expires, in seconds or milliseconds.
    TimeToLive { in_seconds: bool },
    /// Time at which the key expires, in seconds or milliseconds since 1970.
    ExpiresAt { in_seconds: bool },
    /// Memory of a key in bytes.
    Memory,
    /// First element of a list, or null if there is none.
    First,
    /// 1 if the list has an element.
    HasFirst,
    /// Length of the first element of a list.
    FirstLength,
    /// An array of 1 for elements of a list that are there, and 0.
    AreThere,
    /// A set of the elements of a list.
    Set,
    /// An array of `len` elements of a list; nulls for missing ones.
    List { len: u32 },
    /// Elements in pairs, as a map.
    Map,
    /// Names or values of a map.
    Half { values: bool },
    /// Number of elements of a collection of this kind.
    Len { kind: ValueKind },
    /// Members with their scores.
    Scored,
    /// The score, or null if there is none.
    Score,
}

impl ReplyKind {
    /// Returns `true` if the reply is built from a list.
    pub(super) fn is_list(self) -> bool {
        matches!(
            self,
            Self::First
                | Self::HasFirst
                | Self::FirstLength
                | Self::AreThere
                | Self::Set
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
        self.requests.push(Request { key, hash: self.hasher.hash(key), operation });
        Ok(())
    }

    /// Refuses a command, whose requests begin at index `first`, unless the server executes it by itself: it owns
    /// the one slot of all keys. Whoever executes the command alone replies with the reason.
    #[inline]
    fn check_slots(&self, first: usize) -> Result<(), ErrorReply> {
        let Some(cluster) = &self.cluster else {
            return Ok(());
        };
        let mut slots = self.requests[first..].iter().map(|request| slot_of(request.key));
        let slot = slots.next().unwrap_or_default();
        match cluster.slot(slot).access == SlotAccess::Here && slots.all(|other| other == slot) {
            true => Ok(()),
            false => Err(CROSS_SLOT),
        }
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
        match handler(self, arguments).and_then(|shape| self.check_slots(first).map(|()| shape)) {
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

/// Parses the argument as a whole number.
#[inline]
pub(super) fn integer(argument: &[u8]) -> Result<i64, ErrorReply> {
    parse_i64(argument).ok_or(NOT_AN_INTEGER)
}
