//! The thread that stands for a card: computes results and releases them at the modelled time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_device::threads::{Next, Runner, RunningJob, WorkerQueue};
use overside_device::{JobError, OperationConfig, Outcome, Stages};
use overside_model::Pace;

use crate::replay::Key;
use crate::{Mode, State};

/// A release later than this, and later than [`LATE_SHARE`] of the modelled time, is late.
const LATE: Duration = Duration::from_micros(2);
/// See [`LATE`].
const LATE_SHARE: u32 = 20;
/// The longest that a waiting job is left alone because a release is near.
const NEAR: Duration = Duration::from_micros(50);

/// How much longer than a modelled time something may take without being late.
pub(crate) fn tolerance(modelled: Duration) -> Duration {
    LATE.max(modelled / LATE_SHARE)
}

/// What one thread needs to be a card.
pub(crate) struct Engine {
    state: Arc<State>,
    runner: Runner,
    /// Absent if time does not matter.
    pace: Option<Pace>,
    config: u128,
    /// By how many nanoseconds setting the context up took longer than the profile says, so that
    /// its first completion is late.
    late_setup: Arc<AtomicU64>,
    /// When the last result was released.
    released: Instant,
    /// Computed and not yet due, in the order of their times: the servers keep the order.
    pending: VecDeque<Pending>,
    /// How long the last job kept this thread busy.
    busy: Duration,
}

/// A result that waits for its time.
struct Pending {
    job: RunningJob,
    result: Result<Outcome, JobError>,
    stages: Stages,
    due: Instant,
    /// Released after this, it is late.
    late_after: Instant,
}

impl Engine {
    pub(crate) fn new(
        state: Arc<State>,
        config: &OperationConfig,
        runner: Runner,
        depth: usize,
        late_setup: Arc<AtomicU64>,
    ) -> Self {
        let pace = state.profile.pace(config.operation, &config.patterns);
        Self {
            runner,
            pace: pace.filter(|_| state.timed()),
            config: Key::config(config),
            late_setup,
            released: Instant::now(),
            pending: VecDeque::with_capacity(depth),
            busy: Duration::ZERO,
            state,
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

    /// Hands back what is due. If the next one is due before this thread would be done with
    /// another job, waits for it.
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
            if let Some(Pending {
                job,
                result,
                mut stages,
                due,
                late_after,
            }) = self.pending.pop_front()
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
        let result = self.compute(&mut job);
        let Some(pace) = &self.pace else {
            queue.finish(job, result, Stages::default());
            return;
        };
        let source_len = job.source().len() as u64;
        let result_len = match &result {
            Ok(Outcome::Done(output)) => output.written as u64,
            // The engine finds out by doing it.
            Ok(Outcome::Incompressible) => source_len,
            Err(_) => 0,
        };
        let times = pace.stages(source_len, result_len);
        let (epoch, submitted) = (self.state.epoch, job.submitted());
        let arrival_ns = submitted.saturating_duration_since(epoch).as_nanos() as u64;
        let mut servers = lock(&self.state.servers);
        let schedule = servers.admit(arrival_ns, &times);
        drop(servers);
        let due = epoch + Duration::from_nanos(schedule.done_ns);
        let late_setup_ns = self.late_setup.swap(0, Ordering::Relaxed);
        let stages = Stages {
            queueing_ns: Some(schedule.queueing_ns.saturating_add(times.latency_ns)),
            transfer_ns: Some(times.link_in_ns.saturating_add(times.link_out_ns)),
            engine_ns: Some(times.engine_ns),
            late: late_setup_ns > 0,
            overdue_ns: late_setup_ns,
        };
        let late_after = due + tolerance(due.saturating_duration_since(submitted));
        self.pending.push_back(Pending {
            job,
            result,
            stages,
            due,
            late_after,
        });
        self.busy = begin.elapsed();
    }

    fn compute(&mut self, job: &mut RunningJob) -> Result<Outcome, JobError> {
        if self.state.mode != Mode::Replay {
            return self.runner.run(job);
        }
        let key = Key::new(self.config, job.source());
        if let Some(kept) = self.state.replay.get(&key) {
            return kept.deliver(job.destination());
        }
        let result = self.runner.run(job);
        if let Ok(outcome) = result {
            self.state.replay.keep(key, outcome, job.destination());
        }
        result
    }
}
