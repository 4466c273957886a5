//! The two engines on different sides of a link.
//!
//! The communication engine of one side parses a whole batch, and its [`RemoteEngine`] sends it as one
//! compact message by one one-sided write. The [`Responder`] of the other side executes it and answers
//! with one write. Sessions, packets and buffers of clients stay where the clients are.
//!
//! # Messages
//!
//! Each direction has a ring of slots in the receiver's memory, of equal size. Message `n`, from 1 on, lies
//! in slot `n` modulo their number, at its end:
//!
//! ```text
//!   | ... | body | body length (4) | checksum (4) | sequence (6) count (2) |
//! ```
//!
//! Little endian. The last word, read at once, tells of a message: the sequence number that is due. One-sided
//! writes, and the parts of one, need not arrive in order, so the checksum (CRC-32 of body, length and
//! last word) says whether all has arrived; until then the receiver looks again. A body that is longer than
//! a slot lies in memory that the sender exports, and the message says where: the receiver reads it
//! (rendezvous). Bodies are made by [`codec`](crate::codec). Nothing of it is believed before it has been
//! checked.

pub mod agent;
mod backing;
mod channel;
mod error;
mod message;
mod remote_engine;
mod responder;

pub use channel::{Channel, ChannelOptions, Traffic};
pub use error::OffloadError;
pub use remote_engine::{Batching, RemoteEngine};
pub use responder::{Responder, serve};
