//! An agent that runs the engines of the DPU's side for a host.
//!
//! ```text
//!   host                                  agent, on the DPU
//!   open: design, addresses, limits  ->
//!                                    <-   listening: where the links are, where clients connect
//!   (dials the links, in order)      ==   (accepts them, and serves)
//!   status                           ->
//!                                    <-   why it has ended, if it has
//! ```
//!
//! It serves until the host's connection ends.

mod card;
mod open_request;
mod persistence_request;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::{Reservation, lock};
use overside_link::agent::{Host, MAX_PROBE_BYTES, MAX_TEXT_BYTES, Probe, ProbePeer};
use overside_link::codec::{CodecError, Message, clean};
use overside_link::verbs::{LinkConfig, Side};
use overside_probe::dma::{LinkListener, Reach};
use serde::{Deserialize, Serialize};

use super::{Channel, ChannelOptions, OffloadError, SideEngines, SideStop};
use crate::KeyHasher;
use crate::clock::Clock;
use crate::design::DesignLink;
pub use card::CardFound;
pub use open_request::{Clients, OpenRequest, StoreLimits};
use overside_kv::server::{Addresses, Server};
pub use persistence_request::PersistenceRequest;

/// Name of the key-value engines of an agent in hosts' requests.
pub const KIND: &str = "kv";
/// Longest time that the host may take to connect to the links.
const COMING: Duration = Duration::from_secs(5);

/// Message of a host to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentRequest {
    /// The first one: serve. [`AgentReply::Listening`].
    Open(Box<OpenRequest>),
    /// [`AgentReply::Status`].
    Status,
    /// Requests the card that the agent runs on. Answered by [`AgentReply::Card`].
    Card,
}

/// Answer of an agent to a [`AgentRequest`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentReply {
    /// The agent listens; the host can connect.
    Listening {
        /// Addresses of the links, in order.
        links: Vec<Reach>,
        /// Addresses that the agent serves clients at.
        addresses: Box<Addresses>,
    },
    /// The end of the engines; `None` while they serve.
    Status(Option<Ending>),
    /// The card whose cores it has, if it has a card's.
    Card(Option<CardFound>),
    /// The request failed.
    Failed(String),
}

/// End of an agent's engines while their host is still connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// A client ended the server.
    ByClient,
    /// The engines failed, for this reason.
    Failed(String),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ByClient => "a client has ended it",
            Self::Failed(reason) => reason,
        })
    }
}

impl Message for AgentRequest {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;
}

impl Message for AgentReply {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            Self::Failed(text) => *text = clean(text, MAX_TEXT_BYTES),
            Self::Status(Some(Ending::Failed(text))) => *text = clean(text, MAX_TEXT_BYTES),
            Self::Status(_) => {}
            Self::Card(found) => {
                if let Some(found) = found {
                    found.pci = clean(&found.pci, MAX_TEXT_BYTES);
                }
            }
            Self::Listening { .. } => {}
        }
        Ok(())
    }
}

/// Returns the settings with which `side` opens a link over which `asking` sends requests. The other side
/// sleeps while there are none.
#[must_use]
pub fn link_config(side: Side, asking: Side) -> LinkConfig {
    LinkConfig {
        event: side != asking,
        max_message_bytes: 4096,
        max_import_bytes: 2 << 30,
        ..LinkConfig::new(side)
    }
}

/// The agent's end, as a kind of probe.
#[derive(Clone, Debug, Default)]
pub struct EngineProbe {
    /// Directory in which stores of hosts may be kept; `None` if they are only in memory.
    pub kept: Option<PathBuf>,
    /// Certificates for clients by TLS: a directory as of [`keys::server`](overside_link::agent::keys::server).
    pub tls_keys: Option<PathBuf>,
    /// Ports at which hosts may serve clients by DPDK, by its names of them.
    pub ports: Vec<String>,
}

impl Probe for EngineProbe {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(HostSession { host, agent: self.clone(), serving: None }))
    }
}

/// The engines of one host.
struct HostSession {
    host: Host,
    agent: EngineProbe,
    serving: Option<Serving>,
}

struct Serving {
    stop: SideStop,
    /// End of the engines, once they have ended; `None` before that.
    ending: Arc<Mutex<Option<Ending>>>,
    thread: Option<JoinHandle<()>>,
    _memory: Reservation,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().is_some_and(|thread| thread.join().is_ok());
    }
}

impl ProbePeer for HostSession {
    fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let reply = match AgentRequest::decode(question) {
            Err(error) => Err(format!("the question: {error}")),
            Ok(AgentRequest::Open(opening)) if self.serving.is_none() => self.open(&opening),
            Ok(AgentRequest::Status) => match &self.serving {
                Some(serving) => Ok(AgentReply::Status(lock(&serving.ending).clone())),
                None => Err("nothing is served".into()),
            },
            Ok(AgentRequest::Open(_)) => Err("something is served already".into()),
            Ok(AgentRequest::Card) => Ok(AgentReply::Card(CardFound::find(Path::new("/sys")))),
        };
        reply.unwrap_or_else(AgentReply::Failed).encode()
    }
}

impl HostSession {
    fn open(&mut self, opening: &OpenRequest) -> Result<AgentReply, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let layout = opening.check(&self.agent)?;
        let memory = opening.memory(&layout).total();
        let memory = self.host.memory.reserve(memory);
        let memory = memory.map_err(|error| format!("the agent has no memory for it: {error}"))?;
        let hasher = KeyHasher::random();
        let clock = Clock::starting_at(opening.now_ms);
        let stores = opening.stores(&layout, &hasher, &clock, self.agent.kept.as_deref())?;
        let server = opening.settings(&layout, &self.agent)?.map(Server::bind);
        let server = server.transpose().map_err(|error| text(&error))?;
        let addresses = (server.as_ref()).map(|server| server.settings().addresses.clone());
        let addresses = Box::new(addresses.unwrap_or_default());
        let mut listeners = Vec::new();
        let mut links = Vec::new();
        for link in layout.links() {
            let begun = LinkListener::begin(opening.link, self.host.here, None, None);
            let (listener, reach) = begun.map_err(|failure| failure.message)?;
            listeners.push((link, listener));
            links.push(reach);
        }
        let ending = Arc::new(Mutex::new(None));
        let (lost, ended) = (Arc::clone(&ending), Arc::clone(&ending));
        let mut engines = SideEngines::new(Side::Dpu, layout, stores, hasher, clock);
        engines.server = server;
        engines.optimizations = opening.optimizations;
        engines.on_loss = Arc::new(move |error| {
            lock(&lost).get_or_insert_with(|| Ending::Failed(error.to_string()));
        });
        engines.busy_poll = opening.busy_poll;
        let stop = SideStop::new(engines.server.as_ref());
        let stopped = stop.clone();
        let work = move || {
            let accepted = accept(&listeners, &mut engines).map_err(|error| text(&error));
            let ran = accepted.and_then(|()| engines.run(&stopped).map_err(|error| text(&error)));
            let ending = match ran {
                // While the host is there, only a client can end the server.
                Ok(_) => Ending::ByClient,
                Err(message) => {
                    tracing::warn!("the engines for a host have ended: {message}");
                    Ending::Failed(message)
                }
            };
            lock(&ended).get_or_insert(ending);
        };
        let thread = std::thread::Builder::new().name("kv-serve".into()).spawn(work);
        self.serving = Some(Serving {
            stop,
            ending,
            thread: Some(thread.map_err(|error| format!("starting a thread: {error}"))?),
            _memory: memory,
        });
        Ok(AgentReply::Listening { links, addresses })
    }
}

/// Waits for the host at every link.
fn accept(
    listeners: &[(DesignLink, LinkListener)],
    engines: &mut SideEngines,
) -> Result<(), OffloadError> {
    let deadline = Instant::now() + COMING;
    for (link, listener) in listeners {
        let endpoint = listener.accept(&link_config(Side::Dpu, link.asking), deadline)?;
        let channel = Channel::open(endpoint, 0, ChannelOptions::default(), deadline)?;
        engines.add_link(*link, channel);
    }
    Ok(())
}
