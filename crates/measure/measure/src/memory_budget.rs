//! Checks that a test's buffers fit into memory.

use overside_base::memory_figure;
use overside_probe::Failure;

/// Number of bytes of memory up to which the budget is not checked.
const MEMORY_UNASKED_BYTES: u64 = 64 << 20;

/// Checks that `count` destinations of `bytes` bytes each fit into memory.
pub(crate) fn destinations_fit(bytes: u64, count: u64) -> Result<(), Failure> {
    let what = format!("{count} destinations of {bytes} bytes");
    memory_fits(&what, bytes.saturating_mul(count))
}

/// Checks that `needed` bytes for `what` are at most half of the available memory. Small amounts
/// pass without a check, and so does any amount if the system does not report its memory.
pub(crate) fn memory_fits(what: &str, needed: u64) -> Result<(), Failure> {
    if needed <= MEMORY_UNASKED_BYTES {
        return Ok(());
    }
    // What can be had without swapping.
    match memory_figure("/proc/meminfo", "MemAvailable") {
        Some(available) if needed > available / 2 => Err(Failure::unsupported(format!(
            "{what} ({needed} bytes) would take more than half of the {available} bytes of memory \
             that are free"
        ))),
        _ => Ok(()),
    }
}
