//! A device that does right or goes wrong job by job, as a test tells it to.

use std::sync::Arc;
use std::time::Duration;

use overside_device::MemoryKind;
pub use overside_layers::Fault;
use overside_layers::{FaultInjection, Layered};
use overside_testkit::{InlineDevice, InlineOptions};

pub type Rigged = Layered<FaultInjection>;

/// The ways in which a result can be wrong though nothing says so.
pub const LIES: [Fault; 8] = [
    Fault::WrongByte,
    Fault::WrongValue,
    Fault::FewerBytes,
    Fault::SwappedResults,
    Fault::Hoisted,
    Fault::FirstSource,
    Fault::EarlyCompletion,
    Fault::FailureAsDone,
];

/// How it is built and what it does.
pub struct Rig {
    pub memory: MemoryKind,
    pub max_segments: usize,
    pub max_source_bytes: u64,
    /// What goes wrong with its n-th job, over all contexts.
    pub act: Box<dyn Fn(u64) -> Option<Fault> + Send + Sync>,
    /// Whether its n-th opening works.
    pub opens: Box<dyn Fn(u64) -> bool + Send + Sync>,
    /// Bytes a second, by the time since the device was made; as fast as it can if absent.
    pub rate: Option<Box<dyn Fn(Duration) -> f64 + Send + Sync>>,
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
        }
    }
}

impl Rig {
    /// One that goes wrong like this.
    pub fn acting(act: impl Fn(u64) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self {
            act: Box::new(act),
            ..Self::default()
        }
    }

    pub fn device(self) -> Arc<Rigged> {
        self.parts().0
    }

    /// The device, and what is inside, which knows the jobs that it did.
    pub fn parts(self) -> (Arc<Rigged>, Arc<InlineDevice>) {
        let inside = Arc::new(InlineDevice::new(InlineOptions {
            name: "rigged",
            memory: self.memory,
            max_segments: self.max_segments,
            max_source_bytes: self.max_source_bytes,
            rate: self.rate,
            ..InlineOptions::default()
        }));
        let act = self.act;
        let faults = FaultInjection::new(Arc::clone(&inside) as _, move |job| act(job.of_device));
        (faults.opening(self.opens).device(), inside)
    }
}
