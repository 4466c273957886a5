//! Counts and times of the work that devices do during a pass.

use overside_device::{Applied, CpuTime};
use overside_tables::pack::CodecPool;
use serde::Serialize;

/// Work done by devices, summed over all operations and submitters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceWork {
    /// Number of jobs whose results are the device's.
    pub jobs: u64,
    /// Number of jobs that the CPU ran instead of the device.
    pub cpu_jobs: u64,
    /// Number of jobs that failed on the device.
    pub failed: u64,
    /// Number of jobs of an emulated device that completed later than its profile says.
    pub late: u64,
    /// Device, driver and library that really ran the jobs; `None` without a device.
    #[serde(skip)]
    pub applied: Option<Applied>,
    /// CPU time of the targets' threads.
    #[serde(skip)]
    cpu: CpuTime,
    /// CPU time that emulating devices in this process took, in nanoseconds. It does not include
    /// devices that an agent emulates on its own machine.
    #[serde(skip)]
    emulator_ns: u64,
}

impl DeviceWork {
    /// Returns the work since the pool was created.
    pub(super) fn of(pool: &CodecPool) -> Self {
        let mut work = Self::default();
        for (_, report) in pool.reports() {
            work.jobs += report.devices.iter().map(|device| device.chunks).sum::<u64>();
            work.cpu_jobs += report.cpu.as_ref().map_or(0, |cpu| cpu.chunks);
            for target in report.targets() {
                work.cpu = work.cpu.plus(target.cpu_time);
                // An agent emulates its devices on its own machine.
                if !target.device.contains('/') {
                    work.emulator_ns += target.cpu_time.emulator_ns;
                }
            }
            for device in report.devices {
                work.failed += device.failed;
                work.late += device.late;
                work.applied = work.applied.or(device.applied);
            }
        }
        work
    }

    /// Returns the work since `earlier`.
    pub(super) fn since(self, earlier: &Self) -> Self {
        Self {
            jobs: self.jobs - earlier.jobs,
            cpu_jobs: self.cpu_jobs - earlier.cpu_jobs,
            failed: self.failed - earlier.failed,
            late: self.late - earlier.late,
            cpu: self.cpu.since(earlier.cpu),
            emulator_ns: self.emulator_ns - earlier.emulator_ns,
            applied: self.applied,
        }
    }

    /// Splits this process's CPU time by ledger. Threads of emulated devices are part of it but not of the
    /// host's time; the time of a DPU's cores is no part of it.
    pub(super) fn split(&self, process_ns: u64) -> CpuTime {
        CpuTime { host_ns: process_ns.saturating_sub(self.emulator_ns), ..self.cpu }
    }
}
