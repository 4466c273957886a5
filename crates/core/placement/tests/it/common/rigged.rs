//! A device that does right or goes wrong job by job, by a test's plan; in virtual time, so that a
//! busy machine changes nothing.

use std::sync::Arc;
use std::time::Duration;

use overside_device::{Clock, MemoryKind};
pub(crate) use overside_layers::Fault;
use overside_layers::{FaultInjection, Layered};
use overside_testkit::{InlineDevice, InlineOptions};

pub(crate) type Rigged = Layered<FaultInjection>;

/// The ways in which a result can be wrong without an error.
pub(crate) const LIES: [Fault; 8] = [
    Fault::WrongByte,
    Fault::WrongValue,
    Fault::FewerBytes,
    Fault::SwappedResults,
    Fault::Hoisted,
    Fault::FirstSource,
    Fault::EarlyCompletion,
    Fault::FailureAsDone,
];

/// Configuration of the device: its limits, its faults and its speed.
pub(crate) struct Rig {
    pub memory: MemoryKind,
    pub max_segments: usize,
    pub max_source_bytes: u64,
    /// Returns the fault of its n-th job, counted over all contexts; `None` if the job goes right.
    pub act: Box<dyn Fn(u64) -> Option<Fault> + Send + Sync>,
    /// Returns `true` if its n-th opening works.
    pub opens: Box<dyn Fn(u64) -> bool + Send + Sync>,
    /// Bytes a second, by the time since the device was made; as fast as it can if absent.
    pub rate: Option<Box<dyn Fn(Duration) -> f64 + Send + Sync>>,
    /// Clock of the device. All devices of one stream share it.
    pub clock: Clock,
}

impl Default for Rig {
    fn default() -> Self {
        Self {
            memory: MemoryKind::Any,
            max_segments: 1,
            max_source_bytes: 1 << 20,
            act: Box::new(|_| None),
            opens: Box::new(|_| true),
            rate: None,
            clock: Clock::simulated(),
        }
    }
}

impl Rig {
    /// A rig whose faults `act` chooses.
    pub(crate) fn acting(act: impl Fn(u64) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self { act: Box::new(act), ..Self::default() }
    }

    /// A device of `rate` bytes a second.
    pub(crate) fn paced(rate: f64) -> Self {
        Self { rate: Some(Box::new(move |_| rate)), ..Self::default() }
    }

    /// This rig on that clock.
    pub(crate) fn on(self, clock: &Clock) -> Self {
        Self { clock: clock.clone(), ..self }
    }

    pub(crate) fn device(self) -> Arc<Rigged> {
        self.parts().0
    }

    /// The device, and its inner device, which knows the jobs that it did.
    pub(crate) fn parts(self) -> (Arc<Rigged>, Arc<InlineDevice>) {
        let inside = Arc::new(InlineDevice::new(InlineOptions {
            name: "rigged",
            memory: self.memory,
            max_segments: self.max_segments,
            max_source_bytes: self.max_source_bytes,
            rate: self.rate,
            clock: self.clock.clone(),
            ..InlineOptions::default()
        }));
        let act = self.act;
        let faults = FaultInjection::new(Arc::clone(&inside) as _, move |job| act(job.of_device));
        let faults = faults.opening(self.opens).on_clock(self.clock);
        (faults.device(), inside)
    }
}
