//! Default limit on an agent's memory, from the memory of the machine and the limit of the service.

use std::path::{Path, PathBuf};

use overside_base::memory_figure;

/// Half of the machine's memory, or two thirds of the service's limit (`MemoryMax=`) if that is
/// less. 1 GiB if the system reports neither.
pub fn default_memory_bytes() -> u64 {
    let machine = machine_bytes().map(|bytes| bytes / 2);
    let service = service_bytes().map(|bytes| bytes / 3 * 2);
    machine.into_iter().chain(service).min().unwrap_or(1 << 30)
}

fn machine_bytes() -> Option<u64> {
    memory_figure("/proc/meminfo", "MemTotal")
}

/// The least limit of this process's control group and of those around it (cgroups, version 2).
fn service_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    least_limit(Path::new("/sys/fs/cgroup"), own)
}

fn least_limit(root: &Path, own: &str) -> Option<u64> {
    let limit = |group: PathBuf| -> Option<u64> {
        let text = std::fs::read_to_string(group.join("memory.max")).ok()?;
        text.trim().parse().ok()
    };
    let groups = Path::new(own).ancestors();
    groups.filter_map(|group| limit(root.join(group))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_around_a_process_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |group: &str, limit: &str| {
            let group = root.path().join(group);
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join("memory.max"), limit).unwrap();
        };
        write("system.slice", "3000\n");
        write("system.slice/overside-agent.service", "max\n");
        let least = |own| least_limit(root.path(), own);
        assert_eq!(least("system.slice/overside-agent.service"), Some(3000));
        write("system.slice/overside-agent.service", "2000\n");
        assert_eq!(least("system.slice/overside-agent.service"), Some(2000));
        assert_eq!(least("elsewhere"), None);
    }

    #[test]
    fn there_is_memory_and_it_is_not_all_of_the_machines() {
        let bytes = default_memory_bytes();
        assert!(bytes > 1 << 20);
        assert!(machine_bytes().is_none_or(|machine| bytes <= machine / 2));
    }
}
