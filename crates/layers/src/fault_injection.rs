//! A device that does wrong with chosen jobs and openings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use overside_device::{Context, ContextConfig, Device, OpenError};

use crate::fault_context::FaultContext;
use crate::{DeviceLayer, Fault, Layered, LayeredContext};

/// Which job it is; both count from 0. A refused job counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobNumber {
    /// Among all jobs of the device.
    pub of_device: u64,
    /// Among those of its context.
    pub of_context: u64,
}

pub(crate) type Plan = dyn Fn(JobNumber) -> Option<Fault> + Send + Sync;
type Openings = dyn Fn(u64) -> bool + Send + Sync;

/// What a plan counts, for whoever wants to know.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) jobs: AtomicU64,
    openings: AtomicU64,
}

/// A device around another one that does wrong as planned.
pub struct FaultInjection {
    inner: Arc<dyn Device>,
    plan: Arc<Plan>,
    opens: Box<Openings>,
    counts: Arc<Counts>,
}

impl FaultInjection {
    /// Does with each job what the plan says; nothing wrong where it says `None`.
    pub fn new(
        inner: Arc<dyn Device>,
        plan: impl Fn(JobNumber) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            plan: Arc::new(plan),
            opens: Box::new(|_| true),
            counts: Arc::default(),
        }
    }

    /// Opens only those of its contexts, counted from 0, for which `opens` says so.
    pub fn opening(self, opens: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        Self {
            opens: Box::new(opens),
            ..self
        }
    }

    /// As a device.
    pub fn device(self) -> Arc<Layered<Self>> {
        Arc::new(Layered(self))
    }

    /// Jobs that it was given so far.
    pub fn jobs(&self) -> u64 {
        self.counts.jobs.load(Ordering::Relaxed)
    }

    /// How often it was opened so far, or was to be.
    pub fn openings(&self) -> u64 {
        self.counts.openings.load(Ordering::Relaxed)
    }
}

impl DeviceLayer for FaultInjection {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let number = self.counts.openings.fetch_add(1, Ordering::Relaxed);
        if !(self.opens)(number) {
            return Err(OpenError::Failed {
                device: self.inner.info().name.clone(),
                reason: "as injected".into(),
            });
        }
        let depth = config.depth;
        let context = self.inner.open(config)?;
        let (plan, counts) = (Arc::clone(&self.plan), Arc::clone(&self.counts));
        let layer = FaultContext::new(depth, self.inner.info(), plan, counts);
        Ok(LayeredContext::around(context, layer))
    }
}
