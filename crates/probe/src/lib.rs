//! Loops that measure a machine: its memory ([`memory`]), its network ([`network`]) and its links
//! ([`dma`]); and what they take latencies down in ([`latency`]).

pub mod dma;
pub mod latency;
pub mod memory;
pub mod network;
