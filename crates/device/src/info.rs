//! Who a device is and what its answers are worth.

use overside_ops::Variant;
use serde::{Deserialize, Serialize};

/// How a figure was obtained, strongest first. An aggregate carries the weakest, that is the
/// greatest, of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// A real device and a real clock.
    Measured,
    /// Real bytes at the times of a profile.
    Emulated,
    /// Computed.
    Modelled,
    /// Somebody else's figure, cited.
    Published,
}

/// What a device's completion times mean, strongest first: where several devices take part, the
/// greatest holds for all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// Jobs complete when the device is done with them.
    Real,
    /// Results are real; a [`Clock`](crate::Clock) adds up the times that a profile gives and those
    /// that were measured here, whatever this machine is busy with.
    Virtual,
    /// Results are computed as jobs come and released in real time, when a profile says.
    Paced,
    /// The same, with results that were computed beforehand.
    Replay,
    /// Results are real, times mean nothing.
    Functional,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `[node/]backend[:instance]`, as in `cpu` or `emulated:bf2`.
    pub name: String,
    /// The backend and its version.
    pub driver: String,
    /// Where it is: a PCI address, a socket, "this host".
    pub location: String,
    /// One line for people.
    pub description: String,
    /// What a time taken on it is.
    pub provenance: Provenance,
    /// What its completion times mean.
    pub timing: Timing,
}

/// What really ran a job. Samples are filed under this, not under what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Applied {
    /// The device's name.
    pub device: String,
    /// The backend and its version.
    pub driver: String,
    /// The variant: the library that computed the bytes, by its name in a box.
    pub variant: String,
    /// The library and its version; or, where patterns match every record or none, that no engine
    /// was needed.
    pub library: String,
    /// Why it was chosen, where `auto` chose among matchers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// What a time taken on it is.
    pub provenance: Provenance,
}

impl Applied {
    /// That a library runs the jobs of a device.
    pub fn of(device: &DeviceInfo, variant: &Variant) -> Self {
        Self {
            device: device.name.clone(),
            driver: device.driver.clone(),
            variant: variant.name.into(),
            library: variant.title(),
            because: variant.because.clone(),
            provenance: device.provenance,
        }
    }

    /// What jobs that no engine has seen are filed under.
    pub fn nothing(device: &DeviceInfo, variant: &str) -> Self {
        Self {
            device: device.name.clone(),
            driver: device.driver.clone(),
            variant: variant.into(),
            library: "no job has run".into(),
            because: None,
            provenance: device.provenance,
        }
    }
}
