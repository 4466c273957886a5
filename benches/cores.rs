//! Two cores, and threads on them.

use overside_device::threads;
use rustix::thread::{CpuSet, sched_getaffinity};

/// The first two cores that this process may use; twice the same if there is one.
pub(crate) fn first_two() -> [usize; 2] {
    let set = sched_getaffinity(None).expect("the process's cores");
    let mut all = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    let first = all.next().expect("a core");
    [first, all.next().unwrap_or(first)]
}

/// Keeps this thread on a core.
pub(crate) fn pin(core: usize) {
    threads::pin(core).expect("a core of this process");
}
