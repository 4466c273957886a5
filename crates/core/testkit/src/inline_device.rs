//! A device without threads.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_device::threads::{Limits, outcome};
use overside_device::{
    Applied, Capabilities, Capability, Clock, Closed, Completion, Context, ContextConfig, CpuTime,
    Device, DeviceId, DeviceInfo, Job, JobError, Lifecycle, Lost, MemoryKind, OpenError, Operation,
    Provenance, Registration, Stages, SubmitError, Timing,
};
use overside_ops::{Kernel, prepare, usable_variants};

/// Longest destination that the device accepts, in bytes.
const MAX_DESTINATION_BYTES: u64 = 1 << 20;
/// Maximum number of jobs in flight in one context of the device.
const MAX_DEPTH: usize = 64;

/// Bytes a second, by the time since the device was made.
type Rate = dyn Fn(Duration) -> f64 + Send + Sync;

/// Settings of an [`InlineDevice`]: its limits, memory, speed and clock.
pub struct InlineOptions {
    /// Name of the device in its [`DeviceInfo`].
    pub name: &'static str,
    /// The memory that it takes.
    pub memory: MemoryKind,
    /// Maximum number of segments of a source.
    pub max_segments: usize,
    /// The longest source in bytes.
    pub max_source_bytes: u64,
    /// Throughput of the device in bytes a second, by the time since it was made. `None`: as fast
    /// as it can.
    pub rate: Option<Box<Rate>>,
    /// Time that opening a context takes.
    pub opening: Duration,
    /// Clock by which the device measures and waits.
    pub clock: Clock,
}

impl Default for InlineOptions {
    fn default() -> Self {
        Self {
            name: "inline",
            memory: MemoryKind::Any,
            max_segments: 1,
            max_source_bytes: 1 << 20,
            rate: None,
            opening: Duration::ZERO,
            clock: Clock::default(),
        }
    }
}

struct DeviceState {
    id: DeviceId,
    info: DeviceInfo,
    capabilities: Capabilities,
    options: InlineOptions,
    done: Mutex<Vec<Vec<u8>>>,
    epoch: Instant,
}

/// A device that works on the caller's thread when it is polled, in the order of the jobs. It does
/// everything but `hash-sha256`, and has no events.
pub struct InlineDevice(Arc<DeviceState>);

impl InlineDevice {
    /// A device with these options.
    pub fn new(options: InlineOptions) -> Self {
        let info = DeviceInfo {
            name: options.name.into(),
            driver: "test".into(),
            location: "this test".into(),
            description: "works when it is polled".into(),
            provenance: Provenance::Measured,
            timing: match options.clock.is_virtual() {
                true => Timing::Virtual,
                false => Timing::Real,
            },
        };
        let able = (Operation::all().into_iter())
            .filter(|operation| operation.to_string() != "hash-sha256");
        let capabilities = able.filter_map(|operation| {
            Some(Capability {
                operation,
                variants: vec![usable_variants(operation).first()?.0.name.into()],
                max_source_bytes: options.max_source_bytes,
                max_destination_bytes: MAX_DESTINATION_BYTES,
                max_segments: options.max_segments,
                max_depth: MAX_DEPTH,
                event: false,
                memory: options.memory,
                missing: Vec::new(),
            })
        });
        Self(Arc::new(DeviceState {
            id: DeviceId::unique(),
            info,
            capabilities: Capabilities::new(capabilities.collect()),
            done: Mutex::default(),
            epoch: options.clock.now(),
            options,
        }))
    }

    /// The sources of the jobs that it did, in the order in which it did them.
    pub fn done(&self) -> Vec<Vec<u8>> {
        lock(&self.0.done).clone()
    }
}

impl DeviceState {
    /// Creates the limits and the kernel for a context with this configuration.
    fn open(&self, config: &ContextConfig) -> Result<(Limits, Work), OpenError> {
        let capability = self.capabilities.check(&self.info.name, config)?;
        let prepared = prepare(&config.operation)?;
        let work = Work {
            operation: config.operation.operation,
            kernel: prepared.kernel()?,
            applied: Arc::new(Applied::of(&self.info, prepared.variant())),
        };
        Ok((Limits::new(self.id, capability, config), work))
    }
}

impl Device for InlineDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn registration(&self) -> Option<Registration> {
        (self.0.options.memory == MemoryKind::Registered)
            .then(|| Registration { device: self.0.id, handle: Arc::new(()) })
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        self.0.options.clock.sleep(self.0.options.opening);
        let (limits, work) = self.0.open(&config)?;
        Ok(Box::new(InlineContext {
            shared: Arc::clone(&self.0),
            limits,
            work,
            queue: VecDeque::new(),
            free_at: self.0.options.clock.now(),
        }))
    }
}

struct Work {
    operation: Operation,
    kernel: Box<dyn Kernel>,
    applied: Arc<Applied>,
}

struct InlineContext {
    shared: Arc<DeviceState>,
    limits: Limits,
    work: Work,
    /// Jobs, each with the time at which it may be done.
    queue: VecDeque<(Job, Instant)>,
    free_at: Instant,
}

impl InlineContext {
    fn due(&mut self, bytes: usize) -> Instant {
        let clock = &self.shared.options.clock;
        let now = clock.now();
        let Some(rate) = &self.shared.options.rate else {
            return now;
        };
        let seconds = bytes as f64 / rate(clock.since(self.shared.epoch));
        self.free_at = self.free_at.max(now) + Duration::from_secs_f64(seconds);
        clock.schedule(self.free_at);
        self.free_at
    }

    fn complete(&mut self, mut job: Job) -> Completion {
        let work = &mut self.work;
        let source: Vec<&[u8]> = job.source.segments().iter().map(|slice| &**slice).collect();
        let (len, capacity) = (job.source.len(), job.destination.len());
        let now = self.shared.options.clock.now();
        let is_late = job.deadline.is_some_and(|at| now >= at);
        let result = if is_late {
            Err(JobError::DeadlineExceeded)
        } else {
            let result = work.kernel.run(&source, &mut job.destination);
            outcome(work.operation, len, capacity, result)
        };
        if result.is_ok() {
            lock(&self.shared.done).push(source.concat());
        }
        Completion {
            tag: job.tag,
            result,
            source: job.source,
            destination: Some(job.destination),
            stages: Stages::default(),
            applied: Arc::clone(&work.applied),
        }
    }
}

impl Context for InlineContext {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        let mut taken = 0;
        while let Some(job) = jobs.front() {
            if let Err(refusal) = self.limits.check(job) {
                let tag = job.tag;
                match taken {
                    0 => return Err(SubmitError::Refused { tag, refusal }),
                    _ => break,
                }
            }
            if self.queue.len() >= self.limits.depth {
                break;
            }
            let due = self.due(job.source.len());
            self.queue.extend(jobs.pop_front().map(|job| (job, due)));
            taken += 1;
        }
        Ok(taken)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        let (now, mut count) = (self.shared.options.clock.now(), 0);
        while count < max
            && let Some((job, _)) = self.queue.pop_front_if(|(_, due)| *due <= now)
        {
            out.push(self.complete(job));
            count += 1;
        }
        Ok(count)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        Err(Lost {
            device: self.shared.info.name.clone(),
            reason: "it can only be polled".into(),
            tags: self.queue.iter().map(|(job, _)| job.tag).collect(),
        })
    }

    fn in_flight(&self) -> usize {
        self.queue.len()
    }

    fn quarantined(&self) -> usize {
        0
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        if !self.queue.is_empty() {
            return Err(OpenError::InFlight(self.queue.len()));
        }
        (self.limits, self.work) = self.shared.open(&config)?;
        Ok(())
    }

    fn lifecycle(&self) -> Lifecycle {
        Lifecycle {
            init_ns: Some(self.shared.options.opening.as_nanos() as u64),
            ..Lifecycle::default()
        }
    }

    fn cpu_time(&self) -> CpuTime {
        CpuTime::default()
    }

    fn close(mut self: Box<Self>, _deadline: Instant) -> Closed {
        let mut completions = Vec::new();
        while let Some((job, _)) = self.queue.pop_front() {
            completions.push(self.complete(job));
        }
        Closed {
            completions,
            abandoned: Vec::new(),
            lifecycle: self.lifecycle(),
            cpu_time: CpuTime::default(),
        }
    }
}
