//! Probes of memory: the cost of a read at random, the speed of streams, and reads and writes of
//! the size of a pointer.
//!
//! A [`Probe`] defines a loop; [`Probe::run`] runs it for a while on its threads and returns the
//! figures. Its reads and writes are checked before and while the clock runs, in the pauses between
//! its passes. The caller repeats it.

mod access;
mod chase;
mod order;
mod pages;
mod passes;
mod probe;
mod stream;

use std::time::Duration;

use crate::failure::{Failure, FailureKind};

pub use access::{Access, Order};
pub use pages::Pages;
pub use passes::{ProbeResult, Times};
pub use probe::{Pattern, Probe};
pub use stream::Kernel;

/// The largest block, array or object that is made, in bytes.
pub const MAX_BYTES: usize = 1 << 30;
/// Maximum number of threads that are started.
pub const MAX_THREADS: usize = 1024;
/// A cache line in bytes; two of the reads at random never share one.
pub const LINE_BYTES: usize = 64;

fn out_of_time() -> Failure {
    let message = "the loops were not done before the test's time was over";
    Failure::new(FailureKind::Timeout, message)
}

#[cfg(test)]
fn is_wrong<T>(result: Result<T, Failure>) -> bool {
    result.is_err_and(|failure| failure.kind == FailureKind::Verification)
}

/// Nanoseconds of a dependent read at random from a block of `block_bytes` (at least two cache
/// lines, at most 1 GiB), on one core, for about `budget`, on pages as the system gives
/// them; the median of its passes.
///
/// # Errors
/// [`Failure`]
pub fn latency_ns(block_bytes: usize, budget: Duration) -> Result<f64, Failure> {
    let probe = Probe {
        size_bytes: block_bytes.clamp(2 * LINE_BYTES, MAX_BYTES) & !(LINE_BYTES - 1),
        ..Probe::new(Pattern::Chase)
    };
    Ok(probe.run(&Times::of(budget))?.median_access_ns())
}

/// Bytes a second of `kernel` on `threads` threads (1 to 1024) that share arrays of `array_bytes`
/// each (1 GiB at most), for about `budget`: those read and those written, without a cache's reads
/// before it writes. The fastest pass counts, as in STREAM.
///
/// # Errors
/// [`Failure`]
pub fn stream_bytes_per_s(
    kernel: Kernel,
    threads: usize,
    array_bytes: usize,
    budget: Duration,
) -> Result<f64, Failure> {
    let threads = threads.clamp(1, MAX_THREADS);
    let probe = Probe {
        threads,
        size_bytes: (array_bytes.min(MAX_BYTES) / threads).max(8) & !7,
        ..Probe::new(Pattern::Stream(kernel))
    };
    Ok(probe.run(&Times::of(budget))?.best_bytes_per_s)
}
