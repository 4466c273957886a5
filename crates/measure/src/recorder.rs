//! What the timed part of a sample adds up to, and the figures made of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use overside_device::{Applied, CpuTime, Lifecycle, Operation, Outcome, Stages};
use overside_ops::Direction;
use overside_probe::latency::Latencies;

use crate::driver::{Reaped, Spent};
use crate::sample::{Failure, Kind, Warning, Work};

/// The share of late completions above which emulated timing is invalid.
pub(crate) const LATE_LIMIT: f64 = 0.01;
/// Fewer jobs than this say little about a distribution.
const FEW_JOBS: u64 = 10;

/// Sums over the completions of the timed part.
pub(crate) struct Recorder {
    operation: Operation,
    pub latencies: Latencies,
    pub applied: Option<Arc<Applied>>,
    pub jobs: u64,
    pub bytes: u64,
    /// Of the side that is not the uncompressed one; for other operations than compression the
    /// result's.
    pub compressed_bytes: u64,
    pub incompressible: u64,
    pub late: u64,
    queueing: Told,
    transfer: Told,
    engine: Told,
    /// Uncompressed bytes of the jobs whose engine time is known.
    engine_bytes: u64,
    pub lives: Lives,
}

/// Times of contexts' stages of life.
#[derive(Default)]
pub(crate) struct Lives {
    discovery: Told,
    init: Told,
    memory: Told,
    end: Told,
}

impl Lives {
    /// Adds what one context tells.
    pub(crate) fn add(&mut self, times: &Lifecycle) {
        self.discovery.add(times.discovery_ns);
        self.init.add(times.init_ns);
        self.memory.add(times.memory_ns);
        self.end.add(times.end_ns);
    }
}

/// A sum of times that may not be told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told {
    sum_ns: u64,
    count: u64,
}

impl Told {
    pub(crate) fn add(&mut self, ns: Option<u64>) {
        if let Some(ns) = ns {
            self.sum_ns += ns;
            self.count += 1;
        }
    }

    pub(crate) fn total_ns(self) -> Option<f64> {
        (self.count > 0).then_some(self.sum_ns as f64)
    }

    pub(crate) fn mean_ns(self) -> Option<f64> {
        Some(self.total_ns()? / self.count as f64)
    }

    /// MB/s of so many bytes in the time that was told, if any was.
    pub(crate) fn rate(self, bytes: u64) -> Option<f64> {
        (self.sum_ns > 0).then(|| bytes as f64 / self.sum_ns as f64 * 1e3)
    }
}

impl Recorder {
    pub(crate) fn new(operation: Operation) -> Self {
        Self {
            operation,
            latencies: Latencies::new(),
            applied: None,
            jobs: 0,
            bytes: 0,
            compressed_bytes: 0,
            incompressible: 0,
            late: 0,
            queueing: Told::default(),
            transfer: Told::default(),
            engine: Told::default(),
            engine_bytes: 0,
            lives: Lives::default(),
        }
    }

    /// Adds a completion that was found to be right. `source_bytes` is the length of what it read.
    pub(crate) fn add(&mut self, reaped: &Reaped<'_>, source_bytes: u64) -> Result<(), Failure> {
        self.ran(&reaped.completion.applied)?;
        self.latencies.record(nanoseconds(reaped.latency));
        let written = match reaped.outcome {
            Outcome::Done(output) => output.written as u64,
            Outcome::Incompressible => {
                self.incompressible += 1;
                source_bytes
            }
        };
        let (bytes, compressed) = match self.operation.uncompressed_side() {
            Direction::Source => (source_bytes, written),
            Direction::Destination => (written, source_bytes),
        };
        self.jobs += 1;
        self.bytes += bytes;
        self.compressed_bytes += compressed;
        let Stages {
            queueing_ns,
            transfer_ns,
            engine_ns,
            late,
            overdue_ns: _,
        } = reaped.completion.stages;
        self.late += u64::from(late);
        self.queueing.add(queueing_ns);
        self.transfer.add(transfer_ns);
        self.engine.add(engine_ns);
        self.engine_bytes += engine_ns.map_or(0, |_| bytes);
        Ok(())
    }

    /// All jobs of a sample must have been run by the same.
    fn ran(&mut self, applied: &Arc<Applied>) -> Result<(), Failure> {
        match &self.applied {
            None => self.applied = Some(Arc::clone(applied)),
            Some(first) if Arc::ptr_eq(first, applied) || first == applied => {}
            Some(first) => return Err(mismatch(first, applied)),
        }
        Ok(())
    }

    /// Mean bytes of a source and of a result.
    pub(crate) fn mean_sizes(&self) -> (u64, u64) {
        let (bytes, other) = (
            self.bytes / self.jobs.max(1),
            self.compressed_bytes / self.jobs.max(1),
        );
        match self.operation.uncompressed_side() {
            Direction::Source => (bytes, other),
            Direction::Destination => (other, bytes),
        }
    }

    fn has_compressed_side(&self) -> bool {
        matches!(
            self.operation,
            Operation::Compress(_) | Operation::Decompress(_)
        )
    }

    pub(crate) fn work(&self, spent: Spent) -> Work {
        Work {
            jobs: self.jobs,
            bytes: self.bytes,
            compressed_bytes: self.has_compressed_side().then_some(self.compressed_bytes),
            doorbells: spent.doorbells,
        }
    }

    /// Mean times of the stages that the device tells of, by name.
    fn told(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("queueing", self.queueing),
            ("transfer", self.transfer),
            ("engine", self.engine),
            ("discovery", self.lives.discovery),
            ("init", self.lives.init),
            ("memory", self.lives.memory),
            ("end", self.lives.end),
        ];
        all.into_iter()
            .filter_map(|(name, told)| Some((name, told.mean_ns()?)))
    }

    pub(crate) fn stages(&self) -> BTreeMap<String, f64> {
        self.told()
            .map(|(name, ns)| (format!("{name}_ns"), ns))
            .collect()
    }

    /// The figures of docs/results.md. What cannot be computed is absent, never zero.
    pub(crate) fn metrics(&self, spent: Spent, cpu: CpuTime) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            if value.is_finite() {
                all.insert(name.to_string(), value);
            }
        };
        let seconds = spent.elapsed.as_secs_f64();
        put("throughput", self.bytes as f64 / 1e6 / seconds);
        put("rate", self.jobs as f64 / seconds);
        if self.has_compressed_side() {
            put(
                "compressed_throughput",
                self.compressed_bytes as f64 / 1e6 / seconds,
            );
            put("ratio", self.compressed_bytes as f64 / self.bytes as f64);
        }
        if let Some(rate) = self.engine.rate(self.engine_bytes) {
            put("engine_throughput", rate);
        }
        self.latencies.metrics(&mut put);
        put("cpu_seconds", cpu.host_ns as f64 / 1e9);
        put("cpu_cost", cpu.host_ns as f64 / self.bytes as f64);
        for (name, ns) in self.told() {
            put(&format!("stage_{name}"), ns / 1e3);
        }
        all
    }

    /// What a reader of the figures should know.
    pub(crate) fn warnings(&self, varied: u64) -> Vec<Warning> {
        warnings(&Counted {
            jobs: self.jobs,
            incompressible: self.incompressible,
            late: Late::Completions {
                late: self.late,
                of: self.jobs,
            },
            varied,
        })
    }
}

/// How much came later than the profile says.
pub(crate) enum Late {
    /// Where each completion has a latency: so many of all that may be late.
    Completions { late: u64, of: u64 },
    /// Where all of them together have one time: how much of it something was overdue.
    Time { overdue_ns: u64, elapsed_ns: u64 },
}

impl Late {
    /// What makes the timing invalid, if it is.
    fn too_much(&self) -> Option<String> {
        let (part, whole, what) = match *self {
            Self::Completions { late, of } => (late, of, format!("{late} of {of} completions")),
            Self::Time {
                overdue_ns,
                elapsed_ns,
            } => {
                let share = 100.0 * overdue_ns as f64 / elapsed_ns.max(1) as f64;
                let what = format!("for {share:.1} % of the time completions");
                (overdue_ns, elapsed_ns, what)
            }
        };
        (part as f64 > LATE_LIMIT * whole as f64).then_some(what)
    }
}

/// Jobs of the timed part, counted by what a reader should know of them.
pub(crate) struct Counted {
    pub jobs: u64,
    /// Did not become smaller.
    pub incompressible: u64,
    /// Later than the profile says.
    pub late: Late,
    /// Right though not the same as before.
    pub varied: u64,
}

/// What a reader of the figures should know.
pub(crate) fn warnings(counted: &Counted) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |kind: &str, message: String, remedy: &str| {
        all.push(Warning::new(kind, message, remedy));
    };
    let jobs = counted.jobs;
    if counted.incompressible > 0 {
        warn(
            "incompressible",
            format!(
                "{} of {jobs} jobs did not become smaller; they count as stored",
                counted.incompressible
            ),
            "",
        );
    }
    if let Some(what) = counted.late.too_much() {
        warn(
            "late",
            format!(
                "{what} came later than the profile says: the timing of this sample is invalid"
            ),
            "leave a core idle, let timing be replay, or take larger buffers: software cannot be \
             faster than it is",
        );
    }
    if counted.varied > 0 {
        warn(
            "varying-output",
            format!(
                "{} of {jobs} outputs were right but not the same as before",
                counted.varied
            ),
            "",
        );
    }
    if jobs < FEW_JOBS {
        warn(
            "few-jobs",
            format!("only {jobs} jobs ran: percentiles say little"),
            "raise measure.sample_s, or lower buffer_size",
        );
    }
    all
}

/// Jobs of one sample and leg that were not all run by the same.
pub(crate) fn mismatch(first: &Applied, other: &Applied) -> Failure {
    let message = format!(
        "jobs of one sample were run by {} {} and by {} {}",
        first.device, first.library, other.device, other.library
    );
    Failure::new(Kind::Verification, message)
}

/// A duration in nanoseconds; 584 years at most.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
