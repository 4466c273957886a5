//! Wire format between a host and an agent, without sockets and threads.
//!
//! An agent runs beside devices on another machine, or on a DPU's own cores, and offers them to a
//! host. One connection carries one context at a time, or a probe (see below):
//!
//! ```text
//!   host                                agent
//!   preamble: magic, versions      ->
//!                                  <-   preamble
//!                                  <-   welcome: its devices and what they can do
//!   open: device, operation, depth ->
//!                                  <-   opened
//!   job, job, job ...              ->
//!                                  <-   answer, answer, answer ... (in any order)
//!   close                          ->
//!                                  <-   closed
//! ```
//!
//! After the preamble everything is a frame: eight bytes with its length and kind, then that many
//! bytes. Exchanges once per context are a [`Message`] ([`Request`], [`Reply`]); exchanges once per job
//! are fixed fields and the job's bytes ([`JobHead`], [`AnswerHead`]).
//!
//! A host can also have an agent play one end of a test, a [`Probe`]. The messages are the kind's
//! own: a request, its answer, the next request, each a [`Message`].
//!
//! ```text
//!   probe: its kind                ->
//!                                  <-   probing
//!   request                        ->
//!                                  <-   answer
//!   close                          ->
//!                                  <-   closed
//! ```
//!
//! Nothing in here does I/O: [`Reader`] takes bytes as they arrive and returns items, [`Outbox`] takes
//! items and returns bytes, and a driver on either side moves bytes between them and a socket. All
//! numbers are little-endian, and every length is checked before it is used.

use crate::codec::CodecError;
#[cfg(doc)]
use crate::codec::Message;

mod frame;
#[cfg(feature = "tls")]
pub mod keys;
mod message;
mod outbox;
mod preamble;
mod probe;
mod reader;
#[cfg(feature = "tls")]
mod stream;

pub use frame::{AnswerHead, Frame, JobHead, Status, Usage, control, probe};
pub use message::{
    Offer, Opened, OpeningError, Reply, Request, Setup, Welcome, plain_error, typed_error,
};
pub use outbox::Outbox;
pub use preamble::{Preamble, Versions};
pub use probe::{CancellationToken, Host, Probe, ProbePeer};
pub use reader::{Item, Reader, Side};
#[cfg(feature = "tls")]
pub use stream::{Stream, readable_or_writable};

/// The port that agents listen at by default.
pub const PORT: u16 = 7433;
/// The longest source or destination of one job in bytes. A job travels as one frame.
pub const MAX_BUFFER_BYTES: usize = 128 << 20;
/// Maximum length in bytes of a frame without a job: the patterns of a context, or the capabilities of all of
/// an agent's devices.
pub const MAX_CONTROL_BYTES: usize = 8 << 20;
/// Maximum length in bytes of a probe's request, and of its answer.
pub const MAX_PROBE_BYTES: usize = 1 << 20;
/// Maximum number of jobs in flight on one connection.
pub const MAX_DEPTH: usize = 4096;
/// The longest text of an error in bytes; longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 1024;

/// A peer that does not keep to the format. The connection is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The peer does not speak this protocol at all: it began with these bytes.
    #[error("it does not speak Overside's language: it began with {0}")]
    Magic(String),
    /// The peer speaks other versions.
    #[error(
        "it speaks versions {theirs} of the language, and this one {ours}: install the same release on both sides"
    )]
    Version {
        /// Versions that the peer speaks.
        theirs: Versions,
        /// Versions that this release speaks.
        ours: Versions,
    },
    /// The kind of the frame does not exist, or this side must not receive it.
    #[error("a frame of kind {0} does not belong here")]
    Kind(u8),
    /// Bytes that have to be zero are not.
    #[error("reserved bytes of a frame are not zero")]
    Reserved,
    /// A frame whose length cannot be.
    #[error("a {frame} of {len} bytes, where {min} to {max} are allowed")]
    Length {
        /// Kind of the frame.
        frame: &'static str,
        /// Length in bytes that the frame's header states.
        len: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A field whose value cannot be.
    #[error("{field} is {value}, where at most {max} is allowed")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value that was received.
        value: u64,
        /// The most.
        max: u64,
    },
    /// A message cannot be read, or requests more than there is.
    #[error(transparent)]
    Message(#[from] CodecError),
    /// A message that answers nothing, or comes at the wrong time.
    #[error("{0}")]
    OutOfTurn(String),
}
