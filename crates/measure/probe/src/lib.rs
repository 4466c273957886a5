//! Loops that measure a machine: its memory ([`memory`]), its network ([`network`]) and its links
//! ([`dma`], [`perftest`]); the loop that keeps operations in flight ([`closed_loop`]), and its
//! latencies ([`latency`]); the processor's events meanwhile ([`counters`]).

mod bounds;
pub mod closed_loop;
pub mod counters;
pub mod dma;
mod failure;
pub mod latency;
pub mod memory;
pub mod network;
pub mod perftest;

pub use bounds::{OutOfRange, cores_within, within};
pub use failure::{Failure, FailureKind};
