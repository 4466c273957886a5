//! Protocols that clients speak. Nothing here does I/O: bytes come in and go out as slices.
//! [`ServerContext`] provides the server's own state and actions.
//!
//! The owner of the connections calls [`CommunicationEngine::process`] with all that have new bytes:
//!
//! 1. Whole commands of all connections are parsed into one batch of requests.
//! 2. The processing engine executes the batch, and each answer is written at once, in order, into the
//!    output of its connection.
//! 3. Commands that are more than requests (`EXEC`, `SCAN`, `AUTH`) end their connection's part of the
//!    batch and are executed after it, one connection after the other.
//! 4. So on until no whole command is left, or every output is full.

mod batch;
mod context;
pub mod datagram;
mod executor;
mod memcached;
pub mod replication;
mod resp;
mod session;
pub mod stages;
pub mod ticks;
mod timing;

pub use context::{ClientInfo, ReadOnlyReason, ServerContext};
pub use memcached::MemcachedEngine;
pub use resp::{CommunicationEngine, documented_commands};
pub use session::{ReplicaWait, Session};

/// One connection that has bytes to parse.
#[derive(Debug)]
pub struct Ready<'c> {
    /// State of the connection that is kept between commands.
    pub session: &'c mut Session,
    /// Bytes that were received and not consumed. They start at the beginning of a command.
    pub input: &'c [u8],
    /// Number of bytes of `input` that were consumed. The caller removes them and keeps the rest.
    pub consumed: usize,
    /// Replies are appended. Above [`OUTPUT_PAUSE_BYTES`] no further command is executed: the caller
    /// calls again once these have been sent.
    pub output: &'c mut Vec<u8>,
    /// There may be whole commands that were not executed because the outputs of all connections were
    /// full ([`ServerContext::output_room_bytes`]), or replies leave first
    /// ([`ServerContext::sends_early`]). The caller calls again once they have been sent.
    pub has_more: bool,
}

impl<'c> Ready<'c> {
    /// A connection whose input nothing has been consumed of.
    pub fn new(session: &'c mut Session, input: &'c [u8], output: &'c mut Vec<u8>) -> Self {
        Self {
            session,
            input,
            consumed: 0,
            output,
            has_more: false,
        }
    }
}

/// The version of Redis whose commands and replies these are.
pub const REDIS_VERSION: &str = "7.0.15";
/// Most arguments of a command, its name included; as Redis.
pub const ARGUMENTS_MAX: usize = 1 << 20;
/// Longest inline command; as Redis.
pub const INLINE_MAX_BYTES: usize = 64 << 10;
/// Longest command. An input buffer never needs more.
pub const COMMAND_MAX_BYTES: usize = 128 << 20;
/// Output of a connection above which it executes nothing more until it has been sent.
pub const OUTPUT_PAUSE_BYTES: usize = 1 << 20;
/// Output of all connections above which nothing more is executed until it has been sent.
pub const TURN_OUTPUT_MAX_BYTES: usize = 64 << 20;
/// Output of a connection above which it is closed, since one command asked for more than this.
pub const OUTPUT_MAX_BYTES: usize = 512 << 20;
