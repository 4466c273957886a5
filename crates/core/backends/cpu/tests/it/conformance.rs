//! The CPU backend keeps every promise of the device contract.

use std::sync::Arc;

use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_device::Device;

fn device(threads: usize, cores: Option<Vec<usize>>) -> Arc<dyn Device> {
    Arc::new(CpuDevice::new(CpuOptions { threads, cores }).expect("a device of these cores"))
}

mod one_thread {
    overside_testkit::conformance_suite!(|| super::device(1, None));
}

mod three_threads {
    overside_testkit::conformance_suite!(|| super::device(3, None));
}

mod pinned {
    /// A core that the tests themselves may use.
    fn core() -> usize {
        let set = rustix::thread::sched_getaffinity(None).expect("the process's cores");
        (0..rustix::thread::CpuSet::MAX_CPU).find(|core| set.is_set(*core)).expect("a core")
    }

    overside_testkit::conformance_suite!(|| super::device(2, Some(vec![core()])));
}
