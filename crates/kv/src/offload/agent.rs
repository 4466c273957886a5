//! An agent that runs the communication engine for a host.
//!
//! ```text
//!   host                                  agent, on the DPU
//!   open: link, addresses, limits    ->
//!                                    <-   listening: where the link is, where clients connect
//!   (dials the link)                 ==   (accepts, and serves clients)
//!   status                           ->
//!                                    <-   counts of the link, or why it failed
//! ```
//!
//! It serves until the host's connection ends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::{Reservation, lock};
use overside_link::agent::{Host, MAX_PROBE_BYTES, MAX_TEXT_BYTES, Probe, ProbePeer};
use overside_link::codec::{CodecError, Message, clean};
use overside_link::verbs::{LinkConfig, Side};
use overside_probe::dma::{Link, LinkListener, Reach};
use serde::{Deserialize, Serialize};

use super::backing::RemoteStatus;
use super::{Batching, Channel, ChannelOptions, OffloadError, RemoteEngine};
use crate::KeyHasher;
use crate::clock::Clock;
use crate::directory::entry::is_server_name;
use crate::server::{Design, Limits, Password, Server, Settings, StopHandle};

/// What hosts ask for it by.
pub const KIND: &str = "kv";
/// Most addresses to listen at.
const ADDRESSES_MAX: usize = 16;
/// Memory of the link and of what is under way on it, beside the connections'.
pub const LINK_BYTES: u64 = 8 << 20;
/// Most memory of connections.
const CLIENT_MEMORY_MAX: u64 = 1 << 40;
const CLIENTS_MAX: usize = 1_000_000;
/// How long the host may take to come to the link.
const COMING: Duration = Duration::from_secs(5);

/// What a host asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// The first one: serve. [`Reply::Listening`].
    Open(Opening),
    /// [`Reply::Status`].
    Status,
}

/// What is to be served.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// What requests go over.
    pub link: Link,
    /// Where clients connect.
    pub listen: Vec<SocketAddr>,
    /// SHA-256 digest of the password that they need.
    pub password: Option<[u8; 32]>,
    /// Most of them.
    pub clients: usize,
    /// Memory of their connections.
    pub client_memory_bytes: u64,
    /// The thread spins instead of sleeping.
    pub busy_poll: bool,
    /// Each request is a message of its own.
    pub single_requests: bool,
    /// The next message is made while the host executes the one before.
    pub overlap: bool,
    /// The host's time, in milliseconds since 1970: expiries are counted by its clock.
    pub now_ms: u64,
    /// What happens when the host's memory is full, for `CONFIG GET`.
    pub is_cache: bool,
    /// The host's name in a directory, for `INFO`.
    pub name: Option<String>,
}

/// What an agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The host can come.
    Listening {
        /// To the link.
        reach: Reach,
        /// And clients here.
        addresses: Vec<SocketAddr>,
    },
    /// How it does.
    Status(RemoteStatus),
    /// It was not done.
    Failed(String),
}

impl Message for Question {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;
}

impl Message for Reply {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            Self::Failed(text) => *text = clean(text, MAX_TEXT_BYTES),
            Self::Status(status) => {
                status.failure = status
                    .failure
                    .take()
                    .map(|text| clean(&text, MAX_TEXT_BYTES));
            }
            Self::Listening { .. } => {}
        }
        Ok(())
    }
}

/// The link that both ends set up.
#[must_use]
pub fn link_config(side: Side) -> LinkConfig {
    LinkConfig {
        max_message_bytes: 4096,
        max_import_bytes: 2 << 30,
        ..LinkConfig::new(side)
    }
}

/// The agent's end, as a kind of probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineProbe;

impl Probe for EngineProbe {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(CommunicationSide {
            host,
            serving: None,
        }))
    }
}

/// A communication engine for one host.
struct CommunicationSide {
    host: Host,
    serving: Option<Serving>,
}

struct Serving {
    stop: StopHandle,
    status: Arc<Mutex<RemoteStatus>>,
    thread: Option<JoinHandle<()>>,
    _memory: Reservation,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_ok());
    }
}

impl ProbePeer for CommunicationSide {
    fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let reply = match Question::decode(question) {
            Err(error) => Err(format!("the question: {error}")),
            Ok(Question::Open(opening)) if self.serving.is_none() => self.open(&opening),
            Ok(Question::Status) => match &self.serving {
                Some(serving) => Ok(Reply::Status(lock(&serving.status).clone())),
                None => Err("nothing is served".into()),
            },
            Ok(Question::Open(_)) => Err("something is served already".into()),
        };
        reply.unwrap_or_else(Reply::Failed).encode()
    }
}

impl CommunicationSide {
    fn open(&mut self, opening: &Opening) -> Result<Reply, String> {
        opening.check()?;
        let bytes = opening.client_memory_bytes + LINK_BYTES;
        let memory = self.host.memory.reserve(bytes);
        let memory = memory.map_err(|error| format!("the agent has no memory for it: {error}"))?;
        let server = Server::bind(opening.settings()).map_err(|error| error.to_string())?;
        let addresses = server.settings().tcp.clone();
        let stop = server.stop_handle();
        let begun = LinkListener::begin(opening.link, self.host.here, None, None);
        let (listener, reach) = begun.map_err(|failure| failure.message)?;
        let status = Arc::new(Mutex::new(RemoteStatus::default()));
        let shared = Arc::clone(&status);
        let overlaps = opening.overlap;
        let batching = match opening.single_requests {
            true => Batching::Request,
            false => Batching::Batch,
        };
        let clock = Clock::starting_at(opening.now_ms);
        let work = move || {
            let served = accept(&listener).map(|channel| {
                let engine = RemoteEngine::new(channel, batching);
                let mut engine = match overlaps {
                    true => engine,
                    false => engine.without_overlap(),
                };
                engine.report_to(Arc::clone(&shared));
                let ended = server.run(&mut engine, &KeyHasher::random(), clock);
                ended.map_err(|error| error.to_string())
            });
            let failure = match served {
                Ok(Ok(_)) => return,
                Ok(Err(message)) => message,
                Err(error) => error.to_string(),
            };
            tracing::warn!("a communication engine has ended: {failure}");
            lock(&shared).failure = Some(failure);
        };
        let thread = std::thread::Builder::new()
            .name("kv-serve".into())
            .spawn(work);
        self.serving = Some(Serving {
            stop,
            status,
            thread: Some(thread.map_err(|error| format!("starting a thread: {error}"))?),
            _memory: memory,
        });
        Ok(Reply::Listening { reach, addresses })
    }
}

fn accept(listener: &LinkListener) -> Result<Channel, OffloadError> {
    let deadline = Instant::now() + COMING;
    let endpoint = listener.accept(&link_config(Side::Dpu), deadline)?;
    Channel::open(endpoint, 0, ChannelOptions::default(), deadline)
}

impl Opening {
    /// Whether an agent does this.
    fn check(&self) -> Result<(), String> {
        let open = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        if !(1..=ADDRESSES_MAX).contains(&self.listen.len()) {
            return Err(format!(
                "from 1 to {ADDRESSES_MAX} addresses can be listened at"
            ));
        }
        if let Some(address) = self.listen.iter().find(open)
            && self.password.is_none()
        {
            return Err(format!(
                "other machines can reach {address}: a password is required"
            ));
        }
        if !self.name.as_deref().is_none_or(is_server_name) {
            return Err("an impossible name".into());
        }
        if !(1..=CLIENTS_MAX).contains(&self.clients)
            || !(1 << 20..=CLIENT_MEMORY_MAX).contains(&self.client_memory_bytes)
        {
            return Err("impossible limits of clients".into());
        }
        Ok(())
    }

    fn settings(&self) -> Settings {
        Settings {
            tcp: self.listen.clone(),
            password: self.password.map(Password::from_digest),
            limits: Limits {
                clients: self.clients,
                memory_bytes: self.client_memory_bytes as usize,
                ..Limits::default()
            },
            busy_poll: self.busy_poll,
            drain: Duration::from_secs(1),
            is_cache: self.is_cache,
            design: Design::Lat,
            name: self.name.clone(),
            ..Settings::default()
        }
    }
}
