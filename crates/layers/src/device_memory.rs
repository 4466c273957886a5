//! Memory that the CPU cannot address, around a device that can address anything.
//!
//! What it gives out are handles; the bytes lie in a buffer of this layer's behind each. At
//! submission a job's source is copied out of it, at completion its result into it: as with a card
//! that has memory of its own, but on the caller's time.

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
use crate::{ContextLayer, DeviceLayer, Layered};

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
        Arc::new(Layered(Self {
            inner,
            id: DeviceId::unique(),
            capabilities,
        }))
    }
}

fn limits(
    device: DeviceId,
    capabilities: &Capabilities,
    name: &str,
    config: &ContextConfig,
) -> Result<Limits, OpenError> {
    Ok(Limits {
        device,
        memory: MemoryKind::Device,
        depth: config.depth,
        max_source_bytes: config.max_source_bytes,
        max_destination_bytes: config.max_destination_bytes,
        max_segments: capabilities.check(name, config)?.max_segments,
        gather: false,
    })
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
        let registration = Registration {
            device: self.id,
            handle: Arc::new(Bytes::new(bytes)),
        };
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
        let name = &self.inner.info().name;
        let limits = limits(self.id, &self.capabilities, name, &config)?;
        Ok(Box::new(Layered(OwnMemoryContext {
            inner: self.inner.open(config)?,
            device: name.clone(),
            capabilities: self.capabilities.clone(),
            limits,
            inside: JobTable::default(),
            completions: Vec::new(),
        })))
    }
}

struct OwnMemoryContext {
    inner: Box<dyn Context>,
    device: String,
    capabilities: Capabilities,
    limits: Limits,
    /// The jobs' own memory.
    inside: JobTable<(Source, Region)>,
    /// Reused.
    completions: Vec<Completion>,
}

impl OwnMemoryContext {
    /// Gives a job to the device inside, with copies of its memory; the job if it was not taken.
    fn pass_on(&mut self, job: Job) -> (Option<Job>, Result<usize, SubmitError>) {
        let mut source = Vec::with_capacity(job.source.len());
        for segment in job.source.segments() {
            let range = segment.offset()..segment.offset() + segment.len();
            // Checked before: the memory is this device's.
            let _ = with_bytes(segment.registration(), |all| {
                source.extend_from_slice(&all[range]);
            });
        }
        let destination = match Region::allocate(job.destination.len(), 1, None) {
            Ok(destination) => destination,
            Err(_) => return (Some(job), Ok(0)),
        };
        let mut copy = Job {
            tag: job.tag,
            source: Slice::from_external(ExternalBytes::new(source), None).into(),
            destination,
            deadline: job.deadline,
        };
        let tag = job.tag;
        self.inside.insert(&mut copy, (job.source, job.destination));
        let mut one = VecDeque::from([copy]);
        let result = self.inner.submit(&mut one).map_err(|error| match error {
            SubmitError::Refused { refusal, .. } => SubmitError::Refused { tag, refusal },
            lost => lost,
        });
        let back = one.pop_front().and_then(|mut copy| {
            let (source, destination) = self.inside.undo(&mut copy)?;
            Some(Job {
                tag,
                source,
                destination,
                deadline: copy.deadline,
            })
        });
        (back, result)
    }
}

/// Gives a completion its job's own memory back, with the result in it.
fn restore(inside: &mut JobTable<(Source, Region)>, mut completion: Completion) -> Completion {
    let Some((source, destination)) = inside.finish(&mut completion) else {
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
    fn inner(&self) -> &dyn Context {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Context {
        &mut *self.inner
    }

    fn into_inner(self: Box<Self>) -> Box<dyn Context> {
        self.inner
    }

    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        let mut taken = 0;
        while let Some(job) = jobs.front() {
            let tag = job.tag;
            let checked = self.limits.check(job);
            let result = match (checked, jobs.pop_front()) {
                (Ok(()), Some(job)) => {
                    let (back, result) = self.pass_on(job);
                    if let Some(job) = back {
                        jobs.push_front(job);
                    }
                    result
                }
                (Err(refusal), Some(job)) => {
                    jobs.push_front(job);
                    Err(SubmitError::Refused { tag, refusal })
                }
                (_, None) => break,
            };
            match result {
                Ok(1) => taken += 1,
                Err(error) if taken == 0 => return Err(error),
                Ok(_) | Err(_) => break,
            }
        }
        Ok(taken)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        let mut completions = std::mem::take(&mut self.completions);
        let polled = self.inner.poll(&mut completions, max);
        for completion in completions.drain(..) {
            out.push(restore(&mut self.inside, completion));
        }
        self.completions = completions;
        polled.map_err(|lost| Lost {
            tags: (lost.tags.iter())
                .filter_map(|tag| self.inside.tag(*tag))
                .collect(),
            ..lost
        })
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        let limits = limits(
            self.limits.device,
            &self.capabilities,
            &self.device,
            &config,
        )?;
        self.inner.reconfigure(config)?;
        self.limits = limits;
        Ok(())
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        let Self {
            inner, mut inside, ..
        } = *self;
        let mut closed = inner.close(deadline);
        let tags = closed.abandoned.iter();
        closed.abandoned = tags.filter_map(|tag| inside.tag(*tag)).collect();
        let completions = std::mem::take(&mut closed.completions).into_iter();
        closed.completions = completions
            .map(|completion| restore(&mut inside, completion))
            .collect();
        closed
    }
}
