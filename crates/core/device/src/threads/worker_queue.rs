//! A worker thread's side of a context: it takes jobs and returns results.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_base::prefetch_write;

use super::ContextState;
use super::slot::{FinishedJob, Slot, SlotState};
use crate::primitive::Ordering;
use crate::{Job, JobError, Outcome, Source, Stages};

/// Time that an idle thread spins for work before it sleeps. It is longer than a submitter needs to
/// return with the next batch, and short enough to be unnoticed.
const SPIN: Duration = Duration::from_micros(30);
/// Time of spinning after which the thread yields to others between two checks.
const SPIN_ALONE: Duration = Duration::from_micros(3);
/// Time before a wake-up at which a thread stops sleeping and spins, because sleeping is not
/// precise.
const PRECISE: Duration = Duration::from_micros(60);

/// Next action of a thread, as [`WorkerQueue::next`] returns it.
#[derive(Debug)]
pub enum Next {
    /// Run this job and hand it to [`WorkerQueue::finish`].
    Job(RunningJob),
    /// The requested time has passed.
    Timeout,
    /// The context is going: return, dropping the jobs in hand.
    Stop,
}

/// A job in a thread's hands. Every one goes back through [`WorkerQueue::finish`], unless the context
/// stops first.
#[derive(Debug)]
#[must_use = "a job that is not finished never completes"]
pub struct RunningJob {
    number: u32,
    job: Job,
    submitted: Instant,
    begun: Instant,
}

impl RunningJob {
    /// The caller's name for the job.
    pub fn tag(&self) -> u64 {
        self.job.tag
    }

    /// Returns the bytes that the job reads.
    pub fn source(&self) -> &Source {
        &self.job.source
    }

    /// Returns the memory that the job writes.
    pub fn destination(&mut self) -> &mut [u8] {
        &mut self.job.destination
    }

    /// Source and destination at once.
    pub fn buffers(&mut self) -> (&Source, &mut [u8]) {
        (&self.job.source, &mut self.job.destination)
    }

    /// Returns the time at which the submitter gives up the job; `None` if it never does.
    pub fn deadline(&self) -> Option<Instant> {
        self.job.deadline
    }

    /// Returns the time at which the job was submitted.
    pub fn submitted(&self) -> Instant {
        self.submitted
    }

    /// Returns the time at which a thread took the job.
    pub fn begun(&self) -> Instant {
        self.begun
    }
}

/// A thread's end of a context: jobs come out, results go in.
pub struct WorkerQueue {
    shared: Arc<ContextState>,
    /// Time of the last finished job, which is when the next one begins if it is already waiting. This saves
    /// every other reading of the clock.
    now: Option<Instant>,
    precise: bool,
}

impl WorkerQueue {
    pub(super) fn new(shared: Arc<ContextState>) -> Self {
        Self { shared, now: None, precise: false }
    }

    /// Waits for a job, until a time if one is given. A job that is there already comes before a
    /// time that has passed. Wakes up within a few microseconds of the time, at the price of
    /// spinning for the last 60.
    pub fn next(&mut self, until: Option<Instant>) -> Next {
        let mut now = self.now.take();
        loop {
            if self.shared.stop.load(Ordering::Acquire) {
                return Next::Stop;
            }
            if let Some(number) = self.shared.submitted.take() {
                let begun = now.take().unwrap_or_else(Instant::now);
                match self.begin(number, begun) {
                    Some(running) => {
                        // The submitter's core has the next slot; it arrives while this job runs.
                        if let Some(slot) = self.next_slot() {
                            const LINE: usize = 64;
                            let start = std::ptr::from_ref(slot).cast::<u8>();
                            let lines = (0..size_of_val(slot)).step_by(LINE);
                            lines.for_each(|line| prefetch_write(start.wrapping_add(line)));
                        }
                        return Next::Job(running);
                    }
                    None => continue,
                }
            }
            now = None;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Next::Timeout;
            }
            self.idle(until);
        }
    }

    /// Returns a finished job. `stages` is for a device with its own times; see [`WorkerQueue::finish_timed`].
    pub fn finish(
        &mut self,
        running: RunningJob,
        result: Result<Outcome, JobError>,
        stages: Stages,
    ) {
        self.give_back(running, result, stages, Instant::now());
    }

    /// Returns a finished job whose engine time is the time since it started.
    pub fn finish_timed(&mut self, running: RunningJob, result: Result<Outcome, JobError>) {
        let now = Instant::now();
        let stages = Stages {
            queueing_ns: Some(nanoseconds(running.submitted, running.begun)),
            engine_ns: Some(nanoseconds(running.begun, now)),
            ..Stages::default()
        };
        self.give_back(running, result, stages, now);
        self.now = Some(now);
    }

    fn next_slot(&self) -> Option<&Slot> {
        // A guess: by the time it counts, the number may be another thread's.
        self.shared.slots.get(self.shared.submitted.peek()? as usize)
    }

    fn begin(&self, number: u32, begun: Instant) -> Option<RunningJob> {
        let shared = &*self.shared;
        let mut state = shared.slots[number as usize].lock();
        match std::mem::replace(&mut *state, SlotState::Vacant) {
            SlotState::Queued { job, submitted } => {
                let expiry = job.deadline.map(|at| (at, job.source.clone()));
                if expiry.as_ref().is_none_or(|(at, _)| begun < *at) {
                    *state = SlotState::Running { tag: job.tag, expiry };
                    drop(state);
                    return Some(RunningJob {
                        number,
                        job,
                        submitted,
                        // The time of the last finished job is older where the thread had no turn since.
                        begun: begun.max(submitted),
                    });
                }
                *state = SlotState::Finished(FinishedJob {
                    tag: job.tag,
                    result: Err(JobError::DeadlineExceeded),
                    source: job.source,
                    destination: Some(job.destination),
                    stages: Stages::default(),
                });
            }
            SlotState::Withdrawn => {}
            _ => unreachable!("a number in the queue is of a job that waits or is withdrawn"),
        }
        drop(state);
        shared.completed(number, begun);
        None
    }

    fn give_back(
        &self,
        running: RunningJob,
        result: Result<Outcome, JobError>,
        stages: Stages,
        now: Instant,
    ) {
        let shared = &*self.shared;
        let RunningJob { number, job: Job { tag, source, destination, deadline }, .. } = running;
        let late = deadline.is_some_and(|at| now >= at);
        let result = if late { Err(JobError::DeadlineExceeded) } else { result };
        let mut state = shared.slots[number as usize].lock();
        let confirmed = matches!(*state, SlotState::Quarantined);
        // What `Running` holds goes after the lock does.
        let _before = if confirmed {
            drop(destination);
            std::mem::replace(&mut *state, SlotState::Vacant)
        } else {
            let destination = Some(destination);
            let finished = FinishedJob { tag, result, source, destination, stages };
            std::mem::replace(&mut *state, SlotState::Finished(finished))
        };
        drop(state);
        shared.completed(number, now);
        if confirmed {
            // The destination is gone and the place is on its way back.
            shared.quarantined.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits a while for something to do.
    fn idle(&mut self, until: Option<Instant>) {
        let shared = &*self.shared;
        if shared.finished.idle() {
            shared.event.signal();
        }
        let ready = || !shared.submitted.is_empty() || shared.stop.load(Ordering::Acquire);
        let start = Instant::now();
        loop {
            for _ in 0..16 {
                std::hint::spin_loop();
                if ready() {
                    return;
                }
            }
            let now = Instant::now();
            let left = until.map(|until| until.saturating_duration_since(now));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            if left.is_some_and(|left| left <= PRECISE) {
                continue;
            }
            if now - start > SPIN {
                if left.is_some() && !self.precise {
                    // Sleeps end up to 50 µs late by default. A kernel that refuses costs
                    // precision, nothing else.
                    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
                    self.precise = true;
                }
                shared.doorbell.sleep(left.map(|left| left - PRECISE), ready);
                return;
            }
            if now - start > SPIN_ALONE {
                std::thread::yield_now();
            }
        }
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}
