//! A device that does wrong with chosen jobs and openings.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use overside_device::{Clock, Context, ContextConfig, Device, OpenError};

use crate::fault::Plan;
use crate::fault_context::{Counts, FaultContext};
use crate::{DeviceLayer, Fault, JobNumber, Layered, LayeredContext};

type Openings = dyn Fn(u64) -> bool + Send + Sync;

/// A device around another one that does wrong as planned.
pub struct FaultInjection {
    inner: Arc<dyn Device>,
    plan: Arc<Plan>,
    opens: Box<Openings>,
    clock: Clock,
    counts: Arc<Counts>,
}

impl FaultInjection {
    /// Injects into each job the fault of the plan; none if that is `None`.
    pub fn new(
        inner: Arc<dyn Device>,
        plan: impl Fn(JobNumber) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            plan: Arc::new(plan),
            opens: Box::new(|_| true),
            clock: Clock::default(),
            counts: Arc::default(),
        }
    }

    /// Opens only those of its contexts, counted from 0, for which `opens` returns `true`.
    pub fn opening(self, opens: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        Self { opens: Box::new(opens), ..self }
    }

    /// Follows the clock that the device inside follows.
    pub fn on_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The clock that it follows.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Wraps the layer in [`Layered`], which implements [`Device`].
    pub fn device(self) -> Arc<Layered<Self>> {
        Arc::new(Layered(self))
    }

    /// Jobs that it was given so far.
    pub fn jobs(&self) -> u64 {
        self.counts.jobs.load(Ordering::Relaxed)
    }

    /// Returns the number of attempts so far to open a context, including those that failed.
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
        let clock = self.clock.clone();
        let layer = FaultContext::new(depth, clock, self.inner.info(), plan, counts);
        Ok(LayeredContext::around(context, layer))
    }
}
