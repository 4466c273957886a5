//! Loops that measure a machine: what a read at random from memory costs, how fast streams of
//! memory run, and what its network does ([`network`]).
//!
//! Each call about memory measures once, for about as long as it is given, and returns one figure.
//! Who calls repeats it.

mod latency;
pub mod network;
mod stream;

pub use latency::latency_ns;
pub use stream::{Kernel, stream_bytes_per_s};

/// The largest block or array that is made, in bytes.
pub const MAX_BYTES: usize = 1 << 30;
/// The most threads that are started.
pub const MAX_THREADS: usize = 1024;
