//! Every backend behind its name.

pub mod agents;

use std::sync::Arc;

use overside_backend_cpu::CpuBackend;
use overside_backend_dpdk::DpdkBackend;
use overside_backend_emulated::EmulatedBackend;
use overside_device::{Device, Timing};

pub use agents::agents_device;
pub use overside_backend_dpdk::shim::SHIM as DPDK_SHIM;
pub use overside_backend_emulated::profile_of;
pub use overside_config::suggest as closest;
pub use overside_device::backend::{
    About, Backend, Described, Finding, OpenError, Options, Severity,
};

/// The registry of backends, in the order in which their devices are listed.
pub const BACKENDS: &[&dyn Backend] =
    &[&CpuBackend, &EmulatedBackend, &DpdkBackend, &agents::AgentBackend];

/// The backend that a device's name belongs to.
fn owner(name: &str) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|backend| backend.owns(name))
}

/// Returns the devices that are known without starting a driver or connecting to an agent.
pub fn list() -> Vec<Described> {
    let free = BACKENDS.iter().filter(|backend| backend.cost().is_none());
    free.flat_map(|backend| backend.list()).collect()
}

/// Returns the devices of all backends. Starts DPDK and connects to all agents, which takes about a second.
pub fn list_all() -> Vec<Described> {
    BACKENDS.iter().flat_map(|backend| backend.list()).collect()
}

/// Returns only those options that the device called `name` uses. Devices opened with the same
/// relevant options are the same.
pub fn relevant_options(options: &Options, name: &str) -> Options {
    owner(name).map_or_else(|| options.clone(), |backend| backend.relevant(options))
}

/// Opens the devices that are to work beside `threads` threads of the CPU, written
/// `dpu0/cpu+dpu0/dpdk:mlx5_0`; the CPU itself is there anyway and no device. An emulated device
/// takes the time that its card would, or placement would decide on other times.
///
/// # Errors
/// As [`open`].
pub fn open_accelerators(names: &str, threads: usize) -> Result<Vec<Arc<dyn Device>>, OpenError> {
    let options = Options { threads, timing: Some(Timing::Paced), ..Options::default() };
    (names.split('+'))
        .filter(|name| *name != overside_backend_cpu::NAME)
        .map(|name| open(name, &options))
        .collect()
}

/// Opens the device called `name`: `cpu`, `emulated:` and a profile, or `dpdk:` and DPDK's name of
/// a device. The first DPDK device of a process starts DPDK, which takes a quarter of a second. A
/// device of an agent has the agent's name in front, as in `dpu0/cpu`; the inventory of agents has
/// its address, and the agent decides how the device is set up.
///
/// # Errors
/// [`OpenError`]: no such name, the bare name of a card, or a device that cannot be used here.
pub fn open(name: &str, options: &Options) -> Result<Arc<dyn Device>, OpenError> {
    let result = match owner(name) {
        Some(backend) => backend.open(name, options),
        None => {
            let unknown = || {
                let known = BACKENDS.iter().flat_map(|backend| backend.known_names());
                OpenError::unknown(name, known.collect())
            };
            let misnamed = BACKENDS.iter().find_map(|backend| backend.misnamed(name));
            Err(misnamed.unwrap_or_else(unknown))
        }
    };
    result.map_err(|error| match error {
        OpenError::Unknown { name, known, .. } => {
            OpenError::Unknown { suggestion: closest(&name, &known), name, known }
        }
        error => error,
    })
}
