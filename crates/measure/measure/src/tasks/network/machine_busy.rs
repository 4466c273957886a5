//! Time that cores of this machine were busy, as the system reports it.

/// Seconds that cores of this machine were busy since it was started; `None` if the system does not
/// report it.
pub(super) fn machine_busy_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks = busy_ticks(&text)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns all CPU time except idling and waiting for disks. Time that other virtual machines stole
/// does not count as busy.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice.
    let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else {
        return None;
    };
    Some(user + nice + system + irq + softirq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busy_is_neither_idle_nor_waiting_nor_stolen() {
        let stat = "cpu  10 2 30 4000 500 6 70 800 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(118));
        assert_eq!(busy_ticks("cpu 1 2 3\n"), None);
        assert_eq!(busy_ticks(""), None);
    }

    #[test]
    fn this_machine_tells_how_busy_it_is() {
        let before = machine_busy_s().unwrap();
        assert!(before > 0.0 && machine_busy_s().unwrap() >= before);
    }
}
