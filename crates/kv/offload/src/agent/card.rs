//! The card that an agent runs on.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The boot controller of a BlueField's own cores, in the firmware's tables: a host has none.
const BOOT_CONTROLLER: &str = "bus/acpi/devices/MLNXBF04:00";
const VENDOR: &str = "0x15b3";
/// Beginning of the PCI class of network controllers.
const CLASS: &str = "0x02";

/// A card whose own cores these are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardFound {
    /// Vendor and device of its network function, as in `15b3:a2d6`.
    pub pci: String,
    /// `true` if the card's embedded switch has ports for the host's functions here, as in DPU
    /// mode.
    pub has_representors: bool,
}

impl CardFound {
    /// Reads the system's entries below `sysfs`; `None` if these are no card's cores.
    pub(super) fn find(sysfs: &Path) -> Option<Self> {
        sysfs.join(BOOT_CONTROLLER).exists().then_some(())?;
        let devices = fs::read_dir(sysfs.join("bus/pci/devices")).ok()?;
        let devices = devices.filter_map(Result::ok).map(|entry| entry.path());
        let read = |path: &Path, name| fs::read_to_string(path.join(name)).unwrap_or_default();
        let network = devices
            .filter(|path| read(path, "vendor").trim() == VENDOR)
            .find(|path| read(path, "class").starts_with(CLASS))?;
        let device = read(&network, "device");
        let device = device.trim().strip_prefix("0x")?;
        let interfaces = fs::read_dir(sysfs.join("class/net")).into_iter().flatten();
        let mut interfaces = interfaces.filter_map(Result::ok);
        let has_representors =
            interfaces.any(|entry| is_host_function(read(&entry.path(), "phys_port_name").trim()));
        Some(Self { pci: format!("15b3:{device}"), has_representors })
    }
}

/// Returns `true` if a port of the embedded switch leads to a function of the host: `pf0`, or
/// `c1pf0` for one of another controller.
fn is_host_function(port: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((controller, function)) = port.split_once("pf") else {
        return false;
    };
    let is_controller =
        controller.is_empty() || controller.strip_prefix('c').is_some_and(is_number);
    is_controller && is_number(function)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{BOOT_CONTROLLER, CardFound, is_host_function};

    #[test]
    fn a_card_is_found_by_its_own_cores_only() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, value) in [("vendor", "0x15b3"), ("device", "0xa2d6"), ("class", "0x020000")] {
            write(&format!("bus/pci/devices/0000:03:00.0/{name}"), &format!("{value}\n"));
        }
        assert_eq!(CardFound::find(root), None, "a host with a card");
        fs::create_dir_all(root.join(BOOT_CONTROLLER)).unwrap();
        let found = |has_representors| {
            let pci = "15b3:a2d6".into();
            Some(CardFound { pci, has_representors })
        };
        assert_eq!(CardFound::find(root), found(false));
        write("class/net/p0/phys_port_name", "p0\n");
        assert_eq!(CardFound::find(root), found(false));
        write("class/net/pf0hpf/phys_port_name", "c1pf0\n");
        assert_eq!(CardFound::find(root), found(true));
    }

    #[test]
    fn ports_of_the_host_are_told_by_their_names() {
        assert!(is_host_function("pf0") && is_host_function("c1pf1"));
        for other in ["", "p0", "pf0vf1", "pf0sf88", "c1pf0vf0", "pf", "xpf0"] {
            assert!(!is_host_function(other), "{other}");
        }
    }
}
