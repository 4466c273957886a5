//! DPDK's devices: compression (rte_compressdev), pattern matching (rte_regexdev) and copying
//! (rte_dmadev), in hardware or by software drivers, and Ethernet ports ([`ethernet`]).
//!
//! DPDK is called through a C shim (`shim/`): a shared library that this crate contains and loads
//! when a DPDK device is opened. So programs start and run without DPDK; [`Environment::shared`]
//! then names what is missing.
//!
//! Names are `dpdk:` and DPDK's name of the device: `dpdk:compress_isal`, `dpdk:mlx5_0`. Software
//! devices are created when they are opened. Hardware needs arguments for DPDK in
//! `OVERSIDE_DPDK_ARGS`; `docs/core/devices.md` lists them.
//!
//! All devices are polled, and all require registered memory, even if their drivers do not.

mod backend;
mod batch;
mod capabilities;
mod context;
mod engine;
mod environment;
mod error;
pub mod ethernet;
mod memory;
mod orphan;
mod outcome;
mod pipeline;
mod probe;
mod queue;
mod resources;
mod rules;
mod runtime;
pub mod shim;

use std::sync::Arc;

use overside_device::{
    Capabilities, Context, ContextConfig, Device, DeviceId, DeviceInfo, ExternalBytes, MemoryError,
    OpenError, Provenance, Region, Slice, Timing,
};

pub use backend::DpdkBackend;
pub use environment::{ARGUMENTS, Environment, SOFTWARE_DEVICES};
pub use error::DpdkError;
pub use rules::RULES;

use context::DpdkContext;
use engine::Engine;

/// Prefix of the names of DPDK devices; DPDK's own name of the device follows.
pub const PREFIX: &str = "dpdk:";

/// A device that DPDK drives.
pub struct DpdkDevice {
    shared: Arc<DeviceState>,
}

/// State shared by a device and its contexts.
struct DeviceState {
    id: DeviceId,
    info: DeviceInfo,
    capabilities: Capabilities,
    environment: Arc<Environment>,
    engine: Arc<Engine>,
}

impl DpdkDevice {
    /// The device that DPDK calls `instance`, in the process's environment.
    ///
    /// # Errors
    /// [`DpdkError`].
    pub fn new(instance: &str) -> Result<Self, DpdkError> {
        Self::open_in(&Environment::shared()?, instance)
    }

    /// The device that DPDK calls `instance`, in this environment.
    ///
    /// # Errors
    /// [`DpdkError`].
    pub fn open_in(environment: &Arc<Environment>, instance: &str) -> Result<Self, DpdkError> {
        let engine = environment.engine(instance)?;
        let (found, driver) = (&engine.found, engine.driver());
        let info = DeviceInfo {
            name: format!("{PREFIX}{instance}"),
            driver: format!("{} {driver}", environment.version()),
            location: match found.hardware {
                true => found.name.clone(),
                false => "this host".into(),
            },
            description: match found.hardware {
                true => format!("a device of this machine, by DPDK's driver {driver}"),
                false => format!("this machine's cores, by DPDK's software driver {driver}"),
            },
            provenance: Provenance::Measured,
            timing: Timing::Real,
        };
        Ok(Self {
            shared: Arc::new(DeviceState {
                id: DeviceId::unique(),
                info,
                capabilities: engine.capabilities.clone(),
                environment: Arc::clone(environment),
                engine,
            }),
        })
    }

    fn names(&self) -> (DeviceId, &str) {
        (self.shared.id, &self.shared.info.name)
    }
}

impl Device for DpdkDevice {
    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        memory::allocate(&self.shared.environment.runtime, self.names(), len, align)
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        memory::register(&self.shared.environment.runtime, self.names(), foreign)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        Ok(Box::new(DpdkContext::open(&self.shared, config)?))
    }
}
