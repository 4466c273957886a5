//! A key-value store in two parts, which may run on different sides of a host-DPU link.
//!
//! 1. The *communication engine* ([`protocol`]) turns bytes of clients into [`Request`]s and
//!    [`Answer`]s into bytes for clients. It does no I/O: bytes come in and go out as slices.
//! 2. The *processing engine* ([`ProcessingEngine`], here [`Store`]) executes requests in batches.
//!    Each partition is touched by one core only (EREW).
//! 3. Requests have one encoding ([`codec`]), which the log, snapshots, replicas, datagrams and the
//!    link between the two engines share.
//!
//! The split and its names are those of MICA (Lim et al., NSDI 2014) and of the DPU offload studies
//! that took it up.

pub mod cluster;
pub mod server;

pub use overside_kv_backend::{persistence, replica};
pub use overside_kv_client::{self as client, directory};
pub use overside_kv_datagram::{ethernet, herd, udp};
pub use overside_kv_protocol as protocol;
pub use overside_kv_protocol::{stages, ticks};
pub use overside_kv_store::{
    Answer, Answers, Condition, Element, Expiry, ExpiryCondition, KEY_MAX_BYTES, KeyHasher, List,
    ListBuilder, Metadata, Operation, Popped, ProcessingEngine, Refusal, Request, ScanPosition,
    ScoreBound, SetOptions, SortedRange, Statistics, Store, Transaction, VALUE_MAX_BYTES, Value,
    ValueKind, answer, clock, codec, effect, engine, forward_to, hash, partition, partition_of,
    random_ranks, request, store,
};
