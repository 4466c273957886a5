//! Report of an executor's work: counts, times, events and decisions.

use std::fmt;
use std::time::Duration;

use overside_device::{Applied, CpuTime, Lifecycle};
use serde::Serialize;

use crate::{Target, Verify};

/// Events that are kept; the rest is counted.
const EVENTS_MAX: usize = 256;
/// Number of decisions that are kept: the first half of it, and the last.
const DECISIONS_MAX: usize = 512;

/// Report of an executor's work so far. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Time from the first push of a chunk until the last result.
    pub elapsed_ns: u64,
    /// The CPU's part, if there is a CPU.
    pub cpu: Option<TargetReport>,
    /// The devices' parts, in their order; none under a placement that uses no device, or of a device
    /// that does not do the operation.
    pub devices: Vec<TargetReport>,
    /// Counts of the devices' results that were verified.
    pub verification: Verification,
    /// Chunks copied because a target could not reach their memory.
    pub bounce_copies: u64,
    /// Bytes of the copied chunks.
    pub bounce_bytes: u64,
    /// Time spent on making and registering buffers.
    pub memory_ns: u64,
    /// CPU time of the caller's thread in waiting for results, work in polling included: a driver
    /// in software works when it is polled.
    pub wait_cpu_ns: u64,
    /// Destinations that were given up because an engine may still write to them.
    pub quarantined: u64,
    /// Failures and other events in order, with the reactions to them; the first 256.
    pub events: Vec<Event>,
    /// Number of events that are not listed.
    pub events_left_out: u64,
    /// Decisions of the controller, in order: of one executor the first 256 and the last 256, of several
    /// submitters the earliest 512.
    pub decisions: Vec<DecisionRecord>,
    /// Number of decisions that are not listed.
    pub decisions_left_out: u64,
}

/// Counts of the devices' results that were verified before they counted, and of those that were
/// not.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verification {
    /// Rule that selects results for verification.
    pub verify: Verify,
    /// Results that were verified, by their checksums or by the CPU.
    pub chunks: u64,
    /// Verified results that were wrong and did not count.
    pub wrong: u64,
    /// Results that were not verified.
    pub unverified: u64,
    /// CPU time that the verification took.
    pub cpu_time: CpuTime,
}

/// Report of one target's work.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TargetReport {
    /// The device's name.
    pub device: String,
    /// Chunks whose results are this target's.
    pub chunks: u64,
    /// Bytes read for them.
    pub source_bytes: u64,
    /// Bytes written for them.
    pub destination_bytes: u64,
    /// Jobs whose results were not used: they have none, or the other target was first with theirs.
    pub failed: u64,
    /// Jobs that were run again because their results did not fit.
    #[serde(skip)]
    pub grown: u64,
    /// Completions later than the profile's time, where the target is emulated.
    pub late: u64,
    /// The time during which such a completion was overdue.
    pub overdue_ns: u64,
    /// Time with at least one job in flight.
    pub busy_ns: u64,
    /// The sum of its jobs' queueing times, as far as the device reports them.
    pub queueing_ns: u64,
    /// The sum of its jobs' transfer times, as far as the device reports them.
    pub transfer_ns: u64,
    /// The sum of its jobs' engine times, as far as the device reports them.
    pub engine_ns: u64,
    /// Contexts that were opened or set up again.
    pub setups: u64,
    /// The sum of their times.
    pub lifecycle: Lifecycle,
    /// CPU time of their threads.
    pub cpu_time: CpuTime,
    /// Implementation that ran the jobs; `None` before the first completion.
    pub applied: Option<Applied>,
}

/// Kind of an event: a failure of a device, a limit that it has, or its recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The device does not do the operation.
    Unsupported,
    /// The device could not be opened.
    NotOpened,
    /// A job failed.
    Failed,
    /// A job was refused.
    Refused,
    /// A job did not complete in time.
    Stalled,
    /// The device is lost.
    Lost,
    /// The device reported a valid input as corrupt.
    FalselyCorrupt,
    /// A completion belongs to no job in flight, or has impossible values.
    Misbehaved,
    /// A result is wrong.
    WrongResult,
    /// A chunk is longer than the device takes.
    TooLong,
    /// The device works again.
    Recovered,
    /// The device is not tried again.
    GivenUp,
}

impl Report {
    /// Returns the parts of all existing targets, the CPU's first.
    pub fn targets(&self) -> impl Iterator<Item = &TargetReport> {
        self.cpu.iter().chain(&self.devices)
    }

    /// Adds the report of another thread for the same stream at the same time.
    pub(crate) fn add(&mut self, other: Self) {
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        match (&mut self.cpu, other.cpu) {
            (Some(cpu), Some(other)) => cpu.add(other),
            (cpu, other) => *cpu = cpu.take().or(other),
        }
        for (index, device) in other.devices.into_iter().enumerate() {
            match self.devices.get_mut(index) {
                Some(known) => known.add(device),
                None => self.devices.push(device),
            }
        }
        let verification = &mut self.verification;
        verification.verify = other.verification.verify;
        verification.chunks += other.verification.chunks;
        verification.wrong += other.verification.wrong;
        verification.unverified += other.verification.unverified;
        verification.cpu_time = verification.cpu_time.plus(other.verification.cpu_time);
        self.bounce_copies += other.bounce_copies;
        self.bounce_bytes += other.bounce_bytes;
        self.memory_ns += other.memory_ns;
        self.wait_cpu_ns += other.wait_cpu_ns;
        self.quarantined += other.quarantined;
        self.events.extend(other.events);
        self.events.sort_by_key(|event| event.at_ns);
        let beyond = self.events.len().saturating_sub(EVENTS_MAX);
        self.events.truncate(EVENTS_MAX);
        self.events_left_out += beyond as u64 + other.events_left_out;
        self.decisions.extend(other.decisions);
        self.decisions.sort_by_key(|decision| decision.at_ns);
        let beyond = self.decisions.len().saturating_sub(DECISIONS_MAX);
        self.decisions.truncate(DECISIONS_MAX);
        self.decisions_left_out += beyond as u64 + other.decisions_left_out;
    }
}

impl TargetReport {
    fn add(&mut self, other: Self) {
        add(&mut self.lifecycle.discovery_ns, other.lifecycle.discovery_ns);
        add(&mut self.lifecycle.init_ns, other.lifecycle.init_ns);
        add(&mut self.lifecycle.memory_ns, other.lifecycle.memory_ns);
        add(&mut self.lifecycle.end_ns, other.lifecycle.end_ns);
        self.cpu_time = self.cpu_time.plus(other.cpu_time);
        self.chunks += other.chunks;
        self.source_bytes += other.source_bytes;
        self.destination_bytes += other.destination_bytes;
        self.failed += other.failed;
        self.grown += other.grown;
        self.late += other.late;
        self.overdue_ns += other.overdue_ns;
        self.busy_ns = self.busy_ns.max(other.busy_ns);
        self.queueing_ns += other.queueing_ns;
        self.transfer_ns += other.transfer_ns;
        self.engine_ns += other.engine_ns;
        self.setups += other.setups;
        self.applied = self.applied.take().or(other.applied);
    }
}

impl EventKind {
    /// Returns `true` if the device failed. Returns `false` if it was only unsuitable, or works
    /// again.
    pub(crate) fn is_failure(self) -> bool {
        !matches!(self, Self::Unsupported | Self::TooLong | Self::Recovered)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Problem with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Time of the event, in nanoseconds since the executor was opened.
    pub at_ns: u64,
    /// Target of the event.
    pub target: Target,
    /// Kind of the event.
    pub kind: EventKind,
    /// Message for people, with the reaction.
    pub message: String,
    /// Number of equal events in a row that this entry counts, at least 1.
    pub times: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Duration::from_nanos(self.at_ns).as_secs_f64();
        write!(f, "{at:.3} s: {}", self.message)?;
        if self.times > 1 {
            write!(f, " ({} times)", self.times)?;
        }
        Ok(())
    }
}

/// Record of one decision of the controller.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionRecord {
    /// Time of the decision, in nanoseconds since the executor was opened.
    pub at_ns: u64,
    /// Target of the decision, which is between it and the devices behind it.
    pub target: Target,
    /// The part of the bytes of both sides that the devices behind it get, 0 to 1.
    pub fraction: f64,
    /// New length of chunks in bytes, if the decision is about that; the fraction is as before, and
    /// 0 where several threads submit: each has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<usize>,
    /// `true` if the decision is a measurement, not the best known one.
    pub probe: bool,
    /// Numbers that led to the decision, as one line of text.
    pub reason: String,
}

impl DecisionRecord {
    /// Returns a name for the targets that the fraction belongs to, for display to users.
    pub fn rest(&self) -> String {
        match self.target {
            Target::Cpu => "the device".into(),
            Target::Device(device) => format!("what is behind device {}", device + 1),
        }
    }
}

/// Events and decisions, bounded.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
    pub(crate) events_left_out: u64,
    decisions: Vec<DecisionRecord>,
    /// Index of the oldest decision in the second half of `decisions`, which is a ring buffer once
    /// it is full.
    oldest: usize,
    decisions_left_out: u64,
}

impl Log {
    pub(crate) fn event(&mut self, at_ns: u64, target: Target, kind: EventKind, message: String) {
        if let Some(last) = self.events.last_mut()
            && (last.target, last.kind, &last.message) == (target, kind, &message)
        {
            last.times += 1;
        } else if self.events.len() < EVENTS_MAX {
            self.events.push(Event { at_ns, target, kind, message, times: 1 });
        } else {
            self.events_left_out += 1;
        }
    }

    pub(crate) fn decision(&mut self, decision: DecisionRecord) {
        if self.decisions.len() < DECISIONS_MAX {
            self.decisions.push(decision);
            return;
        }
        let half = DECISIONS_MAX / 2;
        self.decisions[half + self.oldest] = decision;
        self.oldest = (self.oldest + 1) % half;
        self.decisions_left_out += 1;
    }

    /// The decisions in order, and how many lie between the first and the last.
    pub(crate) fn decisions(&self) -> (Vec<DecisionRecord>, u64) {
        let mut all = self.decisions.clone();
        if all.len() == DECISIONS_MAX {
            all[DECISIONS_MAX / 2..].rotate_left(self.oldest);
        }
        (all, self.decisions_left_out)
    }
}

/// Adds a time that not every device reports.
pub(crate) fn add(total: &mut Option<u64>, one: Option<u64>) {
    if let Some(one) = one {
        *total = Some(total.unwrap_or(0) + one);
    }
}
