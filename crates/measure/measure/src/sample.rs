//! One measured repetition of a test; docs/measure/results.md describes its keys.

use std::collections::BTreeMap;
use std::time::Duration;

use overside_device::{Applied, CpuTime, Provenance, Timing};
use overside_model::{Initiator, Interval};
use overside_probe::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, LateCount};

/// Largest relative difference, due to rounding, between a figure and the value computed from other
/// figures.
const CONTRADICTION: f64 = 1e-3;
/// The metrics, in MB/s, that are all of a sample's bytes by all of its time.
const BYTES_PER_TIME: [&str; 3] = ["throughput", "bandwidth", "call_bandwidth"];

/// Result of measuring a test once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Outcome: measured, failed or skipped.
    pub status: Status,
    /// The node that measured it; absent if it is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Number of threads that `all` meant on that node; absent if the test gave a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Failure of the sample; absent unless it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Reason for skipping the test; absent unless it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Provenance of the figures, such as measured or emulated: the weakest of all participants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Timing of the figures, such as real or virtual: the weakest of all participants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// Device, driver, variant and library that actually ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// Amount of work done under the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Time from before the first submission until the last completion was reaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// Method and result of the verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// Figures by name, in the units of docs/measure/results.md.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Lowest and highest that the published values allow for a figure, by metric; emulated devices only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bounds: BTreeMap<String, [f64; 2]>,
    /// Mean nanoseconds in each stage that the device reports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, f64>,
    /// CPU seconds on the three ledgers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Completions later than the profile's time; emulated devices only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// Number of completions among which `late` were counted; absent if it equals the jobs of
    /// `work`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_of: Option<u64>,
    /// Profile's prediction for one job; emulated devices only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Distribution of the work over the targets; placements only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRecord>,
    /// Figures over time, in slices; only if the test requests them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Latencies in nanoseconds: HDR histogram, V2 deflate, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
    /// Warnings for readers of the figures.
    pub warnings: Vec<Warning>,
}

/// Outcome of measuring a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Measured and verified.
    Ok,
    /// The sample failed; there are no figures.
    Failed,
    /// The device cannot do this; there are no figures.
    Skipped,
}

/// Amount of work done under the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Jobs that completed.
    pub jobs: u64,
    /// Bytes of the jobs on the uncompressed side.
    pub bytes: u64,
    /// Bytes of the jobs on the compressed side; for operations that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressed_bytes: Option<u64>,
    /// Doorbells that took at least one job.
    pub doorbells: u64,
}

/// Distribution of a placement's work over its targets under the clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRecord {
    /// Policy in the notation of the test, such as `split:40`.
    pub policy: String,
    /// Owner of the cores that submit the device's jobs: the host or the card.
    pub initiator: Initiator,
    /// Number of times that the stream of all buffers was started.
    pub streams: u64,
    /// The CPU's target, if the policy has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<TargetRecord>,
    /// The devices' targets, in the order of the test, if the policy has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<TargetRecord>,
    /// Chunks that were copied because a target could not reach their memory, warm-up included.
    pub bounce_copies: u64,
    /// Bytes of the copied chunks.
    pub bounce_bytes: u64,
    /// Descriptions of failures, their times, and the reactions; the first 16, warm-up included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Length of chunks in bytes at the end; adaptive sizes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
    /// Reason for the controller's last decision, as numbers; `adaptive` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Number of decisions of the controller, warm-up included.
    pub decisions: u64,
}

/// One target's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Device, driver, variant and library that actually ran; absent if no job ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// Jobs whose results are this target's.
    pub jobs: u64,
    /// Bytes of the jobs on the uncompressed side.
    pub bytes: u64,
    /// Jobs that had to be run again, warm-up included.
    pub failed: u64,
    /// Completions later than the profile's time.
    pub late: u64,
    /// The time during which such a completion was overdue, in nanoseconds.
    pub overdue_ns: u64,
    /// Contexts that were set up: one, or in the reconfiguration setting one each stream.
    pub setups: u64,
}

/// Figures of the timed part in slices, one value each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Intended length of a slice, in seconds.
    pub slice_s: f64,
    /// End of each slice, in seconds from the start of the clock.
    pub end_s: Vec<f64>,
    /// Throughput in MB/s of each slice.
    pub throughput: Vec<f64>,
    /// Mean latency in microseconds of operations that ended in it, of paced streams the mean
    /// one-way delay; null where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_mean: Option<Vec<Option<f64>>>,
    /// Longest latency of these operations; null where none ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_max: Option<Vec<Option<f64>>>,
    /// Paced streams: number of messages that were due in each slice and never arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Vec<u64>>,
    /// Begin and end of jobs that ran beside, in seconds from the start of the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_s: Option<[f64; 2]>,
    /// The phases of traffic beside jobs, in their order: idle, alone, before, during, after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<SeriesPhase>,
}

/// A part of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesPhase {
    /// Name of the phase: `idle`, `alone`, `before`, `during` or `after`.
    pub name: String,
    /// Start of the phase, in seconds from the start of the clock; negative before it.
    pub begin_s: f64,
    /// End of the phase, in seconds from the start of the clock; negative before it.
    pub end_s: f64,
}

/// Method and result of verifying a sample's outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Description of the reference with which the outputs were compared.
    pub method: String,
    /// A digest or sum of the verified outputs; equal for all programs that do the same work right.
    pub value: String,
    /// Number of buffers.
    pub buffers: u64,
}

/// CPU seconds by whose cores were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// This machine's, the submitter's included, without that of emulation.
    pub host_s: f64,
    /// The DPU's.
    pub dpu_s: f64,
    /// CPU seconds that emulation uses.
    pub emulator_s: f64,
}

impl From<CpuTime> for Cpu {
    fn from(time: CpuTime) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        Self {
            host_s: seconds(time.host_ns),
            dpu_s: seconds(time.dpu_ns),
            emulator_s: seconds(time.emulator_ns),
        }
    }
}

impl From<Cpu> for CpuTime {
    fn from(cpu: Cpu) -> Self {
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        Self { host_ns: ns(cpu.host_s), dpu_ns: ns(cpu.dpu_s), emulator_ns: ns(cpu.emulator_s) }
    }
}

/// Profile's prediction for one job of the sample's mean size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The least it takes on an idle device, in nanoseconds.
    pub low_ns: u64,
    /// Typical time in nanoseconds; it represents the range, and completions are released by it.
    pub typ_ns: u64,
    /// The most.
    pub high_ns: u64,
    /// Terms without a fact. They count as zero, so where there are any both are lower bounds.
    pub missing: Vec<String>,
    /// The facts that it rests on.
    pub facts: Vec<String>,
}

/// A warning for the reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A word to file it under.
    pub kind: String,
    /// Description of the problem.
    pub message: String,
    /// Advice on how to avoid the problem; empty if there is none.
    pub remedy: String,
}

impl Warning {
    pub(crate) fn new(kind: &str, message: String, remedy: &str) -> Self {
        Self { kind: kind.into(), message, remedy: remedy.into() }
    }
}

/// Work done under the clock, with its time and verification.
pub(crate) struct MeasuredWork {
    /// Library, device and driver that did the work; `None` if nothing ran.
    pub applied: Option<Applied>,
    pub work: Work,
    pub elapsed_ns: u64,
    pub check: Check,
}

impl Sample {
    fn empty(status: Status) -> Self {
        Self {
            status,
            node: None,
            threads: None,
            error: None,
            reason: None,
            provenance: None,
            timing: None,
            applied: None,
            work: None,
            elapsed_ns: None,
            check: None,
            metrics: BTreeMap::new(),
            bounds: BTreeMap::new(),
            stages: BTreeMap::new(),
            cpu: None,
            late: None,
            late_of: None,
            model: None,
            placement: None,
            series: None,
            histogram: None,
            warnings: Vec::new(),
        }
    }

    /// The evidence that it gives for the figures of a sample that contains it.
    pub(crate) fn evidence(&self) -> Evidence {
        let cpu = self.cpu.unwrap_or_default();
        let whole = self.late_of.or(self.work.map(|work| work.jobs));
        Evidence {
            provenance: self.provenance.unwrap_or(Provenance::Measured),
            timing: self.timing.unwrap_or(Timing::Real),
            cpu: cpu.into(),
            late: (self.late.zip(whole)).map(|(late, of)| LateCount { late, of }),
        }
    }

    /// Makes a sample with figures, from the work and the evidence of all participants.
    pub(crate) fn ok(evidence: Evidence, done: MeasuredWork) -> Self {
        let MeasuredWork { applied, work, elapsed_ns, check } = done;
        let told = applied.as_ref().map(|applied| applied.provenance);
        let late = evidence.late;
        Self {
            provenance: Some(told.map_or(evidence.provenance, |it| it.max(evidence.provenance))),
            timing: Some(evidence.timing),
            applied,
            elapsed_ns: Some(elapsed_ns),
            check: Some(check),
            cpu: Some(evidence.cpu.into()),
            late: late.map(|late| late.late),
            late_of: late.map(|late| late.of).filter(|of| *of != work.jobs),
            work: Some(work),
            ..Self::empty(Status::Ok)
        }
    }

    /// Adds the bounds of the throughput, of jobs of so many bytes that take `each_ns` nanoseconds each, and of the
    /// latencies if one job `is_alone` at a time.
    pub(crate) fn bound(&mut self, each_ns: Interval, job_bytes: f64, is_alone: bool) {
        // MB/s is bytes a microsecond.
        let rate = each_ns.divide(job_bytes * 1e3);
        self.bound_metric("throughput", [rate.low, rate.high]);
        if let Some(&mean) = self.metrics.get("latency_mean").filter(|_| is_alone) {
            // The percentiles too, where all jobs take the same time.
            let is_mean = |us: f64| (us / mean - 1.0).abs() < CONTRADICTION;
            let latencies = self.metrics.iter().filter(|(name, _)| name.starts_with("latency_"));
            let names: Vec<_> =
                latencies.filter(|(_, us)| is_mean(**us)).map(|(name, _)| name.clone()).collect();
            for name in names {
                self.bound_metric(&name, [each_ns.low / 1e3, each_ns.high / 1e3]);
            }
        }
    }

    /// Adds the bounds of a figure. They contain the figure itself, which rounds differently.
    pub(crate) fn bound_metric(&mut self, metric: &str, [low, high]: [f64; 2]) {
        if let Some(&figure) = self.metrics.get(metric)
            && low.is_finite()
            && high.is_finite()
        {
            self.bounds.insert(metric.to_owned(), [low.min(figure), high.max(figure)]);
        }
    }

    /// The sample, unless its figures contradict each other: then a failed one with the contradiction.
    pub(crate) fn settled(self) -> Self {
        match self.contradiction() {
            Some(message) => Self::failed(Failure::new(FailureKind::Verification, message)),
            None => self,
        }
    }

    /// Returns a message if a throughput differs from the processed bytes divided by the elapsed
    /// time. Possible causes: bits reported as bytes, powers of two as powers of ten, or a separate
    /// clock.
    fn contradiction(&self) -> Option<String> {
        let (work, elapsed_ns) = (self.work?, self.elapsed_ns?);
        let found = work.bytes as f64 / 1e6 / (elapsed_ns.max(1) as f64 / 1e9);
        BYTES_PER_TIME.into_iter().find_map(|name| {
            let told = *self.metrics.get(name)?;
            ((told / found - 1.0).abs() > CONTRADICTION).then(|| {
                format!(
                    "a {name} of {told:.3} MB/s contradicts {} bytes in {elapsed_ns} ns, which are \
                     {found:.3} MB/s",
                    work.bytes
                )
            })
        })
    }

    /// The sample as a worker writes it.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a sample has nothing that JSON has not")
    }

    /// Converts a failure into a sample: skipped if the sample cannot be taken, failed otherwise.
    pub fn without(failure: Failure) -> Self {
        match failure.kind {
            FailureKind::Unsupported => Self::skipped(failure.message),
            _ => Self::failed(failure),
        }
    }

    /// A sample that was not taken because it cannot be.
    pub fn skipped(reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::empty(Status::Skipped) }
    }

    /// A sample that went wrong.
    pub fn failed(failure: Failure) -> Self {
        Self { error: Some(failure), ..Self::empty(Status::Failed) }
    }
}

/// A duration in nanoseconds; 584 years at most.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
