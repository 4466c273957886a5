//! Agents, and their devices.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

pub use overside_backend_remote::{
    Entry, FoundAgent, INVENTORY, Inventory, ProbeError, RemoteProbe,
};
use overside_backend_remote::{RemoteDevice, RemoteError, Timeouts};
use overside_device::Device;
use overside_device::backend::{Backend, Described, OpenError, Options};

use crate::closest;

/// Longest time that an agent has to report its devices when all agents are listed.
const LISTING: Duration = Duration::from_millis(900);

/// The devices of agents: an agent's name, a slash and its name of the device.
pub struct AgentBackend;

/// Returns the agent and its device in the name of an agent's device, as in `dpu0/cpu`; `None` for
/// devices of this machine.
pub fn agents_device(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

impl Backend for AgentBackend {
    fn prefix(&self) -> &'static str {
        "*/"
    }

    fn wildcard(&self) -> String {
        "*/*".into()
    }

    fn owns(&self, name: &str) -> bool {
        agents_device(name).is_some()
    }

    fn cost(&self) -> Option<&'static str> {
        Some("asks all agents")
    }

    /// An agent that cannot be reached has one entry with the reason. Takes less than a second.
    fn list(&self) -> Vec<Described> {
        let inventory = match Inventory::load() {
            Ok(inventory) => inventory,
            Err(error) => return vec![Described::unavailable(&self.wildcard(), error.to_string())],
        };
        let devices = |(node, _, found): (&str, &Entry, Result<FoundAgent, String>)| match found {
            Ok(found) => (found.devices.into_iter())
                .map(|(info, capabilities)| {
                    Described::of(info, capabilities.iter().cloned().collect())
                })
                .collect(),
            Err(reason) => vec![Described::unavailable(&format!("{node}/*"), reason)],
        };
        ask(&inventory).into_iter().flat_map(devices).collect()
    }

    fn offered(&self) -> Vec<Described> {
        Vec::new()
    }

    fn known_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn open(&self, name: &str, _: &Options) -> Result<Arc<dyn Device>, OpenError> {
        let (node, device) = agents_device(name).unwrap_or_default();
        let inventory = Inventory::load().map_err(|error| OpenError::unavailable(name, error))?;
        let Some(entry) = inventory.get(node) else {
            return Err(OpenError::unavailable(name, unknown(node, &inventory)));
        };
        match RemoteDevice::connect(node, entry, device, Timeouts::default()) {
            Ok(device) => Ok(Arc::new(device)),
            Err(RemoteError::NotOffered { offered, .. }) => {
                let known = offered.iter().map(|offered| format!("{node}/{offered}"));
                Err(OpenError::unknown(name, known.collect()))
            }
            Err(error) => Err(OpenError::unavailable(name, error)),
        }
    }
}

/// Makes the agent `node` of the inventory play one end of a test.
///
/// # Errors
/// [`ProbeError`].
pub fn probe(node: &str, kind: &str) -> Result<RemoteProbe, ProbeError> {
    RemoteProbe::open(node, &entry(node)?, kind, Timeouts::default())
}

/// Variant of `probe` for an agent that has to be of this release.
///
/// # Errors
/// [`ProbeError`].
pub fn probe_same_release(node: &str, kind: &str) -> Result<RemoteProbe, ProbeError> {
    RemoteProbe::open_same_release(node, &entry(node)?, kind, Timeouts::default())
}

fn entry(node: &str) -> Result<Entry, ProbeError> {
    let inventory = Inventory::load().map_err(|error| ProbeError::Unknown(error.to_string()))?;
    let entry = inventory.get(node).cloned();
    entry.ok_or_else(|| ProbeError::Unknown(unknown(node, &inventory)))
}

/// Returns the error message for an unknown agent, with a suggestion of which agent may have been
/// meant.
fn unknown(node: &str, inventory: &Inventory) -> String {
    let known: Vec<String> = inventory.iter().map(|(name, _)| name.into()).collect();
    let hint = match closest(node, &known) {
        Some(meant) => format!(", did you mean {meant:?}?"),
        None => String::new(),
    };
    format!("no agent is called {node:?}{hint}; `overside agents add {node} HOST:PORT` adds it")
}

/// Requests the devices of all agents of an inventory in parallel, for less than a second. Returns
/// the description of each, or the reason why it cannot be reached.
pub fn ask(inventory: &Inventory) -> Vec<(&str, &Entry, Result<FoundAgent, String>)> {
    let deadline = Instant::now() + LISTING;
    let asked: Vec<_> =
        (inventory.iter()).map(|(node, entry)| (node, entry, answer(node, entry))).collect();
    let late = || {
        let limit_ms = LISTING.as_millis();
        format!("the agent does not answer within {limit_ms} ms")
    };
    let heard = |(node, entry, answer): (_, _, mpsc::Receiver<Result<FoundAgent, RemoteError>>)| {
        let left = deadline.saturating_duration_since(Instant::now());
        let found = match answer.recv_timeout(left) {
            Ok(found) => found.map_err(|error| error.to_string()),
            Err(_) => Err(late()),
        };
        (node, entry, found)
    };
    asked.into_iter().map(heard).collect()
}

/// Requests an agent's devices on a thread of its own, because name resolution may take long.
fn answer(node: &str, entry: &Entry) -> mpsc::Receiver<Result<FoundAgent, RemoteError>> {
    let (say, answer) = mpsc::channel();
    let (node, entry) = (node.to_owned(), entry.clone());
    let timeouts = Timeouts { connect: LISTING, ..Timeouts::default() };
    // Without a thread the channel ends, which is no answer.
    let _ = std::thread::Builder::new().name("agents".into()).spawn(move || {
        // If it took too long, the receiver is gone.
        let _ = say.send(overside_backend_remote::ask(&node, &entry, timeouts));
    });
    answer
}
