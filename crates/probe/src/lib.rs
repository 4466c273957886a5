//! Loops that measure a machine: its memory ([`memory`]), its network ([`network`]) and its links
//! ([`dma`], [`perftest`]); the loop that keeps operations in flight ([`closed_loop`]), and what latencies are taken
//! down in ([`latency`]); what the processor counts meanwhile ([`counters`]).

mod bounds;
pub mod closed_loop;
pub mod counters;
pub mod dma;
mod failure;
pub mod latency;
pub mod memory;
pub mod network;
pub mod perftest;
mod post_then_drain;

pub use bounds::{OutOfRange, cores_within, within};
pub use failure::{Failure, FailureKind};
