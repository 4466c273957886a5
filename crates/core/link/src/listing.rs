//! Links that are available on this machine, and their capabilities: tried, not assumed.

use std::time::{Duration, Instant};

use overside_device::{Provenance, Timing};
use serde::Serialize;

use crate::shm::{self, EngineOptions, ShmOptions};
use crate::ucx::{self, Transport, UcxOptions};
use crate::verbs::{Capabilities, ConnectError, Endpoint, LinkConfig, Side};

/// Longest time that connecting may take.
const CONNECTING: Duration = Duration::from_secs(10);

/// A link, usable here or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkListing {
    /// Name of the transport in tests.
    pub name: &'static str,
    /// Reason why the link cannot be used here; `None` if it can.
    pub unavailable: Option<String>,
    /// Properties of the link; `None` if it cannot be used.
    #[serde(flatten)]
    pub about: Option<About>,
}

/// Properties of a link between two ends on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The implementation and its version.
    pub driver: String,
    /// One line for people: the mechanism that carries the bytes, and its limits.
    pub description: String,
    /// Provenance of times that are measured on the link.
    pub provenance: Provenance,
    /// Meaning of the link's completion times.
    pub timing: Timing,
    /// Variants that a test can choose. For shared memory: which thread copies; the first is the
    /// one that was tried. For UCX: its transports, each of which is available only where UCX and
    /// the hardware support it.
    pub variants: Vec<&'static str>,
    /// Mechanism that carries the bytes between two ends on this machine that poll, such as the
    /// transports that UCX chose.
    pub carried_by: String,
    /// Mechanism between ends that wait for events; `None` if they cannot.
    pub carried_by_events: Option<String>,
    /// Capabilities of the link, with the highest values that a link may be set up for.
    pub link: Capabilities,
}

/// All links, each connected with itself twice to find its capabilities; some tens of milliseconds.
pub fn list() -> Vec<LinkListing> {
    let engine = ShmOptions { engine: Some(EngineOptions::default()) };
    let shm = |[host, dpu]: [&LinkConfig; 2]| {
        let deadline = Instant::now() + CONNECTING;
        let ends = shm::pair([host, dpu], [&engine, &ShmOptions::default()], deadline);
        ends.map(<(_, _)>::from)
    };
    let ucx = |[host, dpu]: [&LinkConfig; 2]| ucx::pair(host, dpu, &UcxOptions::default());
    vec![
        listed("shm", &["engine", "caller"], shm),
        listed("ucx", &Transport::ALL.map(Transport::name), ucx),
    ]
}

fn listed<E: Endpoint>(
    name: &'static str,
    variants: &[&'static str],
    connect: impl Fn([&LinkConfig; 2]) -> Result<(E, E), ConnectError>,
) -> LinkListing {
    let carried_by = |event| -> Result<(E, E, String), ConnectError> {
        let configs =
            [Side::Host, Side::Dpu].map(|side| LinkConfig { event, ..LinkConfig::new(side) });
        let (end, peer) = connect([&configs[0], &configs[1]])?;
        let carrier = end.open(0)?.applied().variant.clone();
        Ok((end, peer, carrier))
    };
    let about = carried_by(false).map(|(end, _peer, carried_by_polling)| {
        let info = end.info();
        // UCX takes other transports if a side wants to sleep.
        let events = carried_by(true).ok();
        let events = events.filter(|(end, ..)| end.capabilities().event);
        About {
            driver: info.driver.clone(),
            description: info.description.clone(),
            provenance: info.provenance,
            timing: info.timing,
            variants: variants.to_vec(),
            carried_by: carried_by_polling,
            link: at_most(end.capabilities().clone(), events.is_some()),
            carried_by_events: events.map(|(_, _, carrier)| carrier),
        }
    });
    let (about, unavailable) = match about {
        Ok(about) => (Some(about), None),
        Err(error) => (None, Some(error.to_string())),
    };
    LinkListing { name, unavailable, about }
}

/// The capabilities with the limits of any link in place of this one's.
fn at_most(mut capabilities: Capabilities, event: bool) -> Capabilities {
    capabilities.event = event;
    capabilities.queue_pairs = LinkConfig::MAX_QUEUE_PAIRS;
    capabilities.max_depth = LinkConfig::MAX_DEPTH;
    capabilities.send.max_bytes = LinkConfig::MAX_MESSAGE_BYTES as u64;
    capabilities
}
