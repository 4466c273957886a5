//! Keeps a context busy: offers jobs at doorbells, reaps completions, refuses what is wrong.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_device::{
    Completion, Context, ContextConfig, Device, Job, JobError, Lost, OpenError, Outcome, Region,
    Slice, SubmitError,
};

use crate::sample::{Failure, Kind};
use crate::test::Reaping;

/// How long one wait for an event may last before the clock is looked at again.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// How often an eager poller looks at the clock while nothing comes.
const POLLS_A_LOOK: u32 = 256;

/// When to stop submitting.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After so many jobs.
    Count(usize),
    /// When so much time has passed; at least one job runs.
    Passed(Duration),
}

/// A job that completed.
pub(crate) struct Reaped<'a> {
    /// Which source it read.
    pub input: usize,
    /// From its submission until it was reaped.
    pub latency: Duration,
    /// What became of it.
    pub outcome: Outcome,
    /// What it wrote.
    pub destination: &'a mut Region,
    /// The rest of what the device says.
    pub completion: &'a Completion,
}

/// What a run of jobs took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// From before the first submission until the last completion was reaped.
    pub elapsed: Duration,
    /// Doorbells that took at least one job.
    pub doorbells: u64,
}

/// What keeps the jobs of one context coming.
pub(crate) struct Driver<'a> {
    pub context: Box<dyn Context>,
    sources: &'a [Slice],
    /// In which order sources are taken, again and again.
    order: Vec<u32>,
    next: usize,
    slots: Vec<Slot>,
    free: Vec<usize>,
    offered: VecDeque<Job>,
    completions: Vec<Completion>,
    /// Jobs at one doorbell.
    doorbell: usize,
    reaping: Reaping,
    /// When the sample has failed.
    deadline: Instant,
}

/// A job's place, its tag being the place's number. A destination belongs to its slot.
struct Slot {
    input: usize,
    submitted: Instant,
    in_flight: bool,
    destination: Option<Region>,
    /// How its last job ended.
    last: Option<Outcome>,
}

/// What a driver is made of.
pub(crate) struct Setup<'a> {
    pub device: &'a dyn Device,
    pub context: Box<dyn Context>,
    pub sources: &'a [Slice],
    pub order: Vec<u32>,
    pub destination_bytes: usize,
    pub depth: usize,
    pub batch: usize,
    pub reaping: Reaping,
    pub deadline: Instant,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(setup: Setup<'a>) -> Result<Self, Failure> {
        let slots = (0..setup.depth)
            .map(|_| {
                let destination = setup.device.alloc(setup.destination_bytes, 64);
                let destination =
                    destination.map_err(|error| Failure::new(Kind::Job, error.to_string()))?;
                Ok(Slot {
                    input: 0,
                    submitted: Instant::now(),
                    in_flight: false,
                    destination: Some(destination),
                    last: None,
                })
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        Ok(Self {
            context: setup.context,
            sources: setup.sources,
            order: setup.order,
            next: 0,
            free: (0..setup.depth).rev().collect(),
            slots,
            offered: VecDeque::with_capacity(setup.depth),
            completions: Vec::with_capacity(setup.depth),
            // More than half the depth at once would leave the device idle while a batch gathers.
            doorbell: setup.batch.min(setup.depth.div_ceil(2)),
            reaping: setup.reaping,
            deadline: setup.deadline,
        })
    }

    /// Runs jobs until there are enough, then waits for those in flight. `prepare` sees each
    /// destination before its job is submitted, `reap` each completion that has a result.
    ///
    /// # Errors
    /// A job without a result, a completion that belongs to no job, a lost device, a deadline
    /// that passed, or what `reap` says.
    pub(crate) fn run(
        &mut self,
        until: Until,
        mut prepare: impl FnMut(usize, &mut Region),
        mut reap: impl FnMut(Reaped<'_>) -> Result<(), Failure>,
    ) -> Result<Spent, Failure> {
        let mut left = match until {
            Until::Count(count) => count,
            Until::Passed(_) => usize::MAX,
        };
        let mut spent = Spent::default();
        let mut in_flight = 0;
        let start = Instant::now();
        let mut now = start;
        loop {
            if let Until::Passed(limit) = until
                && spent.doorbells > 0
                && now - start >= limit
            {
                left = 0;
                self.withdraw();
            }
            while left > 0 && self.offered.len() < self.doorbell && !self.free.is_empty() {
                self.offer(&mut prepare);
                left -= 1;
            }
            // A doorbell rings for a whole batch, or for the rest when nothing else is to come.
            let whole = self.offered.len() >= self.doorbell || left == 0 || in_flight == 0;
            if whole && !self.offered.is_empty() {
                let taken = self.submit()?;
                in_flight += taken;
                spent.doorbells += u64::from(taken > 0);
            }
            if in_flight == 0 && left == 0 && self.offered.is_empty() {
                return Ok(spent);
            }
            let more = self.offered.len() < self.doorbell && left > 0 && !self.free.is_empty();
            if !self.poll(in_flight > 0 && !more)? {
                now = Instant::now();
                continue;
            }
            now = Instant::now();
            spent.elapsed = now - start;
            let mut completions = std::mem::take(&mut self.completions);
            for completion in completions.drain(..) {
                self.reap(completion, now, &mut reap)?;
                in_flight -= 1;
            }
            self.completions = completions;
            self.in_time(now)?;
        }
    }

    /// Sets the context up again before each job, one job at a time; the time of it counts.
    /// `set_up` sees the context after each.
    ///
    /// # Errors
    /// As [`Driver::run`], and when the context cannot be set up.
    pub(crate) fn run_reconfiguring(
        &mut self,
        until: Until,
        config: &ContextConfig,
        mut prepare: impl FnMut(usize, &mut Region),
        mut reap: impl FnMut(Reaped<'_>) -> Result<(), Failure>,
        mut set_up: impl FnMut(&dyn Context),
    ) -> Result<Spent, Failure> {
        let mut spent = Spent::default();
        let start = Instant::now();
        let mut jobs = 0;
        loop {
            let begun = Instant::now();
            self.context
                .reconfigure(config.clone())
                .map_err(|error| cannot_open(&error))?;
            set_up(&*self.context);
            self.offer(&mut prepare);
            while self.submit()? == 0 {
                self.poll(false)?;
            }
            while !self.poll(true)? {}
            let now = Instant::now();
            spent.elapsed = now - start;
            spent.doorbells += 1;
            let mut completions = std::mem::take(&mut self.completions);
            for completion in completions.drain(..) {
                if let Some(slot) = self.slots.get_mut(completion.tag as usize) {
                    slot.submitted = begun;
                }
                self.reap(completion, now, &mut reap)?;
            }
            self.completions = completions;
            self.in_time(now)?;
            jobs += 1;
            let enough = match until {
                Until::Count(count) => jobs >= count,
                Until::Passed(limit) => spent.elapsed >= limit,
            };
            if enough {
                return Ok(spent);
            }
        }
    }

    /// Each slot's last source, outcome and output.
    pub(crate) fn last_outputs(&self) -> impl Iterator<Item = (usize, &Outcome, &[u8])> {
        (self.slots.iter()).filter_map(|slot| {
            Some((
                slot.input,
                slot.last.as_ref()?,
                &**slot.destination.as_ref()?,
            ))
        })
    }

    /// Makes the next job in a free place.
    fn offer(&mut self, prepare: &mut impl FnMut(usize, &mut Region)) {
        let Some(tag) = self.free.pop() else { return };
        let slot = &mut self.slots[tag];
        let Some(mut destination) = slot.destination.take() else {
            return;
        };
        slot.input = self.order[self.next] as usize;
        slot.last = None;
        self.next = (self.next + 1) % self.order.len();
        prepare(slot.input, &mut destination);
        self.offered.push_back(Job {
            tag: tag as u64,
            source: self.sources[slot.input].clone().into(),
            destination,
            deadline: None,
        });
    }

    /// Takes back what was offered and not submitted.
    fn withdraw(&mut self) {
        for job in self.offered.drain(..) {
            self.slots[job.tag as usize].destination = Some(job.destination);
            self.free.push(job.tag as usize);
        }
    }

    /// Rings the doorbell once. What is not taken stays offered.
    fn submit(&mut self) -> Result<usize, Failure> {
        let now = Instant::now();
        for job in &self.offered {
            // Set for all before any is taken: what is not taken is set again.
            let slot = &mut self.slots[job.tag as usize];
            slot.submitted = now;
            slot.in_flight = true;
        }
        let taken = self
            .context
            .submit(&mut self.offered)
            .map_err(|error| match error {
                SubmitError::Refused { .. } => Failure::new(Kind::Job, error.to_string()),
                SubmitError::Lost(lost) => is_lost(&lost),
            })?;
        for job in &self.offered {
            self.slots[job.tag as usize].in_flight = false;
        }
        Ok(taken)
    }

    /// Collects completions; whether there are any. Waits a little if `wait`.
    fn poll(&mut self, wait: bool) -> Result<bool, Failure> {
        let max = self.slots.len();
        for _ in 0..POLLS_A_LOOK {
            if self
                .context
                .poll(&mut self.completions, max)
                .map_err(|lost| is_lost(&lost))?
                > 0
            {
                return Ok(true);
            }
            if !wait || self.reaping == Reaping::Event {
                break;
            }
            std::hint::spin_loop();
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::new(
                Kind::Timeout,
                format!(
                    "no result before the test's time was over; {} jobs are in flight",
                    self.context.in_flight()
                ),
            ));
        }
        if wait && self.reaping == Reaping::Event {
            overside_device::wait(&mut *self.context, left.min(WAIT_MAX))
                .map_err(|error| Failure::new(Kind::Lost, error.to_string()))?;
        } else {
            std::hint::spin_loop();
        }
        Ok(false)
    }

    /// However busy a device is, a sample has no more time than it was given.
    fn in_time(&self, now: Instant) -> Result<(), Failure> {
        if now <= self.deadline {
            return Ok(());
        }
        let message = "the sample was not done before the test's time was over";
        Err(Failure::new(Kind::Timeout, message))
    }

    fn reap(
        &mut self,
        mut completion: Completion,
        now: Instant,
        reap: &mut impl FnMut(Reaped<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let tag = completion.tag;
        let slot = (self.slots.get_mut(tag as usize)).filter(|slot| slot.in_flight);
        let Some(slot) = slot else {
            let message = format!("a completion came for job {tag}, which is not in flight");
            return Err(Failure::new(Kind::Verification, message));
        };
        slot.in_flight = false;
        let outcome = match &completion.result {
            Ok(outcome) => *outcome,
            Err(JobError::DeadlineExceeded) => {
                return Err(Failure::new(
                    Kind::Timeout,
                    JobError::DeadlineExceeded.to_string(),
                ));
            }
            Err(error) => {
                let message = format!("buffer {}: {error}", slot.input);
                return Err(Failure::new(Kind::Job, message));
            }
        };
        let Some(mut destination) = completion.destination.take() else {
            let message = format!("job {tag} is done, but its destination did not come back");
            return Err(Failure::new(Kind::Verification, message));
        };
        let latency = now.saturating_duration_since(slot.submitted);
        reap(Reaped {
            input: slot.input,
            latency,
            outcome,
            destination: &mut destination,
            completion: &completion,
        })?;
        slot.destination = Some(destination);
        slot.last = Some(outcome);
        self.free.push(tag as usize);
        Ok(())
    }
}

fn is_lost(lost: &Lost) -> Failure {
    Failure::new(Kind::Lost, lost.to_string())
}

/// A context that could be opened and then not be set up again.
fn cannot_open(error: &OpenError) -> Failure {
    Failure::new(Kind::Job, error.to_string())
}
