//! What a sample's figures are worth. Whatever took part in a sample is added here, and only here:
//! provenance and timing are the weakest of all, CPU time and late completions are the sums.

use overside_device::threads::{process_cpu_ns, thread_cpu_ns};
use overside_device::{CpuTime, DeviceInfo, Provenance, Timing};
use overside_link::verbs::LinkInfo;

use crate::sample::Sample;

/// What one participant, or several together, make of a sample's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub provenance: Provenance,
    pub timing: Timing,
    pub cpu: CpuTime,
    pub late: Option<LateCount>,
}

/// Completions later than the profile says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateCount {
    pub late: u64,
    /// Of so many.
    pub of: u64,
}

impl Evidence {
    /// This machine's own cores and clock.
    pub(crate) fn measured(cpu: CpuTime) -> Self {
        Self {
            provenance: Provenance::Measured,
            timing: Timing::Real,
            cpu,
            late: None,
        }
    }

    /// A device, without the CPU time that it took.
    pub(crate) fn of_device(info: &DeviceInfo) -> Self {
        Self {
            provenance: info.provenance,
            timing: info.timing,
            ..Self::measured(CpuTime::default())
        }
    }

    /// The same, with so many completions later than the profile says, where there is one.
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

    /// Another sample that this one contains.
    pub(crate) fn of_sample(sample: &Sample) -> Self {
        let cpu = sample.cpu.unwrap_or_default();
        let whole = sample.late_of.or(sample.work.map(|work| work.jobs));
        Self {
            provenance: sample.provenance.unwrap_or(Provenance::Measured),
            timing: sample.timing.unwrap_or(Timing::Real),
            cpu: cpu.into(),
            late: (sample.late.zip(whole)).map(|(late, of)| LateCount { late, of }),
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

/// Which clock stands for the submitting side's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostClock {
    /// That of all threads of this process.
    Process {
        /// Emulation burns a part of it, which is not the host's.
        emulates: bool,
    },
    /// That of the calling thread, beside what a context tells of its own threads: other work goes
    /// on in this process.
    Thread,
}

impl HostClock {
    /// For a process that does nothing but drive these devices.
    pub(crate) fn of_process<'a>(mut devices: impl Iterator<Item = &'a str>) -> Self {
        Self::Process {
            // An agent's emulation burns cores of the agent's machine.
            emulates: devices.any(|name| overside_backends::agents_device(name).is_none()),
        }
    }

    /// Reads it, beside what contexts have told so far.
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
    /// What was spent since, by ledger.
    pub(crate) fn since(&self, earlier: &Self) -> CpuTime {
        let own_ns = self.own_ns.saturating_sub(earlier.own_ns);
        let contexts = self.contexts.since(earlier.contexts);
        let host_ns = match self.clock {
            HostClock::Process { emulates: true } => own_ns.saturating_sub(contexts.emulator_ns),
            HostClock::Process { emulates: false } => own_ns,
            HostClock::Thread => own_ns + contexts.host_ns,
        };
        CpuTime {
            host_ns,
            ..contexts
        }
    }
}
