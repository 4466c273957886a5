//! The engines of one side of a design, in the threads that it has there.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use overside_device::threads::pin;
use overside_link::verbs::Side;

use super::serve::{AskingLinks, RemoteClients, serve};
use super::{Channel, LinkCounts, OffloadError, OnLoss, Optimizations, RemoteEngine, Responder};
use crate::KeyHasher;
use crate::clock::Clock;
use crate::design::{DesignLink, Layout};
use crate::partitions::{PartitionError, SideParts, connect_side};
use overside_kv::server::{Server, ServerError, StopHandle};
use overside_kv_backend::StorageBackend;

/// Reason why the engines of a side ended.
#[derive(Debug, thiserror::Error)]
pub enum SideError {
    /// Clients cannot be served.
    #[error("{0}")]
    Server(#[from] ServerError),
    /// The other side is lost.
    #[error("{0}")]
    Link(#[from] OffloadError),
    /// Threads of the side cannot be connected.
    #[error("{0}")]
    Partition(#[from] PartitionError),
    /// The stored keys could not be kept on disk at the end.
    #[error("state could not be kept: {0}")]
    Finish(io::Error),
    /// The system refuses something else.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The engines of a side, and the resources that they need to run.
pub struct SideEngines {
    side: Side,
    layout: Layout,
    stores: Vec<Box<dyn StorageBackend + Send>>,
    hasher: KeyHasher,
    clock: Clock,
    /// Links over which it sends requests, in order.
    asking: Vec<Channel>,
    /// Threads that send requests to each of its partitions, in order.
    clients: Vec<RemoteClients>,
    /// Server for the clients of the side, if it has any. It has as many workers as there are
    /// threads with clients.
    pub server: Option<Server>,
    /// Optimizations of the requests that the side sends.
    pub optimizations: Optimizations,
    /// Notes that the other side is lost.
    pub on_loss: OnLoss,
    /// Never sleeps.
    pub busy_poll: bool,
    /// Cores of the threads that only have a partition, in order; the system places those without one.
    pub store_cores: Vec<usize>,
}

/// The way for the links of another side that has returned after it was lost.
pub struct ReturningLinks {
    first_partition: usize,
    /// One for each partition of this side.
    senders: Vec<Sender<AskingLinks>>,
    hasher: KeyHasher,
}

impl ReturningLinks {
    /// Hands over new links, in order; `on_loss` notes that these are lost.
    pub fn hand_over(&self, links: Vec<(DesignLink, Channel)>, on_loss: &OnLoss) {
        let none = || AskingLinks { on_loss: Some(Arc::clone(on_loss)), ..AskingLinks::default() };
        let mut all: Vec<_> = self.senders.iter().map(|_| none()).collect();
        for (link, channel) in links {
            let responder = Responder::new(channel, self.hasher.clone());
            all[link.partition - self.first_partition].responders.push(responder);
        }
        for (sender, links) in self.senders.iter().zip(all) {
            // The store may have ended; then so does the process.
            let _ = sender.send(links);
        }
    }
}

/// Time between two checks whether to end, on a side without threads.
const LOOK: Duration = Duration::from_millis(20);

/// Ends the engines of a side, from any thread.
#[derive(Clone, Debug)]
pub struct SideStop {
    server: Option<StopHandle>,
    flag: Arc<AtomicBool>,
}

impl SideStop {
    /// Makes a side; `server` serves its clients, if it has any.
    #[must_use]
    pub fn new(server: Option<&Server>) -> Self {
        Self { server: server.map(Server::stop_handle), flag: Arc::default() }
    }

    /// Tells the side's workers to end. Requests that its clients have sent are still answered.
    pub fn stop(&self) {
        match &self.server {
            Some(server) => server.stop(),
            None => self.end(),
        }
    }

    /// Ends the threads without clients.
    fn end(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

impl SideEngines {
    /// Makes the engines of a side without links. `stores` has those of its partitions, in order, whose keys
    /// `hasher` hashes; requests are executed by `clock`.
    #[must_use]
    pub fn new(
        side: Side,
        layout: Layout,
        stores: Vec<Box<dyn StorageBackend + Send>>,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Self {
        Self {
            clients: stores.iter().map(|_| RemoteClients::default()).collect(),
            side,
            layout,
            stores,
            hasher,
            clock,
            asking: Vec::new(),
            server: None,
            optimizations: Optimizations::default(),
            on_loss: Arc::new(|_| {}),
            busy_poll: false,
            store_cores: Vec::new(),
        }
    }

    /// Adds the next link.
    pub fn add_link(&mut self, link: DesignLink, channel: Channel) {
        if link.asking == self.side {
            return self.asking.push(channel);
        }
        let responder = Responder::new(channel, self.hasher.clone());
        let number = link.partition - self.first_partition();
        let links = &mut self.clients[number].links;
        links.responders.push(responder);
        links.on_loss = Some(Arc::clone(&self.on_loss));
    }

    /// Prepares for another side that only sends requests, and returns after it was lost.
    pub fn returning(&mut self) -> ReturningLinks {
        ReturningLinks {
            first_partition: self.first_partition(),
            senders: self.clients.iter_mut().map(RemoteClients::returning).collect(),
            hasher: self.hasher.clone(),
        }
    }

    fn first_partition(&self) -> usize {
        self.layout.partitions_of(self.side).start
    }

    /// Runs until `stop`. Returns `true` if every client of the side received its replies before the
    /// drain timeout.
    ///
    /// # Errors
    /// [`SideError`].
    pub fn run(mut self, stop: &SideStop) -> Result<bool, SideError> {
        let (is_alone, clock) = (self.layout.partitions() == 1, self.clock);
        match (self.server.take(), self.stores.as_mut_slice()) {
            (Some(server), [store]) if is_alone && self.layout.threads(self.side).complete > 0 => {
                Ok(server.run(&mut **store, &self.hasher, clock)?)
            }
            (None, []) => {
                // All is on the other side.
                while !stop.flag.load(Ordering::Relaxed) {
                    thread::sleep(LOOK);
                }
                Ok(true)
            }
            (server, _) => self.run_connected(server, stop),
        }
    }

    /// Runs threads with clients, and threads with a partition only.
    fn run_connected(mut self, server: Option<Server>, stop: &SideStop) -> Result<bool, SideError> {
        let counts = LinkCounts::new(self.asking.len());
        let asking = self.asking.into_iter().zip(counts).map(|(channel, counts)| {
            RemoteEngine::with(channel, self.optimizations)
                .over_link(counts, Arc::clone(&self.on_loss))
        });
        let parts = SideParts {
            side: self.side,
            layout: self.layout,
            stores: self.stores,
            asking: asking.collect(),
            clients: self.clients,
        };
        let (workers, processing) = connect_side(parts, &self.hasher)?;
        self.store_cores.truncate(processing.len());
        let mut cores = self.store_cores.into_iter();
        let (hasher, clock, busy_poll) = (&self.hasher, self.clock, self.busy_poll);
        thread::scope(|scope| {
            let mut stores = Vec::new();
            for (number, (store, clients)) in processing.into_iter().enumerate() {
                let core = cores.next();
                let run = move || run_store(store, clients, (clock, busy_poll, core), stop);
                let named = thread::Builder::new().name(format!("kv-store-{number}"));
                stores.push(named.spawn_scoped(scope, run).inspect_err(|_| stop.end())?);
            }
            let served = server.map_or(Ok(true), |server| {
                // Stores are there until the last reply has left, and not longer.
                let _ended = Ended(stop);
                let workers = workers.into_iter().map(|worker| Box::new(worker) as _);
                server.run_workers(workers.collect(), hasher, clock)
            });
            let ended =
                stores.into_iter().map(|store| store.join().expect("a store does not panic"));
            let ended = ended.fold(Ok(()), Result::and);
            ended.and(Ok(served?))
        })
    }
}

/// Runs a partition of a thread without clients.
fn run_store(
    mut store: Box<dyn StorageBackend + Send>,
    mut clients: RemoteClients,
    (clock, busy_poll, core): (Clock, bool, Option<usize>),
    stop: &SideStop,
) -> Result<(), SideError> {
    // Without a store no client can be served.
    let stopping = Stopping(stop);
    if let Some(core) = core {
        pin(core).map_err(|error| ServerError::Core { core, error })?;
    }
    let served = serve(&mut clients, &mut *store, &clock, busy_poll, &stop.flag);
    drop(stopping);
    store.finish().map_err(SideError::Finish)?;
    Ok(served?)
}

/// A thread with a partition only has ended, and so the side does.
struct Stopping<'s>(&'s SideStop);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The threads with clients have ended.
struct Ended<'s>(&'s SideStop);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
