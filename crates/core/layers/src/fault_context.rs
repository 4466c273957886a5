//! The context of a device that does wrong as planned.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use overside_device::{
    Applied, Clock, Closed, Completion, Context, ContextConfig, DeviceInfo, Job, JobError, Lost,
    OpenError, Outcome, Refusal, Region, Stages, SubmitError,
};

use crate::fault::{Before, First, Plan, destination_bytes, spoil};
use crate::job_table::JobTable;
use crate::{ContextLayer, Fault, JobNumber};

/// Numbers of jobs and openings so far, shared by a device and its contexts.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) jobs: AtomicU64,
    pub(crate) openings: AtomicU64,
}

pub(crate) struct FaultContext {
    depth: usize,
    clock: Clock,
    plan: Arc<Plan>,
    counts: Arc<Counts>,
    /// Jobs that it was given.
    jobs: u64,
    inside: JobTable<(Option<Fault>, Before)>,
    /// Jobs that the inner device never gets: those that stall, or never complete.
    held: Vec<(Job, Fault)>,
    /// Completions that wait until nothing else is in flight.
    last: VecDeque<Completion>,
    /// Completion whose result will be exchanged with the next one's.
    swapped: Option<Completion>,
    /// Completions that the next poll returns.
    ready: VecDeque<Completion>,
    /// Destinations in quarantine, which are written to from time to time.
    quarantine: Vec<Region>,
    first: Option<First>,
    is_lost: bool,
    /// Value of [`Completion::applied`] for jobs that never reach the device inside.
    applied: Arc<Applied>,
}

impl FaultContext {
    pub(crate) fn new(
        depth: usize,
        clock: Clock,
        info: &DeviceInfo,
        plan: Arc<Plan>,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            depth,
            clock,
            plan,
            counts,
            jobs: 0,
            inside: JobTable::default(),
            held: Vec::new(),
            last: VecDeque::new(),
            swapped: None,
            ready: VecDeque::new(),
            quarantine: Vec::new(),
            first: None,
            is_lost: false,
            applied: Arc::new(Applied::nothing(info, "auto")),
        }
    }

    fn lost(&self) -> Lost {
        Lost {
            device: self.applied.device.clone(),
            reason: "as injected".into(),
            tags: self.held_tags().collect(),
        }
    }

    fn count_job(&mut self) {
        self.jobs += 1;
        self.counts.jobs.fetch_add(1, Ordering::Relaxed);
    }

    /// Submits the first of `jobs` to the inner device. Returns `true` if it was taken.
    fn pass_on(
        &mut self,
        inner: &mut dyn Context,
        jobs: &mut VecDeque<Job>,
        fault: Option<Fault>,
    ) -> Result<bool, SubmitError> {
        let Some(mut job) = jobs.pop_front() else {
            return Ok(false);
        };
        let own = job.source.clone();
        if let Some(first) = &self.first
            && fault == Some(Fault::FirstSource)
        {
            job.source = first.source.clone();
        }
        // Empty where the CPU cannot address it: such memory is not made wrong.
        let destination = job.destination.bytes().map_or_else(|_| Vec::new(), <[u8]>::to_vec);
        let (result, back) = self.inside.submit(inner, job, (fault, Before { destination }));
        if let Some((job, _)) = back {
            jobs.push_front(Job { source: own, ..job });
        } else if self.first.is_none() {
            self.first = Some(First { source: own, result: None });
        }
        result
    }

    /// Takes completions of the device inside, and injects the planned faults.
    fn collect(&mut self, inner: &mut dyn Context, max: usize) -> Result<(), Lost> {
        let mut inside = std::mem::take(&mut self.inside);
        let polled = inside.poll(inner, max, |completion, before| self.take(completion, before));
        self.inside = inside;
        if inner.in_flight() == 0 {
            self.ready.append(&mut self.last);
            self.ready.extend(self.swapped.take());
        }
        polled.map(drop).map_err(|mut lost| {
            lost.tags.extend(self.held_tags());
            lost
        })
    }

    fn held_tags(&self) -> impl Iterator<Item = u64> {
        self.held.iter().map(|(job, _)| job.tag)
    }

    fn take(&mut self, mut completion: Completion, before: Option<(Option<Fault>, Before)>) {
        let Some((fault, before)) = before else {
            self.ready.push_back(completion);
            return;
        };
        if let (Some(first), Ok(outcome)) = (&mut self.first, completion.result.clone())
            && first.result.is_none()
            && let Some(written) = destination_bytes(&mut completion)
        {
            first.result = Some((outcome, written.to_vec()));
        }
        if fault.is_none()
            && !matches!(completion.result, Ok(Outcome::Done(_)))
            && let Some(bytes) = destination_bytes(&mut completion)
        {
            // The contract leaves the contents unspecified; callers must not rely on them.
            bytes.fill(0xEE);
        }
        let second =
            fault.and_then(|fault| spoil(fault, &mut completion, &before, self.first.as_ref()));
        if let Some(mut other) = self.swapped.take() {
            std::mem::swap(&mut other.result, &mut completion.result);
            std::mem::swap(&mut other.destination, &mut completion.destination);
            self.ready.push_back(other);
        }
        match fault {
            Some(Fault::SwappedResults) => self.swapped = Some(completion),
            Some(Fault::Reordering) => self.last.push_back(completion),
            _ => self.ready.push_back(completion),
        }
        self.ready.extend(second);
    }

    /// Completes jobs that stalled beyond their deadline, and writes where a late engine would.
    fn expire(&mut self) {
        for region in &mut self.quarantine {
            if let Ok(bytes) = region.bytes_mut() {
                bytes.fill(0xDD);
            }
        }
        let now = self.clock.now();
        let is_late = |(job, fault): &mut (Job, Fault)| {
            *fault == Fault::Stall && job.deadline.is_some_and(|deadline| now >= deadline)
        };
        for (job, _) in self.held.extract_if(.., is_late) {
            self.quarantine.push(job.destination);
            self.ready.push_back(Completion {
                tag: job.tag,
                result: Err(JobError::DeadlineExceeded),
                source: job.source,
                destination: None,
                stages: Stages::default(),
                applied: Arc::clone(&self.applied),
            });
        }
    }
}

impl ContextLayer for FaultContext {
    fn submit(
        &mut self,
        inner: &mut dyn Context,
        jobs: &mut VecDeque<Job>,
    ) -> Result<usize, SubmitError> {
        if self.is_lost {
            return Err(self.lost().into());
        }
        let mut taken = 0;
        while let Some(job) = jobs.front() {
            let number = JobNumber {
                of_device: self.counts.jobs.load(Ordering::Relaxed),
                of_context: self.jobs,
            };
            let fault = (self.plan)(number);
            let is_full = self.in_flight(inner) + self.quarantine.len() >= self.depth;
            match fault {
                Some(Fault::Refusal) if taken == 0 => {
                    let (tag, refusal) = (job.tag, Refusal::Unregistered);
                    self.count_job();
                    return Err(SubmitError::Refused { tag, refusal });
                }
                Some(Fault::Refusal | Fault::BackPressure) => break,
                _ if is_full => break,
                Some(fault @ (Fault::Stall | Fault::Silence | Fault::Loss)) => {
                    self.is_lost |= fault == Fault::Loss;
                    if let Some(deadline) = job.deadline {
                        self.clock.schedule(deadline);
                    }
                    self.held.extend(jobs.pop_front().map(|job| (job, fault)));
                }
                _ => match self.pass_on(inner, jobs, fault) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) if taken > 0 => break,
                    Err(error) => {
                        self.count_job();
                        return Err(error);
                    }
                },
            }
            self.count_job();
            taken += 1;
        }
        Ok(taken)
    }

    fn poll(
        &mut self,
        inner: &mut dyn Context,
        out: &mut Vec<Completion>,
        max: usize,
    ) -> Result<usize, Lost> {
        self.expire();
        let collected = if self.is_lost { Ok(()) } else { self.collect(inner, max) };
        let count = self.ready.len().min(max);
        out.extend(self.ready.drain(..count));
        match collected {
            Err(lost) if count == 0 => Err(lost),
            _ if count == 0 && max > 0 && self.is_lost => Err(self.lost()),
            _ => Ok(count),
        }
    }

    fn arm(&mut self, inner: &mut dyn Context) -> Result<bool, Lost> {
        if !self.ready.is_empty() || self.held.iter().any(|(_, fault)| *fault != Fault::Silence) {
            return Ok(true);
        }
        inner.arm()
    }

    fn in_flight(&self, inner: &dyn Context) -> usize {
        let own = self.held.len() + self.last.len() + self.ready.len();
        inner.in_flight() + own + usize::from(self.swapped.is_some())
    }

    fn quarantined(&self, inner: &dyn Context) -> usize {
        inner.quarantined() + self.quarantine.len()
    }

    fn reconfigure(
        &mut self,
        inner: &mut dyn Context,
        config: ContextConfig,
    ) -> Result<(), OpenError> {
        match self.in_flight(inner) {
            0 => {
                let depth = config.depth;
                inner.reconfigure(config)?;
                self.depth = depth;
                Ok(())
            }
            in_flight => Err(OpenError::InFlight(in_flight)),
        }
    }

    fn close(self, inner: Box<dyn Context>, deadline: Instant) -> Closed {
        let held: Vec<u64> = self.held_tags().collect();
        let mut closed = (self.inside).close(inner, deadline, |completion, _| completion);
        closed.abandoned.extend(held);
        let ready = self.ready.into_iter().chain(std::mem::take(&mut closed.completions));
        closed.completions = ready.chain(self.last).chain(self.swapped).collect();
        closed
    }
}
