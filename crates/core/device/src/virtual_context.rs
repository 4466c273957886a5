//! Context in virtual time: the software for the device computes on the submitter's thread, and the result is
//! returned when the device would have been done.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::threads::{CpuAccounting, Limits};
use crate::{
    Applied, Clock, Closed, Completion, Context, ContextConfig, CpuTime, Job, JobError, Lifecycle,
    Lost, OpenError, Outcome, Stages, SubmitError,
};

/// Engine that takes the place of a device in virtual time.
pub trait VirtualEngine: Send {
    /// Computes the result of a job.
    ///
    /// # Errors
    /// [`JobError`], as the device's.
    fn compute(&mut self, job: &mut Job) -> Result<Outcome, JobError>;

    /// Returns the time at which the job completes, and the time that it spends in each stage.
    fn admit(&mut self, job: &ComputedJob<'_>) -> (Instant, Stages);
}

/// Job to be admitted.
#[derive(Debug)]
pub struct ComputedJob<'a> {
    /// The job.
    pub job: &'a Job,
    /// Result of computing the job.
    pub result: &'a Result<Outcome, JobError>,
    /// Time at which the job was submitted, by the context's clock.
    pub arrival: Instant,
    /// `true` for the first job of a doorbell.
    pub is_first: bool,
    /// CPU time of computing the result.
    pub cpu_time: Duration,
}

/// Parts of a context in virtual time. A [`SetUp`] function makes them.
pub struct VirtualParts {
    /// Limits on the jobs of the context.
    pub limits: Limits,
    /// Device and library that run the jobs.
    pub applied: Arc<Applied>,
    /// Engine of the device.
    pub engine: Box<dyn VirtualEngine>,
    /// Times that the device takes to initialize a context and to end it; `None` where they are
    /// unknown.
    pub times: Lifecycle,
}

/// Function that makes the parts of a context for a configuration, at opening and at each
/// reconfiguration.
pub type SetUp = Box<dyn FnMut(&ContextConfig) -> Result<VirtualParts, OpenError> + Send>;

/// Jobs and their completions, by completion time. Its driver advances the time with
/// [`Clock::wait`].
pub struct VirtualContext {
    clock: Clock,
    set_up: SetUp,
    parts: VirtualParts,
    accounting: CpuAccounting,
    lifecycle: Lifecycle,
    in_flight: BinaryHeap<Pending>,
    submitted: u64,
    spent: Duration,
}

struct Pending {
    due: Instant,
    number: u64,
    completion: Completion,
}

impl VirtualContext {
    /// Opens one on a virtual clock, on which the device's time of initialising it passes.
    ///
    /// # Errors
    /// As `set_up`.
    pub fn open(
        clock: Clock,
        accounting: CpuAccounting,
        config: &ContextConfig,
        mut set_up: SetUp,
    ) -> Result<Self, OpenError> {
        let (parts, spent) = clock.aside(|| set_up(config));
        let parts = parts?;
        clock.sleep(duration(parts.times.init_ns));
        Ok(Self {
            lifecycle: Lifecycle { init_ns: parts.times.init_ns, ..Lifecycle::default() },
            clock,
            set_up,
            parts,
            accounting,
            in_flight: BinaryHeap::new(),
            submitted: 0,
            spent,
        })
    }

    fn run(&mut self, mut job: Job, is_first: bool) {
        let arrival = self.clock.now();
        let engine = &mut self.parts.engine;
        let (result, cpu_time) = self.clock.aside(|| engine.compute(&mut job));
        self.spent += cpu_time;
        let (done, stages) =
            engine.admit(&ComputedJob { job: &job, result: &result, arrival, is_first, cpu_time });
        // A late result is dropped. Nothing writes to its destination any more.
        let (due, result) = match job.deadline {
            Some(deadline) if deadline < done => {
                (deadline.max(arrival), Err(JobError::DeadlineExceeded))
            }
            _ => (done, result),
        };
        self.in_flight.push(Pending {
            due,
            number: self.submitted,
            completion: Completion {
                tag: job.tag,
                result,
                source: job.source,
                destination: Some(job.destination),
                stages,
                applied: Arc::clone(&self.parts.applied),
            },
        });
        self.submitted += 1;
        self.clock.schedule(due);
    }
}

fn duration(ns: Option<u64>) -> Duration {
    Duration::from_nanos(ns.unwrap_or(0))
}

impl Context for VirtualContext {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        let mut taken = 0;
        while self.in_flight.len() < self.parts.limits.depth
            && let Some(job) = jobs.pop_front()
        {
            if let Err(refusal) = self.parts.limits.check(&job) {
                let tag = job.tag;
                jobs.push_front(job);
                match taken {
                    0 => return Err(SubmitError::Refused { tag, refusal }),
                    _ => break,
                }
            }
            self.clock.submitted(1);
            self.run(job, taken == 0);
            taken += 1;
        }
        Ok(taken)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        let now = self.clock.now();
        let mut count = 0;
        while count < max
            && self.in_flight.peek().is_some_and(|first| first.due <= now)
            && let Some(first) = self.in_flight.pop()
        {
            out.push(first.completion);
            count += 1;
        }
        Ok(count)
    }

    /// Returns `None`: nothing happens in real time.
    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        Ok(true)
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn quarantined(&self) -> usize {
        0
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        if self.in_flight() > 0 {
            return Err(OpenError::InFlight(self.in_flight()));
        }
        let ended = self.parts.times.end_ns;
        let (parts, spent) = self.clock.aside(|| (self.set_up)(&config));
        self.spent += spent;
        self.parts = parts?;
        self.lifecycle = Lifecycle { end_ns: ended, ..self.parts.times };
        let times = [ended, self.parts.times.init_ns];
        self.clock.sleep(times.map(duration).into_iter().sum());
        Ok(())
    }

    fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    fn cpu_time(&self) -> CpuTime {
        self.accounting.cpu_time(self.spent.as_nanos() as u64)
    }

    /// Waits for the jobs in flight. Ending the context takes no time: that counts in the set-up of
    /// its successor.
    fn close(mut self: Box<Self>, _: Instant) -> Closed {
        let mut completions = Vec::with_capacity(self.in_flight.len());
        while let Some(next) = self.in_flight.pop() {
            let left = next.due.saturating_duration_since(self.clock.now());
            self.clock.sleep(left);
            completions.push(next.completion);
        }
        Closed {
            completions,
            abandoned: Vec::new(),
            lifecycle: self.lifecycle,
            cpu_time: self.cpu_time(),
        }
    }
}

/// The earliest is the greatest; of those at the same time the one that was submitted first.
impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pending {}
