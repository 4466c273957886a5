//! Offers this machine's devices to a host. It runs on a DPU's own cores.
//!
//! [`Agent::start`] listens. Each connection has a thread, and each context on it a context of the
//! device: the agent submits the host's jobs to it and returns their results. The wire format is
//! [`overside_link::agent`]; the host's end is a device of `overside-backend-remote`.
//!
//! A host can also have an agent play one end of a test: the host's requests go to a separate
//! thread ([`Settings::probes`]).
//!
//! When a host disconnects, its contexts and their memory are freed. All resources of a host are
//! bounded: connections, jobs in flight, memory, the time to authenticate.

mod acceptor;
mod error;
mod handshake;
pub mod keys;
mod memory;
mod open_context;
mod pool;
mod probe_session;
mod refusals;
mod server;
mod session;
mod unauthenticated;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::Device;
use overside_link::agent::Probe;
use rustls::ServerConfig;

use acceptor::Acceptor;
pub use error::AgentError;
pub use memory::default_memory_bytes;
use server::AgentState;

/// Settings of an agent: address, keys, limits and probes.
#[derive(Clone)]
pub struct Settings {
    /// Address to listen at. With port 0, the system chooses a port, which [`Agent::address`]
    /// returns.
    pub listen: SocketAddr,
    /// TLS configuration, which decides which hosts may connect. `None`: every host that reaches
    /// the address may connect, and connections are not encrypted.
    pub keys: Option<Arc<ServerConfig>>,
    /// Bounds on the connections, memory, time and tests of hosts.
    pub limits: Limits,
    /// The kinds of tests of which an end is played for hosts; none: it plays no part in any.
    pub probes: Vec<Arc<dyn Probe>>,
}

impl Settings {
    /// Returns settings with this address, the default limits, and without probes.
    pub fn new(listen: SocketAddr, keys: Option<Arc<ServerConfig>>) -> Self {
        Self { listen, keys, limits: Limits::default(), probes: Vec::new() }
    }
}

/// Bounds on what hosts may use: connections, memory, time and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most authenticated connections of hosts. Each context takes one. Hosts at one address
    /// have at most three quarters of them.
    pub connections: usize,
    /// Maximum number of connections that have not authenticated. Beyond it, one of them is closed
    /// for each new one.
    pub unauthenticated: usize,
    /// Maximum number of unauthenticated connections from one address.
    pub unauthenticated_of_one: usize,
    /// Longest time from connecting until the host has completed the handshake, in which it
    /// identifies itself. After that, the agent closes the connection.
    pub handshake: Duration,
    /// Maximum number of bytes of memory held for the jobs of one connection. One job's is always given.
    pub bytes: usize,
    /// Maximum number of bytes of memory for everything: connections, contexts, jobs and tests.
    pub memory: u64,
    /// Longest time that a host may be silent in the middle of a job or a message, or while a test
    /// waits for it. After that, the agent ends the connection with an error.
    pub stall: Duration,
    /// Maximum number of tests at a time of which an end is played.
    pub probes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            unauthenticated: 64,
            unauthenticated_of_one: 16,
            handshake: Duration::from_secs(5),
            bytes: 256 << 20,
            memory: default_memory_bytes(),
            stall: Duration::from_secs(30),
            probes: 4,
        }
    }
}

/// A running agent. Dropping it ends it at once; [`Agent::drain`] lets it finish.
pub struct Agent {
    shared: Arc<AgentState>,
    acceptor: Acceptor,
}

impl Agent {
    /// Opens the devices of those names with `open` and listens.
    ///
    /// # Errors
    /// [`AgentError`]: a device cannot be opened, or the address cannot be listened at.
    pub fn start<E: std::fmt::Display>(
        settings: Settings,
        names: &[String],
        open: impl Fn(&str) -> Result<Arc<dyn Device>, E>,
    ) -> Result<Self, AgentError> {
        let devices = (names.iter())
            .map(|name| {
                open(name).map_err(|error| AgentError::Device {
                    name: name.clone(),
                    reason: error.to_string(),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if devices.is_empty() {
            return Err(AgentError::Nothing);
        }
        let shared = Arc::new(AgentState::new(settings, devices).map_err(AgentError::System)?);
        let acceptor = Acceptor::open(&shared)?;
        tracing::info!(address = %acceptor.address(), devices = names.join(","), "listening");
        Ok(Self { shared, acceptor })
    }

    /// Returns the address that the agent listens at. It has the actual port if
    /// [`Settings::listen`] has port 0.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// Number of authenticated connections of hosts.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Accepts no new connections and no new jobs, and lets hosts fetch the results of running
    /// jobs, but not beyond `deadline`. Returns `true` if all hosts have fetched theirs.
    pub fn drain(mut self, deadline: Instant) -> bool {
        tracing::info!(connections = self.connections(), "asked to end");
        self.acceptor.close();
        self.shared.drain();
        let all = self.shared.wait_until_empty(deadline);
        if !all {
            let connections = self.connections();
            tracing::warn!(connections, "some hosts did not fetch their results in time");
        }
        all
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.stop();
        self.acceptor.close();
    }
}
