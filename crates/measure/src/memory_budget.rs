//! Whether a test's buffers fit into memory.

use overside_probe::Failure;

/// Memory that is taken without asking whether there is enough.
const MEMORY_UNASKED_BYTES: u64 = 64 << 20;

/// Whether so many destinations fit into memory.
pub(crate) fn destinations_fit(bytes: u64, count: u64) -> Result<(), Failure> {
    let what = format!("{count} destinations of {bytes} bytes");
    memory_fits(&what, bytes.saturating_mul(count))
}

/// Whether `what` of so many bytes fits into memory.
pub(crate) fn memory_fits(what: &str, needed: u64) -> Result<(), Failure> {
    if needed <= MEMORY_UNASKED_BYTES {
        return Ok(());
    }
    match memory_available() {
        Some(available) if needed > available / 2 => Err(Failure::unsupported(format!(
            "{what} ({needed} bytes) would take more than half of the {available} bytes of memory \
             that are free"
        ))),
        _ => Ok(()),
    }
}

/// Memory that can be had without swapping, in bytes; `None` where the system does not tell.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_bytes() {
        assert!(memory_available().is_none_or(|bytes| bytes > 1 << 20));
    }
}
