//! Interface of a backend: it lists its devices, opens a device by name, and reports what is
//! missing. `overside-backends` has the registry of backends.

use std::sync::Arc;

use serde::Serialize;

use crate::{Capability, Clock, Device, DeviceInfo, Provenance, Timing};

/// A kind of devices.
pub trait Backend: Sync {
    /// Returns the prefix of the names of the backend's devices. `cpu` has one device, with exactly
    /// this name. Devices of `emulated` are named `emulated:` and an instance.
    fn prefix(&self) -> &'static str;

    /// Returns `true` if `name` has the form of this backend's device names. The device need not
    /// exist.
    fn owns(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.prefix());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }

    /// Returns the side effect of listing and opening the devices, such as "starts DPDK". Callers
    /// then do it only when they need the result. `None` if it has no such cost.
    fn cost(&self) -> Option<&'static str> {
        None
    }

    /// Returns the devices that an agent offers if its user names none: parts of this machine, and
    /// no software in place of a card.
    fn offered(&self) -> Vec<Described>;

    /// Returns the backend's devices. A device that cannot be used has the reason. If the backend
    /// cannot find out which devices exist, one entry with the name [`Backend::wildcard`] has the
    /// reason.
    fn list(&self) -> Vec<Described>;

    /// The names that it knows without any [`Backend::cost`].
    fn known_names(&self) -> Vec<String>;

    /// Opens the device of a name that it [owns](Backend::owns).
    ///
    /// # Errors
    /// [`OpenError`].
    fn open(&self, name: &str, options: &Options) -> Result<Arc<dyn Device>, OpenError>;

    /// Returns the error for a name that no backend owns but that this one recognizes, such as the
    /// bare name of a card. `None` if it does not.
    fn misnamed(&self, name: &str) -> Option<OpenError> {
        let _ = name;
        None
    }

    /// Returns the options reduced to those that the backend's devices use. Devices that are opened
    /// with equal reduced options are the same.
    fn relevant(&self, options: &Options) -> Options {
        let _ = options;
        Options::default()
    }

    /// Returns the name for all of its devices.
    fn wildcard(&self) -> String {
        format!("{}:*", self.prefix())
    }

    /// Returns the lines that `overside doctor` prints for this backend.
    fn doctor(&self) -> Vec<Finding> {
        self.list().iter().map(Finding::of_device).collect()
    }
}

/// Options of [`Backend::open`]. A backend may use only some of them ([`Backend::relevant`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Threads of each context; for devices made of this machine's cores. At least 1.
    pub threads: usize,
    /// The cores that those threads are pinned to, in turn; not pinned if absent.
    pub cores: Option<Vec<usize>>,
    /// Timing of an emulated device's completions in real time; `replay` if absent. Other devices
    /// have a clock of their own.
    pub timing: Option<Timing>,
    /// Clock of the device. An emulated device and this machine's cores can follow a virtual clock.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 1, cores: None, timing: None, clock: Clock::default() }
    }
}

/// Existing device, usable here or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Described {
    /// Name of the device on the command line and in boxes.
    pub name: String,
    /// Reason why the device cannot be used here; `None` if it can.
    pub unavailable: Option<String>,
    /// Description of the device; `None` if it cannot be used.
    #[serde(flatten)]
    pub info: Option<About>,
    /// Operations of the device and their limits; empty if it cannot be used.
    pub capabilities: Vec<Capability>,
}

impl Described {
    /// An open device.
    pub fn new(device: &dyn Device) -> Self {
        let capabilities = device.capabilities().iter().cloned().collect();
        Self::of(device.info().clone(), capabilities)
    }

    /// A device of which this is known.
    pub fn of(info: DeviceInfo, capabilities: Vec<Capability>) -> Self {
        Self {
            name: info.name.clone(),
            unavailable: None,
            info: Some(About::from(info)),
            capabilities,
        }
    }

    /// A device that cannot be used.
    pub fn unavailable(name: &str, reason: String) -> Self {
        Self { name: name.into(), unavailable: Some(reason), info: None, capabilities: Vec::new() }
    }

    /// The device of that name as `backend` opens it.
    pub fn by_opening(backend: &dyn Backend, name: &str) -> Self {
        match backend.open(name, &Options::default()) {
            Ok(device) => Self::new(&*device),
            Err(error) => Self::unavailable(name, error.to_string()),
        }
    }
}

/// Description of a device, without its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
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

/// Importance of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No problem, and no action is needed.
    Ok,
    /// No problem, but useful to know.
    Note,
    /// A requested capability is not available.
    Lack,
}

/// One line of the output of `overside doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Importance of the finding for the user.
    pub level: Severity,
    /// Text of the line.
    pub message: String,
}

impl Finding {
    /// Returns the finding for a device: the number of its operations, or the reason why it cannot
    /// be used.
    pub fn of_device(device: &Described) -> Self {
        let Described { name, capabilities, .. } = device;
        match &device.unavailable {
            Some(reason) => Self { level: Severity::Lack, message: format!("{name}: {reason}") },
            None => Self {
                level: Severity::Ok,
                message: match capabilities.len() {
                    1 => format!("{name} does 1 operation"),
                    count => format!("{name} does {count} operations"),
                },
            },
        }
    }
}

/// Error of [`Backend::open`]: no device has the name, or the device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device is called that.
    #[error("no device is called {name:?}{}; there are: {}", hint(.suggestion), .known.join(", "))]
    Unknown {
        /// Requested name.
        name: String,
        /// Similar name of a device that exists.
        suggestion: Option<String>,
        /// Names of the known devices.
        known: Vec<String>,
    },
    /// The name of a card. A card and its emulation must never be confused.
    #[error("{name:?} is a card, not a device; did you mean {suggestion:?}, its emulation?")]
    BareCard {
        /// Requested name.
        name: String,
        /// Name of the card's emulation.
        suggestion: String,
    },
    /// The device exists, but cannot be used here.
    #[error("{name} is not available: {reason}")]
    Unavailable {
        /// Requested name.
        name: String,
        /// Cause of the failure, for the user.
        reason: String,
    },
}

impl OpenError {
    /// No device is called `name`; the registry looks which of `known` may have been meant.
    pub fn unknown(name: &str, known: Vec<String>) -> Self {
        Self::Unknown { name: name.into(), suggestion: None, known }
    }

    /// Error for a device called `name` that cannot be used, for `reason`.
    pub fn unavailable(name: &str, reason: impl ToString) -> Self {
        Self::Unavailable { name: name.into(), reason: reason.to_string() }
    }
}

fn hint(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map_or_else(String::new, |name| format!(", did you mean {name:?}?"))
}
