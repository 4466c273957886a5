//! Model of a card's work on jobs, and the thread that emulates the card in real time: it computes
//! results and releases them at the modeled time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_device::threads::{Next, Runner, RunningJob, WorkerQueue};
use overside_device::{JobError, OperationConfig, Outcome, Source, Stages};
use overside_model::{Pace, StageTimes};

use crate::replay::Key;
use crate::{DeviceState, Mode};

/// A release later than this, and later than [`LATE_SHARE`] of the modelled time, is late.
const LATE: Duration = Duration::from_micros(2);
/// See [`LATE`].
const LATE_SHARE: u32 = 20;
/// The longest that a waiting job is left alone because a release is near.
const NEAR: Duration = Duration::from_micros(50);

/// Returns how much longer than its modeled time an action may take before it counts as late.
pub(crate) fn tolerance(modelled: Duration) -> Duration {
    LATE.max(modelled / LATE_SHARE)
}

/// A card's work on one context's jobs: the result of each, and its completion time.
pub(crate) struct CardWork {
    state: Arc<DeviceState>,
    runner: Runner,
    /// Model of the card's speed for this operation; `None` if the profile has none, so that the
    /// modeled times are zero.
    pace: Option<Pace>,
    config: u128,
}

impl CardWork {
    pub(crate) fn new(state: Arc<DeviceState>, config: &OperationConfig, runner: Runner) -> Self {
        Self {
            pace: state.profile.pace(config.operation, &config.patterns),
            config: Key::config(config),
            state,
            runner,
        }
    }

    /// Computes the result of a job. In replay mode, a result that was computed before and kept is
    /// delivered instead.
    pub(crate) fn compute(
        &mut self,
        source: &Source,
        destination: &mut [u8],
    ) -> Result<Outcome, JobError> {
        if self.state.mode != Mode::Replay {
            return self.runner.run(source, destination);
        }
        let key = Key::new(self.config, source);
        if let Some(kept) = self.state.replay.get(&key) {
            return kept.deliver(destination);
        }
        let result = self.runner.run(source, destination);
        if let Ok(outcome) = result {
            self.state.replay.keep(key, outcome, destination);
        }
        result
    }

    /// Returns when a job that was submitted at `submitted` is done, and how its time splits into
    /// stages. `is_first`: the job is the first that its doorbell handed over.
    pub(crate) fn admit(
        &self,
        source_bytes: usize,
        result: &Result<Outcome, JobError>,
        submitted: Instant,
        is_first: bool,
    ) -> (Instant, Stages) {
        let source_bytes = source_bytes as u64;
        let result_bytes = match result {
            Ok(Outcome::Done(output)) => output.written as u64,
            // The engine finds out by doing it.
            Ok(Outcome::Incompressible) => source_bytes,
            Err(JobError::OutputTooSmall { capacity }) => *capacity as u64,
            Err(_) => 0,
        };
        let pace = self.pace.as_ref();
        let times = pace.map_or_else(StageTimes::default, |pace| {
            pace.stages(source_bytes, result_bytes, is_first)
        });
        let epoch = self.state.epoch;
        let arrival_ns = submitted.saturating_duration_since(epoch).as_nanos() as u64;
        let schedule = lock(&self.state.servers).admit(arrival_ns, &times);
        let stages = Stages {
            queueing_ns: Some(schedule.queueing_ns),
            start_ns: times.latency_ns,
            transfer_ns: Some(times.link_in_ns.saturating_add(times.link_out_ns)),
            engine_ns: Some(times.engine_ns),
            ..Stages::default()
        };
        (epoch + Duration::from_nanos(schedule.done_ns), stages)
    }
}

/// State of the thread that emulates a card for one context.
pub(crate) struct Engine {
    work: CardWork,
    /// Nanoseconds by which the set-up of the context took longer than the profile's time, so that
    /// its first completion is late.
    late_setup: Arc<AtomicU64>,
    /// Time at which the last job was submitted, which is the same for all jobs of one doorbell.
    doorbell: Option<Instant>,
    /// Time at which the last result was released.
    released: Instant,
    /// Computed and not yet due, in the order of their times: the servers keep the order.
    pending: VecDeque<Pending>,
    /// Time that the last job kept this thread busy.
    busy: Duration,
}

/// A result that waits for its time.
struct Pending {
    job: RunningJob,
    result: Result<Outcome, JobError>,
    stages: Stages,
    due: Instant,
    /// Time after which a release of the result is late.
    late_after: Instant,
}

impl Engine {
    pub(crate) fn new(work: CardWork, depth: usize, late_setup: Arc<AtomicU64>) -> Self {
        Self {
            work,
            late_setup,
            doorbell: None,
            released: Instant::now(),
            pending: VecDeque::with_capacity(depth),
            busy: Duration::ZERO,
        }
    }

    /// Serves jobs until the context goes.
    pub(crate) fn run(mut self, mut queue: WorkerQueue) {
        loop {
            self.release(&mut queue);
            match queue.next(self.pending.front().map(|first| first.due)) {
                Next::Job(job) => self.take(&mut queue, job),
                Next::Timeout => {}
                Next::Stop => return,
            }
        }
    }

    /// Completes the jobs that are due. If the next one is due before this thread would be done with another
    /// job, waits for it.
    fn release(&mut self, queue: &mut WorkerQueue) {
        let near = self.busy.min(NEAR);
        while let Some(first) = self.pending.front() {
            let mut now = Instant::now();
            if now + near < first.due {
                return;
            }
            while now < first.due {
                std::hint::spin_loop();
                now = Instant::now();
            }
            if let Some(Pending { job, result, mut stages, due, late_after }) =
                self.pending.pop_front()
            {
                if now > late_after {
                    stages.late = true;
                    let overdue = now.saturating_duration_since(due.max(self.released));
                    stages.overdue_ns += overdue.as_nanos() as u64;
                }
                self.released = now;
                queue.finish(job, result, stages);
            }
        }
    }

    fn take(&mut self, queue: &mut WorkerQueue, mut job: RunningJob) {
        let begin = Instant::now();
        let (source, destination) = job.buffers();
        let result = self.work.compute(source, destination);
        if !self.work.state.timed() {
            queue.finish(job, result, Stages::default());
            return;
        }
        let (source_len, submitted) = (job.source().len(), job.submitted());
        let is_first = self.doorbell.replace(submitted) != Some(submitted);
        let (due, mut stages) = self.work.admit(source_len, &result, submitted, is_first);
        let late_setup_ns = self.late_setup.swap(0, Ordering::Relaxed);
        (stages.late, stages.overdue_ns) = (late_setup_ns > 0, late_setup_ns);
        let late_after = due + tolerance(due.saturating_duration_since(submitted));
        self.pending.push_back(Pending { job, result, stages, due, late_after });
        self.busy = begin.elapsed();
    }
}
