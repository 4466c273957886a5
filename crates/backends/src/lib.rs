//! Every backend behind its name.

pub mod agents;
mod describe;
mod error;
mod names;

use std::sync::Arc;

pub use describe::{About, Described, describe, list, list_dpdk};
pub use error::OpenError;
pub use names::{agents_device, closest, profile_of};
use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_backend_dpdk::{DpdkDevice, DpdkError, Environment, SOFTWARE_DEVICES};
use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_device::{Device, Timing};
use overside_model::ProfileError;

/// How a device is to be opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Threads of each context; for devices made of this machine's cores. At least 1.
    pub threads: usize,
    /// The cores that those threads are pinned to, in turn; not pinned if absent.
    pub cores: Option<Vec<usize>>,
    /// How an emulated device times its completions; `replay` if absent. Other devices have a
    /// clock of their own.
    pub timing: Option<Timing>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            cores: None,
            timing: None,
        }
    }
}

impl Options {
    /// Only what the device of that name looks at; the rest as it is by default. Devices opened
    /// with the same of these are the same.
    pub fn that_matter_to(&self, name: &str) -> Self {
        if names::dpdk_instance(name).is_some() || agents_device(name).is_some() {
            return Self::default();
        }
        if profile_of(name).is_some() {
            return Self {
                timing: Some(self.timing.unwrap_or(Timing::Replay)),
                ..Self::default()
            };
        }
        Self {
            timing: None,
            ..self.clone()
        }
    }
}

/// Opens the device that is to work beside `threads` threads of the CPU; `None` if that is the CPU
/// itself, which is there anyway. An emulated device takes the time that its card would, or
/// whoever places work would decide on something else.
///
/// # Errors
/// As [`open`].
pub fn open_beside_cpu(name: &str, threads: usize) -> Result<Option<Arc<dyn Device>>, OpenError> {
    if name == names::CPU {
        return Ok(None);
    }
    let options = Options {
        threads,
        timing: Some(Timing::Paced),
        ..Options::default()
    };
    open(name, &options).map(Some)
}

/// Opens the device called `name`: `cpu`, `emulated:` and a profile, or `dpdk:` and DPDK's name of
/// a device. The first DPDK device of a process starts DPDK, which takes a quarter of a second. A
/// device of an agent has the agent's name in front, as in `dpu0/cpu`; the inventory of agents says
/// where that is, and how the device is set up is for the agent to say.
///
/// # Errors
/// [`OpenError`]: no such name, the bare name of a card, or a device that cannot be used here.
pub fn open(name: &str, options: &Options) -> Result<Arc<dyn Device>, OpenError> {
    if name == names::CPU {
        return cpu(options);
    }
    if let Some(instance) = names::dpdk_instance(name) {
        return dpdk(name, instance);
    }
    if let Some((node, device)) = agents_device(name) {
        return agents::open(name, node, device);
    }
    let unavailable = |error: ProfileError| OpenError::Unavailable {
        name: name.into(),
        reason: error.to_string(),
    };
    let profiles = overside_model::profiles().map_err(unavailable)?;
    let asked = profile_of(name).unwrap_or(name);
    if let Some(profile) = profiles.into_iter().find(|profile| profile.name == asked) {
        if let Some(reason) = profile.why_not_emulated() {
            let name = name.into();
            return Err(OpenError::Unavailable { name, reason });
        }
        if profile_of(name).is_none() {
            return Err(OpenError::BareCard {
                name: name.into(),
                suggestion: names::emulated(name),
            });
        }
        return Ok(Arc::new(EmulatedDevice::new(profile, mode(options.timing))));
    }
    let mut known = vec![names::CPU.to_string()];
    let emulated = emulated_profiles().map_err(unavailable)?;
    known.extend(emulated.iter().map(|profile| names::emulated(profile)));
    known.extend(SOFTWARE_DEVICES.map(names::dpdk));
    Err(OpenError::Unknown {
        name: name.into(),
        suggestion: closest(name, &known),
        known: known.join(", "),
    })
}

fn dpdk(name: &str, instance: &str) -> Result<Arc<dyn Device>, OpenError> {
    match DpdkDevice::new(instance) {
        Ok(device) => Ok(Arc::new(device)),
        Err(DpdkError::Unknown { .. }) => {
            let known = Environment::shared().map_or_else(|_| Vec::new(), |all| all.names());
            let known: Vec<String> = known.iter().map(|known| names::dpdk(known)).collect();
            Err(OpenError::Unknown {
                name: name.into(),
                suggestion: closest(name, &known),
                known: known.join(", "),
            })
        }
        Err(error) => Err(OpenError::Unavailable {
            name: name.into(),
            reason: error.to_string(),
        }),
    }
}

fn cpu(options: &Options) -> Result<Arc<dyn Device>, OpenError> {
    let options = CpuOptions {
        threads: options.threads,
        cores: options.cores.clone(),
    };
    let device = CpuDevice::new(options).map_err(|error| OpenError::Unavailable {
        name: names::CPU.into(),
        reason: error.to_string(),
    })?;
    Ok(Arc::new(device))
}

fn mode(timing: Option<Timing>) -> Mode {
    match timing {
        Some(Timing::Paced) => Mode::Paced,
        Some(Timing::Functional) => Mode::Functional,
        // An emulated device has no clock of its own.
        None | Some(Timing::Replay | Timing::Real) => Mode::Replay,
    }
}

/// The names of the profiles that can be emulated.
fn emulated_profiles() -> Result<Vec<String>, ProfileError> {
    Ok((overside_model::profiles()?.into_iter())
        .filter(|profile| profile.why_not_emulated().is_none())
        .map(|profile| profile.name)
        .collect())
}
