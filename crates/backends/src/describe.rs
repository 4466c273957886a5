//! What the devices are and what they can do, for people and programs to read.

use overside_backend_dpdk::Environment;
use overside_device::{Capability, Device, DeviceInfo, Provenance, Timing};
use serde::Serialize;

use crate::{Options, emulated_profiles, names, open};

/// A device that there is, usable here or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Described {
    /// The name to ask for.
    pub name: String,
    /// Why it cannot be used here; `None` if it can.
    pub unavailable: Option<String>,
    /// What it is; unknown if it cannot be used.
    #[serde(flatten)]
    pub info: Option<About>,
    /// What it can do.
    pub capabilities: Vec<Capability>,
}

/// What a device is, beside its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The backend and its version.
    pub driver: String,
    /// Where it is.
    pub location: String,
    /// One line for people.
    pub description: String,
    /// What a time taken on it is.
    pub provenance: Provenance,
    /// What its completion times mean.
    pub timing: Timing,
}

/// Describes an open device.
pub fn describe(device: &dyn Device) -> Described {
    let info = device.info().clone();
    Described {
        name: info.name.clone(),
        unavailable: None,
        info: Some(About::from(info)),
        capabilities: device.capabilities().iter().cloned().collect(),
    }
}

impl From<DeviceInfo> for About {
    fn from(info: DeviceInfo) -> Self {
        Self {
            driver: info.driver,
            location: info.location,
            description: info.description,
            provenance: info.provenance,
            timing: info.timing,
        }
    }
}

/// The devices that are there without setting anything up: this machine's cores, and the emulation
/// of each profile that has an engine.
pub fn list() -> Vec<Described> {
    let mut all = vec![described(names::CPU)];
    match emulated_profiles() {
        Ok(profiles) => {
            all.extend(
                profiles
                    .iter()
                    .map(|profile| described(&names::emulated(profile))),
            );
        }
        Err(error) => all.push(unavailable(&names::emulated("*"), error.to_string())),
    }
    all
}

/// The devices that DPDK drives; one that cannot be used and says why where there is no DPDK.
/// Starts DPDK, once a process, and sets each device up to try what it can do: a quarter of a
/// second.
pub fn list_dpdk() -> Vec<Described> {
    match Environment::shared() {
        Ok(environment) => {
            let names = environment.names();
            names
                .iter()
                .map(|one| described(&names::dpdk(one)))
                .collect()
        }
        Err(error) => vec![unavailable(&names::dpdk("*"), error.to_string())],
    }
}

fn described(name: &str) -> Described {
    match open(name, &Options::default()) {
        Ok(device) => describe(&*device),
        Err(error) => unavailable(name, error.to_string()),
    }
}

pub(crate) fn unavailable(name: &str, reason: String) -> Described {
    Described {
        name: name.into(),
        unavailable: Some(reason),
        info: None,
        capabilities: Vec::new(),
    }
}
