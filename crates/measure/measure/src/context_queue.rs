//! A device's context as the measuring loop drives it: jobs over the test's buffers in a shuffled
//! order, each completion checked before its slot is used again.

use std::collections::VecDeque;
use std::time::Duration;

use overside_device::{
    Clock, Completion, Context, ContextConfig, Device, Job, JobError, Lost, OpenError, Operation,
    Outcome, Region, Slice, SubmitError,
};
use overside_probe::closed_loop::{CompletedOperation, OperationQueue};
use overside_probe::{Failure, FailureKind};

use crate::job_totals::JobTotals;
use crate::lifecycle_times::LifecycleTimes;
use crate::verify::OutputChecker;

/// Alignment of destinations in bytes.
const ALIGN_BYTES: usize = 64;

/// Queue that keeps one context supplied with jobs and collects its completions.
pub(crate) struct ContextQueue<'a> {
    pub context: Box<dyn Context>,
    clock: Clock,
    device: &'a dyn Device,
    /// Configuration with which the context is set up again before each job; the set-up counts as
    /// part of the job's time. `None` means that the context is kept.
    pub reconfigure: Option<ContextConfig>,
    /// `true` if it is set up only for a buffer, or an output, of another length than the last.
    pub keeps_length: bool,
    /// The lengths that it was set up for, unless the next job needs another set-up in any case.
    set_up: Option<(usize, usize)>,
    /// Number of times that the context was set up since [`ContextQueue::restart`].
    pub set_ups: u64,
    sources: &'a [Slice],
    /// Order in which sources are taken repeatedly.
    order: Vec<u32>,
    next: usize,
    slots: Vec<Slot>,
    free: Vec<usize>,
    filled: VecDeque<Job>,
    /// Jobs whose result did not fit, with larger destinations, to be submitted again.
    grown: VecDeque<Job>,
    /// Maximum number of bytes of a destination.
    destination_bytes_max: u64,
    completions: Vec<Completion>,
    pub checker: OutputChecker<'a>,
    operation: Operation,
    /// Totals over the jobs completed since [`ContextQueue::restart`].
    pub totals: JobTotals,
    /// Lifecycle times of the contexts that were set up since [`ContextQueue::restart`].
    pub lifecycle: LifecycleTimes,
}

/// A job's place, its tag being the place's number. A destination belongs to its slot.
struct Slot {
    input: usize,
    in_flight: bool,
    destination: Option<Region>,
    /// The destination that its jobs begin with, while a larger one is in use.
    first: Option<Region>,
    /// Outcome of the slot's last job; `None` until that job completes.
    last: Option<Outcome>,
}

impl<'a> ContextQueue<'a> {
    /// Makes a queue with `depth` destinations of the device's memory, of `output_bytes` at first and up to
    /// `destination_bytes_max` if a result does not fit. `order` is that of the sources.
    pub(crate) fn new(
        device: &'a dyn Device,
        (context, clock): (Box<dyn Context>, Clock),
        (sources, order): (&'a [Slice], Vec<u32>),
        (depth, output_bytes, destination_bytes_max): (usize, u64, u64),
        (operation, checker): (Operation, OutputChecker<'a>),
    ) -> Result<Self, Failure> {
        let slot = |_| {
            Ok(Slot {
                input: 0,
                in_flight: false,
                destination: Some(alloc(device, output_bytes)?),
                first: None,
                last: None,
            })
        };
        Ok(Self {
            context,
            clock,
            device,
            reconfigure: None,
            keeps_length: false,
            set_up: None,
            set_ups: 0,
            sources,
            order,
            next: 0,
            slots: (0..depth).map(slot).collect::<Result<_, Failure>>()?,
            free: (0..depth).rev().collect(),
            filled: VecDeque::with_capacity(depth),
            grown: VecDeque::new(),
            destination_bytes_max,
            completions: Vec::with_capacity(depth),
            checker,
            operation,
            totals: JobTotals::new(operation),
            lifecycle: LifecycleTimes::default(),
        })
    }

    /// Resets the counts: work so far was not under the clock.
    pub(crate) fn restart(&mut self) {
        self.totals = JobTotals::new(self.operation);
        self.lifecycle = LifecycleTimes::default();
        self.set_ups = 0;
        self.checker.varied = 0;
    }

    /// Compares each slot's last output in every byte.
    pub(crate) fn check_last_outputs(&mut self) -> Result<(), Failure> {
        for slot in &self.slots {
            if let (Some(outcome), Some(destination)) = (&slot.last, &slot.destination) {
                (self.checker).check_whole(slot.input, outcome, destination)?;
            }
        }
        Ok(())
    }

    /// Verifies a completion, adds it to the totals and frees its slot. Returns `None` if the job
    /// is run again because its result did not fit.
    fn take_one(
        &mut self,
        mut completion: Completion,
    ) -> Result<Option<CompletedOperation>, Failure> {
        let tag = completion.tag;
        let slot = (self.slots.get_mut(tag as usize)).filter(|slot| slot.in_flight);
        let Some(slot) = slot else {
            let message = format!("a completion came for job {tag}, which is not in flight");
            return Err(Failure::new(FailureKind::Verification, message));
        };
        slot.in_flight = false;
        if let Err(JobError::OutputTooSmall { capacity }) = completion.result
            && (capacity as u64) < self.destination_bytes_max
        {
            self.grow(completion, capacity as u64)?;
            return Ok(None);
        }
        let outcome = completion.result.map_err(|error| job_failed(slot.input, &error))?;
        let Some(destination) = completion.destination.take() else {
            let message = format!("job {tag} is done, but its destination did not come back");
            return Err(Failure::new(FailureKind::Verification, message));
        };
        let source_bytes = self.sources[slot.input].len();
        let applied = &completion.applied;
        (self.checker).check(slot.input, source_bytes, &outcome, applied, &destination)?;
        (self.totals).add(applied, &outcome, completion.stages, source_bytes as u64)?;
        slot.destination = Some(destination);
        slot.last = Some(outcome);
        self.free.push(tag as usize);
        Ok(Some(CompletedOperation { slot: tag as usize, late: completion.stages.late }))
    }

    /// Runs a job again whose result did not fit into `capacity` bytes, with twice as many.
    fn grow(&mut self, completion: Completion, capacity: u64) -> Result<(), Failure> {
        self.totals.add_try(completion.stages);
        let slot = &mut self.slots[completion.tag as usize];
        // A larger one that was too small goes first: there are never more than two.
        match slot.first {
            None => slot.first = completion.destination,
            Some(_) => drop(completion.destination),
        }
        let bytes = (2 * capacity).clamp(1, self.destination_bytes_max);
        self.grown.push_back(Job {
            tag: completion.tag,
            source: completion.source,
            destination: alloc(self.device, bytes)?,
            deadline: None,
        });
        Ok(())
    }

    /// Submits jobs at one doorbell, and reconfigures the context for them if the test requires that. Returns
    /// the number of jobs that were taken; the others stay.
    fn hand_over(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, Failure> {
        let lengths = jobs.front().map(|first| {
            let input = self.slots[first.tag as usize].input;
            (self.checker.original_bytes(input), first.destination.len())
        });
        if let (Some(config), Some(lengths)) = (&self.reconfigure, lengths)
            && self.set_up != Some(lengths)
        {
            let set_up = self.context.reconfigure(ContextConfig {
                max_destination_bytes: lengths.1 as u64,
                ..config.clone()
            });
            set_up.map_err(|error| {
                // It is not one of ours.
                let kind = match error {
                    OpenError::InFlight(_) => FailureKind::Verification,
                    _ => FailureKind::Job,
                };
                Failure::new(kind, error.to_string())
            })?;
            self.lifecycle.add(&self.context.lifecycle());
            self.set_up = Some(lengths);
            self.set_ups += 1;
        }
        for job in &*jobs {
            // Set for all before any is taken: what is not taken is set again.
            self.slots[job.tag as usize].in_flight = true;
        }
        let taken = self.context.submit(jobs);
        let taken = taken.map_err(|error| not_submitted(&error))?;
        for job in &*jobs {
            self.slots[job.tag as usize].in_flight = false;
        }
        if taken > 0 && !self.keeps_length {
            self.set_up = None;
        }
        Ok(taken)
    }
}

fn alloc(device: &dyn Device, bytes: u64) -> Result<Region, Failure> {
    let region = device.alloc(bytes as usize, ALIGN_BYTES);
    region.map_err(|error| Failure::new(FailureKind::Job, error.to_string()))
}

impl OperationQueue for ContextQueue<'_> {
    fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    fn fill(&mut self, count: usize, slots: &mut VecDeque<usize>) -> Result<(), Failure> {
        for _ in 0..count {
            let Some(tag) = self.free.pop() else { break };
            let slot = &mut self.slots[tag];
            let last = slot.destination.take();
            let Some(mut destination) = slot.first.take().or(last) else {
                let message = format!("slot {tag} is free and has no destination");
                return Err(Failure::new(FailureKind::Internal, message));
            };
            slot.input = self.order[self.next] as usize;
            slot.last = None;
            self.next = (self.next + 1) % self.order.len();
            self.checker.poison(slot.input, &mut destination);
            self.filled.push_back(Job {
                tag: tag as u64,
                source: self.sources[slot.input].clone().into(),
                destination,
                deadline: None,
            });
            slots.push_back(tag);
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<usize, Failure> {
        let mut filled = std::mem::take(&mut self.filled);
        let taken = self.hand_over(&mut filled);
        self.filled = filled;
        taken
    }

    fn poll(&mut self) -> Result<usize, Failure> {
        if !self.grown.is_empty() {
            let mut grown = std::mem::take(&mut self.grown);
            let taken = self.hand_over(&mut grown);
            self.grown = grown;
            taken?;
        }
        let polled = self.context.poll(&mut self.completions, self.slots.len());
        polled.map_err(|lost| is_lost(&lost))
    }

    fn take(&mut self, _: bool, done: &mut Vec<CompletedOperation>) -> Result<(), Failure> {
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            done.extend(self.take_one(completion)?);
        }
        self.completions = completions;
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        wait(&mut *self.context, &self.clock, timeout)
    }

    fn withdraw(&mut self) {
        for job in self.filled.drain(..) {
            self.slots[job.tag as usize].destination = Some(job.destination);
            self.free.push(job.tag as usize);
        }
    }
}

/// A job on buffer `number` that has no result.
pub(crate) fn job_failed(number: usize, error: &JobError) -> Failure {
    let kind = match error {
        JobError::DeadlineExceeded => FailureKind::Timeout,
        _ => FailureKind::Job,
    };
    Failure::new(kind, format!("buffer {number}: {error}"))
}

/// Jobs that a context does not take.
pub(crate) fn not_submitted(error: &SubmitError) -> Failure {
    let kind = match error {
        SubmitError::Refused { .. } => FailureKind::Job,
        SubmitError::Lost(_) => FailureKind::Lost,
    };
    Failure::new(kind, error.to_string())
}

/// Returns the failure for a context whose device is lost.
pub(crate) fn is_lost(lost: &Lost) -> Failure {
    Failure::new(FailureKind::Lost, lost.to_string())
}

/// Sleeps until there may be completions to poll for, or advances the context's virtual clock.
pub(crate) fn wait(
    context: &mut dyn Context,
    clock: &Clock,
    timeout: Duration,
) -> Result<(), Failure> {
    if clock.is_virtual() {
        clock.wait(clock.now() + timeout);
        return Ok(());
    }
    overside_device::wait(context, timeout)
        .map(drop)
        .map_err(|error| Failure::new(FailureKind::Lost, error.to_string()))
}
