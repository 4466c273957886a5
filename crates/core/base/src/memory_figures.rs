//! Memory figures that the operating system reports in files below `/proc`.

/// The figure called `name` in a file such as `/proc/meminfo` or `/proc/self/status`
/// (proc_meminfo(5), proc_pid_status(5)), in bytes; `None` if the system does not report it.
pub fn memory_figure(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let figure = |line: &str| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?;
        let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    text.lines().find_map(figure)
}

#[cfg(test)]
mod tests {
    use super::memory_figure;

    #[test]
    fn memory_is_told_in_bytes() {
        let whole = memory_figure("/proc/meminfo", "MemTotal").unwrap();
        let free = memory_figure("/proc/meminfo", "MemAvailable").unwrap();
        assert!(free > 1 << 20 && free < whole);
        assert_eq!(memory_figure("/proc/meminfo", "Mem"), None);
        assert_eq!(memory_figure("/proc/nothing", "MemTotal"), None);
    }
}
