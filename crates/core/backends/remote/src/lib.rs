//! An agent's devices as devices of this machine: jobs go over a connection, results come back.
//!
//! An agent runs on a DPU's own cores, or on any other machine (`overside agent`), and offers the
//! devices there. `dpu0/cpu` is the device `cpu` of the agent that the [`Inventory`] calls `dpu0`.
//!
//! Each context has a connection of its own and uses it on the thread that owns the context: there
//! is no thread between a submitter and the socket. Sources are sent from where they are, results
//! are read to where they belong. A destination never leaves this process, so a job that is given
//! up has it back at once and nothing is ever quarantined.
//!
//! An agent may also play one end of a test: [`RemoteProbe`].
//!
//! A connection that breaks, is silent for too long or violates the protocol loses its context and
//! nothing else: the next [`Device::open`] makes another connection. While the agent cannot be
//! reached, that fails at once for longer and longer pauses.

mod capabilities;
mod connection;
mod context;
mod dialer;
mod error;
mod incoming;
mod inventory;
mod probe;

use std::sync::Arc;
use std::time::Duration;

use overside_device::{
    Capabilities, Context, ContextConfig, Device, DeviceId, DeviceInfo, OpenError,
};
use overside_link::agent::{Offer, Welcome};

use context::RemoteContext;
use dialer::Dialer;
pub use error::{ProbeError, RemoteError};
pub use inventory::{Entry, INVENTORY, Inventory};
pub use probe::RemoteProbe;

/// Limits on the time that the host waits for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Longest time to connect, including keys and greeting.
    pub connect: Duration,
    /// Longest time to open, reconfigure or close a context on the agent.
    pub open: Duration,
    /// Silence after which a ping is sent to an agent.
    pub ask: Duration,
    /// Silence after a ping from which on the agent counts as lost.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            open: Duration::from_secs(60),
            ask: Duration::from_secs(2),
            silence: Duration::from_secs(5),
        }
    }
}

/// A device of an agent.
pub struct RemoteDevice {
    shared: Arc<DeviceState>,
}

/// State shared by a device and its contexts.
struct DeviceState {
    id: DeviceId,
    info: DeviceInfo,
    capabilities: Capabilities,
    /// Description and capabilities of the device that the agent sent when it was connected.
    offer: Offer,
    dialer: Dialer,
}

impl RemoteDevice {
    /// The device that the agent `node` calls `device`.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn connect(
        node: &str,
        entry: &Entry,
        device: &str,
        timeouts: Timeouts,
    ) -> Result<Self, RemoteError> {
        let dialer = Dialer::new(node, entry, timeouts)?;
        let (connection, welcome) = dialer.dial()?;
        let found = welcome.devices.iter().find(|offer| offer.info.name == device);
        let Some(offer) = found.cloned() else {
            return Err(RemoteError::NotOffered {
                node: node.into(),
                device: device.into(),
                offered: (welcome.devices.into_iter()).map(|offer| offer.info.name).collect(),
            });
        };
        dialer.keep(connection);
        Ok(Self {
            shared: Arc::new(DeviceState {
                id: DeviceId::unique(),
                info: info(node, entry, &welcome, &offer),
                capabilities: capabilities::of(&offer),
                offer,
                dialer,
            }),
        })
    }
}

/// Requests an agent's identity and its devices.
///
/// # Errors
/// [`RemoteError`].
pub fn ask(node: &str, entry: &Entry, timeouts: Timeouts) -> Result<FoundAgent, RemoteError> {
    let (_, welcome) = Dialer::new(node, entry, timeouts)?.dial()?;
    let devices = welcome.devices.iter().map(|offer| {
        let info = info(node, entry, &welcome, offer);
        (info, capabilities::of(offer))
    });
    Ok(FoundAgent { devices: devices.collect(), release: welcome.release.clone() })
}

/// Release and devices of an agent, as it reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAgent {
    /// The release it is of.
    pub release: String,
    /// Devices of the agent, by the names that this machine uses, with their capabilities.
    pub devices: Vec<(DeviceInfo, Capabilities)>,
}

/// Returns the description of an agent's device as seen from this machine.
fn info(node: &str, entry: &Entry, welcome: &Welcome, offer: &Offer) -> DeviceInfo {
    let there = &offer.info;
    let address = &entry.address;
    DeviceInfo {
        name: format!("{node}/{}", there.name),
        driver: format!("{}, by agent {}", there.driver, welcome.release),
        location: match there.location.as_str() {
            "this host" => format!("{node} at {address}"),
            within => format!("{within} of {node} at {address}"),
        },
        description: format!("on {node}: {}", there.description),
        provenance: there.provenance,
        timing: there.timing,
    }
}

impl Device for RemoteDevice {
    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        Ok(Box::new(RemoteContext::open(&self.shared, config)?))
    }
}
