//! What a backend promises: to list its devices, to open one by its name, and to say what is
//! missing. `overside-backends` has the registry of backends.

use std::sync::Arc;

use serde::Serialize;

use crate::{Capability, Clock, Device, DeviceInfo, Provenance, Timing};

/// A kind of devices.
pub trait Backend: Sync {
    /// What its devices' names begin with: `cpu` has one device, called that; those of `emulated`
    /// are called `emulated:` and the name of one.
    fn prefix(&self) -> &'static str;

    /// Whether a device's name is one of this backend's, if it has such a device at all.
    fn owns(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.prefix());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }

    /// What listing and opening its devices starts or asks, so that it is done only when somebody
    /// needs to know; `None`: nothing.
    fn cost(&self) -> Option<&'static str> {
        None
    }

    /// Those of its devices that an agent offers where nobody says which: parts of this machine, and no software in
    /// place of a card.
    fn offered(&self) -> Vec<Described>;

    /// Its devices. One that cannot be used says why; if it is not known which there are, one
    /// called [`Backend::wildcard`] does.
    fn list(&self) -> Vec<Described>;

    /// The names that it knows without any [`Backend::cost`].
    fn known_names(&self) -> Vec<String>;

    /// Opens the device of a name that it [owns](Backend::owns).
    ///
    /// # Errors
    /// [`OpenError`].
    fn open(&self, name: &str, options: &Options) -> Result<Arc<dyn Device>, OpenError>;

    /// What stands for a name that no backend owns, if it is known here: the bare name of a card.
    fn misnamed(&self, name: &str) -> Option<OpenError> {
        let _ = name;
        None
    }

    /// Of the options only what its devices look at. Devices opened with the same of these are the
    /// same.
    fn relevant(&self, options: &Options) -> Options {
        let _ = options;
        Options::default()
    }

    /// The name that stands for all its devices.
    fn wildcard(&self) -> String {
        format!("{}:*", self.prefix())
    }

    /// What `overside doctor` says of it.
    fn doctor(&self) -> Vec<Finding> {
        self.list().iter().map(Finding::of_device).collect()
    }
}

/// How a device is to be opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Threads of each context; for devices made of this machine's cores. At least 1.
    pub threads: usize,
    /// The cores that those threads are pinned to, in turn; not pinned if absent.
    pub cores: Option<Vec<usize>>,
    /// How an emulated device times its completions in real time; `replay` if absent. Other devices
    /// have a clock of their own.
    pub timing: Option<Timing>,
    /// What time is. An emulated device and this machine's cores can follow a virtual clock.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            cores: None,
            timing: None,
            clock: Clock::default(),
        }
    }
}

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
        Self {
            name: name.into(),
            unavailable: Some(reason),
            info: None,
            capabilities: Vec::new(),
        }
    }

    /// The device of that name as `backend` opens it.
    pub fn by_opening(backend: &dyn Backend, name: &str) -> Self {
        match backend.open(name, &Options::default()) {
            Ok(device) => Self::new(&*device),
            Err(error) => Self::unavailable(name, error.to_string()),
        }
    }
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

/// How much something that was found matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Nothing is wrong, but it is good to know.
    Note,
    /// Something that is asked for cannot be had.
    Lack,
}

/// What `overside doctor` says in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Severity,
    /// What was found.
    pub message: String,
}

impl Finding {
    /// That a device can be used, or why not.
    pub fn of_device(device: &Described) -> Self {
        let Described {
            name, capabilities, ..
        } = device;
        match &device.unavailable {
            Some(reason) => Self {
                level: Severity::Lack,
                message: format!("{name}: {reason}"),
            },
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

/// Why a name does not become a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device is called that.
    #[error("no device is called {name:?}{}; there are: {}", hint(.suggestion), .known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// A name that is like it.
        suggestion: Option<String>,
        /// The names there are.
        known: Vec<String>,
    },
    /// The name of a card. A card and its emulation must never be confused.
    #[error("{name:?} is a card, not a device; did you mean {suggestion:?}, its emulation?")]
    BareCard {
        /// What was asked for.
        name: String,
        /// The emulation of it.
        suggestion: String,
    },
    /// There is such a device, but it cannot be used here.
    #[error("{name} is not available: {reason}")]
    Unavailable {
        /// What was asked for.
        name: String,
        /// Why.
        reason: String,
    },
}

impl OpenError {
    /// No device is called `name`; the registry looks which of `known` may have been meant.
    pub fn unknown(name: &str, known: Vec<String>) -> Self {
        Self::Unknown {
            name: name.into(),
            suggestion: None,
            known,
        }
    }

    /// There is a device called `name`, and `reason` is why it cannot be used.
    pub fn unavailable(name: &str, reason: impl ToString) -> Self {
        Self::Unavailable {
            name: name.into(),
            reason: reason.to_string(),
        }
    }
}

fn hint(suggestion: &Option<String>) -> String {
    suggestion
        .as_ref()
        .map_or_else(String::new, |name| format!(", did you mean {name:?}?"))
}
