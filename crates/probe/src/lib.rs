//! Loops that measure a machine: its memory ([`memory`]), its network ([`network`]) and its links
//! ([`dma`]); the loop that keeps operations in flight ([`closed_loop`]), and what latencies are taken
//! down in ([`latency`]).

mod bounds;
pub mod closed_loop;
pub mod dma;
mod failure;
pub mod latency;
pub mod memory;
pub mod network;

pub use bounds::{OutOfRange, cores_within, within};
pub use failure::{Failure, FailureKind};
