//! Contract of what a server serves from ([`StorageBackend`]), and the layers that fulfil it: keys in memory
//! ([`Memory`]), [`persistence`], and [`replica`]s.

mod contract;
pub mod idle;
mod memory;
pub mod persistence;
pub mod replica;
pub mod transport;
mod waker;

pub use contract::{EXPIRY_BUCKETS, PartitionWork, StorageBackend, TICK_MS};
pub use memory::Memory;
pub use waker::Waker;

use overside_kv_store::{
    Answer, Answers, KeyHasher, ProcessingEngine, Refusal, Request, Transaction, codec, effect,
    forward_to,
};
