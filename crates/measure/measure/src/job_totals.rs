//! Totals over the jobs of a timed part on one device.

use std::sync::Arc;

use overside_device::{Applied, Operation, Outcome, Stages};
use overside_ops::Direction;
use overside_probe::{Failure, FailureKind};

use crate::lifecycle_times::{LifecycleTimes, TimeSum};

/// Sums over completions that were found to be right.
pub(crate) struct JobTotals {
    operation: Operation,
    pub jobs: u64,
    /// Bytes on the uncompressed side.
    pub bytes: u64,
    /// Bytes on the compressed side; for operations other than compression and decompression, bytes
    /// of the results.
    pub compressed_bytes: u64,
    pub incompressible: u64,
    /// Tries whose result did not fit, so that the job was run again with a larger buffer.
    pub grown: u64,
    pub late: u64,
    pub overdue_ns: u64,
    /// Device, driver and library that ran the jobs, the same for all of them; `None` before the
    /// first job.
    pub applied: Option<Arc<Applied>>,
    queueing: TimeSum,
    start: TimeSum,
    transfer: TimeSum,
    engine: TimeSum,
    /// Uncompressed bytes of the jobs whose engine time is known.
    engine_bytes: u64,
}

impl JobTotals {
    pub(crate) fn new(operation: Operation) -> Self {
        Self {
            operation,
            jobs: 0,
            bytes: 0,
            compressed_bytes: 0,
            incompressible: 0,
            grown: 0,
            late: 0,
            overdue_ns: 0,
            applied: None,
            queueing: TimeSum::default(),
            start: TimeSum::default(),
            transfer: TimeSum::default(),
            engine: TimeSum::default(),
            engine_bytes: 0,
        }
    }

    /// Adds a job that read `source_bytes`. All must have been run by the same.
    pub(crate) fn add(
        &mut self,
        applied: &Arc<Applied>,
        outcome: &Outcome,
        stages: Stages,
        source_bytes: u64,
    ) -> Result<(), Failure> {
        match &self.applied {
            None => self.applied = Some(Arc::clone(applied)),
            Some(first) if Arc::ptr_eq(first, applied) || first == applied => {}
            Some(first) => return Err(mismatch(first, applied)),
        }
        let written = match outcome {
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
        self.late += u64::from(stages.late);
        self.overdue_ns += stages.overdue_ns;
        self.queueing.add(stages.queueing_ns);
        self.start.add(stages.start_ns);
        self.transfer.add(stages.transfer_ns);
        self.engine.add(stages.engine_ns);
        self.engine_bytes += stages.engine_ns.map_or(0, |_| bytes);
        Ok(())
    }

    /// Adds an attempt whose result did not fit: its time counts for the repeated job.
    pub(crate) fn add_try(&mut self, stages: Stages) {
        self.grown += 1;
        self.late += u64::from(stages.late);
        self.overdue_ns += stages.overdue_ns;
        self.queueing.add_many(stages.queueing_ns, 0);
        self.start.add_many(stages.start_ns, 0);
        self.transfer.add_many(stages.transfer_ns, 0);
        self.engine.add_many(stages.engine_ns, 0);
    }

    /// Completions: of jobs, and of tries before them.
    pub(crate) fn completions(&self) -> u64 {
        self.jobs + self.grown
    }

    /// Mean bytes of a source and of a result.
    pub(crate) fn mean_sizes(&self) -> (u64, u64) {
        let jobs = self.jobs.max(1);
        let (bytes, other) = (self.bytes / jobs, self.compressed_bytes / jobs);
        match self.operation.uncompressed_side() {
            Direction::Source => (bytes, other),
            Direction::Destination => (other, bytes),
        }
    }

    /// The times of jobs' stages, as far as the device reports them, by name.
    pub(crate) fn stages(&self) -> [(&'static str, TimeSum); 4] {
        [
            ("queueing", self.queueing),
            ("start", self.start),
            ("transfer", self.transfer),
            ("engine", self.engine),
        ]
    }

    /// MB/s by the engines' own time.
    pub(crate) fn engine_throughput(&self) -> Option<f64> {
        self.engine.rate(self.engine_bytes)
    }
}

/// Mean times of jobs' stages and of the stages of their contexts' lives, by name, as far as they
/// were reported.
pub(crate) fn mean_stages(
    totals: &JobTotals,
    lifecycle: &LifecycleTimes,
) -> impl Iterator<Item = (&'static str, f64)> + Clone {
    (totals.stages().into_iter())
        .chain(lifecycle.stages())
        .filter_map(|(name, times)| Some((name, times.mean_ns()?)))
}

fn mismatch(first: &Applied, other: &Applied) -> Failure {
    let message = format!(
        "jobs of one sample were run by {} {} and by {} {}",
        first.device, first.library, other.device, other.library
    );
    Failure::new(FailureKind::Verification, message)
}
