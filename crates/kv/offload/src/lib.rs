//! The two engines on different sides of a link.
//!
//! The communication engine of one side parses a whole batch, and its [`RemoteEngine`] sends it as one
//! compact message by one one-sided write. The [`Responder`] of the other side executes it and answers
//! with one write. Sessions, packets and buffers of clients stay on the clients' side.
//!
//! # Messages
//!
//! Each direction has a ring of slots in the receiver's memory, of equal size. Message `n`, from 1 on, is
//! in slot `n` modulo their number, at its end:
//!
//! ```text
//!   | ... | body | body length (4) | checksum (4) | sequence (6) count (2) |
//! ```
//!
//! Little endian. The last word, read at once, announces a message: the sequence number that is due. One-sided
//! writes, and the parts of one, need not arrive in order, so the checksum (CRC-32 of body, length and last
//! word) shows if all has arrived; until then the receiver checks again. A body that is longer than a slot is
//! in memory that the sender exports, and the message has its location: the receiver reads it (rendezvous).
//! Bodies are made by [`codec`](crate::codec). They are checked before they are used.
//!
//! # Flow
//!
//! 1. As many requests may be unanswered as both sides have slots. So an answer always has a slot.
//!    While a request that has to be fetched is unanswered, no other is sent.
//! 2. Requests are answered in order. An answer that would be too long is sent as several messages, each
//!    with some of the answers; the next one follows when the requesting side has sent `Continue`. It does
//!    so behind its earlier requests, which the answering side stores until then, a slot's worth each.
//! 3. The answering side may sleep while nothing arrives: it writes the number of the message that it waits
//!    for (8 bytes) behind the slots of the requesting side, which wakes it by a message of the link after
//!    that message.
//! 4. Neither side waits for the other by itself: [`RemoteEngine::begin`] and [`RemoteEngine::poll`],
//!    [`Responder::poll`].

pub mod agent;
mod backing;
mod channel;
mod cost;
mod counts;
pub mod design;
pub mod partitions;
mod remote_engine;
mod responder;
mod serve;
mod side;
mod statistics;
mod topic;
mod work;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use overside_kv_protocol::{self as protocol, stages, ticks};
use overside_kv_store::{
    Answer, Answers, KEY_MAX_BYTES, KeyHasher, Metadata, Operation, ProcessingEngine, Refusal,
    Request, ScanPosition, Statistics, Transaction, clock, codec, engine, partition_of, store,
};

pub use channel::{Channel, ChannelOptions, Traffic};
pub use cost::{LinkCost, LinkCostError, link_cost};
pub use counts::LinkCounts;
pub use design::Design;
pub use overside_kv_datagram::link::OffloadError;
pub use remote_engine::{Batching, RemoteEngine};
pub use responder::Responder;
use serve::RemoteClients;
pub use side::{ReturningLinks, SideEngines, SideError, SideStop};
pub use work::ServingWork;

/// Maximum memory of a link with its work in flight, in addition to that of connections.
pub const LINK_BYTES: u64 = 8 << 20;
/// Memory in each direction of a channel between two threads of a side: more than a batch has in most cases, and
/// little enough for many.
const CHANNEL: ChannelOptions = ChannelOptions { slot_bytes: 16 << 10, slots: 4 };
/// Memory of such a channel: a ring in each direction, and as much for what is being written.
const CHANNEL_BYTES: usize = 3 * CHANNEL.slot_bytes * CHANNEL.slots;

/// Notes that the other side is lost.
pub type OnLoss = Arc<dyn Fn(&OffloadError) + Send + Sync>;

/// Optimizations that can be turned off, to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimizations {
    /// Rule by which requests are grouped into messages.
    pub batching: Batching,
    /// Longest message in bytes, unless a single request is longer; `None`: messages are divided by
    /// the number of their requests only.
    pub message_bytes: Option<u32>,
    /// `true` if the next message is made while the other side executes the one before.
    pub overlap: bool,
    /// Replies of a batch leave before the next one is parsed.
    pub sends_early: bool,
}

impl Default for Optimizations {
    fn default() -> Self {
        Self { batching: Batching::Batch, message_bytes: None, overlap: true, sends_early: false }
    }
}
