//! Identity of a device, and the meaning and provenance of its times.

use overside_ops::Variant;
use serde::{Deserialize, Serialize};

/// Method by which a figure was obtained, strongest first. An aggregate has the weakest, which is
/// the greatest, of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// A real device and a real clock.
    Measured,
    /// Real bytes at the times of a profile.
    Emulated,
    /// Computed.
    Modelled,
    /// Cited figure from another source.
    Published,
}

/// Meaning of a device's completion times, strongest first. If several devices take part, the
/// greatest applies to all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// Jobs complete when the device is done with them.
    Real,
    /// Results are real. A [`Clock`](crate::Clock) adds up the times of a profile and times that were
    /// measured here, independently of this machine's load.
    Virtual,
    /// Results are computed as jobs come and released in real time, at the profile's times.
    Paced,
    /// Results are computed beforehand and released in real time, at the profile's times.
    Replay,
    /// Results are real, times mean nothing.
    Functional,
}

/// Identity of a device: its name, driver and location, and the meaning of its times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `[node/]backend[:instance]`, as in `cpu` or `emulated:bf2`.
    pub name: String,
    /// The backend and its version.
    pub driver: String,
    /// Location of the device: a PCI address, a socket, "this host".
    pub location: String,
    /// One line for people.
    pub description: String,
    /// Provenance of the times that are measured on the device.
    pub provenance: Provenance,
    /// Meaning of the device's completion times.
    pub timing: Timing,
}

/// Device and library that actually ran a job. Samples are filed under this, not under the caller's
/// choice.
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
    /// Reason for the choice of the library, if `auto` chose among matchers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Provenance of the times that are measured on the device.
    pub provenance: Provenance,
}

impl Applied {
    /// Returns the record for jobs that the library of `variant` runs on `device`.
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

    /// Returns the record for jobs that no engine has processed.
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
