//! Ethernet ports (rte_ethdev): network cards, and virtual devices such as shared memory with another
//! process (`net_memif`), packet sockets (`net_af_packet`, `net_af_xdp`) and TAP interfaces.
//!
//! A port is opened with some queues, each for one thread. Frames are received as they lie in the
//! driver's buffers, and written where the driver sends them from.

// Calls through the table, and memory of frames.
#![allow(unsafe_code)]

mod arguments;
mod frame;
mod queue;
pub mod table;

use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::ptr;
use std::sync::Arc;

use crate::shim::text;
use crate::{DpdkError, Environment};
use arguments::PortName;
pub use frame::{Checksums, ReceivedFrame};
pub use queue::{BURST, EthernetQueue, OutgoingFrame, Written};
pub use table::PortStatistics;
use table::{EthernetTable, RawPortInfo, RawPortSetup};

/// Properties of an Ethernet port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Name of the device in DPDK.
    pub name: String,
    /// Name of the port's DPDK driver.
    pub driver: String,
    /// Hardware (MAC) address of the port.
    pub mac: [u8; 6],
    /// Longest IP packet in bytes.
    pub mtu: u16,
}

/// Running port. It is closed when the last of its queues is dropped.
pub struct EthernetPort {
    environment: Arc<Environment>,
    table: &'static EthernetTable,
    id: i32,
    info: PortInfo,
}

impl std::fmt::Debug for EthernetPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EthernetPort({})", self.info.name)
    }
}

/// A port that is set up and not started, which is closed after an error.
struct Attached<'a> {
    environment: &'a Environment,
    table: &'static EthernetTable,
    id: i32,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        let _control = self.environment.runtime.control();
        // SAFETY: the port was attached here, and nothing else uses it.
        unsafe { (self.table.stop)(self.id) };
    }
}

impl EthernetPort {
    /// Opens a port by DPDK's name of its device, with arguments for the driver behind it where it
    /// is a virtual one: `net_memif0,role=server,socket=/run/kv.sock`. Has `queues` queues of at
    /// least `rx_queue` receive descriptors, as far as the driver takes that number.
    ///
    /// # Errors
    /// [`DpdkError`].
    pub fn open(
        name: &str,
        queues: u16,
        rx_descriptors: u16,
    ) -> Result<(Arc<Self>, Vec<EthernetQueue>), DpdkError> {
        Self::open_in(&Environment::shared()?, name, queues, rx_descriptors)
    }

    /// Opens a port like [`Self::open`], but in the given environment instead of the shared one.
    ///
    /// # Errors
    /// [`DpdkError`].
    pub fn open_in(
        environment: &Arc<Environment>,
        name: &str,
        queues: u16,
        rx_descriptors: u16,
    ) -> Result<(Arc<Self>, Vec<EthernetQueue>), DpdkError> {
        let port = PortName::new(name);
        let unusable = |reason: String| DpdkError::Unusable {
            name: port.device.into(),
            reason: reason + port.remedy(),
        };
        let runtime = &environment.runtime;
        let table = runtime.shim.0.ethernet;
        let table = table.ok_or_else(|| unusable("this DPDK has no ports".into()))?;
        let arguments = port.arguments(queues, rx_descriptors);
        let device = CString::new(port.device).map_err(|error| unusable(error.to_string()))?;
        let arguments = CString::new(arguments).map_err(|error| unusable(error.to_string()))?;
        runtime.enter_thread();
        let shim = runtime.shim;
        let control = runtime.control();
        // What was logged before is about something else.
        shim.messages();
        // SAFETY: both are NUL-terminated and outlive the call.
        let id = unsafe { (table.attach)(device.as_ptr(), arguments.as_ptr()) };
        shim.check(id).map_err(unusable)?;
        drop(control);
        let attached = Attached { environment, table, id };
        let control = runtime.control();
        let info = info(table, id, port.device)
            .map_err(|code| unusable(shim.check(code).err().unwrap_or_default()))?;
        if info.1 < queues {
            drop(control);
            return Err(unusable(format!(
                "it has {} queues, and {queues} cores need one each",
                info.1
            )));
        }
        let setup = RawPortSetup { queues, rx_descriptors };
        let mut handles = vec![ptr::null_mut::<c_void>(); usize::from(queues)];
        // SAFETY: there is room for the requested number of queues.
        let started = unsafe { (table.start)(id, &setup, handles.as_mut_ptr()) };
        let started = shim.check(started);
        drop(control);
        started.map_err(unusable)?;
        std::mem::forget(attached);
        let port = Arc::new(Self { environment: Arc::clone(environment), table, id, info: info.0 });
        let queue = |handle| EthernetQueue::new(Arc::clone(&port), handle);
        let queues = handles.into_iter().map(queue).collect();
        Ok((port, queues))
    }

    /// Returns the port's name, driver, hardware address and MTU.
    #[must_use]
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// DPDK's version, as in `DPDK 22.11.11`.
    #[must_use]
    pub fn version(&self) -> String {
        self.environment.version()
    }

    /// Frames since the start; zeros if the driver does not count them.
    #[must_use]
    pub fn statistics(&self) -> PortStatistics {
        let mut found = PortStatistics::default();
        // SAFETY: the structure is the one of `shim.h`.
        unsafe { (self.table.statistics)(self.id, &mut found) };
        found
    }

    /// Returns `true` if the port's link is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        // SAFETY: the function takes any port.
        unsafe { (self.table.is_up)(self.id) == 1 }
    }

    /// Steers datagrams to an address to queues by their UDP ports, with rules of the device
    /// (rte_flow). After an error no rule is left.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn steer(
        &self,
        address: Ipv4Addr,
        rules: impl Iterator<Item = (u16, u16)>,
    ) -> Result<(), String> {
        let _control = self.environment.runtime.control();
        let shim = self.environment.runtime.shim;
        shim.messages();
        for (udp_port, queue) in rules {
            // SAFETY: takes plain numbers.
            let result = unsafe { (self.table.steer)(self.id, address.into(), udp_port, queue) };
            if let Err(reason) = shim.check(result) {
                // SAFETY: as above.
                unsafe { (self.table.unsteer)(self.id) };
                return Err(reason);
            }
        }
        Ok(())
    }
}

impl Drop for EthernetPort {
    fn drop(&mut self) {
        let _control = self.environment.runtime.control();
        // SAFETY: no queue is used any more, since each keeps the port.
        unsafe { (self.table.stop)(self.id) };
    }
}

fn info(table: &EthernetTable, id: i32, name: &str) -> Result<(PortInfo, u16), i32> {
    let mut raw = MaybeUninit::<RawPortInfo>::zeroed();
    // SAFETY: the structure is the one of `shim.h`, for which all zeros are valid.
    let (code, raw) = unsafe { ((table.info)(id, raw.as_mut_ptr()), raw.assume_init()) };
    let info =
        PortInfo { name: name.into(), driver: text(&raw.driver), mac: raw.mac, mtu: raw.mtu };
    if code < 0 { Err(code) } else { Ok((info, raw.queues)) }
}

/// Drivers of virtual ports that are installed, as in `net_memif`: those that DPDK loaded when it started.
///
/// # Errors
/// [`DpdkError`]: there is no DPDK.
pub fn virtual_drivers() -> Result<Vec<String>, DpdkError> {
    Environment::shared()?;
    const VIRTUAL: [&str; 4] = ["memif", "af_packet", "af_xdp", "tap"];
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let is_loaded = |name: &&str| maps.contains(&format!("librte_net_{name}.so"));
    let loaded = VIRTUAL.iter().filter(|name| is_loaded(name));
    Ok(loaded.map(|name| format!("net_{name}")).collect())
}
