//! Arrow data flows: what happens to record batches on their way from who makes them to who reads
//! them. Producers emit tables by space, consumers read them by object over time; between them
//! batches are unpacked, filtered, partitioned by a key, packed again and routed.

mod error;
pub mod operators;
pub mod pack;

pub use error::Error;
