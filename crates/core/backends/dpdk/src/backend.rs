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

/// Reports the network ports that `overside kv serve --dpdk-port` can use. Returns `None` if DPDK
/// is not available.
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
    Some(Finding { level: Severity::Note, message })
}

impl Backend for DpdkBackend {
    fn prefix(&self) -> &'static str {
        "dpdk"
    }

    fn cost(&self) -> Option<&'static str> {
        Some("starts DPDK")
    }

    /// Sets up each device and tries its operations.
    fn list(&self) -> Vec<Described> {
        match Environment::shared() {
            Ok(environment) => (names(environment.names().iter().map(String::as_str)).iter())
                .map(|name| Described::by_opening(self, name))
                .collect(),
            Err(error) => vec![Described::unavailable(&self.wildcard(), error.to_string())],
        }
    }

    /// Lists the devices that DPDK finds, if `OVERSIDE_DPDK_ARGS` contains arguments for it.
    /// Otherwise DPDK could offer only software devices, so it is not started and the list is
    /// empty.
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
            Some(reason) if device.name == self.wildcard() => {
                Finding { level: Severity::Note, message: format!("no DPDK devices: {reason}") }
            }
            _ => Finding::of_device(device),
        };
        self.list().iter().map(finding).chain(ports()).collect()
    }
}
