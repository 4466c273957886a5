//! Capabilities of a device: its operations and their limits.

use overside_ops::Operation;
use serde::{Deserialize, Serialize};

use crate::{ContextConfig, OpenError};

/// The memory that jobs may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Any memory of this process.
    Any,
    /// Only memory from the device's own `alloc` or `register`; the CPU can address it.
    Registered,
    /// Only memory from the device's own `alloc`, and the CPU cannot address it: bytes go in and
    /// out through `write` and `read`, and `register` fails.
    Device,
}

/// One operation in one direction, with its limits. Probed when the device is opened, never
/// assumed from a model name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Operation that the device performs.
    pub operation: Operation,
    /// The libraries or engines that do it, by variant name; the first is `auto`.
    pub variants: Vec<String>,
    /// The longest source of one job in bytes, over all its segments.
    pub max_source_bytes: u64,
    /// The longest destination of one job in bytes.
    pub max_destination_bytes: u64,
    /// Maximum number of segments of one source.
    pub max_segments: usize,
    /// Maximum number of jobs in flight in one context.
    pub max_depth: usize,
    /// Completions can be waited for on a descriptor. All can be polled for.
    pub event: bool,
    /// The memory that jobs may use.
    pub memory: MemoryKind,
    /// Terms of the device's timing for which its profile has no fact. They count as zero, so
    /// its times are lower bounds. Empty where timing is real.
    pub missing: Vec<String>,
}

impl Capability {
    /// Checks that the configuration of a context is within the limits. `device` is the name for
    /// the error.
    ///
    /// # Errors
    /// [`OpenError::Limit`] names the first limit that is exceeded; a depth of 0 is one as well.
    pub fn check(&self, device: &str, config: &ContextConfig) -> Result<(), OpenError> {
        let depth = config.depth as u64;
        let limits = [
            ("depth", 1, self.max_depth as u64, depth),
            ("source bytes", 0, self.max_source_bytes, config.max_source_bytes),
            ("destination bytes", 0, self.max_destination_bytes, config.max_destination_bytes),
        ];
        for (what, least, limit, asked) in limits {
            if !(least..=limit).contains(&asked) {
                return Err(OpenError::Limit { device: device.to_owned(), what, limit, asked });
            }
        }
        Ok(())
    }
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

    /// Returns the capability for `operation`; `None` if the device does not support it.
    pub fn get(&self, operation: Operation) -> Option<&Capability> {
        self.0.iter().find(|capability| capability.operation == operation)
    }

    /// Returns the capability for a context with this configuration.
    ///
    /// # Errors
    /// [`OpenError::Unsupported`] if there is none, otherwise those of [`Capability::check`].
    pub fn check(&self, device: &str, config: &ContextConfig) -> Result<&Capability, OpenError> {
        let operation = config.operation.operation;
        let Some(capability) = self.get(operation) else {
            return Err(OpenError::Unsupported { device: device.to_owned(), operation });
        };
        capability.check(device, config).map(|()| capability)
    }

    /// All capabilities, in a stable order.
    pub fn iter(&self) -> std::slice::Iter<'_, Capability> {
        self.0.iter()
    }
}
