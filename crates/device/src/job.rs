//! What is handed to a context and what comes back.

use std::sync::Arc;
use std::time::Instant;

use overside_ops::Output;

use crate::{Applied, Region, Slice};

/// The bytes that a job reads: one slice, or several that stand for their concatenation.
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
    /// What is read. Shared: the caller may keep a clone and run the job again elsewhere.
    pub source: Source,
    /// What is written. The whole region is the capacity.
    pub destination: Region,
    /// When the caller gives up on it.
    pub deadline: Option<Instant>,
}

/// What became of a job that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The destination begins with the result.
    Done(Output),
    /// Compression only: the result would not be smaller than the source. The caller stores the
    /// source as it is; the destination's contents are unspecified.
    Incompressible,
}

/// Why a job has no result. The destination's contents are unspecified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The result is longer than the destination.
    #[error("the output does not fit into {capacity} bytes")]
    OutputTooSmall {
        /// The destination's length in bytes.
        capacity: usize,
    },
    /// The source is not what the format says it should be.
    #[error("the input is corrupt: {0}")]
    Corrupt(String),
    /// The deadline passed first.
    #[error("the deadline passed before the job was done")]
    DeadlineExceeded,
    /// The device failed at this job and goes on with others.
    #[error("the job failed: {0}")]
    Failed(String),
}

/// Where a job's time went, in nanoseconds, as far as the device can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// From submission until the device began with it.
    pub queueing_ns: Option<u64>,
    /// Moving bytes to and from the device.
    pub transfer_ns: Option<u64>,
    /// The engine's own time.
    pub engine_ns: Option<u64>,
    /// The engine that stands for another was slower than it: the completion is later than the
    /// profile says.
    pub late: bool,
    /// If it is late: the time between when the profile has it and when it came, without what
    /// earlier completions were late by in that time. So the sum over completions is the time
    /// during which something was overdue.
    pub overdue_ns: u64,
}

/// A job that is over.
#[derive(Debug)]
pub struct Completion {
    /// The job's tag.
    pub tag: u64,
    /// What became of it.
    pub result: Result<Outcome, JobError>,
    /// The job's source, handed back.
    pub source: Source,
    /// The job's destination, handed back; `None` if it is quarantined.
    pub destination: Option<Region>,
    /// Where the time went.
    pub stages: Stages,
    /// What ran it.
    pub applied: Arc<Applied>,
}
