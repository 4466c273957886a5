//! Serves clients over sockets: the input and output around the communication engine.
//!
//! [`Server::bind`] listens, [`Server::run`] serves on the calling thread until a [`StopHandle`] or a client
//! ends it. All resources of clients are bounded by [`Limits`].

mod addresses;
mod buffers;
mod client;
mod connection;
mod context;
mod counters;
mod datagrams;
mod epoll;
mod ethernet;
mod info;
mod listeners;
mod metrics;
mod packets;
mod regions;
mod replies;
mod settings;
mod shared;
mod state;
mod worker;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use overside_base::{EventFd, raise_descriptor_limit, random_hex};
use overside_device::threads::pin;

pub use addresses::{Addresses, Protection, UnauthenticatedAccess};
pub use ethernet::PortError;
pub use overside_kv_backend::Memory;
pub use overside_kv_backend::Waker;
pub use overside_kv_backend::{EXPIRY_BUCKETS, PartitionWork, StorageBackend, TICK_MS};
pub use overside_link::{Password, PasswordError};
pub use settings::{Limits, Settings, Steering, Tls};

use crate::KeyHasher;
use crate::clock::Clock;
use crate::herd::{HerdError, HerdListener, RegionAddress};
use crate::udp::RX_QUEUE_DEFAULT;
use datagrams::DatagramListener;
use listeners::{Listener, Service, Sockets};
use shared::Shared;
use state::WorkerContext;
use worker::Worker;

/// Descriptors in addition to those of clients: listeners, logs, snapshots, libraries.
const OTHER_DESCRIPTORS: u64 = 64;

/// Error that keeps a server from starting, or ends it.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Clients could use the store without authentication.
    #[error("{0}")]
    UnauthenticatedAccess(#[from] UnauthenticatedAccess),
    /// Certificates for TLS are missing.
    #[error("cannot listen at {0}: there are no certificates for TLS")]
    NoCertificate(SocketAddr),
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// Error that the operating system returned.
        error: io::Error,
    },
    /// A path cannot be listened at.
    #[error("cannot listen at {}: {error}", path.display())]
    ListenUnix {
        /// Requested path.
        path: PathBuf,
        /// Error that the operating system returned.
        error: io::Error,
    },
    /// Clients cannot come to request regions.
    #[error("cannot listen at {place}: {error}")]
    ListenHerd {
        /// Address where the server should listen.
        place: RegionAddress,
        /// Error of the listener for request regions.
        error: HerdError,
    },
    /// The port does not exist for DPDK, or cannot serve.
    #[error("cannot serve at the port {device}: {error}")]
    Port {
        /// Name of the port's device.
        device: String,
        /// Reason why the port cannot be used.
        error: PortError,
    },
    /// A worker cannot stay on its core.
    #[error("cannot run on core {core}: {error}")]
    Core {
        /// Number of the core.
        core: usize,
        /// Error that the operating system returned.
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
    /// Sockets of each worker, by its number.
    sockets: Vec<Sockets>,
    /// Accepts clients of the request regions as long as it is there.
    _herd: Option<HerdListener>,
    stop: Arc<EventFd>,
}

/// Ends a server, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<EventFd>);

impl StopHandle {
    /// Tells the server to end. Requests that it has received are still answered.
    pub fn stop(&self) {
        self.0.signal();
    }
}

impl Server {
    /// Listens at the addresses of the settings.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(mut settings: Settings) -> Result<Self, ServerError> {
        settings.addresses.check(settings.protection())?;
        settings.workers = settings.workers.max(1);
        let workers = settings.workers;
        let mut all: Vec<Sockets> = (0..workers).map(|_| Sockets::default()).collect();
        let mut listen = |addresses: &mut [SocketAddr], service| {
            // Connections for metrics are no load to distribute.
            let sockets = if service == Service::Metrics { 1 } else { workers };
            for address in addresses {
                let bound = Listener::tcp(*address, service, sockets);
                let bound =
                    bound.map_err(|error| ServerError::Listen { address: *address, error })?;
                for (listener, of_worker) in bound.into_iter().zip(&mut all) {
                    *address = listener.address.unwrap_or(*address);
                    of_worker.listeners.push(listener);
                }
            }
            Ok::<_, ServerError>(())
        };
        let addresses = &mut settings.addresses;
        if let (Some(address), None) = (addresses.tls.first(), &settings.tls) {
            return Err(ServerError::NoCertificate(*address));
        }
        listen(&mut addresses.tcp, Service::Plain)?;
        listen(&mut addresses.tls, Service::Tls)?;
        listen(&mut addresses.memcached, Service::Memcached)?;
        listen(addresses.metrics.as_mut_slice(), Service::Metrics)?;
        if let Some(path) = &addresses.unix {
            let path = path.clone();
            let listener = Listener::unix(&path);
            let listener = listener.map_err(|error| ServerError::ListenUnix { path, error })?;
            all[0].listeners.push(listener);
        }
        settings.rx_queue = match settings.rx_queue {
            0 => RX_QUEUE_DEFAULT,
            some => some,
        };
        bind_datagrams(&mut settings, &mut all)?;
        let herd = bind_herd(&mut settings, &mut all)?;
        settings.limits.clients = allow_descriptors(settings.limits.clients);
        Ok(Self {
            settings,
            sockets: all,
            _herd: herd,
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

    /// Serves with one worker from `backing`, whose keys `hasher` hashes, until the server is ended.
    /// Returns `true` if every client received its replies before the drain timeout.
    ///
    /// # Errors
    /// [`ServerError`]; writes that the backing had to persist may be lost.
    ///
    /// # Panics
    /// If the settings have more workers.
    pub fn run(
        self,
        backing: &mut dyn StorageBackend,
        hasher: &KeyHasher,
        clock: Clock,
    ) -> Result<bool, ServerError> {
        assert_eq!(self.settings.workers, 1, "one worker");
        let shared = Arc::new(self.share(vec![backing.waker()], clock)?);
        let sockets = self.sockets.into_iter().next().unwrap_or_default();
        let keys = (hasher.clone(), clock);
        work(&shared, 0, sockets, backing, keys, &self.stop)
    }

    /// Serves like [`Server::run`], with a worker for each backing. The first one runs on the
    /// calling thread.
    ///
    /// # Errors
    /// [`ServerError`]: that of the first worker that had one. The others have ended in order.
    ///
    /// # Panics
    /// If the settings have another number of workers, or if a worker panics.
    pub fn run_workers(
        self,
        backings: Vec<Box<dyn StorageBackend + Send>>,
        hasher: &KeyHasher,
        clock: Clock,
    ) -> Result<bool, ServerError> {
        assert_eq!(self.settings.workers, backings.len(), "as many workers");
        let wakers = backings.iter().map(|backing| backing.waker()).collect();
        let shared = &Arc::new(self.share(wakers, clock)?);
        let stop = &*self.stop;
        let workers = backings.into_iter().zip(self.sockets).enumerate();
        thread::scope(|scope| {
            let mut first = None;
            let mut threads = Vec::new();
            for (worker, (mut backing, sockets)) in workers {
                let keys = (hasher.clone(), clock);
                let run = move || work(shared, worker, sockets, &mut *backing, keys, stop);
                match worker {
                    0 => first = Some(run),
                    _ => {
                        let name = format!("kv-worker-{worker}");
                        let spawned = thread::Builder::new().name(name).spawn_scoped(scope, run);
                        threads.push(spawned.inspect_err(|_| shared.abandon())?);
                    }
                }
            }
            let mut result = first.map_or(Ok(true), |run| run());
            for thread in threads {
                let ended = thread.join().expect("a worker does not panic");
                result = match (result, ended) {
                    (Ok(one), Ok(other)) => Ok(one && other),
                    (Err(error), _) | (_, Err(error)) => Err(error),
                };
            }
            result
        })
    }

    fn share(&self, wakers: Vec<Option<Arc<Waker>>>, clock: Clock) -> io::Result<Shared> {
        let (settings, stop) = (self.settings.clone(), Arc::clone(&self.stop));
        let run_id = random_hex()?;
        Ok(Shared::new(settings, clock.now_ms(), run_id, stop, wakers))
    }
}

/// Adds the sockets for datagrams to those of each worker.
fn bind_datagrams(settings: &mut Settings, all: &mut [Sockets]) -> Result<(), ServerError> {
    let (workers, rx_queue) = (all.len(), settings.rx_queue);
    let failed = |address: &SocketAddr| {
        let address = *address;
        move |error| ServerError::Listen { address, error }
    };
    let port_address = (settings.addresses.port.as_ref()).map(|port| IpAddr::V4(port.address));
    let is_of_kernel = |address: &&mut SocketAddr| Some(address.ip()) != port_address;
    let ports_only = settings.steering == Steering::Ports;
    settings.steering = Steering::None;
    for address in (settings.addresses.datagram.iter_mut()).filter(is_of_kernel) {
        let bound = DatagramListener::bind(*address, workers, rx_queue, ports_only);
        for (sockets, of_worker) in bound.map_err(failed(address))?.into_iter().zip(&mut *all) {
            *address = sockets[0].address;
            settings.steering = match sockets[0].is_steered {
                _ if workers == 1 => Steering::None,
                true => Steering::Bpf,
                false => Steering::Ports,
            };
            of_worker.datagrams.extend(sockets);
        }
    }
    let queues = ethernet::bind(settings, workers, ports_only)?;
    for (queue, of_worker) in queues.into_iter().flatten().zip(all) {
        of_worker.port = Some(queue);
    }
    Ok(())
}

/// Accepts clients of the request regions of each worker.
fn bind_herd(
    settings: &mut Settings,
    all: &mut [Sockets],
) -> Result<Option<HerdListener>, ServerError> {
    let Some(place) = &mut settings.addresses.herd else {
        return Ok(None);
    };
    let bound = match &*place {
        RegionAddress::Path(path) => listeners::remove_stale(path),
        RegionAddress::Address(_) => Ok(()),
    };
    let secret = settings.password.as_ref().map(Password::secret);
    let bound =
        bound.map_err(HerdError::from).and_then(|()| HerdListener::bind(place, all.len(), secret));
    let (listener, inboxes) =
        bound.map_err(|error| ServerError::ListenHerd { place: place.clone(), error })?;
    *place = listener.place().clone();
    for (inbox, of_worker) in inboxes.into_iter().zip(all) {
        of_worker.regions = Some(inbox);
    }
    Ok(Some(listener))
}

/// Runs one worker until the server ends.
fn work(
    shared: &Arc<Shared>,
    number: usize,
    sockets: Sockets,
    backing: &mut dyn StorageBackend,
    (hasher, clock): (KeyHasher, Clock),
    stop: &EventFd,
) -> Result<bool, ServerError> {
    // Other workers do not wait for it, however it ends.
    let _ending = Ending(shared, number);
    shared.begin(number);
    if let Some(&core) = shared.settings.cores.get(number) {
        pin(core).map_err(|error| ServerError::Core { core, error })?;
    }
    let is_complete = {
        let state = WorkerContext::new(Arc::clone(shared), number);
        let mut worker = Worker::new(state, clock, sockets, hasher, backing, stop)?;
        worker.run()
    };
    // Also after an error: what was acknowledged is kept.
    backing.finish()?;
    Ok(is_complete?)
}

/// A worker that has ended ends the server.
struct Ending<'s>(&'s Shared, usize);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.stop();
        self.0.finish(self.1);
    }
}

/// Raises the limit of descriptors as far as necessary and possible. Returns the number of clients that fit.
fn allow_descriptors(clients: usize) -> usize {
    let wanted = clients as u64 + OTHER_DESCRIPTORS;
    let allowed = raise_descriptor_limit(wanted);
    if allowed < wanted {
        tracing::warn!(allowed, wanted, "fewer descriptors than clients: ulimit -n raises them");
    }
    (allowed.saturating_sub(OTHER_DESCRIPTORS) as usize).clamp(1, clients)
}
