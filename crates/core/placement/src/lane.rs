//! One target of a stream: its context, the jobs on their way into it, and the counts of its work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{
    Clock, Completion, Context, ContextConfig, Device, DeviceId, Job, JobError, Lifecycle, Lost,
    MemoryError, MemoryKind, OpenError, Outcome, Region, Slice, Source, SubmitError,
};
use overside_layers::TimeLimit;

use crate::adaptive::TargetState;
use crate::adaptive::throughput::ThroughputEstimator;
use crate::memory::{Buffer, Pool};
use crate::report::add;
use crate::{Setup, Target, TargetReport, WINDOW_MAX};

/// Longest time that closing a context waits for the jobs in flight.
const CLOSE: Duration = Duration::from_secs(1);

/// Shortest time without a completion after which a device counts as silent.
const SILENCE: Duration = Duration::from_millis(100);

/// The device of a target.
pub(crate) struct Lane {
    target: Target,
    device: Arc<dyn Device>,
    clock: Clock,
    pub(crate) config: ContextConfig,
    context: Option<Box<dyn Context>>,
    /// The context is to be set up again before it is used.
    is_stale: bool,
    /// Jobs to be submitted at the next doorbell.
    offered: VecDeque<Job>,
    /// Jobs that the context has.
    running: usize,
    /// Source bytes of the jobs that it has, handed over or about to be.
    outstanding_bytes: u64,
    requirements: MemoryRequirements,
    /// Pool of this lane's own destinations.
    own: Arc<Pool>,
    /// Pool that destinations are taken from: this lane's own pool, or a device's. That device's
    /// lane then accounts for the memory.
    pub(crate) destinations: Arc<Pool>,
    bounce: Arc<Pool>,
    /// Pool of buffers in plain memory. Results are copied there from memory that only the device
    /// can address.
    results: Arc<Pool>,
    /// Time of the last completion or, if that is later, the time at which the lane last got work.
    progress: Instant,
    /// Time of the last poll: a caller that is away hears nothing of a device that works.
    pub(crate) polled: Instant,
    /// The longest time in which nothing came back though it had something to do.
    longest_gap: Duration,
    /// Time of the last completion; `None` before the first.
    last_done: Option<Instant>,
    throughput: ThroughputEstimator,
    pub(crate) tally: TargetReport,
    /// Sources copied because the device cannot reach them, and their bytes.
    pub(crate) bounced: (u64, u64),
}

/// The memory and the sources that a device takes.
struct MemoryRequirements {
    kind: MemoryKind,
    /// The device, if only its own memory will do.
    id: Option<DeviceId>,
    max_segments: usize,
}

impl Lane {
    /// A lane that is not open. `lenient`: chunks longer than the device takes go to other targets.
    pub(crate) fn new(
        device: &Arc<dyn Device>,
        target: Target,
        setup: &Setup,
        lenient: bool,
    ) -> Result<Self, OpenError> {
        let (config, max_segments, kind) = plan(&**device, target, setup, lenient)?;
        let id = match kind {
            MemoryKind::Any => None,
            MemoryKind::Registered | MemoryKind::Device => Some(identity(&**device)?),
        };
        let [own, bounce] = pools(device, &config, setup, id.is_some());
        Ok(Self {
            destinations: Arc::clone(&own),
            own,
            bounce,
            results: Pool::plain(config.max_destination_bytes as usize, setup.window()),
            requirements: MemoryRequirements { kind, id, max_segments },
            device: match target {
                Target::Cpu => Arc::clone(device),
                Target::Device(_) => {
                    let clock = setup.clock.clone();
                    TimeLimit::on_clock(Arc::clone(device), setup.job_timeout, clock)
                }
            },
            clock: setup.clock.clone(),
            target,
            context: None,
            is_stale: false,
            offered: VecDeque::with_capacity(config.depth),
            running: 0,
            outstanding_bytes: 0,
            progress: setup.clock.now(),
            polled: setup.clock.now(),
            longest_gap: Duration::ZERO,
            last_done: None,
            throughput: ThroughputEstimator::default(),
            tally: TargetReport { device: device.info().name.clone(), ..TargetReport::default() },
            bounced: (0, 0),
            config,
        })
    }

    /// Returns `true` if the device takes only memory that it allocated or registered, which the
    /// CPU can address as well.
    pub(crate) fn is_registered(&self) -> bool {
        self.requirements.kind == MemoryKind::Registered
    }

    /// Returns `true` if the device works in memory that only it can address.
    fn has_own_memory(&self) -> bool {
        self.requirements.kind == MemoryKind::Device
    }

    /// A pool of sources for this device, which the CPU fills.
    pub(crate) fn pool(&self, bytes: usize, keep: usize) -> Arc<Pool> {
        if self.has_own_memory() {
            return Pool::plain(bytes, keep);
        }
        Pool::new(&self.device, bytes, keep, self.is_registered())
    }

    /// Takes destinations out of another target's pool, if they are as long and within reach: then
    /// destinations that one target gives back serve the other.
    pub(crate) fn share_destinations(&mut self, other: &Self) {
        let same = self.config.max_destination_bytes == other.config.max_destination_bytes;
        if same && self.requirements.id.is_none() && !other.has_own_memory() {
            self.destinations = Arc::clone(&other.own);
        }
    }

    /// The device, with its time limit where it has one.
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    pub(crate) fn name(&self) -> &str {
        &self.tally.device
    }

    /// Returns `true` if the context is open and need not be set up again before it takes jobs.
    pub(crate) fn is_open(&self) -> bool {
        self.context.is_some() && !self.is_stale
    }

    /// Opens the context if it is not, or sets it up again if that is due.
    pub(crate) fn open(&mut self) -> Result<(), OpenError> {
        let config = self.config.clone();
        let begin = self.clock.now();
        let action = if self.is_stale { "reconfigured" } else { "opened" };
        let lifecycle = match &mut self.context {
            Some(_) if !self.is_stale => return Ok(()),
            Some(context) => {
                context.reconfigure(config)?;
                let lifecycle = context.lifecycle();
                add(&mut self.tally.lifecycle.end_ns, lifecycle.end_ns);
                lifecycle
            }
            none => none.insert(self.device.open(config)?).lifecycle(),
        };
        self.is_stale = false;
        self.set_up(&lifecycle);
        self.progress = self.clock.now();
        tracing::debug!(
            device = self.name(),
            operation = %self.config.operation.operation,
            depth = self.config.depth,
            elapsed_ns = (self.progress - begin).as_nanos() as u64,
            discovery_ns = lifecycle.discovery_ns,
            init_ns = lifecycle.init_ns,
            memory_ns = lifecycle.memory_ns,
            "context {action}"
        );
        Ok(())
    }

    fn set_up(&mut self, lifecycle: &Lifecycle) {
        let total = &mut self.tally.lifecycle;
        add(&mut total.discovery_ns, lifecycle.discovery_ns);
        add(&mut total.init_ns, lifecycle.init_ns);
        add(&mut total.memory_ns, lifecycle.memory_ns);
        self.tally.setups += 1;
    }

    pub(crate) fn depth(&self) -> usize {
        self.config.depth
    }

    /// Jobs that it has, handed over or about to be.
    pub(crate) fn load(&self) -> usize {
        self.running + self.offered.len()
    }

    /// Returns `true` if jobs are offered that the context does not take although it has none in
    /// flight.
    pub(crate) fn is_stuck(&self) -> bool {
        self.running == 0 && !self.offered.is_empty()
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Returns `true` if the chunk's source and destination are within the lane's limits.
    pub(crate) fn takes(&self, source_bytes: usize, destination_bytes: usize) -> bool {
        source_bytes as u64 <= self.config.max_source_bytes
            && destination_bytes as u64 <= self.config.max_destination_bytes
    }

    /// Makes a job of a source, to be submitted at the next doorbell. Returns the source if it must be kept
    /// until the job has finished, because it may be needed again or is not returned.
    pub(crate) fn offer(
        &mut self,
        tag: u64,
        source: Source,
    ) -> Result<Option<Source>, MemoryError> {
        let destination = self.destinations.take()?;
        let (source, kept) = if self.requirements.are_met(&source) {
            let kept = (self.target.is_device()).then(|| source.clone());
            (source, kept)
        } else {
            (self.bounce(&source)?, Some(source))
        };
        if self.load() == 0 {
            self.progress = self.clock.now();
        }
        self.outstanding_bytes += source.len() as u64;
        self.offered.push_back(Job { tag, source, destination, deadline: None });
        Ok(kept)
    }

    /// Returns `true` if the result did not fit and the job is to be run again with a longer
    /// destination.
    pub(crate) fn grows(&self, result: &Result<Outcome, JobError>) -> bool {
        let most = self.config.max_destination_bytes;
        matches!(result, Err(JobError::OutputTooSmall { capacity }) if (*capacity as u64) < most)
    }

    /// Offers a job again whose result did not fit, with a destination twice as long.
    pub(crate) fn grow(&mut self, completion: Completion) -> Result<(), MemoryError> {
        let Err(JobError::OutputTooSmall { capacity }) = completion.result else {
            return Ok(());
        };
        if let Some(region) = completion.destination {
            self.destinations.put(region);
        }
        let most = self.config.max_destination_bytes as usize;
        let destination = self.destinations.take_len((2 * capacity).clamp(1, most))?;
        self.tally.grown += 1;
        self.outstanding_bytes += completion.source.len() as u64;
        self.offered.push_front(Job {
            tag: completion.tag,
            source: completion.source,
            destination,
            deadline: None,
        });
        Ok(())
    }

    /// A copy of a source within the device's reach.
    fn bounce(&mut self, source: &Source) -> Result<Source, MemoryError> {
        let mut region = self.bounce.take()?;
        let mut at = 0;
        for segment in source.segments() {
            self.device.write(&mut region, at, segment.bytes()?)?;
            at += segment.len();
        }
        self.bounced.0 += 1;
        self.bounced.1 += at as u64;
        Ok(self.bounce.lend(region).slice(0..at).into())
    }

    /// The result of `written` bytes in a destination, where the CPU can address it.
    pub(crate) fn result(&self, region: Region, written: usize) -> Result<Buffer, MemoryError> {
        if !self.has_own_memory() {
            return Ok(Buffer::new(region, &self.destinations));
        }
        let mut result = self.results.take()?;
        let read = self.device.read(&region, 0, &mut result[..written]);
        self.destinations.put(region);
        read.map(|()| Buffer::new(result, &self.results))
    }

    /// Returns `true` if it is time to submit the offered jobs. That is so if they are at least
    /// half of the depth, or if no job is in flight.
    pub(crate) fn is_kick_due(&self) -> bool {
        !self.offered.is_empty()
            && (self.running == 0 || self.offered.len() >= self.config.depth.div_ceil(2))
    }

    /// Submits offered jobs; the context may take fewer. Returns their number.
    pub(crate) fn kick(&mut self) -> Result<usize, SubmitError> {
        let Some(context) = &mut self.context else {
            return Ok(0);
        };
        if self.offered.is_empty() {
            return Ok(0);
        }
        let idle = self.running == 0;
        let taken = context.submit(&mut self.offered)?;
        self.running += taken;
        if idle && taken > 0 {
            self.progress = self.clock.now();
            self.throughput.begin(self.progress);
        }
        Ok(taken)
    }

    /// Takes back the next job that is offered.
    pub(crate) fn withdraw(&mut self) -> Option<u64> {
        let job = self.offered.pop_front()?;
        let bytes = job.source.len() as u64;
        self.outstanding_bytes = self.outstanding_bytes.saturating_sub(bytes);
        self.destinations.put(job.destination);
        Some(job.tag)
    }

    /// Collects completions and counts the time.
    pub(crate) fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), Lost> {
        self.polled = self.clock.now();
        let Some(context) = &mut self.context else {
            return Ok(());
        };
        if self.running == 0 {
            return Ok(());
        }
        let count = context.poll(out, self.config.depth)?;
        if count > 0 {
            let now = self.clock.now();
            let since = now - self.progress;
            self.tally.busy_ns += since.as_nanos() as u64;
            self.progress = now;
            self.last_done = Some(now);
            self.longest_gap = self.longest_gap.max(since);
            let done = out.iter().filter(|done| done.result.is_ok());
            let sizes = done.map(|done| done.source.len() as u64);
            self.throughput.done(sizes, since, now);
            self.running = self.running.saturating_sub(count);
            let bytes: u64 = (out.iter().map(|done| done.source.len() as u64)).sum();
            self.outstanding_bytes = self.outstanding_bytes.saturating_sub(bytes);
            if self.running == 0 {
                self.throughput.end(now);
            }
        }
        Ok(())
    }

    /// Returns the time of the last completion or, if that is later, the time at which the lane
    /// last got work.
    pub(crate) fn last_progress(&self) -> Instant {
        self.progress
    }

    /// Returns the time of the last completion; `None` before the first.
    pub(crate) fn last_done(&self) -> Option<Instant> {
        self.last_done
    }

    /// Returns the state of the target, which the adaptive scheduler decides by.
    pub(crate) fn state(&self, is_silent: bool, is_out: bool) -> TargetState {
        let (bytes, busy) = self.throughput.so_far();
        TargetState {
            is_silent,
            is_out,
            chunks: self.tally.chunks,
            bytes,
            busy,
            outstanding_bytes: self.outstanding_bytes,
            depth: self.config.depth,
            silent_since: (self.running > 0).then_some(self.progress),
        }
    }

    pub(crate) fn context(&self) -> Option<&dyn Context> {
        self.context.as_deref()
    }

    pub(crate) fn context_mut(&mut self) -> Option<&mut (dyn Context + 'static)> {
        self.context.as_deref_mut()
    }

    /// Returns the time from which the target counts as silent, if no job completes before. That is
    /// four times its longest gap so far after its last progress, and at least [`SILENCE`]. `None`
    /// if it has no jobs.
    pub(crate) fn silent_at(&self) -> Option<Instant> {
        let usual = (self.longest_gap * 4).max(SILENCE);
        (self.load() > 0).then(|| self.progress + usual)
    }

    /// Destinations that its engine may still write to though their jobs are over.
    pub(crate) fn quarantined(&self) -> usize {
        (self.context.as_ref()).map_or(0, |context| context.quarantined())
    }

    /// Drops the context with its jobs in flight. Returns their number; their destinations do not
    /// come back.
    pub(crate) fn abandon(&mut self) -> usize {
        while self.withdraw().is_some() {}
        self.throughput.drop_run();
        if let Some(context) = self.context.take() {
            self.tally.cpu_time = self.tally.cpu_time.plus(context.cpu_time());
            let (device, running) = (self.name(), self.running);
            tracing::debug!(device, running, "context abandoned");
        }
        self.outstanding_bytes = 0;
        self.is_stale = false;
        std::mem::take(&mut self.running)
    }

    /// Closes the context and waits for its jobs in flight, though not for ever. Returns how many
    /// destinations do not come back.
    pub(crate) fn close(&mut self) -> usize {
        let Some(context) = self.context.take() else {
            return 0;
        };
        let quarantined = context.quarantined();
        let timeout = if quarantined > 0 { Duration::ZERO } else { CLOSE };
        let closed = context.close(Instant::now() + timeout);
        add(&mut self.tally.lifecycle.end_ns, closed.lifecycle.end_ns);
        self.tally.cpu_time = self.tally.cpu_time.plus(closed.cpu_time);
        self.running = 0;
        self.outstanding_bytes = 0;
        self.offered.clear();
        tracing::debug!(
            device = self.name(),
            end_ns = closed.lifecycle.end_ns,
            abandoned = closed.abandoned.len(),
            quarantined,
            "context closed"
        );
        quarantined + closed.abandoned.len()
    }

    /// Makes everything that belongs to it new: the buffers now, the context when it is next
    /// opened. Returns how many destinations do not come back.
    pub(crate) fn reconfigure(&mut self) -> usize {
        self.own = self.own.recreate();
        self.destinations = Arc::clone(&self.own);
        self.bounce = self.bounce.recreate();
        self.results = self.results.recreate();
        // A CPU's threads and kernels do not depend on the size of buffers, so setting up its
        // context again would change nothing: it ends, and begins anew.
        // Neither can a context be set up again that has a job whose chunk the CPU did.
        if self.target == Target::Cpu || self.running > 0 {
            return self.close();
        }
        self.is_stale = self.context.is_some();
        0
    }

    /// Returns the report of the lane's work so far.
    pub(crate) fn report(&self) -> TargetReport {
        let mut report = self.tally.clone();
        if let Some(context) = &self.context {
            report.cpu_time = report.cpu_time.plus(context.cpu_time());
        }
        report
    }

    /// Time spent on making its buffers.
    pub(crate) fn memory_spent(&self) -> Duration {
        self.own.spent() + self.bounce.spent() + self.results.spent()
    }
}

impl MemoryRequirements {
    fn are_met(&self, source: &Source) -> bool {
        let segments = source.segments();
        // What cannot be addressed cannot be copied: whether it is in order, the device says.
        let is_in_reach = |segment: &Slice, id| {
            (segment.registration()).is_some_and(|registration| registration.device == id)
                || !segment.is_addressable()
        };
        segments.len() <= self.max_segments
            && (self.id).is_none_or(|id| segments.iter().all(|segment| is_in_reach(segment, id)))
    }
}

/// Returns the configuration of the target's context, the most segments of a source, and the kind
/// of memory.
fn plan(
    device: &dyn Device,
    target: Target,
    setup: &Setup,
    lenient: bool,
) -> Result<(ContextConfig, usize, MemoryKind), OpenError> {
    let name = &device.info().name;
    let mut config = setup.config(target);
    let operation = config.operation.operation;
    let Some(known) = device.capabilities().get(operation) else {
        let device = name.clone();
        return Err(OpenError::Unsupported { device, operation });
    };
    config.depth = (config.depth.min(known.max_depth)).clamp(1, WINDOW_MAX);
    if lenient {
        config.max_source_bytes = config.max_source_bytes.min(known.max_source_bytes);
        config.max_destination_bytes =
            (config.max_destination_bytes).min(known.max_destination_bytes);
    }
    known.check(name, &config)?;
    Ok((config, known.max_segments, known.memory))
}

/// Returns pools for destinations, and for copies of sources that the device cannot reach.
fn pools(
    device: &Arc<dyn Device>,
    config: &ContextConfig,
    setup: &Setup,
    registered: bool,
) -> [Arc<Pool>; 2] {
    let pool = |bytes: u64, keep| Pool::new(device, bytes as usize, keep, registered);
    let most = config.max_destination_bytes;
    let first = (setup.first_destination_bytes).map_or(most, |first| most.min(first as u64));
    [pool(first, setup.window()), pool(config.max_source_bytes, config.depth)]
}

/// Returns the id that memory of this device is registered under. It allocates one byte to find
/// out.
fn identity(device: &dyn Device) -> Result<DeviceId, OpenError> {
    let failed = |reason: String| OpenError::Failed { device: device.info().name.clone(), reason };
    let region = (device.alloc(1, 1)).map_err(|error| failed(error.to_string()))?;
    let registration = region.registration().map(|registration| registration.device);
    registration.ok_or_else(|| failed("its memory does not say whose it is".into()))
}
