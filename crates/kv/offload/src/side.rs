//! The engines of one side of a design, in the threads that it has there.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use overside_device::threads::pin;
use overside_link::verbs::Side;

use super::{
    Batching, Channel, LinkCounts, OffloadError, OnLoss, Optimizations, RemoteClients,
    RemoteEngine, Responder, serve,
};
use crate::KeyHasher;
use crate::clock::Clock;
use crate::design::Layout;
use crate::partitions::{self, Neighbors, PartitionError};
use overside_kv::server::{Server, ServerError, StopHandle};
use overside_kv_backend::StorageBackend;
use overside_kv_backend::Waker;

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
    /// Side of the design that this is.
    pub side: Side,
    /// Threads of the design, on both sides.
    pub layout: Layout,
    /// Server for the clients of the side, if it has any. It has as many workers as there are
    /// threads with clients.
    pub server: Option<Server>,
    /// Stores of the side's partitions, in order.
    pub stores: Vec<Box<dyn StorageBackend + Send>>,
    /// Links over which it sends requests, in order.
    pub asking: Vec<Channel>,
    /// Links over which it receives requests, in order.
    pub askers: RemoteClients,
    /// Optimizations of the requests that the side sends.
    pub optimizations: Optimizations,
    /// Notes that the other side is lost.
    pub on_loss: OnLoss,
    /// Hash function for the keys of its partitions.
    pub hasher: KeyHasher,
    /// Clock by which requests are executed.
    pub clock: Clock,
    /// Never sleeps.
    pub busy_poll: bool,
    /// The core of a thread that only has a partition.
    pub store_core: Option<usize>,
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
            None => self.flag.store(true, Ordering::Relaxed),
        }
    }
}

impl SideEngines {
    /// Runs until `stop`. Returns `true` if every client of the side received its replies before the
    /// drain timeout.
    ///
    /// # Errors
    /// [`SideError`].
    pub fn run(mut self, stop: &SideStop) -> Result<bool, SideError> {
        let threads = self.layout.threads(self.side);
        let remote = self.remote_engines();
        let Some(server) = self.server.take() else {
            return self.run_store(&stop.flag).map(|()| true);
        };
        if threads.complete > 0 {
            return self.run_complete(server, remote);
        }
        if self.stores.is_empty() {
            let engines = with_bells(remote)?;
            return Ok(server.run_workers(engines, &self.hasher, self.clock)?);
        }
        self.run_separate(server, stop)
    }

    /// Adds the next link, over which `asking` sends requests.
    pub fn add_link(&mut self, asking: Side, channel: Channel) {
        match asking == self.side {
            true => self.asking.push(channel),
            false => {
                let responder = Responder::new(channel, self.hasher.clone());
                self.askers.links.push(responder);
            }
        }
    }

    /// Ways to the partitions of the other side.
    fn remote_engines(&mut self) -> Vec<RemoteEngine> {
        let asking = std::mem::take(&mut self.asking);
        let counts = LinkCounts::new(asking.len());
        let all = asking.into_iter().zip(counts);
        all.map(|(channel, counts)| {
            RemoteEngine::with(channel, self.optimizations)
                .over_link(counts, Arc::clone(&self.on_loss))
        })
        .collect()
    }

    /// A partition without clients.
    fn run_store(&mut self, stop: &AtomicBool) -> Result<(), SideError> {
        if let Some(core) = self.store_core {
            pin(core).map_err(|error| ServerError::Core { core, error })?;
        }
        let Some(store) = self.stores.first_mut() else {
            // All is on the other side.
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
            }
            return Ok(());
        };
        let how = (self.busy_poll, &self.on_loss);
        let served = serve(&mut self.askers, &mut **store, &self.clock, how, stop);
        store.finish().map_err(SideError::Finish)?;
        Ok(served?)
    }

    /// Threads with clients and a partition each.
    fn run_complete(
        mut self,
        server: Server,
        asking: Vec<RemoteEngine>,
    ) -> Result<bool, SideError> {
        if let ([_], 1) = (self.stores.as_slice(), self.layout.partitions()) {
            let store = &mut *self.stores[0];
            return Ok(server.run(store, &self.hasher, self.clock)?);
        }
        let neighbors = Neighbors {
            own: self.layout.partitions_of(self.side),
            count: self.layout.partitions(),
            asking: VecDeque::from(asking),
            answering: VecDeque::from(self.askers.links),
        };
        let engines = partitions::connect_sides(self.stores, neighbors, &self.hasher)?;
        let engines = engines.into_iter().map(|engine| Box::new(engine) as _);
        Ok(server.run_workers(engines.collect(), &self.hasher, self.clock)?)
    }

    /// Runs threads with clients separately from the thread with the partition, to which they send requests
    /// like the other side.
    fn run_separate(mut self, server: Server, stop: &SideStop) -> Result<bool, SideError> {
        let count = self.layout.threads(self.side).communication;
        let mut local = Vec::new();
        for [asking, answering] in Channel::pairs(count, partitions::CHANNEL)? {
            let responder = Responder::new(answering, self.hasher.clone());
            self.askers.local.push(responder);
            local.push(RemoteEngine::new(asking, Batching::Batch).without_timeout());
        }
        let engines = with_bells(local)?;
        let (hasher, clock) = (self.hasher.clone(), self.clock);
        thread::scope(|scope| {
            let serve = move || {
                // The store is there until the last reply has left, and not longer.
                let _ended = Ended(stop);
                server.run_workers(engines, &hasher, clock)
            };
            let clients =
                thread::Builder::new().name("kv-clients".into()).spawn_scoped(scope, serve)?;
            let kept = self.run_store(&stop.flag);
            // Without a store no client can be served.
            stop.stop();
            let served = clients.join().expect("workers do not panic");
            kept.and(Ok(served?))
        })
    }
}

/// The threads with clients have ended.
struct Ended<'s>(&'s SideStop);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.flag.store(true, Ordering::Relaxed);
    }
}

fn with_bells(engines: Vec<RemoteEngine>) -> io::Result<Vec<Box<dyn StorageBackend + Send>>> {
    let with_bell = |engine: RemoteEngine| {
        let waker = Arc::new(Waker::new()?);
        Ok(Box::new(engine.with_bell(waker)) as _)
    };
    engines.into_iter().map(with_bell).collect()
}
