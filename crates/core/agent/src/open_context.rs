//! An open context: jobs from a host in, answers out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_base::{MemoryBudget, OutOfMemory, Reservation};
use overside_device::threads::thread_cpu_ns;
use overside_device::{
    Applied, Completion, Context, ContextConfig, Device, Job, JobError, Lifecycle, Lost, OpenError,
    Outcome, Region, Source, SubmitError, backoff,
};
use overside_link::agent::{
    AnswerHead, JobHead, MAX_TEXT_BYTES, Outbox, Reply, Status, Usage, Violation,
};
use overside_link::codec::clean;

use crate::pool::Pool;

/// Maximum number of completions that one call of [`OpenContext::complete`] polls from the device.
const AT_ONCE: usize = 64;
/// Shortest time between two reports of CPU time to the host while jobs remain in flight.
const USAGE_AGE: Duration = Duration::from_millis(1);
/// Longest time that closing an idle context waits for the device.
const CLOSING: Duration = Duration::from_secs(1);

/// A job that is coming in.
pub(crate) struct IncomingJob {
    slot: u32,
    destination: Region,
    source: Region,
    len: usize,
    at: usize,
}

impl IncomingJob {
    /// Returns the unfilled part of the source buffer; it is empty once the whole source has
    /// arrived.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.source[self.at..self.len]
    }

    /// Records that `count` more bytes were written to the slice that [`IncomingJob::room`]
    /// returned.
    pub(crate) fn filled(&mut self, count: usize) {
        self.at += count;
    }
}

/// Pause between two polls of a device without an event, as a fraction of the time since its last completion:
/// hosts measure the times of agents' devices.
const PAUSE_PARTS: u32 = 64;

pub(crate) struct OpenContext {
    device: Arc<dyn Device>,
    context: Box<dyn Context>,
    config: ContextConfig,
    event: bool,
    /// Time at which the last byte of each job arrived, by the job's slot; `None` if the slot has
    /// no job.
    held: Vec<Option<Instant>>,
    /// Jobs that came and that the device has not taken.
    queue: VecDeque<Job>,
    /// Jobs whose answers have not been made, those in the queue included.
    jobs: usize,
    completions: Vec<Completion>,
    pool: Pool,
    pool_bytes: usize,
    memory: Arc<MemoryBudget>,
    /// Reservation for the memory that the device itself allocates for the context.
    held_by_device: Reservation,
    applied: Option<Arc<Applied>>,
    /// CPU time of this thread when the context was opened, in nanoseconds.
    own_before_ns: u64,
    told: Instant,
    /// Time of the device's last completion or, if later, of the first job after an idle period.
    progress: Instant,
}

impl OpenContext {
    pub(crate) fn open(
        device: &Arc<dyn Device>,
        config: ContextConfig,
        pool_bytes: usize,
        memory: &Arc<MemoryBudget>,
    ) -> Result<Self, OpenError> {
        let own_before_ns = thread_cpu_ns();
        let held_by_device = reserve(&**device, &config, memory)?;
        let pool = pool(&**device, &config, pool_bytes, memory)?;
        let context = device.open(config.clone())?;
        let event = context.event_fd().is_some();
        Ok(Self {
            device: Arc::clone(device),
            context,
            event,
            held: vec![None; config.depth],
            queue: VecDeque::with_capacity(config.depth),
            jobs: 0,
            completions: Vec::with_capacity(AT_ONCE),
            pool,
            pool_bytes,
            memory: Arc::clone(memory),
            held_by_device,
            applied: None,
            own_before_ns,
            told: Instant::now(),
            progress: Instant::now(),
            config,
        })
    }

    pub(crate) fn device_name(&self) -> &str {
        &self.device.info().name
    }

    /// Jobs whose answers have not been made.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.context.lifecycle()
    }

    /// Arms the context's event, like [`Context::arm`]. Returns `None` if the device has no event
    /// and must be polled.
    pub(crate) fn arm(&mut self) -> Option<Result<bool, Lost>> {
        self.event.then(|| self.context.arm())
    }

    /// Returns how long to wait before the next poll of a device without an event.
    pub(crate) fn pause(&self) -> Duration {
        backoff(self.progress.elapsed(), PAUSE_PARTS)
    }

    pub(crate) fn event(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.context.event_fd()
    }

    /// Reserves memory for an announced job. Returns `true` if there is enough memory now.
    pub(crate) fn admit(&mut self, head: JobHead, len: usize) -> bool {
        self.pool.admit(len, head.capacity)
    }

    /// Returns `true` if the pool keeps free memory for later jobs.
    pub(crate) fn keeps_memory(&self) -> bool {
        self.pool.keeps()
    }

    /// Frees memory that is kept for later jobs.
    pub(crate) fn trim(&mut self) {
        self.pool.trim();
    }

    /// Checks a job that is announced.
    pub(crate) fn check(&self, head: JobHead, len: usize) -> Result<(), Violation> {
        let config = &self.config;
        let field =
            |field, value: usize, max: u64| Violation::Field { field, value: value as u64, max };
        if len as u64 > config.max_source_bytes {
            return Err(field("a source", len, config.max_source_bytes));
        }
        if head.capacity as u64 > config.max_destination_bytes {
            let max = config.max_destination_bytes;
            return Err(field("a destination", head.capacity, max));
        }
        match self.held.get(head.slot as usize) {
            None => {
                let max = config.depth as u64 - 1;
                Err(field("a job's number", head.slot as usize, max))
            }
            Some(Some(_)) => {
                Err(Violation::OutOfTurn(format!("job {} comes while it is in flight", head.slot)))
            }
            Some(None) => Ok(()),
        }
    }

    /// Allocates memory for a job that was checked and admitted. The error is the reason of a failure.
    pub(crate) fn begin(&mut self, head: JobHead, len: usize) -> Result<IncomingJob, String> {
        let device = &*self.device;
        let told = |error: overside_device::MemoryError| error.to_string();
        let source = self.pool.take(device, len).map_err(told)?;
        let whole = self.pool.take(device, head.capacity).map_err(told)?;
        let (destination, _) = whole.split_at(head.capacity);
        Ok(IncomingJob { slot: head.slot, destination, source, len, at: 0 })
    }

    /// Queues a job that has arrived completely.
    pub(crate) fn accept(&mut self, incoming: IncomingJob) {
        let slot = incoming.slot;
        let now = Instant::now();
        self.held[slot as usize] = Some(now);
        if self.jobs == 0 {
            self.progress = now;
        }
        self.jobs += 1;
        self.queue.push_back(Job {
            tag: slot.into(),
            source: incoming.source.share().slice(0..incoming.len).into(),
            destination: incoming.destination,
            deadline: None,
        });
    }

    /// Submits received jobs to the device. Returns `true` if it took any.
    pub(crate) fn submit(&mut self, outbox: &mut Outbox) -> Result<bool, Lost> {
        if self.queue.is_empty() {
            return Ok(false);
        }
        match self.context.submit(&mut self.queue) {
            Ok(count) => Ok(count > 0),
            Err(SubmitError::Lost(lost)) => Err(lost),
            Err(SubmitError::Refused { refusal, .. }) => {
                if let Some(job) = self.queue.pop_front() {
                    let head = self.head(job.tag as u32, Status::Failed);
                    outbox.failure(head, &clean(&refusal.to_string(), MAX_TEXT_BYTES));
                    self.pool.give_back(job.destination);
                    self.recycle(job.source);
                }
                Ok(true)
            }
        }
    }

    /// Turns the device's completions into answers. Returns `true` if there was one.
    pub(crate) fn complete(&mut self, outbox: &mut Outbox) -> Result<bool, Lost> {
        if self.jobs == self.queue.len() {
            return Ok(false);
        }
        let mut completions = std::mem::take(&mut self.completions);
        let polled = self.context.poll(&mut completions, AT_ONCE);
        let count = completions.len();
        if count > 0 && (self.jobs == count || self.told.elapsed() >= USAGE_AGE) {
            outbox.usage(self.usage());
            self.told = Instant::now();
        }
        if count > 0 {
            self.progress = Instant::now();
        }
        for completion in completions.drain(..) {
            self.answer(completion, outbox);
        }
        self.completions = completions;
        polled.map(|_| count > 0)
    }

    /// Memory of an answer that has been sent.
    pub(crate) fn sent(&mut self, region: Region) {
        self.pool.give_back(region);
    }

    /// Sets the idle context up for something else.
    pub(crate) fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        self.pool.trim();
        // For a moment the device may hold what it had and what it will have.
        let held_by_device = reserve(&*self.device, &config, &self.memory)?;
        let pool = pool(&*self.device, &config, self.pool_bytes, &self.memory)?;
        self.context.reconfigure(config.clone())?;
        self.event = self.context.event_fd().is_some();
        self.held = vec![None; config.depth];
        (self.held_by_device, self.pool) = (held_by_device, pool);
        self.applied = None;
        self.config = config;
        Ok(())
    }

    /// Closes the idle context: its times, and the CPU time it took in all.
    pub(crate) fn close(self) -> (Lifecycle, Usage) {
        let closed = self.context.close(Instant::now() + CLOSING);
        let usage = usage(closed.cpu_time, self.own_before_ns);
        (closed.lifecycle, usage)
    }

    fn usage(&self) -> Usage {
        usage(self.context.cpu_time(), self.own_before_ns)
    }

    fn answer(&mut self, completion: Completion, outbox: &mut Outbox) {
        let same = |applied: &Arc<Applied>| {
            Arc::ptr_eq(applied, &completion.applied) || **applied == *completion.applied
        };
        if !self.applied.as_ref().is_some_and(same) {
            let applied = Applied::clone(&completion.applied);
            outbox.control(&Reply::Applied(applied));
            self.applied = Some(Arc::clone(&completion.applied));
        }
        let (status, text) = match &completion.result {
            Ok(Outcome::Done(_)) => (Status::Done, None),
            Ok(Outcome::Incompressible) => (Status::Incompressible, None),
            Err(JobError::OutputTooSmall { .. }) => (Status::OutputTooSmall, None),
            Err(JobError::Corrupt(reason)) => (Status::Corrupt, Some(reason.clone())),
            Err(error @ JobError::DeadlineExceeded) => (Status::Failed, Some(error.to_string())),
            Err(JobError::Failed(reason)) => (Status::Failed, Some(reason.clone())),
        };
        let mut head = self.head(completion.tag as u32, status);
        head.stages = completion.stages;
        self.recycle(completion.source);
        match (completion.result, completion.destination) {
            (Ok(Outcome::Done(output)), Some(destination)) => {
                head.value = output.value;
                let len = output.written.min(destination.len());
                outbox.result(head, destination, len);
            }
            (_, destination) => {
                let text = text.unwrap_or_default();
                outbox.failure(head, &clean(&text, MAX_TEXT_BYTES));
                if let Some(destination) = destination {
                    self.pool.give_back(destination);
                }
            }
        }
    }

    /// The fields of an answer, and an end to the job's being held.
    fn head(&mut self, slot: u32, status: Status) -> AnswerHead {
        self.jobs -= 1;
        let since = (self.held.get_mut(slot as usize)).and_then(Option::take);
        AnswerHead {
            slot,
            status,
            value: None,
            stages: overside_device::Stages::default(),
            held_ns: since.map_or(0, |since| since.elapsed().as_nanos() as u64),
        }
    }

    fn recycle(&mut self, source: Source) {
        if let Source::One(slice) = source {
            self.pool.give_back_source(slice);
        }
    }
}

/// Reserves the memory that a device will hold for a context.
fn reserve(
    device: &dyn Device,
    config: &ContextConfig,
    memory: &Arc<MemoryBudget>,
) -> Result<Reservation, OpenError> {
    let reserved = memory.reserve(device.context_bytes(config));
    reserved.map_err(|error| no_memory(device, &error))
}

/// Memory for a context's jobs.
fn pool(
    device: &dyn Device,
    config: &ContextConfig,
    bytes: usize,
    memory: &Arc<MemoryBudget>,
) -> Result<Pool, OpenError> {
    let longest = [config.max_source_bytes, config.max_destination_bytes];
    let pool = Pool::new(bytes, config.depth, longest.map(|len| len as usize), memory);
    pool.map_err(|error| no_memory(device, &error))
}

fn no_memory(device: &dyn Device, error: &OutOfMemory) -> OpenError {
    OpenError::Failed {
        device: device.info().name.clone(),
        reason: format!("the agent has no memory for it: {error}"),
    }
}

/// CPU time of a context and of the thread that serves it, as the host's ledgers have it: this
/// machine's cores are the DPU's.
fn usage(context: overside_device::CpuTime, own_before_ns: u64) -> Usage {
    Usage {
        dpu_ns: context.host_ns + context.dpu_ns + thread_cpu_ns().saturating_sub(own_before_ns),
        emulator_ns: context.emulator_ns,
    }
}
