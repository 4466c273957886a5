//! The backend of the devices that DPDK drives.

use std::sync::Arc;

use overside_device::Device;
use overside_device::backend::{Backend, Described, Finding, OpenError, Options, Severity};

use crate::ethernet::virtual_drivers;
use crate::{DpdkDevice, DpdkError, Environment, PREFIX, SOFTWARE_DEVICES};

/// Devices that DPDK drives. The first one of a process starts DPDK, which takes a quarter of a
/// second.
pub struct DpdkBackend;

fn names<'a>(instances: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let name = |instance| format!("{PREFIX}{instance}");
    instances.into_iter().map(name).collect()
}

/// What `overside kv serve --dpdk-port` can use; nothing where there is no DPDK.
fn ports() -> Option<Finding> {
    let drivers = virtual_drivers().ok()?;
    let message = match drivers.is_empty() {
        true => "DPDK has no drivers for virtual network ports (Debian: apt-get install librte-net-memif23 \
                 librte-net-af-packet23 librte-net-af-xdp23)"
            .into(),
        false => format!(
            "network ports for `overside kv serve --dpdk-port`: {}, and the cards that DPDK is configured for",
            drivers.join(", ")
        ),
    };
    Some(Finding {
        level: Severity::Note,
        message,
    })
}

impl Backend for DpdkBackend {
    fn prefix(&self) -> &'static str {
        "dpdk"
    }

    fn cost(&self) -> Option<&'static str> {
        Some("starts DPDK")
    }

    /// Sets each device up to try what it can do.
    fn list(&self) -> Vec<Described> {
        match Environment::shared() {
            Ok(environment) => (names(environment.names().iter().map(String::as_str)).iter())
                .map(|name| Described::by_opening(self, name))
                .collect(),
            Err(error) => vec![Described::unavailable(&self.wildcard(), error.to_string())],
        }
    }

    /// What DPDK finds where it was told to look for something. Otherwise there could be software devices alone, so
    /// that it is not even started.
    fn offered(&self) -> Vec<Described> {
        match Environment::has_arguments().then(Environment::shared) {
            Some(Ok(environment)) => (names(environment.found().iter().map(String::as_str)).iter())
                .map(|name| Described::by_opening(self, name))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn known_names(&self) -> Vec<String> {
        names(SOFTWARE_DEVICES)
    }

    fn open(&self, name: &str, _: &Options) -> Result<Arc<dyn Device>, OpenError> {
        match DpdkDevice::new(name.strip_prefix(PREFIX).unwrap_or_default()) {
            Ok(device) => Ok(Arc::new(device)),
            Err(DpdkError::Unknown { .. }) => {
                let known = Environment::shared().map_or_else(|_| Vec::new(), |all| all.names());
                let known = names(known.iter().map(String::as_str));
                Err(OpenError::unknown(name, known))
            }
            Err(error) => Err(OpenError::unavailable(name, error)),
        }
    }

    fn doctor(&self) -> Vec<Finding> {
        let finding = |device: &Described| match &device.unavailable {
            // Most machines need none.
            Some(reason) if device.name == self.wildcard() => Finding {
                level: Severity::Note,
                message: format!("no DPDK devices: {reason}"),
            },
            _ => Finding::of_device(device),
        };
        self.list().iter().map(finding).chain(ports()).collect()
    }
}
