//! What a device can do.

use overside_ops::Operation;
use serde::{Deserialize, Serialize};

/// The memory that jobs may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Any memory of this process.
    Any,
    /// Only what came from the device's own `alloc` or `register`.
    Registered,
}

/// One operation in one direction, with its limits. Probed when the device is opened, never
/// assumed from a model name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// What it does.
    pub operation: Operation,
    /// The libraries or engines that do it, by variant name; the first is `auto`.
    pub variants: Vec<String>,
    /// The longest source of one job in bytes, over all its segments.
    pub max_source_bytes: u64,
    /// The longest destination of one job in bytes.
    pub max_destination_bytes: u64,
    /// The most segments of one source.
    pub max_segments: usize,
    /// The most jobs in flight in one context.
    pub max_depth: usize,
    /// Completions can be waited for on a descriptor. All can be polled for.
    pub event: bool,
    /// The memory that jobs may use.
    pub memory: MemoryKind,
    /// Terms of the device's timing for which its profile has no fact. They count as zero, so
    /// its times are lower bounds. Empty where timing is real.
    pub missing: Vec<String>,
}

/// All that a device can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(Vec<Capability>);

impl Capabilities {
    /// Collects capabilities; one per operation.
    pub fn new(all: Vec<Capability>) -> Self {
        Self(all)
    }

    /// What it can do of `operation`; `None` if it cannot.
    pub fn get(&self, operation: Operation) -> Option<&Capability> {
        self.0
            .iter()
            .find(|capability| capability.operation == operation)
    }

    /// All of them, in a stable order.
    pub fn iter(&self) -> std::slice::Iter<'_, Capability> {
        self.0.iter()
    }
}
