//! Loops that measure a machine: its memory ([`memory`]) and its network ([`network`]).

pub mod memory;
pub mod network;
