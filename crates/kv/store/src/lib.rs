//! The store of a key-value server: requests and answers, their encoding, and the engine that executes them.
//!
//! [`ProcessingEngine`] executes requests in batches; [`Store`] is the one that keeps data. Each partition
//! is touched by one core only (EREW). Nothing here does I/O.

pub mod answer;
pub mod clock;
pub mod codec;
mod counts;
mod double;
pub mod effect;
pub mod engine;
mod forward;
pub mod hash;
mod operations;
pub mod partition;
pub mod request;
pub mod snapshots;
pub mod store;

pub use answer::{Answer, Element, List, ListBuilder, Metadata, Refusal, Value, ValueKind};
pub use double::{Double, parse_double};
pub use engine::{Answers, ProcessingEngine, ScanPosition, Statistics, Transaction};
pub use hash::KeyHasher;
pub use partition::partition_of;
pub use request::{
    Condition, Expiry, ExpiryCondition, Operation, Popped, Request, ScoreBound, SetOptions,
    SortedRange, random_ranks,
};
pub use store::Store;

/// Longest key in bytes.
pub const KEY_MAX_BYTES: usize = 64 << 10;
/// Longest value, field or member in bytes.
pub const VALUE_MAX_BYTES: usize = 64 << 20;
