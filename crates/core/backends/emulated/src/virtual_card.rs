//! A context of an emulated card in virtual time.

use std::sync::Arc;
use std::time::Instant;

use overside_device::threads::{CpuAccounting, Limits};
use overside_device::{
    ComputedJob, Context, ContextConfig, Job, JobError, OpenError, Outcome, SetUp, Stages,
    VirtualContext, VirtualEngine, VirtualParts,
};

use crate::DeviceState;
use crate::context::work;
use crate::engine::CardWork;

/// Opens a context on the device's virtual clock.
pub(crate) fn open(
    state: Arc<DeviceState>,
    config: &ContextConfig,
) -> Result<Box<dyn Context>, OpenError> {
    let clock = state.clock.clone();
    let set_up: SetUp = Box::new(move |config| {
        let capability = state.capabilities.check(&state.info.name, config)?;
        let (work, applied) = work(&state, &config.operation)?;
        Ok(VirtualParts {
            limits: Limits::new(state.registration.device, capability, config),
            applied: Arc::new(applied),
            engine: Box::new(work),
            times: state.times(config.operation.operation),
        })
    });
    let context = VirtualContext::open(clock, CpuAccounting::Emulator, config, set_up)?;
    Ok(Box::new(context))
}

impl VirtualEngine for CardWork {
    fn compute(&mut self, job: &mut Job) -> Result<Outcome, JobError> {
        Self::compute(self, &job.source, &mut job.destination)
    }

    fn admit(&mut self, job: &ComputedJob<'_>) -> (Instant, Stages) {
        Self::admit(self, job.job.source.len(), job.result, job.arrival, job.is_first)
    }
}
