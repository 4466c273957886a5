//! A small device to try the suite on: this machine's cores, with every operation but one,
//! registered memory and tight limits. It can be broken in one way at a time; faults of single jobs
//! are injected around it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_device::threads::Limits;
use overside_device::*;
use overside_layers::{ContextLayer, DeviceLayer, Layered, LayeredContext};
use overside_ops::prepare;

/// Defect of the toy device, which has one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    CutsShort,
    StoresIncompressible,
    AcceptsCorrupt,
    DropsEmpty,
    TakesTooLong,
    TakesTooManySegments,
    TakesAnyMemory,
    TakesTooManyJobs,
    OpensAnything,
    OpensAnyDepth,
    OpensAnyVariant,
    MissesDeadlines,
    KeepsQuarantine,
    NeverWakes,
    AlwaysWakes,
    ForgetsAtClose,
    ReconfiguresInFlight,
    ReconfiguresNothing,
    BreaksAtReconfigure,
    LeaksMemory,
}

/// The layer that makes a toy of a device that takes anything.
#[derive(Clone)]
struct Toy {
    cores: Arc<CpuDevice>,
    id: DeviceId,
    capabilities: Capabilities,
    fault: Fault,
}

pub(crate) fn toy(fault: Fault) -> Arc<dyn Device> {
    let cores = CpuDevice::new(CpuOptions::default()).unwrap();
    // One operation is missing, so that the suite can request it.
    let known = cores.capabilities().iter().filter(|one| one.operation != Operation::Copy);
    let capabilities = known.map(|one| Capability {
        max_source_bytes: 50_000,
        max_destination_bytes: 100_000,
        max_segments: one.max_segments.min(3),
        max_depth: 20,
        memory: MemoryKind::Registered,
        ..one.clone()
    });
    Arc::new(Layered(Toy {
        capabilities: Capabilities::new(capabilities.collect()),
        cores: Arc::new(cores),
        id: DeviceId::unique(),
        fault,
    }))
}

impl Toy {
    fn registration(&self) -> Option<Registration> {
        let (device, handle) = (self.id, Arc::new(()));
        Some(Registration { device, handle })
    }

    /// Returns the configuration for opening the CPU device inside and the limits on jobs, both
    /// changed by the toy's fault.
    fn plan(&self, mut config: ContextConfig) -> Result<(ContextConfig, Limits), OpenError> {
        let known = self.capabilities.get(config.operation.operation);
        let capability = match (self.fault, known) {
            (Fault::OpensAnything, None) => {
                config.operation = OperationConfig::new(Operation::all()[0]);
                self.capabilities.iter().next().unwrap()
            }
            (Fault::OpensAnyDepth, Some(known)) => {
                config.depth = config.depth.clamp(1, known.max_depth);
                known
            }
            _ => self.capabilities.check("cpu", &config)?,
        };
        if self.fault == Fault::OpensAnyVariant && prepare(&config.operation).is_err() {
            config.operation.variant = "auto".into();
            config.operation.patterns = vec!["a".into()];
        }
        let mut limits = Limits::new(self.id, capability, &config);
        match self.fault {
            Fault::TakesTooLong => {
                config.max_source_bytes = 1 << 20;
                config.max_destination_bytes = 1 << 20;
                limits.max_source_bytes = u64::MAX;
                limits.max_destination_bytes = u64::MAX;
            }
            Fault::TakesTooManySegments => limits.max_segments = usize::MAX,
            Fault::TakesAnyMemory => limits.memory = MemoryKind::Any,
            Fault::TakesTooManyJobs => config.depth += 1,
            _ => {}
        }
        Ok((config, limits))
    }

    fn break_result(&self, completion: &mut Completion) {
        let done = |written| {
            let value = None;
            Ok(Outcome::Done(Output { written, value }))
        };
        completion.result = match (self.fault, completion.result.clone()) {
            (Fault::CutsShort, Err(JobError::OutputTooSmall { capacity })) => done(capacity),
            (Fault::StoresIncompressible, Ok(Outcome::Incompressible)) => done(0),
            (Fault::AcceptsCorrupt, Err(JobError::Corrupt(_))) => done(0),
            (Fault::DropsEmpty, _) if completion.source.is_empty() => done(0),
            (_, result) => result,
        };
    }
}

impl DeviceLayer for Toy {
    fn inner(&self) -> &dyn Device {
        &*self.cores
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        Region::allocate(len, align, self.registration())
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        Ok(Slice::from_external(foreign, self.registration()))
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let (config, limits) = self.plan(config)?;
        let context = self.cores.open(config)?;
        let (toy, stuck) = (self.clone(), None);
        Ok(LayeredContext::around(context, ToyContext { toy, limits, stuck }))
    }
}

struct ToyContext {
    toy: Toy,
    limits: Limits,
    stuck: Option<OpenError>,
}

impl ContextLayer for ToyContext {
    fn submit(
        &mut self,
        inner: &mut dyn Context,
        jobs: &mut VecDeque<Job>,
    ) -> Result<usize, SubmitError> {
        if let Some(error) = &self.stuck {
            let (device, reason) = ("cpu".into(), error.to_string());
            let tags = Vec::new();
            return Err(Lost { device, reason, tags }.into());
        }
        let refused = jobs.iter().position(|job| self.limits.check(job).is_err());
        if refused == Some(0) {
            let (tag, refusal) = (jobs[0].tag, self.limits.check(&jobs[0]).unwrap_err());
            return Err(SubmitError::Refused { tag, refusal });
        }
        let rest = jobs.split_off(refused.unwrap_or(jobs.len()));
        for job in jobs.iter_mut() {
            match (self.toy.fault, &job.source) {
                (Fault::MissesDeadlines, _) => job.deadline = None,
                (Fault::LeaksMemory, source) => std::mem::forget(source.clone()),
                (Fault::TakesTooManySegments, Source::Chain(slices)) => {
                    job.source = slices[0].clone().into();
                }
                _ => {}
            }
        }
        let result = inner.submit(jobs);
        jobs.extend(rest);
        result
    }

    fn poll(
        &mut self,
        inner: &mut dyn Context,
        out: &mut Vec<Completion>,
        max: usize,
    ) -> Result<usize, Lost> {
        let before = out.len();
        let polled = inner.poll(out, max);
        (out[before..].iter_mut()).for_each(|completion| self.toy.break_result(completion));
        polled
    }

    fn arm(&mut self, inner: &mut dyn Context) -> Result<bool, Lost> {
        match self.toy.fault {
            Fault::NeverWakes => Ok(false),
            Fault::AlwaysWakes => Ok(true),
            _ => inner.arm(),
        }
    }

    fn quarantined(&self, inner: &dyn Context) -> usize {
        inner.quarantined() + usize::from(self.toy.fault == Fault::KeepsQuarantine)
    }

    fn reconfigure(
        &mut self,
        inner: &mut dyn Context,
        config: ContextConfig,
    ) -> Result<(), OpenError> {
        match self.toy.fault {
            Fault::ReconfiguresNothing => return Ok(()),
            Fault::ReconfiguresInFlight if inner.in_flight() > 0 => return Ok(()),
            _ => {}
        }
        let planned = self.toy.plan(config);
        let done = planned.and_then(|(config, limits)| {
            inner.reconfigure(config)?;
            self.limits = limits;
            Ok(())
        });
        if self.toy.fault == Fault::BreaksAtReconfigure {
            self.stuck = done.clone().err();
        }
        done
    }

    fn close(self, inner: Box<dyn Context>, deadline: Instant) -> Closed {
        let mut closed = inner.close(deadline);
        if self.toy.fault == Fault::ForgetsAtClose {
            closed.completions.pop();
            closed.abandoned.pop();
        }
        (closed.completions.iter_mut()).for_each(|completion| self.toy.break_result(completion));
        closed
    }
}
