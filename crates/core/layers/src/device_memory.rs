//! Layer that makes a device's memory inaccessible to the CPU, like that of a card with its own memory.
//!
//! Its regions are only handles; their bytes are in a buffer of this layer. At submission it copies a job's
//! source out of that buffer, at completion the result into it, on the caller's time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use overside_base::lock;
use overside_device::threads::Limits;
use overside_device::{
    Capabilities, Capability, Closed, Completion, Context, ContextConfig, Device, DeviceId,
    ExternalBytes, Job, Lost, MemoryError, MemoryKind, OpenError, Region, Registration, Slice,
    Source, SubmitError, within,
};

use crate::job_table::JobTable;
use crate::{ContextLayer, DeviceLayer, Layered, LayeredContext};

/// A device whose memory only it can address.
pub struct DeviceMemory {
    inner: Arc<dyn Device>,
    id: DeviceId,
    capabilities: Capabilities,
}

/// The bytes behind handles.
type Bytes = Mutex<Vec<u8>>;

impl DeviceMemory {
    /// `inner`, which takes any memory, with memory of its own.
    pub fn around(inner: Arc<dyn Device>) -> Arc<dyn Device> {
        let own = |capability: &Capability| Capability {
            memory: MemoryKind::Device,
            ..capability.clone()
        };
        let capabilities = Capabilities::new(inner.capabilities().iter().map(own).collect());
        Arc::new(Layered(Self { inner, id: DeviceId::unique(), capabilities }))
    }
}

/// Runs `with` on the bytes behind a handle.
fn with_bytes<T>(
    held: Option<&Registration>,
    with: impl FnOnce(&mut [u8]) -> T,
) -> Result<T, MemoryError> {
    let bytes = held.and_then(|held| held.handle.downcast_ref::<Bytes>());
    let bytes = bytes.ok_or(MemoryError::NotAddressable)?;
    Ok(with(&mut lock(bytes)))
}

impl DeviceLayer for DeviceMemory {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        if !align.is_power_of_two() {
            return Err(MemoryError::Alignment(align));
        }
        let mut bytes = Vec::new();
        (bytes.try_reserve_exact(len)).map_err(|_| MemoryError::Exhausted { len })?;
        bytes.resize(len, 0);
        let registration = Registration { device: self.id, handle: Arc::new(Bytes::new(bytes)) };
        Ok(Region::of_device(len, registration))
    }

    fn write(&self, to: &mut Region, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        within(to.len(), offset, bytes.len())?;
        let start = to.offset() + offset;
        with_bytes(to.registration(), |all| {
            all[start..start + bytes.len()].copy_from_slice(bytes);
        })
    }

    fn read(&self, from: &Region, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        within(from.len(), offset, into.len())?;
        let start = from.offset() + offset;
        let len = into.len();
        with_bytes(from.registration(), |all| {
            into.copy_from_slice(&all[start..start + len]);
        })
    }

    fn register(&self, _foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        Err(MemoryError::Unreachable {
            device: self.inner.info().name.clone(),
            reason: "it has memory of its own".into(),
        })
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let device = self.inner.info().name.clone();
        let capability = self.capabilities.check(&device, &config)?;
        let layer = OwnMemoryContext {
            limits: Limits::new(self.id, capability, &config),
            device,
            capabilities: self.capabilities.clone(),
            inside: JobTable::default(),
        };
        Ok(LayeredContext::around(self.inner.open(config)?, layer))
    }
}

struct OwnMemoryContext {
    device: String,
    capabilities: Capabilities,
    limits: Limits,
    /// The jobs' own memory.
    inside: JobTable<(Source, Region)>,
}

impl OwnMemoryContext {
    /// Submits a job to the inner device, with copies of its memory. Returns the job if it was not taken.
    fn pass_on(
        &mut self,
        inner: &mut dyn Context,
        job: Job,
    ) -> (Result<bool, SubmitError>, Option<Job>) {
        let mut source = Vec::with_capacity(job.source.len());
        for segment in job.source.segments() {
            let range = segment.offset()..segment.offset() + segment.len();
            // Checked before: the memory is this device's.
            let _ = with_bytes(segment.registration(), |all| {
                source.extend_from_slice(&all[range]);
            });
        }
        let Ok(destination) = Region::allocate(job.destination.len(), 1, None) else {
            return (Ok(false), Some(job));
        };
        let copy = Job {
            source: Slice::from_external(ExternalBytes::new(source), None).into(),
            destination,
            ..job
        };
        let own = (job.source, job.destination);
        let (result, back) = self.inside.submit(inner, copy, own);
        let back = back.map(|(copy, (source, destination))| Job { source, destination, ..copy });
        (result, back)
    }
}

/// Replaces the memory of a completion by the job's own memory, with the result in it.
fn restore(mut completion: Completion, own: Option<(Source, Region)>) -> Completion {
    let Some((source, destination)) = own else {
        return completion;
    };
    completion.source = source;
    if let Some(copy) = completion.destination.take() {
        let range = destination.offset()..destination.offset() + destination.len();
        // It is this device's, which was checked before.
        let _ = with_bytes(destination.registration(), |all| {
            all[range].copy_from_slice(&copy);
        });
        completion.destination = Some(destination);
    }
    completion
}

impl ContextLayer for OwnMemoryContext {
    fn submit(
        &mut self,
        inner: &mut dyn Context,
        jobs: &mut VecDeque<Job>,
    ) -> Result<usize, SubmitError> {
        let mut taken = 0;
        while let Some(job) = jobs.pop_front() {
            let (result, back) = match self.limits.check(&job) {
                Ok(()) => self.pass_on(inner, job),
                Err(refusal) => {
                    let tag = job.tag;
                    (Err(SubmitError::Refused { tag, refusal }), Some(job))
                }
            };
            if let Some(job) = back {
                jobs.push_front(job);
            }
            match result {
                Ok(true) => taken += 1,
                Err(error) if taken == 0 => return Err(error),
                Ok(false) | Err(_) => break,
            }
        }
        Ok(taken)
    }

    fn poll(
        &mut self,
        inner: &mut dyn Context,
        out: &mut Vec<Completion>,
        max: usize,
    ) -> Result<usize, Lost> {
        let take = |completion, own| out.push(restore(completion, own));
        self.inside.poll(inner, max, take)
    }

    fn reconfigure(
        &mut self,
        inner: &mut dyn Context,
        config: ContextConfig,
    ) -> Result<(), OpenError> {
        let capability = self.capabilities.check(&self.device, &config)?;
        let limits = Limits::new(self.limits.device, capability, &config);
        inner.reconfigure(config)?;
        self.limits = limits;
        Ok(())
    }

    fn close(self, inner: Box<dyn Context>, deadline: Instant) -> Closed {
        self.inside.close(inner, deadline, restore)
    }
}
