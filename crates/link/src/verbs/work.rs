//! What is posted to a queue pair and what comes back.

use overside_device::{CpuTime, Region, Slice};

use super::error::WorkError;
use super::memory::{ExportedSlice, RemoteSlice};

/// What is to be done.
#[derive(Debug)]
pub enum Verb {
    /// Copies the peer's memory here. The peer's program has no part in it.
    Read {
        /// What is read.
        from: RemoteSlice,
        /// Where to; as long as `from`.
        into: Region,
    },
    /// As [`Verb::Read`], to memory of this end's that nobody owns: several reads may have the same
    /// at a time, and which of them is there in the end is not defined.
    ReadShared {
        /// What is read.
        from: RemoteSlice,
        /// Where to; as long as `from`.
        into: ExportedSlice,
    },
    /// Copies to the peer's memory. The peer's program has no part in it.
    Write {
        /// What is read.
        from: Slice,
        /// Where to; as long as `from`.
        to: RemoteSlice,
    },
    /// Sends a message.
    Send {
        /// The message.
        from: Slice,
    },
    /// Waits for a message. Those posted first get what was sent first.
    Receive {
        /// Where to; the message may be shorter.
        into: Region,
    },
}

impl Verb {
    /// Its name, as in a box.
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
    /// What is to be done.
    pub verb: Verb,
    /// Writes and sends: copy the payload into the queue now, so that whoever moves it need not
    /// fetch it. Up to the link's `max_inline_bytes`.
    pub inline: bool,
}

impl Work {
    /// Not inline.
    pub fn new(tag: u64, verb: Verb) -> Self {
        Self {
            tag,
            verb,
            inline: false,
        }
    }
}

/// A piece of work that is over.
#[derive(Debug)]
pub struct Completion {
    /// Its tag.
    pub tag: u64,
    /// How many bytes were moved: all of them, and of a receive the message's length.
    pub result: Result<u64, WorkError>,
    /// What was read, handed back.
    pub source: Option<Slice>,
    /// What was written, handed back; `None` where nobody owns it, for writes and sends, and if it is quarantined.
    pub destination: Option<Region>,
    /// The engine that stands for another was slower than it: the completion is later than the
    /// profile says.
    pub late: bool,
}

/// What was left when a queue pair was closed.
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
