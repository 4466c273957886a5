//! The worker threads of a context in virtual time: the submitter's thread runs chunks one after
//! the other, and each adds its CPU time to the time line of the thread that would have run it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::threads::{CpuAccounting, Runner};
use overside_device::{
    Applied, ComputedJob, Context, ContextConfig, Job, JobError, Lifecycle, OpenError, Outcome,
    SetUp, Stages, VirtualContext, VirtualEngine, VirtualParts,
};
use overside_ops::prepare;

use crate::DeviceState;
use crate::context::limits;

/// Opens a context on the device's virtual clock.
pub(crate) fn open(
    device: Arc<DeviceState>,
    config: &ContextConfig,
) -> Result<Box<dyn Context>, OpenError> {
    let clock = device.clock.clone();
    let set_up: SetUp = Box::new(move |config| {
        let limits = limits(&device, config)?;
        let (prepared, spent) = device.clock.aside(|| {
            let prepared = prepare(&config.operation)?;
            let runner = Runner::new(config.operation.operation, Arc::clone(&prepared))?;
            Ok::<_, OpenError>((prepared, runner))
        });
        let (prepared, runner) = prepared?;
        Ok(VirtualParts {
            limits,
            applied: Arc::new(Applied::of(&device.info, prepared.variant())),
            engine: Box::new(VirtualCores {
                runner,
                free_at: vec![device.clock.now(); device.options.threads],
            }),
            times: Lifecycle { init_ns: Some(spent.as_nanos() as u64), ..Lifecycle::default() },
        })
    });
    let context = VirtualContext::open(clock, CpuAccounting::Host, config, set_up)?;
    Ok(Box::new(context))
}

struct VirtualCores {
    runner: Runner,
    /// Time, for each thread, at which it finishes the jobs assigned to it so far.
    free_at: Vec<Instant>,
}

impl VirtualEngine for VirtualCores {
    fn compute(&mut self, job: &mut Job) -> Result<Outcome, JobError> {
        self.runner.run(&job.source, &mut job.destination)
    }

    fn admit(&mut self, job: &ComputedJob<'_>) -> (Instant, Stages) {
        let Some(free_at) = self.free_at.iter_mut().min() else {
            return (job.arrival, Stages::default());
        };
        let begun = job.arrival.max(*free_at);
        *free_at = begun + job.cpu_time;
        let ns = |time: Duration| Some(time.as_nanos() as u64);
        let stages = Stages {
            queueing_ns: ns(begun - job.arrival),
            engine_ns: ns(job.cpu_time),
            ..Stages::default()
        };
        (*free_at, stages)
    }
}
