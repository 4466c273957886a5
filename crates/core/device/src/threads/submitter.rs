//! The submitter's end of a context.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use overside_base::lock;

use super::ContextState;
use super::event::Timer;
use super::slot::{FinishedJob, SlotState};
use super::worker_main::{self, WorkerMain};
use crate::primitive::Ordering;
use crate::{
    Applied, Capability, Closed, Completion, ContextConfig, CpuTime, Deadlines, DeviceId, Job,
    Lifecycle, Lost, MemoryKind, Refusal, Registration, SubmitError,
};

/// Longest time, in nanoseconds, that a waiting submitter is left asleep so that more than one
/// completion gathers. It is short compared with jobs that take longer, and bounds the wake-ups to
/// a thousand a second.
const PATIENCE_NS: u64 = 1_000_000;
/// Longest time that [`Threads::replace`] waits for the old threads to end. They only have to
/// return.
const REPLACE: Duration = Duration::from_secs(1);

/// Limits on the jobs of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The device, as memory remembers it.
    pub device: DeviceId,
    /// The memory that jobs may use.
    pub memory: MemoryKind,
    /// Maximum number of jobs in flight and quarantined; at least 1.
    pub depth: usize,
    /// The longest source of a job in bytes.
    pub max_source_bytes: u64,
    /// The longest destination of a job in bytes.
    pub max_destination_bytes: u64,
    /// Maximum number of segments of a source.
    pub max_segments: usize,
    /// Wake a waiting submitter for several completions at once: when half of the jobs in flight
    /// have completed, after a millisecond, or before a thread falls idle. Otherwise for each.
    pub gather: bool,
}

impl Limits {
    /// Creates the limits from the configuration of a context and the device's capability. `gather`
    /// is off: the submitter is woken for each completion.
    pub fn new(device: DeviceId, capability: &Capability, config: &ContextConfig) -> Self {
        Self {
            device,
            memory: capability.memory,
            depth: config.depth,
            max_source_bytes: config.max_source_bytes,
            max_destination_bytes: config.max_destination_bytes,
            max_segments: capability.max_segments,
            gather: false,
        }
    }

    /// Checks that the context can take this job: lengths, segments and memory.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn check(&self, job: &Job) -> Result<(), Refusal> {
        let len = job.source.len() as u64;
        let segments = job.source.segments();
        if len > self.max_source_bytes {
            return Err(Refusal::SourceTooLong { len, max: self.max_source_bytes });
        }
        let len = job.destination.len() as u64;
        if len > self.max_destination_bytes {
            return Err(Refusal::DestinationTooLong { len, max: self.max_destination_bytes });
        }
        if segments.len() > self.max_segments {
            let (segments, max) = (segments.len(), self.max_segments);
            return Err(Refusal::TooManySegments { segments, max });
        }
        let is_own =
            |held: Option<&Registration>| held.is_some_and(|held| held.device == self.device);
        let is_reachable = |is_addressable: bool, held| match self.memory {
            MemoryKind::Any => is_addressable || is_own(held),
            MemoryKind::Registered | MemoryKind::Device => is_own(held),
        };
        let destination = &job.destination;
        if is_reachable(destination.is_addressable(), destination.registration())
            && (segments.iter())
                .all(|segment| is_reachable(segment.is_addressable(), segment.registration()))
        {
            Ok(())
        } else {
            Err(Refusal::Unregistered)
        }
    }
}

/// Owner of the cores on which the threads' CPU time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuAccounting {
    /// The host's: the threads are the device.
    Host,
    /// Emulator: the threads emulate a device.
    Emulator,
}

impl CpuAccounting {
    /// CPU time of `spent_ns` on this ledger.
    pub(crate) fn cpu_time(self, spent_ns: u64) -> CpuTime {
        let mut time = CpuTime::default();
        *match self {
            Self::Host => &mut time.host_ns,
            Self::Emulator => &mut time.emulator_ns,
        } = spent_ns;
        time
    }
}

/// The submitter's end, the base of a [`crate::Context`] made of threads. Dropping it does not
/// wait; the threads end after their current jobs.
pub struct Threads {
    shared: Arc<ContextState>,
    limits: Limits,
    applied: Arc<Applied>,
    accounting: CpuAccounting,
    /// The numbers of vacant slots.
    free: Vec<u32>,
    /// Position up to which the submitter has written the queue to the threads.
    staged: usize,
    /// Position up to which the submitter has read the queue from the threads.
    reaped: usize,
    in_flight: usize,
    deadlines: Deadlines,
    timer: Timer,
    /// Threads that were replaced and have not ended.
    retired: Vec<Arc<ContextState>>,
    /// CPU time of replaced threads that have ended.
    retired_ns: u64,
}

impl Threads {
    /// Starts a thread for each body and returns when all run (and are pinned).
    ///
    /// # Errors
    /// The system's error if it has no more threads or descriptors or does not know a core. No
    /// thread is left behind. Without a body nothing would ever run, so that is an error too.
    pub fn spawn(
        limits: Limits,
        applied: Arc<Applied>,
        accounting: CpuAccounting,
        mains: Vec<WorkerMain>,
    ) -> io::Result<Self> {
        if mains.is_empty() || limits.depth == 0 {
            return Err(io::Error::other("no thread, or no job in flight, is asked for"));
        }
        let shared = Arc::new(ContextState::new(limits.depth, mains.len())?);
        let (report, started) = mpsc::channel();
        let count = mains.len();
        let result = (mains.into_iter().enumerate())
            .try_for_each(|(index, body)| worker_main::start(&shared, index, body, report.clone()))
            .and_then(|()| {
                drop(report);
                started.into_iter().take(count).collect::<io::Result<()>>()
            });
        if let Err(error) = result {
            shared.stop();
            return Err(error);
        }
        Ok(Self {
            // The lowest number is taken first.
            free: (0..limits.depth as u32).rev().collect(),
            shared,
            limits,
            applied,
            accounting,
            staged: 0,
            reaped: 0,
            in_flight: 0,
            deadlines: Deadlines::default(),
            timer: Timer::default(),
            retired: Vec::new(),
            retired_ns: 0,
        })
    }

    /// Returns the limits on the jobs of this context.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes other sources and destinations from now on. The depth stays.
    pub fn set_longest(&mut self, max_source_bytes: u64, max_destination_bytes: u64) {
        self.limits.max_source_bytes = max_source_bytes;
        self.limits.max_destination_bytes = max_destination_bytes;
    }

    /// Submits jobs, like [`crate::Context::submit`].
    ///
    /// # Errors
    /// As there.
    pub fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        if self.shared.lost.load(Ordering::Acquire) {
            return Err(self.lost().into());
        }
        let submitted = Instant::now();
        let mut taken = 0;
        while let Some(job) = jobs.front() {
            if let Err(refusal) = self.limits.check(job) {
                if taken == 0 {
                    return Err(SubmitError::Refused { tag: job.tag, refusal });
                }
                break;
            }
            let Some(number) = self.free.pop() else { break };
            let Some(job) = jobs.pop_front() else { break };
            self.deadlines.add(job.deadline);
            *self.shared.slots[number as usize].lock() = SlotState::Queued { job, submitted };
            self.shared.submitted.stage(self.staged, number);
            self.staged = self.staged.wrapping_add(1);
            taken += 1;
            if taken == 1 {
                // A thread that looks for work begins while the others are staged.
                self.shared.submitted.publish(self.staged);
            }
        }
        if taken > 1 {
            self.shared.submitted.publish(self.staged);
        }
        if taken > 0 {
            self.shared.doorbell.ring(taken);
            self.in_flight += taken;
        }
        Ok(taken)
    }

    /// Returns completions, like [`crate::Context::poll`].
    ///
    /// # Errors
    /// As there.
    pub fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        let mut count = 0;
        if self.deadlines.is_due() {
            count = self.expire(out, max);
        }
        while count < max {
            let Some(number) = self.shared.finished.take(self.reaped) else {
                break;
            };
            self.reaped += 1;
            let state = std::mem::replace(
                &mut *self.shared.slots[number as usize].lock(),
                SlotState::Vacant,
            );
            self.free.push(number);
            if let SlotState::Finished(finished) = state {
                out.push(self.completion(finished));
                count += 1;
            }
        }
        // The flag is read before the queue: what a thread finished before it was lost is seen.
        let lost = count == 0 && max > 0 && self.shared.lost.load(Ordering::Acquire);
        if lost && !self.shared.finished.has(self.reaped) {
            return Err(self.lost());
        }
        Ok(count)
    }

    /// Returns the descriptor to wait on, like [`crate::Context::event_fd`]. It always exists.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.descriptor()
    }

    /// Arms the event, like [`crate::Context::arm`].
    ///
    /// # Errors
    /// As there.
    pub fn arm(&mut self) -> Result<bool, Lost> {
        if self.shared.finished.has(self.reaped) {
            return Ok(true);
        }
        if (self.timer.follow(self.deadlines.next(), &self.shared.event)).is_err() {
            // No descriptor is left for a timer, so deadlines are noticed by polling only.
            return Ok(true);
        }
        self.shared.event.clear();
        let enough = if self.limits.gather { (self.in_flight / 2).max(1) } else { 1 };
        let patience_ns = self.shared.time_ns(Instant::now()) + PATIENCE_NS;
        if !self.shared.finished.arm(self.reaped, enough, patience_ns) {
            return Ok(true);
        }
        let lost = self.shared.lost.load(Ordering::Acquire);
        if lost {
            return Err(self.lost());
        }
        Ok(false)
    }

    /// Returns the number of jobs in flight, like [`crate::Context::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the number of quarantined destinations, like [`crate::Context::quarantined`]. Those
    /// of replaced threads are included.
    pub fn quarantined(&self) -> usize {
        let one = |shared: &Arc<ContextState>| shared.quarantined.load(Ordering::Acquire);
        one(&self.shared) + self.retired.iter().map(one).sum::<usize>()
    }

    /// Returns the CPU time of the threads, like [`crate::Context::cpu_time`]. That of replaced
    /// threads is included.
    pub fn cpu_time(&self) -> CpuTime {
        let live = [&self.shared].into_iter().chain(&self.retired);
        let spent_ns = live.map(|shared| shared.spent_ns()).sum::<u64>() + self.retired_ns;
        self.accounting.cpu_time(spent_ns)
    }

    /// Exchanges the threads for other ones when nothing is in flight: `next` takes this one's
    /// place, and CPU time and quarantine of the old threads stay counted. Returns how long the
    /// old ones took to go.
    pub fn replace(&mut self, mut next: Self) -> Duration {
        let begin = Instant::now();
        self.shared.stop();
        if self.quarantined() == 0 {
            self.shared.wait_for_end(begin + REPLACE);
        }
        next.retired = std::mem::take(&mut self.retired);
        next.retired.push(Arc::clone(&self.shared));
        next.retired_ns = self.retired_ns;
        // Those that ended are counted for good; their memory goes.
        let now = Instant::now();
        let done = next.retired.extract_if(.., |old| old.wait_for_end(now));
        next.retired_ns += done.map(|old| old.spent_ns()).sum::<u64>();
        *self = next;
        begin.elapsed()
    }

    /// Closes the context, like [`crate::Context::close`]. `lifecycle` has the context's times that
    /// are known so far.
    pub fn close(mut self, mut lifecycle: Lifecycle, deadline: Instant) -> Closed {
        let mut completions = Vec::new();
        while self.in_flight > 0 {
            // A lost context has returned all it will.
            let Ok(count) = self.poll(&mut completions, usize::MAX) else {
                break;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if count == 0 && self.in_flight > 0 {
                let timeout = left.try_into().unwrap_or_default();
                let Ok(false) = self.arm() else { continue };
                // Interrupted or not, the loop looks again.
                let _ = crate::wait::readable(self.event_fd(), &timeout);
            }
        }
        let end = Instant::now();
        self.shared.stop();
        self.shared.wait_for_end(deadline);
        lifecycle.end_ns = Some(end.elapsed().as_nanos() as u64);
        let abandoned = self.part(&mut completions);
        Closed { completions, abandoned, lifecycle, cpu_time: self.cpu_time() }
    }

    /// Returns the jobs whose deadlines have passed, up to `max`, and finds the next deadline.
    fn expire(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        let (now, mut count) = (self.deadlines.renew(), 0);
        for number in 0..self.limits.depth {
            let mut state = self.shared.slots[number].lock();
            let Some(deadline) = state.deadline() else {
                continue;
            };
            if deadline > now || count == max {
                self.deadlines.add(Some(deadline));
                continue;
            }
            let Some((finished, quarantined)) = state.expire() else {
                continue;
            };
            if quarantined {
                // Counted before the thread can see it and confirm.
                self.shared.quarantined.fetch_add(1, Ordering::Relaxed);
            }
            drop(state);
            out.push(self.completion(finished));
            count += 1;
        }
        count
    }

    fn completion(&mut self, finished: FinishedJob) -> Completion {
        self.in_flight -= 1;
        let FinishedJob { tag, result, source, destination, stages } = finished;
        let applied = Arc::clone(&self.applied);
        Completion { tag, result, source, destination, stages, applied }
    }

    /// Appends finished jobs and returns the tags of others. Each job is checked only once, because threads
    /// may still finish some.
    fn part(&mut self, completions: &mut Vec<Completion>) -> Vec<u64> {
        let mut unfinished = Vec::new();
        for number in 0..self.limits.depth {
            let mut state = self.shared.slots[number].lock();
            match std::mem::replace(&mut *state, SlotState::Vacant) {
                SlotState::Finished(finished) => {
                    drop(state);
                    completions.push(self.completion(finished));
                }
                other => {
                    unfinished.extend(other.unfinished());
                    *state = other;
                }
            }
        }
        unfinished
    }

    fn unfinished(&self) -> Vec<u64> {
        self.shared.slots.iter().filter_map(|slot| slot.lock().unfinished()).collect()
    }

    fn lost(&self) -> Lost {
        let reason = lock(&self.shared.reason);
        let (device, tags) = (self.applied.device.clone(), self.unfinished());
        Lost { device, reason: reason.clone(), tags }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
