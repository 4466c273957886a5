//! Targets in virtual time: each is one engine with a fixed time for a job and for a byte.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_device::threads::{CpuAccounting, Limits};
use overside_device::{
    Applied, Capabilities, Capability, Clock, ComputedJob, Context, ContextConfig, Device,
    DeviceId, DeviceInfo, Job, JobError, Lifecycle, MemoryKind, OpenError, Operation, Outcome,
    Output, Provenance, SetUp, Stages, Timing, VirtualContext, VirtualEngine, VirtualParts,
};

pub(crate) struct Timed(Arc<DeviceState>);

struct DeviceState {
    id: DeviceId,
    info: DeviceInfo,
    capabilities: Capabilities,
    clock: Clock,
    job: Duration,
    rate: f64,
    free_at: Mutex<Instant>,
}

impl Timed {
    /// A device that copies chunks of up to `most` bytes at `rate` bytes a second, and needs `job`
    /// in addition.
    pub(crate) fn device(
        name: &str,
        clock: &Clock,
        (job, rate): (Duration, f64),
        most: u64,
    ) -> Arc<dyn Device> {
        let copy = Capability {
            operation: Operation::Copy,
            variants: vec!["memcpy".into()],
            max_source_bytes: most,
            max_destination_bytes: most,
            max_segments: 1,
            max_depth: 64,
            event: false,
            memory: MemoryKind::Any,
            missing: Vec::new(),
        };
        Arc::new(Self(Arc::new(DeviceState {
            id: DeviceId::unique(),
            info: DeviceInfo {
                name: name.into(),
                driver: "test".into(),
                location: "this test".into(),
                description: "copies in virtual time".into(),
                provenance: Provenance::Emulated,
                timing: Timing::Virtual,
            },
            capabilities: Capabilities::new(vec![copy]),
            clock: clock.clone(),
            job,
            rate,
            free_at: Mutex::new(clock.now()),
        })))
    }
}

impl Device for Timed {
    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let (shared, clock) = (Arc::clone(&self.0), self.0.clock.clone());
        let set_up: SetUp = Box::new(move |config| {
            let capability = shared.capabilities.check(&shared.info.name, config)?;
            let prepared = overside_ops::prepare(&config.operation)?;
            Ok(VirtualParts {
                limits: Limits::new(shared.id, capability, config),
                applied: Arc::new(Applied::of(&shared.info, prepared.variant())),
                engine: Box::new(Engine(Arc::clone(&shared))),
                times: Lifecycle::default(),
            })
        });
        let context = VirtualContext::open(clock, CpuAccounting::Emulator, &config, set_up)?;
        Ok(Box::new(context))
    }
}

struct Engine(Arc<DeviceState>);

impl VirtualEngine for Engine {
    fn compute(&mut self, job: &mut Job) -> Result<Outcome, JobError> {
        let mut written = 0;
        for segment in job.source.segments() {
            job.destination[written..written + segment.len()].copy_from_slice(segment);
            written += segment.len();
        }
        let value = None;
        Ok(Outcome::Done(Output { written, value }))
    }

    fn admit(&mut self, job: &ComputedJob<'_>) -> (Instant, Stages) {
        let mut free_at = self.0.free_at.lock().unwrap();
        let bytes = job.job.source.len() as f64;
        let took = self.0.job + Duration::from_secs_f64(bytes / self.0.rate);
        *free_at = (*free_at).max(job.arrival) + took;
        (*free_at, Stages::default())
    }
}
