//! This machine's cores as a device: worker threads, each with a kernel of its own, run the
//! portable and SIMD libraries of `overside-ops`.
//!
//! ```no_run
//! use overside_backend_cpu::{CpuDevice, CpuOptions};
//! let device = CpuDevice::new(CpuOptions { threads: 2, cores: None })?;
//! # Ok::<(), overside_backend_cpu::CpuError>(())
//! ```

mod backend;
mod capabilities;
mod context;
mod error;
mod virtual_cores;

use std::sync::Arc;

use overside_device::{
    Capabilities, Clock, Context, ContextConfig, Device, DeviceId, DeviceInfo, OpenError,
    Operation, Provenance, Timing,
};

pub use backend::CpuBackend;
pub use error::CpuError;

use context::CpuContext;
use overside_ops::memory_bytes;

/// The device's name.
pub const NAME: &str = "cpu";
/// The most worker threads of a context.
pub const MAX_THREADS: usize = 1024;

/// Number of worker threads of the device, and the cores that they run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuOptions {
    /// Worker threads of each context, 1 to [`MAX_THREADS`].
    pub threads: usize,
    /// The cores that the threads are pinned to, by number, one after the other and from the start
    /// again if there are fewer; `None` if the system places them.
    pub cores: Option<Vec<usize>>,
}

impl Default for CpuOptions {
    /// A context with one thread, not pinned.
    fn default() -> Self {
        Self { threads: 1, cores: None }
    }
}

/// This machine's cores.
pub struct CpuDevice(Arc<DeviceState>);

/// State shared by the device and its contexts.
struct DeviceState {
    id: DeviceId,
    info: DeviceInfo,
    capabilities: Capabilities,
    options: CpuOptions,
    clock: Clock,
}

impl CpuDevice {
    /// Probes the capabilities of the libraries here.
    ///
    /// # Errors
    /// [`CpuError`] if there cannot be that many threads or if they cannot run on those cores.
    pub fn new(options: CpuOptions) -> Result<Self, CpuError> {
        Self::on_clock(options, Clock::default())
    }

    /// Makes a device with a clock. With a virtual one, each chunk runs and then takes the CPU time that it
    /// took, as if it had a core to itself.
    ///
    /// # Errors
    /// Those of [`CpuDevice::new`].
    pub fn on_clock(options: CpuOptions, clock: Clock) -> Result<Self, CpuError> {
        Self::for_operations(options, Operation::all(), clock)
    }

    /// Does these operations and probes no others: for a process that lives for milliseconds.
    ///
    /// # Errors
    /// As [`CpuDevice::new`].
    pub fn for_operations(
        options: CpuOptions,
        operations: impl IntoIterator<Item = Operation>,
        clock: Clock,
    ) -> Result<Self, CpuError> {
        error::check(&options)?;
        let info = DeviceInfo {
            name: NAME.into(),
            driver: concat!("threads ", env!("CARGO_PKG_VERSION")).into(),
            location: "this host".into(),
            description: match options.threads {
                1 => "one thread on this machine's cores".into(),
                threads => format!("{threads} threads on this machine's cores"),
            },
            provenance: Provenance::Measured,
            timing: match clock.is_virtual() {
                true => Timing::Virtual,
                false => Timing::Real,
            },
        };
        Ok(Self(Arc::new(DeviceState {
            id: DeviceId::unique(),
            info,
            capabilities: capabilities::probed(operations),
            options,
            clock,
        })))
    }
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn context_bytes(&self, config: &ContextConfig) -> u64 {
        memory_bytes(&config.operation, config.max_source_bytes, self.0.options.threads)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let device = Arc::clone(&self.0);
        match device.clock.is_virtual() {
            true => virtual_cores::open(device, &config),
            false => Ok(Box::new(CpuContext::open(device, config)?)),
        }
    }
}
