//! Capabilities of a link, and the provenance of times that are measured on it.

use overside_device::{MemoryKind, Provenance, Timing};
use serde::{Deserialize, Serialize};

/// Component that moves the bytes of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mover {
    /// The thread that posts or polls.
    Caller,
    /// A thread of this machine, in place of a DMA engine.
    Engine,
    /// Network hardware, or UCX's substitute for it; see the link's description.
    Nic,
}

/// The limits of one verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbLimits {
    /// Maximum number of bytes of one piece of work.
    pub max_bytes: u64,
    /// Component that moves the bytes.
    pub mover: Mover,
}

/// Capabilities of an endpoint's queue pairs, all of which support every verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// One-sided read.
    pub read: VerbLimits,
    /// One-sided write.
    pub write: VerbLimits,
    /// Two-sided send and receive.
    pub send: VerbLimits,
    /// The longest payload in bytes that may be posted inline; 0: none.
    pub max_inline_bytes: u64,
    /// Queue pairs of this link.
    pub queue_pairs: usize,
    /// The most work in flight on one queue pair.
    pub max_depth: usize,
    /// Maximum number of regions that may be exported at a time, from either end.
    pub max_exports: usize,
    /// The longest region in bytes that can be exported.
    pub max_export_bytes: u64,
    /// Completions and messages can be waited for. All can be polled for.
    pub event: bool,
    /// The local memory that work may use.
    pub memory: MemoryKind,
    /// Terms of the link's timing for which its profile has no fact. They count as zero, so its
    /// times are lower bounds. Empty where timing is real.
    pub missing: Vec<String>,
}

/// Description of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkInfo {
    /// The transport, as in `shm`, `tcp` or `rdma`.
    pub name: String,
    /// The implementation and its version.
    pub driver: String,
    /// Location of the peer: an address, a process, "this process".
    pub peer: String,
    /// One line for people: the mechanism that carries the bytes, and its limits.
    pub description: String,
    /// Provenance of times that are measured on the link.
    pub provenance: Provenance,
    /// Meaning of the link's completion times.
    pub timing: Timing,
}
