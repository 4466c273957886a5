//! Slots: each has the state of one job on its way through a context.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use overside_base::lock;

use crate::{Job, JobError, Outcome, Region, Source, Stages};

/// A place for one job, from submission to reaping. Its lock is contended only when a deadline
/// passes; it decides between a thread that finishes and a submitter that gives up.
#[repr(align(128))]
pub(super) struct Slot(Mutex<SlotState>);

impl Slot {
    pub(super) fn new() -> Self {
        Self(Mutex::new(SlotState::Vacant))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SlotState> {
        // States are exchanged whole, so a panic leaves none half made.
        lock(&self.0)
    }
}

pub(super) enum SlotState {
    /// No job. The slot's number is on the free list or on its way there.
    Vacant,
    /// Submitted; its number is in the queue.
    Queued { job: Job, submitted: Instant },
    /// The job's deadline passed while it was queued, and the job has been returned. The slot's
    /// number is still in the queue.
    Withdrawn,
    /// A thread has it.
    Running { tag: u64, expiry: Option<(Instant, Source)> },
    /// The job's deadline passed while a thread ran it, and the job has been returned without its
    /// destination.
    Quarantined,
    /// The job has finished and can be returned.
    Finished(FinishedJob),
}

pub(super) struct FinishedJob {
    pub(super) tag: u64,
    pub(super) result: Result<Outcome, JobError>,
    pub(super) source: Source,
    pub(super) destination: Option<Region>,
    pub(super) stages: Stages,
}

impl SlotState {
    /// The tag of a job that has not been returned and is not ready to be.
    pub(super) fn unfinished(&self) -> Option<u64> {
        match self {
            Self::Queued { job, .. } => Some(job.tag),
            Self::Running { tag, .. } => Some(*tag),
            Self::Vacant | Self::Withdrawn | Self::Quarantined | Self::Finished(_) => None,
        }
    }

    /// The deadline of such a job.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Queued { job, .. } => job.deadline,
            Self::Running { expiry, .. } => expiry.as_ref().map(|(at, _)| *at),
            Self::Vacant | Self::Withdrawn | Self::Quarantined | Self::Finished(_) => None,
        }
    }

    /// Abandons a job past its deadline. Returns its completion, and `true` if its destination is quarantined.
    pub(super) fn expire(&mut self) -> Option<(FinishedJob, bool)> {
        let (next, tag, source, destination) = match std::mem::replace(self, Self::Vacant) {
            Self::Queued { job, .. } => {
                (Self::Withdrawn, job.tag, job.source, Some(job.destination))
            }
            Self::Running { tag, expiry: Some((_, source)) } => {
                (Self::Quarantined, tag, source, None)
            }
            other => {
                *self = other;
                return None;
            }
        };
        let quarantined = destination.is_none();
        *self = next;
        let result = Err(JobError::DeadlineExceeded);
        let stages = Stages::default();
        Some((FinishedJob { tag, result, source, destination, stages }, quarantined))
    }
}
