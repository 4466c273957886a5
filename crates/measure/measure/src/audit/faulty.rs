//! Workers whose devices first work correctly and then make mistakes that devices, drivers and harnesses have
//! been seen to make.

use std::sync::Arc;

use overside_device::{Context, ContextConfig, Device, OpenError};
use overside_layers::{DeviceLayer, FaultInjection, Layered};

use crate::Worker;

pub use overside_layers::Fault;

/// Number of jobs that a device gets wrong once its fault has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The fault occurs for one job.
    Once,
    /// The fault occurs for all jobs from then on.
    Always,
}

/// A worker whose devices do `fault` after the first `after` jobs of a context.
pub fn worker(fault: Fault, after: usize, times: Times) -> Worker {
    worker_with(fault, after, times, |_| true)
}

/// A worker whose devices, all but the CPU, do `fault` after the first `after` jobs of a context.
pub fn faulty_device(fault: Fault, after: usize, times: Times) -> Worker {
    worker_with(fault, after, times, |name| name != "cpu")
}

fn worker_with(fault: Fault, after: usize, times: Times, which: fn(&str) -> bool) -> Worker {
    let after = after as u64;
    Worker::with_devices(Box::new(move |name, options| {
        let inner = overside_backends::open(name, options)?;
        if !which(name) {
            return Ok(inner);
        }
        let faulty = FaultInjection::new(inner, move |job| {
            let begun = match times {
                Times::Once => job.of_context == after,
                Times::Always => job.of_context >= after,
            };
            begun.then_some(fault)
        });
        Ok(faulty.device())
    }))
}

/// A worker whose devices, but the CPU, have everything run by the CPU under their own names.
pub(super) fn software_worker() -> Worker {
    Worker::with_devices(Box::new(move |name, options| {
        let device = overside_backends::open(name, options)?;
        if name == "cpu" {
            return Ok(device);
        }
        let software = overside_backends::open("cpu", &overside_backends::Options::default())?;
        Ok(Arc::new(Layered(SoftwareFallback { device, software })))
    }))
}

struct SoftwareFallback {
    device: Arc<dyn Device>,
    software: Arc<dyn Device>,
}

impl DeviceLayer for SoftwareFallback {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        self.software.open(config)
    }
}
