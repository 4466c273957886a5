//! Work that is posted to a queue pair, and its completions.

use overside_device::{CpuTime, Region, Slice};

use super::error::WorkError;
use super::memory::{ExportedSlice, RemoteSlice};

/// Operation of a piece of work, with the memory that it uses.
#[derive(Debug)]
pub enum Verb {
    /// Copies the peer's memory here. The peer's program has no part in it.
    Read {
        /// Memory of the peer that is read.
        from: RemoteSlice,
        /// Destination; as long as `from`.
        into: Region,
    },
    /// Reads like [`Verb::Read`], but to exported memory of this end, which no piece of work owns.
    /// Several reads may have the same destination at a time; which of them determines its contents
    /// at the end is not defined.
    ReadShared {
        /// Memory of the peer that is read.
        from: RemoteSlice,
        /// Destination; as long as `from`.
        into: ExportedSlice,
    },
    /// Copies to the peer's memory. The peer's program has no part in it.
    Write {
        /// Local memory that is read.
        from: Slice,
        /// Destination at the peer; as long as `from`.
        to: RemoteSlice,
    },
    /// Sends a message.
    Send {
        /// The message.
        from: Slice,
    },
    /// Waits for a message. Receives complete in the order of posting.
    Receive {
        /// Destination; the message may be shorter.
        into: Region,
    },
}

impl Verb {
    /// Returns the name of the verb, as it is written in a box (a file that describes tests).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::ReadShared { .. } => "read",
            Self::Write { .. } => "write",
            Self::Send { .. } => "send",
            Self::Receive { .. } => "receive",
        }
    }

    /// The local memory's length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Read { into, .. } | Self::Receive { into } => into.len() as u64,
            Self::ReadShared { into, .. } => into.len() as u64,
            Self::Write { from, .. } | Self::Send { from } => from.len() as u64,
        }
    }

    /// No local memory at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A piece of work.
#[derive(Debug)]
pub struct Work {
    /// The caller's name for it; comes back with the completion. Need not be unique.
    pub tag: u64,
    /// Operation to perform.
    pub verb: Verb,
    /// Writes and sends: copy the payload into the queue now, so that the transport need not fetch
    /// it. Up to the link's `max_inline_bytes`.
    pub inline: bool,
}

impl Work {
    /// Makes a work request that is not inline.
    pub fn new(tag: u64, verb: Verb) -> Self {
        Self { tag, verb, inline: false }
    }
}

/// Finished piece of work.
#[derive(Debug)]
pub struct Completion {
    /// Tag of the work.
    pub tag: u64,
    /// Number of bytes that were moved: all of them; for a receive, the length of the message.
    pub result: Result<u64, WorkError>,
    /// Source of a write or send, returned to the caller; `None` for other verbs.
    pub source: Option<Slice>,
    /// Destination of a read or receive, returned to the caller. `None` for shared reads, writes
    /// and sends, and if it is quarantined.
    pub destination: Option<Region>,
    /// `true` if the emulation was slower than the emulated engine: the completion is later than
    /// the profile's time.
    pub late: bool,
}

/// Work that was left when a queue pair was closed, and the CPU time of its threads.
#[derive(Debug)]
pub struct Closed {
    /// Work that completed and had not been polled for.
    pub completions: Vec<Completion>,
    /// Work that did not complete before the deadline; its destinations are quarantined.
    pub abandoned: Vec<u64>,
    /// CPU time of threads of the queue pair's own, by ledger. Those of the endpoint are in
    /// [`Endpoint::cpu_time`](super::Endpoint::cpu_time).
    pub cpu_time: CpuTime,
}
