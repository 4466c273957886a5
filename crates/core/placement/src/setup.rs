//! Configuration of an executor, and the errors of opening and running one.

use std::sync::Arc;
use std::time::Duration;

use overside_device::{
    Clock, ContextConfig, Device, MemoryError, OpenError, Operation, OperationConfig,
};

use crate::policy::DEVICES_MAX;
use crate::{Policy, Target, Verify};

/// Maximum number of chunks that may be between `push` and `pull`.
pub const WINDOW_MAX: usize = 4096;
/// Maximum number of threads that may submit.
pub const SUBMITTERS_MAX: usize = 64;

/// Configuration of an executor.
#[derive(Clone)]
pub struct Setup {
    /// The CPU. Also where chunks are run again that the device failed at. Opened when first
    /// needed.
    pub cpu: Option<Arc<dyn Device>>,
    /// The devices, at most [`DEVICES_MAX`]. With [`Policy::Adaptive`] opened when first needed,
    /// otherwise at the beginning.
    pub devices: Vec<DeviceSetup>,
    /// The operation of all targets.
    pub operation: OperationConfig,
    /// Policy that assigns chunks to targets.
    pub policy: Policy,
    /// The longest source of a chunk in bytes, and the size of the buffers that are given out. A
    /// chunk that is longer than a device takes runs on the CPU.
    pub source_bytes: usize,
    /// First length of chunks in bytes, if the controller decides on it ([`Policy::Adaptive`],
    /// [`Policy::Device`] with several devices). The controller changes the length as it goes, by
    /// powers of two up to `source_bytes`. [`Executor::chunk_bytes`](crate::Executor::chunk_bytes)
    /// returns the length of the next chunk. `None`: the caller chooses the length of its chunks.
    pub first_chunk_bytes: Option<usize>,
    /// The longest destination of a chunk in bytes.
    pub destination_bytes: usize,
    /// First length of destinations in bytes. A job whose result does not fit is run again with
    /// twice as many, up to `destination_bytes`. `None`: they have those at once.
    pub first_destination_bytes: Option<usize>,
    /// Jobs in flight on the CPU. Two for each of its threads keep them busy.
    pub cpu_depth: usize,
    /// Chunks between `push` and `pull`, at most [`WINDOW_MAX`]; chosen from the depths unless set.
    /// Finished chunks wait there for unfinished ones, because results come in order.
    pub window: Option<usize>,
    /// Longest time that a device may take for a job, from its submission. With [`Policy::Adaptive`] the CPU
    /// takes over long before.
    pub job_timeout: Duration,
    /// Pauses after which a device that failed is tried again.
    pub retry: Retry,
    /// Rule for which of the devices' results are verified before they count. A device of which one
    /// is wrong is not used again; if others of its results were used without being verified, the
    /// executor fails. Needs the CPU.
    pub verify: Verify,
    /// Clock that the executor and its devices use: the machine's, or a virtual one.
    pub clock: Clock,
}

/// One of the devices, and how it is used.
#[derive(Clone)]
pub struct DeviceSetup {
    /// The device.
    pub device: Arc<dyn Device>,
    /// The device's variant of the operation; `auto` unless set.
    pub variant: String,
    /// Compression level, on the device's own scale; the device's default if `None`.
    pub level: Option<u32>,
    /// Number of jobs in flight on the device.
    pub depth: usize,
}

impl DeviceSetup {
    /// Returns the setup of a device with its preferred variant at the default level, and eight jobs in
    /// flight.
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self { device, variant: "auto".into(), level: None, depth: 8 }
    }
}

/// Pauses before a device that failed is tried again. The first one is `first`. Each further
/// failure doubles it, up to `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for Retry {
    /// A tenth of a second at first, half a minute at most.
    fn default() -> Self {
        Self { first: Duration::from_millis(100), longest: Duration::from_secs(30) }
    }
}

impl Setup {
    /// Returns a setup without targets, which the caller adds: chunks and results up to 1 MiB, two jobs in
    /// flight on the CPU, ten seconds for each job, no verification.
    pub fn new(operation: OperationConfig, policy: Policy) -> Self {
        Self {
            cpu: None,
            devices: Vec::new(),
            operation,
            policy,
            source_bytes: 1 << 20,
            first_chunk_bytes: None,
            destination_bytes: 1 << 20,
            first_destination_bytes: None,
            cpu_depth: 2,
            window: None,
            job_timeout: Duration::from_secs(10),
            retry: Retry::default(),
            verify: Verify::None,
            clock: Clock::default(),
        }
    }

    /// Chunks between `push` and `pull`: those in flight on all targets, as many again for results
    /// that wait for their turn, and those that are being verified.
    pub(crate) fn window(&self) -> usize {
        let (uses_cpu, uses_device) = (self.policy.uses_cpu(), self.policy.uses_device());
        let cpu = depth_of(self.cpu.as_ref(), self, self.cpu_depth);
        let devices = (self.devices.iter())
            .map(|device| depth_of(Some(&device.device), self, device.depth))
            .sum::<usize>();
        let depth = usize::from(uses_cpu) * cpu + usize::from(uses_device) * devices;
        let are_several = uses_device && (uses_cpu || self.devices.len() > 1);
        let usual = if are_several { depth * 2 } else { depth + depth.div_ceil(2) };
        let verified = match self.verify != Verify::None && uses_device {
            true => cpu,
            false => 0,
        };
        self.window.unwrap_or(usual + verified).clamp(1, WINDOW_MAX)
    }

    /// Checks that the number of devices is allowed and fits the policy.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (policy, count) = (self.policy, self.devices.len());
        if count > DEVICES_MAX {
            return Err(Error::TooManyDevices(count));
        }
        match policy {
            Policy::Split(shares) if policy.uses_device() && shares.percent().len() != count => {
                match count {
                    0 => Err(Error::NoTarget { policy, target: Target::Device(0) }),
                    _ => Err(Error::Shares { policy, devices: count }),
                }
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn config(&self, target: Target) -> ContextConfig {
        let (operation, depth) = match target {
            Target::Cpu => (self.operation.clone(), self.cpu_depth),
            Target::Device(device) => {
                let device = &self.devices[device];
                let operation = OperationConfig {
                    variant: device.variant.clone(),
                    level: device.level,
                    ..self.operation.clone()
                };
                (operation, device.depth)
            }
        };
        ContextConfig {
            operation,
            depth,
            max_source_bytes: self.source_bytes as u64,
            max_destination_bytes: self.destination_bytes as u64,
        }
    }
}

/// Returns the number of jobs that the target can have in flight: at least 1, at most `asked`.
fn depth_of(device: Option<&Arc<dyn Device>>, setup: &Setup, asked: usize) -> usize {
    let capabilities = device.map(|device| device.capabilities());
    let known = capabilities.and_then(|all| all.get(setup.operation.operation));
    let most = known.map_or(WINDOW_MAX, |known| known.max_depth);
    asked.min(most).clamp(1, WINDOW_MAX)
}

/// Returns the length of the longest chunk that `device` supports for `operation`, at most `asked`:
/// it determines the geometry of a stream. Returns `None` if the device does not support the
/// operation. Neither the chunk nor its result is longer.
pub fn chunk_bytes(device: &dyn Device, operation: Operation, asked: usize) -> Option<usize> {
    let capability = device.capabilities().get(operation)?;
    let (source, result) = (capability.max_source_bytes, capability.max_destination_bytes);
    let longest = operation.uncompressed_bytes_max(source, result, 1.0);
    Some(asked.min(usize::try_from(longest).unwrap_or(usize::MAX)))
}

/// Reason that an executor cannot be opened or cannot continue. The failure of a device is not an
/// error if there is a CPU.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The policy needs a target that is missing.
    #[error("the placement {policy} needs a {target}, and there is none")]
    NoTarget {
        /// The policy.
        policy: Policy,
        /// The target that is missing.
        target: Target,
    },
    /// A split is of another number of devices.
    #[error(
        "{policy} has not one percentage for each of {devices} devices; write split:P+Q, in their order"
    )]
    Shares {
        /// The policy.
        policy: Policy,
        /// Number of devices in the setup.
        devices: usize,
    },
    /// The number of devices exceeds [`DEVICES_MAX`].
    #[error("{0} devices are too many for one stream; there may be {DEVICES_MAX}")]
    TooManyDevices(usize),
    /// The number exceeds [`SUBMITTERS_MAX`].
    #[error("{0} submitters are too many; there may be {SUBMITTERS_MAX}")]
    TooManySubmitters(usize),
    /// A target cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Memory for the buffers cannot be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The CPU ended, and nothing is left to run its chunks.
    #[error("{device} is lost: {reason}")]
    Lost {
        /// Name of the lost CPU device.
        device: String,
        /// Reason that it was lost.
        reason: String,
    },
    /// A device gave a wrong result after other results of it were used without being verified.
    #[error(
        "{device} gave a wrong result, and {unverified} of its results had been used without being \
         verified; verify all of them, or do without it"
    )]
    UnverifiedResults {
        /// Name of the device.
        device: String,
        /// Number of its results that were used without being verified.
        unverified: u64,
    },
    /// A thread that submits cannot be started, or has ended.
    #[error("submitting from several threads failed: {0}")]
    Thread(String),
    /// The system cannot wait for completions.
    #[error("waiting for completions failed: {0}")]
    Wait(String),
    /// Chunks are in flight; pull them first.
    #[error("{0} chunks are in flight")]
    InFlight(usize),
}
