//! A card's DMA engine in virtual time: copies with a profile's times.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_device::threads::{CpuAccounting, Limits};
use overside_device::{
    Applied, Capabilities, Capability, Clock, ComputedJob, Context, ContextConfig, Device,
    DeviceId, DeviceInfo, Job, JobError, Lifecycle, MemoryKind, OpenError, Operation, Outcome,
    Output, Provenance, SetUp, Stages, Timing, VirtualContext, VirtualEngine, VirtualParts,
};
use overside_link::shm::Path;
use overside_probe::dma::SIZE_MAX;

use super::shape::Emulated;

/// A device that copies like the engine.
pub(super) struct DmaEngine(Arc<EngineState>);

struct EngineState {
    id: DeviceId,
    info: DeviceInfo,
    capabilities: Capabilities,
    clock: Clock,
    path: Path,
    /// Time at which the engine has moved all bytes that it has accepted.
    free_at: Mutex<Instant>,
}

impl DmaEngine {
    /// Makes an engine on a virtual clock; `name` is the device's name in the test.
    pub(super) fn new(name: &str, emulated: &Emulated, clock: Clock) -> Self {
        let info = DeviceInfo {
            name: name.to_owned(),
            driver: format!("copies at the times of profile {}", emulated.profile),
            location: "this host".into(),
            description: "a card's DMA engine".into(),
            provenance: Provenance::Emulated,
            timing: Timing::Virtual,
        };
        let copy = Capability {
            operation: Operation::Copy,
            variants: vec!["memcpy".into()],
            max_source_bytes: SIZE_MAX,
            max_destination_bytes: SIZE_MAX,
            max_segments: 1,
            max_depth: usize::MAX,
            event: true,
            memory: MemoryKind::Any,
            missing: emulated.shape.missing.clone(),
        };
        Self(Arc::new(EngineState {
            id: DeviceId::unique(),
            info,
            capabilities: Capabilities::new(vec![copy]),
            free_at: Mutex::new(clock.now()),
            clock,
            // Both directions are the test's one.
            path: emulated.shape.read,
        }))
    }
}

impl Device for DmaEngine {
    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let shared = Arc::clone(&self.0);
        let clock = shared.clock.clone();
        let set_up: SetUp = Box::new(move |config| {
            let capability = shared.capabilities.check(&shared.info.name, config)?;
            Ok(VirtualParts {
                limits: Limits::new(shared.id, capability, config),
                applied: Arc::new(Applied {
                    device: shared.info.name.clone(),
                    driver: shared.info.driver.clone(),
                    variant: "memcpy".into(),
                    library: "this machine's memory".into(),
                    because: None,
                    provenance: shared.info.provenance,
                }),
                engine: Box::new(Copies(Arc::clone(&shared))),
                times: Lifecycle::default(),
            })
        });
        let context = VirtualContext::open(clock, CpuAccounting::Emulator, &config, set_up)?;
        Ok(Box::new(context))
    }
}

struct Copies(Arc<EngineState>);

impl VirtualEngine for Copies {
    fn compute(&mut self, job: &mut Job) -> Result<Outcome, JobError> {
        let mut written = 0;
        let capacity = job.destination.len();
        if capacity == 0 {
            // Its bytes are moved for another.
            return Ok(Outcome::Done(Output { written: job.source.len(), value: None }));
        }
        for segment in job.source.segments() {
            let to = job.destination.get_mut(written..written + segment.len());
            to.ok_or(JobError::OutputTooSmall { capacity })?.copy_from_slice(segment);
            written += segment.len();
        }
        Ok(Outcome::Done(Output { written, value: None }))
    }

    fn admit(&mut self, job: &ComputedJob<'_>) -> (Instant, Stages) {
        let Path { latency_ns, busy_ns } = self.0.path;
        let mut free_at = lock(&self.0.free_at);
        let begun = job.arrival.max(*free_at);
        *free_at = begun + Duration::from_nanos(busy_ns);
        let stages = Stages {
            queueing_ns: Some((begun - job.arrival).as_nanos() as u64),
            transfer_ns: Some(busy_ns),
            ..Stages::default()
        };
        (*free_at + Duration::from_nanos(latency_ns), stages)
    }
}
