//! A key-value store in two parts, which may run on different sides of a host-DPU link.
//!
//! 1. The *communication engine* ([`protocol`]) turns what clients send into [`Request`]s and
//!    [`Answer`]s into what clients read. It does no I/O: bytes come in and go out as slices.
//! 2. The *processing engine* ([`ProcessingEngine`], here [`Store`]) executes requests in batches.
//!    Each partition is touched by one core only (EREW).
//! 3. Requests have one encoding ([`codec`]), which the log, snapshots, replicas, datagrams and the
//!    link between the two engines share.
//!
//! The split and its names are those of MICA (Lim et al., NSDI 2014) and of the DPU offload studies
//! that took it up.

mod alert;
pub mod answer;
pub mod bench;
pub mod client;
pub mod clock;
pub mod codec;
pub mod design;
pub mod directory;
pub mod engine;
pub mod ethernet;
mod forward;
pub mod hash;
pub mod herd;
pub mod offload;
pub mod partition;
pub mod partitions;
pub mod persistence;
pub mod protocol;
pub mod replica;
pub mod request;
pub mod server;
pub mod stages;
pub mod store;
pub mod ticks;
pub mod udp;

pub use answer::{Answer, Element, List, ListBuilder, Metadata, Refusal, Value, ValueKind};
pub use design::Design;
pub use engine::{ProcessingEngine, ScanPosition, Statistics, Transaction};
pub use hash::KeyHasher;
pub use partition::partition_of;
pub use request::{
    Condition, Expiry, ExpiryCondition, Operation, Request, ScoreBound, SortedRange,
};
pub use store::Store;

/// Longest key in bytes.
pub const KEY_MAX_BYTES: usize = 64 << 10;
/// Longest value, field or member in bytes.
pub const VALUE_MAX_BYTES: usize = 64 << 20;
