//! A device that does right or goes wrong job by job, as a test tells it to.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_device::*;
use overside_ops::{Kernel, prepare};

/// What it does with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Does it.
    Run,
    /// Does it after all later ones that it has.
    RunLate,
    /// Fails at it.
    Fail,
    /// Calls its source corrupt.
    CallCorrupt,
    /// Keeps it beyond its deadline, says so, and keeps the destination.
    Stall,
    /// Keeps it and never says anything.
    Forget,
    /// Is gone.
    Vanish,
    /// Does it and reports it twice.
    Duplicate,
    /// Does it and reports it as another.
    Rename,
    /// Says that it wrote more than there is room for.
    Overstate,
    /// Refuses it.
    Refuse,
    /// Has no place for it, nor for any after it.
    Decline,
}

/// How it is built and what it does.
pub struct Rig {
    pub name: &'static str,
    pub memory: MemoryKind,
    pub max_segments: usize,
    pub max_source_bytes: u64,
    /// What it does with its n-th job, over all contexts.
    pub act: Box<dyn Fn(u64) -> Act + Send + Sync>,
    /// Whether its n-th opening works.
    pub opens: Box<dyn Fn(u64) -> bool + Send + Sync>,
    /// Bytes a second, by the time since the device was made; as fast as it can if absent.
    pub rate: Option<Box<dyn Fn(Duration) -> f64 + Send + Sync>>,
    /// How long opening takes.
    pub opening: Duration,
}

impl Default for Rig {
    fn default() -> Self {
        Self {
            name: "rigged",
            memory: MemoryKind::Any,
            max_segments: 1,
            max_source_bytes: 1 << 20,
            act: Box::new(|_| Act::Run),
            opens: Box::new(|_| true),
            rate: None,
            opening: Duration::ZERO,
        }
    }
}

impl Rig {
    /// One that acts like this.
    pub fn acting(act: impl Fn(u64) -> Act + Send + Sync + 'static) -> Self {
        Self {
            act: Box::new(act),
            ..Self::default()
        }
    }

    pub fn device(self) -> Arc<Rigged> {
        let info = DeviceInfo {
            name: self.name.into(),
            driver: "test".into(),
            location: "this test".into(),
            description: "goes wrong when told to".into(),
            provenance: Provenance::Measured,
            timing: Timing::Real,
        };
        let able = Operation::all().into_iter().filter(|operation| {
            // Something that it cannot do.
            operation.to_string() != "hash-sha256"
        });
        let capabilities = able.map(|operation| Capability {
            operation,
            variants: vec!["auto".into()],
            max_source_bytes: self.max_source_bytes,
            max_destination_bytes: 1 << 20,
            max_segments: self.max_segments,
            max_depth: 64,
            event: false,
            memory: self.memory,
            missing: Vec::new(),
        });
        let capabilities = Capabilities::new(capabilities.collect());
        Arc::new(Rigged(Arc::new(Shared {
            id: DeviceId::unique(),
            info,
            capabilities,
            rig: self,
            jobs: AtomicU64::new(0),
            openings: AtomicU64::new(0),
            done: Mutex::default(),
            epoch: Instant::now(),
        })))
    }
}

struct Shared {
    id: DeviceId,
    info: DeviceInfo,
    capabilities: Capabilities,
    rig: Rig,
    jobs: AtomicU64,
    openings: AtomicU64,
    /// The sources of the jobs that it did.
    done: Mutex<Vec<Vec<u8>>>,
    epoch: Instant,
}

pub struct Rigged(Arc<Shared>);

impl Rigged {
    /// Jobs that it was given.
    pub fn jobs(&self) -> u64 {
        self.0.jobs.load(Ordering::Relaxed)
    }

    /// How often it was opened, or was to be.
    pub fn openings(&self) -> u64 {
        self.0.openings.load(Ordering::Relaxed)
    }

    /// The sources of the jobs that it did, in the order in which it did them.
    pub fn done(&self) -> Vec<Vec<u8>> {
        self.0.done.lock().unwrap().clone()
    }
}

impl Shared {
    fn registration(&self) -> Option<Registration> {
        (self.rig.memory == MemoryKind::Registered).then(|| Registration {
            device: self.id,
            handle: Arc::new(()),
        })
    }

    fn lost(&self, held: &[Held]) -> Lost {
        Lost {
            device: self.info.name.clone(),
            reason: "somebody pulled it out".into(),
            tags: held.iter().map(|held| held.job.tag).collect(),
        }
    }

    fn check(&self, config: &ContextConfig, job: &Job) -> Result<(), Refusal> {
        let len = job.source.len() as u64;
        if len > config.max_source_bytes {
            return Err(Refusal::SourceTooLong {
                len,
                max: config.max_source_bytes,
            });
        }
        let segments = job.source.segments().len();
        if segments > self.rig.max_segments {
            return Err(Refusal::TooManySegments {
                segments,
                max: self.rig.max_segments,
            });
        }
        let mut registrations = (job.source.segments().iter().map(Slice::registration))
            .chain([job.destination.registration()]);
        let ours = |held: Option<&Registration>| held.is_some_and(|held| held.device == self.id);
        if self.rig.memory == MemoryKind::Registered && !registrations.all(ours) {
            return Err(Refusal::Unregistered);
        }
        Ok(())
    }
}

impl Device for Rigged {
    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        Region::allocate(len, align, self.0.registration())
    }

    fn register(&self, foreign: Foreign) -> Result<Slice, MemoryError> {
        Ok(Slice::from_foreign(foreign, self.0.registration()))
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let nth = self.0.openings.fetch_add(1, Ordering::Relaxed);
        self.0.capabilities.check(&self.0.info.name, &config)?;
        std::thread::sleep(self.0.rig.opening);
        if !(self.0.rig.opens)(nth) {
            let device = self.0.info.name.clone();
            return Err(OpenError::Failed {
                device,
                reason: "not now".into(),
            });
        }
        let prepared = prepare(&config.operation)?;
        let variant = prepared.variant();
        let applied = Applied {
            device: self.0.info.name.clone(),
            driver: "test".into(),
            variant: variant.name.into(),
            library: variant.title(),
            provenance: Provenance::Measured,
        };
        Ok(Box::new(RiggedContext {
            shared: Arc::clone(&self.0),
            operation: config.operation.operation,
            config,
            kernel: prepared.kernel()?,
            applied: Arc::new(applied),
            held: Vec::new(),
            ready: VecDeque::new(),
            kept: Vec::new(),
            free_at: Instant::now(),
            vanished: false,
        }))
    }
}

/// A job that it has not reported.
struct Held {
    job: Job,
    act: Act,
    due: Instant,
}

struct RiggedContext {
    shared: Arc<Shared>,
    operation: Operation,
    config: ContextConfig,
    kernel: Box<dyn Kernel>,
    applied: Arc<Applied>,
    held: Vec<Held>,
    ready: VecDeque<Completion>,
    /// Destinations in quarantine, which it writes to when it pleases.
    kept: Vec<Region>,
    free_at: Instant,
    vanished: bool,
}

impl RiggedContext {
    fn due(&mut self, bytes: usize) -> Instant {
        let now = Instant::now();
        let Some(rate) = &self.shared.rig.rate else {
            return now;
        };
        let seconds = bytes as f64 / rate(self.shared.epoch.elapsed());
        self.free_at = self.free_at.max(now) + Duration::from_secs_f64(seconds);
        self.free_at
    }

    fn complete(&mut self, held: Held) {
        let Held { mut job, act, .. } = held;
        let source: Vec<&[u8]> = job.source.segments().iter().map(|slice| &**slice).collect();
        let result = self.kernel.run(&source, &mut job.destination);
        let (source_len, capacity) = (job.source.len(), job.destination.len());
        let result = threads::outcome(self.operation, source_len, capacity, result);
        let result = match act {
            Act::Fail => Err(JobError::Failed("as told".into())),
            Act::CallCorrupt => Err(JobError::Corrupt("as told".into())),
            Act::Overstate => {
                let (written, value) = (capacity + 1, None);
                Ok(Outcome::Done(Output { written, value }))
            }
            _ => result,
        };
        if result.is_ok() && act != Act::Rename {
            self.shared.done.lock().unwrap().push(source.concat());
        }
        if !matches!(result, Ok(Outcome::Done(_))) {
            job.destination.fill(0xEE);
        }
        let tag = if act == Act::Rename {
            job.tag + 1000
        } else {
            job.tag
        };
        let (source, again) = (job.source.clone(), result.clone());
        self.report(tag, result, job.source, Some(job.destination));
        if act == Act::Duplicate {
            self.report(tag, again, source, None);
        }
    }

    fn report(
        &mut self,
        tag: u64,
        result: Result<Outcome, JobError>,
        source: Source,
        destination: Option<Region>,
    ) {
        self.ready.push_back(Completion {
            tag,
            result,
            source,
            destination,
            stages: Stages::default(),
            applied: Arc::clone(&self.applied),
        });
    }

    /// Does what can be done by now.
    fn work(&mut self) {
        for region in &mut self.kept {
            // A late engine.
            region.fill(0xDD);
        }
        let now = Instant::now();
        let later: Vec<Held> = std::mem::take(&mut self.held);
        let only_late = later.iter().all(|held| held.act == Act::RunLate);
        for held in later {
            match held.act {
                Act::Vanish => self.vanished = true,
                Act::Stall if held.job.deadline.is_some_and(|at| now >= at) => {
                    let Job {
                        tag,
                        source,
                        destination,
                        ..
                    } = held.job;
                    self.kept.push(destination);
                    self.report(tag, Err(JobError::DeadlineExceeded), source, None);
                }
                Act::RunLate if only_late && now >= held.due => self.complete(held),
                Act::Stall | Act::Forget | Act::RunLate => self.held.push(held),
                _ if self.vanished || now < held.due => self.held.push(held),
                _ => self.complete(held),
            }
        }
    }
}

impl Context for RiggedContext {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        if self.vanished {
            return Err(self.shared.lost(&self.held).into());
        }
        let mut taken = 0;
        while let Some(job) = jobs.front() {
            let nth = self.shared.jobs.load(Ordering::Relaxed);
            let act = (self.shared.rig.act)(nth);
            let refusal = match self.shared.check(&self.config, job) {
                Ok(()) if act == Act::Refuse => Some(Refusal::Unregistered),
                Ok(()) => None,
                Err(refusal) => Some(refusal),
            };
            if let Some(refusal) = refusal {
                if taken > 0 {
                    break;
                }
                self.shared.jobs.fetch_add(1, Ordering::Relaxed);
                return Err(SubmitError::Refused {
                    tag: job.tag,
                    refusal,
                });
            }
            let is_full = self.in_flight() + self.kept.len() >= self.config.depth;
            if is_full || act == Act::Decline {
                break;
            }
            let Some(job) = jobs.pop_front() else { break };
            self.shared.jobs.fetch_add(1, Ordering::Relaxed);
            let due = self.due(job.source.len());
            self.held.push(Held { job, act, due });
            taken += 1;
        }
        Ok(taken)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.work();
        let count = self.ready.len().min(max);
        out.extend(self.ready.drain(..count));
        if count == 0 && self.vanished {
            return Err(self.shared.lost(&self.held));
        }
        Ok(count)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        Err(self.shared.lost(&self.held))
    }

    fn in_flight(&self) -> usize {
        self.held.len() + self.ready.len()
    }

    fn quarantined(&self) -> usize {
        self.kept.len()
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        if self.in_flight() > 0 {
            return Err(OpenError::InFlight(self.in_flight()));
        }
        self.config = config;
        Ok(())
    }

    fn lifecycle(&self) -> Lifecycle {
        Lifecycle {
            init_ns: Some(self.shared.rig.opening.as_nanos() as u64),
            ..Lifecycle::default()
        }
    }

    fn cpu_time(&self) -> CpuTime {
        CpuTime::default()
    }

    fn close(self: Box<Self>, _deadline: Instant) -> Closed {
        Closed {
            completions: self.ready.into(),
            abandoned: self.held.iter().map(|held| held.job.tag).collect(),
            lifecycle: Lifecycle::default(),
            cpu_time: CpuTime::default(),
        }
    }
}
