//! Jobs: where each is, and how it goes to the agent and comes back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use overside_device::{Applied, Completion, Job, JobError, Outcome, Stages, SubmitError};
use overside_link::agent::JobHead;

use super::RemoteContext;

/// State of a job that was sent to the agent.
pub(super) enum Slot {
    /// The job is on the agent, or on its way there or back.
    Running { job: Job, submitted: Instant },
    /// The job was abandoned and returned; its answer has not arrived.
    Withdrawn,
}

impl Slot {
    pub(super) fn job(&mut self) -> Option<&mut Job> {
        match self {
            Self::Running { job, .. } => Some(job),
            Self::Withdrawn => None,
        }
    }
}

impl RemoteContext {
    pub(super) fn try_submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        let submitted = Instant::now();
        let mut taken = 0;
        while let Some(job) = jobs.front() {
            if let Err(refusal) = self.limits.check(job) {
                let tag = job.tag;
                match taken {
                    0 => return Err(SubmitError::Refused { tag, refusal }),
                    _ => break,
                }
            }
            let Some(connection) = &mut self.connection else {
                break;
            };
            let is_late = job.deadline.is_some_and(|deadline| deadline <= submitted);
            let depth = self.limits.depth;
            let is_full = self.running + self.ready.len() >= depth;
            if is_full || (!is_late && self.slots.len() >= depth) {
                break;
            }
            let Some(job) = jobs.pop_front() else { break };
            taken += 1;
            if is_late {
                self.ready.push_back(late(job, &self.applied));
                continue;
            }
            let entry = self.slots.vacant_entry();
            let head = JobHead { slot: entry.key() as u32, capacity: job.destination.len() };
            connection.outbox.job(head, &job.source);
            self.deadlines.add(job.deadline);
            entry.insert(Slot::Running { job, submitted });
            self.running += 1;
        }
        Ok(taken)
    }

    /// An answer is there as a whole.
    pub(super) fn complete(&mut self) {
        let Some(incoming) = self.incoming.take() else {
            return;
        };
        let slot = self.slots.remove(incoming.head.slot as usize);
        let Slot::Running { job, submitted } = slot else {
            return;
        };
        self.running -= 1;
        let now = Instant::now();
        let result = match job.deadline {
            Some(deadline) if now >= deadline => Err(JobError::DeadlineExceeded),
            _ => incoming.result(job.destination.len()),
        };
        let round_ns = (now - submitted).as_nanos() as u64;
        let stages = Stages {
            transfer_ns: Some(round_ns.saturating_sub(incoming.head.held_ns)),
            ..incoming.head.stages
        };
        self.ready.push_back(completion(job, result, stages, &self.applied));
    }

    /// Abandons jobs past their deadline. The agent may still run them; their results are dropped.
    pub(super) fn expire(&mut self) {
        if !self.deadlines.is_due() {
            return;
        }
        let now = self.deadlines.renew();
        for (_, slot) in &mut self.slots {
            let Some(deadline) = slot.job().and_then(|job| job.deadline) else {
                continue;
            };
            if deadline > now {
                self.deadlines.add(Some(deadline));
                continue;
            }
            if let Slot::Running { job, .. } = std::mem::replace(slot, Slot::Withdrawn) {
                self.running -= 1;
                self.ready.push_back(late(job, &self.applied));
            }
        }
    }
}

fn late(job: Job, applied: &Arc<Applied>) -> Completion {
    let result = Err(JobError::DeadlineExceeded);
    completion(job, result, Stages::default(), applied)
}

fn completion(
    job: Job,
    result: Result<Outcome, JobError>,
    stages: Stages,
    applied: &Arc<Applied>,
) -> Completion {
    Completion {
        tag: job.tag,
        result,
        source: job.source,
        destination: Some(job.destination),
        stages,
        applied: Arc::clone(applied),
    }
}
