//! Loops that measure a machine: its memory ([`memory`]) and its network ([`network`]); and what
//! they take latencies down in ([`latency`]).

pub mod latency;
pub mod memory;
pub mod network;
