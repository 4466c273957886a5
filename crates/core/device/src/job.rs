//! Jobs that a context takes, and the completions that it returns.

use std::sync::Arc;
use std::time::Instant;

use overside_ops::Output;

use crate::{Applied, Region, Slice};

/// Bytes that a job reads: one slice, or the concatenation of several.
#[derive(Clone, Debug)]
pub enum Source {
    /// One slice; nothing is allocated for it.
    One(Slice),
    /// Several.
    Chain(Box<[Slice]>),
}

impl Source {
    /// The segments in order.
    pub fn segments(&self) -> &[Slice] {
        match self {
            Self::One(slice) => std::slice::from_ref(slice),
            Self::Chain(slices) => slices,
        }
    }

    /// Bytes over all segments.
    pub fn len(&self) -> usize {
        self.segments().iter().map(|slice| slice.len()).sum()
    }

    /// No byte at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Slice> for Source {
    fn from(slice: Slice) -> Self {
        Self::One(slice)
    }
}

/// The context's operation on one source.
#[derive(Debug)]
pub struct Job {
    /// The caller's name for it; comes back with the completion. Need not be unique.
    pub tag: u64,
    /// Bytes to read. They are shared: the caller may keep a clone and run the job again elsewhere.
    pub source: Source,
    /// Memory for the result. The length of the whole region is the capacity.
    pub destination: Region,
    /// Time at which the caller gives up the job; `None` if it never does.
    pub deadline: Option<Instant>,
}

/// Result of a job that ran without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The destination begins with the result.
    Done(Output),
    /// Compression only: the result would not be smaller than the source. The caller stores the
    /// source as it is; the destination's contents are unspecified.
    Incompressible,
}

/// Reason why a job has no result. The destination's contents are unspecified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The result is longer than the destination.
    #[error("the output does not fit into {capacity} bytes")]
    OutputTooSmall {
        /// The destination's length in bytes.
        capacity: usize,
    },
    /// The source does not have the required format.
    #[error("the input is corrupt: {0}")]
    Corrupt(String),
    /// The deadline passed first.
    #[error("the deadline passed before the job was done")]
    DeadlineExceeded,
    /// The device failed to run this job and continues with others.
    #[error("the job failed: {0}")]
    Failed(String),
}

/// Time that a job spent in each stage, in nanoseconds, as far as the device reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Time from submission until the device started the job.
    pub queueing_ns: Option<u64>,
    /// Time from the doorbell to the engine and back that no other stage has: what starting a job takes.
    pub start_ns: Option<u64>,
    /// Moving bytes to and from the device.
    pub transfer_ns: Option<u64>,
    /// The engine's own time.
    pub engine_ns: Option<u64>,
    /// `true` if the emulation was slower than the emulated engine: the completion is later than
    /// the profile's time.
    pub late: bool,
    /// Lateness: the time between the profile's completion time and the real one, without the
    /// lateness of earlier completions in that time. So the sum over completions is the time during
    /// which something was overdue.
    pub overdue_ns: u64,
}

/// Finished job.
#[derive(Debug)]
pub struct Completion {
    /// The job's tag.
    pub tag: u64,
    /// Outcome of the job, or the reason why it has no result.
    pub result: Result<Outcome, JobError>,
    /// The job's source, handed back.
    pub source: Source,
    /// The job's destination, handed back; `None` if it is quarantined.
    pub destination: Option<Region>,
    /// Time that the job spent in each stage.
    pub stages: Stages,
    /// Device and library that ran the job.
    pub applied: Arc<Applied>,
}
