//! Evidence for a sample's figures. Every participant of a sample is added here, and only here:
//! provenance and timing are those of the weakest participant, CPU time and late completions are
//! sums.

use overside_device::threads::{process_cpu_ns, thread_cpu_ns};
use overside_device::{CpuTime, DeviceInfo, Provenance, Timing};
use overside_link::verbs::LinkInfo;

/// Evidence that one participant, or several together, give for a sample's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub provenance: Provenance,
    pub timing: Timing,
    pub cpu: CpuTime,
    pub late: Option<LateCount>,
}

/// Completions later than the profile's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateCount {
    pub late: u64,
    /// Number of completions among which `late` were counted.
    pub of: u64,
}

impl Evidence {
    /// This machine's own cores and clock.
    pub(crate) fn measured(cpu: CpuTime) -> Self {
        Self { provenance: Provenance::Measured, timing: Timing::Real, cpu, late: None }
    }

    /// A device, without the CPU time that it took.
    pub(crate) fn of_device(info: &DeviceInfo) -> Self {
        Self {
            provenance: info.provenance,
            timing: info.timing,
            ..Self::measured(CpuTime::default())
        }
    }

    /// The same evidence, with `late` of `of` completions later than the profile's time, if there is a profile.
    pub(crate) fn with_late(mut self, late: u64, of: u64) -> Self {
        let can_be_late = !matches!(self.timing, Timing::Real | Timing::Virtual);
        self.late = can_be_late.then_some(LateCount { late, of });
        self
    }

    /// An end of a link, without the CPU time that it took.
    pub(crate) fn of_link(info: &LinkInfo) -> Self {
        Self {
            provenance: info.provenance,
            timing: info.timing,
            ..Self::measured(CpuTime::default())
        }
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let late = [self.late, other.late].into_iter().flatten();
        Self {
            provenance: self.provenance.max(other.provenance),
            timing: self.timing.max(other.timing),
            cpu: self.cpu.plus(other.cpu),
            late: late.reduce(|one, other| LateCount {
                late: one.late + other.late,
                of: one.of + other.of,
            }),
        }
    }
}

/// Clock of the submitting side's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostClock {
    /// CPU time of all threads of this process.
    Process {
        /// `true` if the process emulates devices, whose CPU time is not the host's.
        emulates: bool,
    },
    /// CPU time of the calling thread, plus the CPU time that contexts report for their own
    /// threads. Used if the process does other work at the same time.
    Thread,
}

impl HostClock {
    /// Returns the clock of a process that does nothing but drive these devices.
    pub(crate) fn of_process<'a>(mut devices: impl Iterator<Item = &'a str>) -> Self {
        Self::Process {
            // An agent's emulation burns cores of the agent's machine.
            emulates: devices.any(|name| overside_backends::agents_device(name).is_none()),
        }
    }

    /// Reads the CPU time, in addition to that of contexts so far.
    pub(crate) fn read(self, contexts: CpuTime) -> CpuReading {
        CpuReading {
            clock: self,
            own_ns: match self {
                Self::Process { .. } => process_cpu_ns(std::process::id()).unwrap_or(0),
                Self::Thread => thread_cpu_ns(),
            },
            contexts,
        }
    }
}

/// CPU clocks at the beginning or at the end of the timed part.
pub(crate) struct CpuReading {
    clock: HostClock,
    own_ns: u64,
    contexts: CpuTime,
}

impl CpuReading {
    /// Returns the CPU time spent since `earlier`, by ledger.
    pub(crate) fn since(&self, earlier: &Self) -> CpuTime {
        let own_ns = self.own_ns.saturating_sub(earlier.own_ns);
        let contexts = self.contexts.since(earlier.contexts);
        let host_ns = match self.clock {
            HostClock::Process { emulates: true } => own_ns.saturating_sub(contexts.emulator_ns),
            HostClock::Process { emulates: false } => own_ns,
            HostClock::Thread => own_ns + contexts.host_ns,
        };
        CpuTime { host_ns, ..contexts }
    }
}
