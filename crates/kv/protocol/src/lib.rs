//! Protocols of the store's clients. Nothing here does I/O: input and output are slices of bytes.
//! [`ServerContext`] provides the server's own state and actions.
//!
//! The owner of the connections calls [`CommunicationEngine::process`] with all that have new bytes:
//!
//! 1. Complete commands of all connections are parsed into one batch of requests.
//! 2. The processing engine executes the batch. Each answer is written at once, in order, to the output
//!    of its connection.
//! 3. Commands that are not only requests (`EXEC`, `SCAN`, `AUTH`) end their connection's part of the
//!    batch. They are executed after the batch, one connection after the other.
//! 4. These steps repeat until no complete command is left, or every output is full.

mod batch;
pub mod cluster;
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

/// Connection that has bytes to parse.
#[derive(Debug)]
pub struct Ready<'c> {
    /// State of the client that is kept between commands.
    pub session: &'c mut Session,
    /// Bytes that were received and not consumed. They start at the beginning of a command.
    pub input: &'c [u8],
    /// Number of bytes of `input` that were consumed. The caller removes them and keeps the rest.
    pub consumed: usize,
    /// Output, to which replies are appended. Above [`OUTPUT_PAUSE_BYTES`] no further command is
    /// executed: the caller sends the output and calls again.
    pub output: &'c mut Vec<u8>,
    /// `true` if complete commands may be left that were not executed, because the outputs of all
    /// connections were full ([`ServerContext::output_room_bytes`]) or replies must be sent first
    /// ([`ServerContext::sends_early`]). The caller sends the output and calls again.
    pub has_more: bool,
}

impl<'c> Ready<'c> {
    /// Returns a connection with unconsumed input.
    pub fn new(session: &'c mut Session, input: &'c [u8], output: &'c mut Vec<u8>) -> Self {
        Self { session, input, consumed: 0, output, has_more: false }
    }
}

/// Version of Redis whose commands and replies are implemented.
pub const REDIS_VERSION: &str = "7.0.15";
/// Maximum number of arguments of a command, including its name; as in Redis.
pub const ARGUMENTS_MAX: usize = 1 << 20;
/// Length of the longest inline command; as in Redis.
pub const INLINE_MAX_BYTES: usize = 64 << 10;
/// Length of the longest command. An input buffer never needs more.
pub const COMMAND_MAX_BYTES: usize = 128 << 20;
/// Length of a connection's output above which its commands wait until it has been sent.
pub const OUTPUT_PAUSE_BYTES: usize = 1 << 20;
/// Length of all connections' output above which commands wait until it has been sent.
pub const TURN_OUTPUT_MAX_BYTES: usize = 64 << 20;
/// Length of a connection's output above which it is closed: a single command produced it.
pub const OUTPUT_MAX_BYTES: usize = 512 << 20;
