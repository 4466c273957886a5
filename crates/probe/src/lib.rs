//! Loops that measure a machine's memory: what a read at random costs, and how fast streams run.
//!
//! Each call measures once, for about as long as it is given, and returns one figure. Who calls
//! repeats it.

mod latency;
mod stream;

pub use latency::latency_ns;
pub use stream::{Kernel, stream_bytes_per_s};

/// The largest block or array that is made, in bytes.
pub const MAX_BYTES: usize = 1 << 30;
/// The most threads that are started.
pub const MAX_THREADS: usize = 1024;
