//! Serves clients over sockets: the epoll driver around the communication engine.
//!
//! [`Server::bind`] listens, [`Server::run`] serves on the calling thread until a [`StopHandle`] or a
//! client asks it to end. Everything that clients can make it hold is bounded by [`Limits`].

mod backing;
mod buffers;
mod client;
mod connection;
mod context;
mod counters;
mod info;
mod listeners;
mod metrics;
mod password;
mod poller;
mod scrape;
mod settings;
mod state;
mod transport;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use overside_base::EventFd;
use overside_device::threads::pin;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::rand::{GetRandomFlags, getrandom};

pub use backing::{Backing, EXPIRY_BUCKETS, Memory, TICK_MS};
pub use password::{Password, PasswordError};
pub use settings::{Design, Limits, Settings};

use crate::KeyHasher;
use crate::clock::Clock;
use crate::stages::StageClock;
use counters::Counters;
use listeners::{Listener, Service};
use state::State;
use worker::Worker;

/// Descriptors beside those of clients: listeners, logs, snapshots, libraries.
const OTHER_DESCRIPTORS: u64 = 64;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It cannot listen at an address.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// It cannot listen at a path.
    #[error("cannot listen at {}: {error}", path.display())]
    ListenUnix {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It cannot stay on a core.
    #[error("cannot run on core {core}: {error}")]
    Core {
        /// Which.
        core: usize,
        /// Why.
        error: io::Error,
    },
    /// The system refuses something else.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    listeners: Vec<Listener>,
    stop: Arc<EventFd>,
}

/// Ends a server, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<EventFd>);

impl StopHandle {
    /// Asks it to end. What it has received is still answered.
    pub fn stop(&self) {
        self.0.signal();
    }
}

impl Server {
    /// Listens wherever the settings say.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(mut settings: Settings) -> Result<Self, ServerError> {
        let mut listeners = Vec::new();
        let mut listen = |addresses: &mut [SocketAddr], service| {
            for address in addresses {
                let listener = Listener::tcp(*address, service);
                let listener = listener.map_err(|error| ServerError::Listen {
                    address: *address,
                    error,
                })?;
                *address = listener.address.unwrap_or(*address);
                listeners.push(listener);
            }
            Ok::<_, ServerError>(())
        };
        listen(&mut settings.tcp, Service::Plain)?;
        if let Some((addresses, _)) = &mut settings.tls {
            listen(addresses, Service::Tls)?;
        }
        listen(&mut settings.memcached, Service::Memcached)?;
        listen(settings.metrics.as_mut_slice(), Service::Metrics)?;
        if let Some(path) = &settings.unix {
            let path = path.clone();
            let listener = Listener::unix(&path);
            listeners.push(listener.map_err(|error| ServerError::ListenUnix { path, error })?);
        }
        settings.limits.clients = allow_descriptors(settings.limits.clients);
        Ok(Self {
            settings,
            listeners,
            stop: Arc::new(EventFd::new().map_err(io::Error::from)?),
        })
    }

    /// The settings, with the ports that were taken, and as many clients as the system allows.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Ends it.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(Arc::clone(&self.stop))
    }

    /// Serves from `backing`, whose keys `hasher` hashes, until it is asked to end. Whether every
    /// client then had what was its own in time.
    ///
    /// # Errors
    /// [`ServerError`]; what the backing had to keep may be lost.
    pub fn run(
        self,
        backing: &mut dyn Backing,
        hasher: &KeyHasher,
        clock: Clock,
    ) -> Result<bool, ServerError> {
        if let Some(core) = self.settings.core {
            pin(core).map_err(|error| ServerError::Core { core, error })?;
        }
        let state = State {
            settings: self.settings,
            counters: Counters::default(),
            stages: StageClock::start(),
            started_ms: clock.now_ms(),
            run_id: random_hex()?,
            commands: 0,
            is_shutting_down: false,
        };
        let hasher = hasher.clone();
        let is_complete = {
            let mut worker =
                Worker::new(state, clock, self.listeners, hasher, backing, &self.stop)?;
            worker.run()
        };
        // Also after an error: what was acknowledged is kept.
        backing.finish()?;
        Ok(is_complete?)
    }
}

/// Raises the limit of descriptors as far as need be and can be. How many clients fit.
fn allow_descriptors(clients: usize) -> usize {
    let wanted = clients as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return clients;
    }
    let raised = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let new = Rlimit {
        current: Some(raised),
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, new) {
        Ok(()) => raised,
        Err(_) => limit.current.unwrap_or(wanted),
    };
    if allowed < wanted {
        tracing::warn!(
            allowed,
            wanted,
            "fewer descriptors than clients: ulimit -n raises them"
        );
    }
    (allowed.saturating_sub(OTHER_DESCRIPTORS) as usize).clamp(1, clients)
}

/// Forty hexadecimal digits that nobody else has.
fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 20];
    // So few bytes are never given in part (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
