//! Partitions of the keys, each of which a core of its own reads and writes (EREW).
//!
//! 1. A *worker* is one thread with its own connections, its own communication engine and the store of
//!    its partition. [`partition_of`](crate::partition_of) says which partition has a key.
//! 2. Its processing engine is [`Partitioned`]: requests for keys of its own partition are executed at
//!    once, those for others go to their workers as one message over a channel in shared memory, by the
//!    same [`RemoteEngine`](crate::RemoteEngine) and [`Responder`](crate::Responder)
//!    that connect a host with its DPU. Each pair of workers has a channel in each direction.
//! 3. While a worker waits for answers, it answers the requests of others. So two workers that wait for
//!    each other both go on, without a deadlock.
//! 4. A worker without work sleeps. A worker that sends it a request wakes its
//!    [`Waker`](overside_kv::server::Waker).
//! 5. A partition on the other side of a link is executed on in one of two ways ([`Layout::route`]): the worker
//!    that is paired with it has the link, and others ask that worker, which *relays* their requests.
//! 6. A worker that waits for a link answers requests for its own partition only, and one that waits for another
//!    worker also relays. A link is never busy while its worker waits for another one. So every wait ends:
//!    who has a partition always answers, and who has a link waits for nobody else.
//! 7. Partitions on the other side are peers without a waker: so a worker that answers over links polls often, as
//!    long as requests come.
//! 8. Rare, server-wide operations (snapshots, statistics) run as closures on the worker of each
//!    partition ([`task_queue`]), or are messages where a partition has no worker in this process.

mod backing;
mod directory;
mod engine;
mod local_partition;
mod merge;
mod replication;
mod task_queue;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use directory::{DirectoryError, KeptPartitions, PartitionLayout, RemotePartitions};
pub use engine::Partitioned;

use crate::design::{Design, Layout, Route};
use crate::{
    Batching, CHANNEL, Channel, KeyHasher, OffloadError, RemoteClients, RemoteEngine, Responder,
};
use engine::{Peer, Relay};
use local_partition::LocalPartition;
use overside_kv_backend::StorageBackend;
use overside_kv_backend::Waker;
use overside_link::verbs::Side;
use task_queue::TaskQueue;

/// Reason why partitions cannot be connected.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// A channel between two workers failed.
    #[error("no channel between workers: {0}")]
    Channel(#[from] OffloadError),
    /// The system has no more descriptors.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The partitions of one side, and its ends of the links.
pub(crate) struct SideParts {
    pub side: Side,
    pub layout: Layout,
    /// Stores of the side's partitions, in order.
    pub stores: Vec<Box<dyn StorageBackend + Send>>,
    /// Engines of the links over which the side sends requests, in order.
    pub asking: VecDeque<RemoteEngine>,
    /// For each of the side's partitions, who sends requests to it; at first those of the other side.
    pub clients: Vec<RemoteClients>,
}

/// Partitions of threads without clients, and the threads that send requests to them.
pub(crate) type ProcessingPartitions = Vec<(Box<dyn StorageBackend + Send>, RemoteClients)>;

/// Connects all partitions, in order, whose keys `hasher` hashes: an engine for the worker of each.
///
/// # Errors
/// [`PartitionError`].
///
/// # Panics
/// If there are none, or more than a side can have.
pub fn connect(
    partitions: Vec<Box<dyn StorageBackend + Send>>,
    hasher: &KeyHasher,
) -> Result<Vec<Partitioned>, PartitionError> {
    let layout = Design::CpuOnly.layout(partitions.len(), 0).expect("a number that is possible");
    let clients = partitions.iter().map(|_| RemoteClients::default()).collect();
    let (side, stores, asking) = (Side::Host, partitions, VecDeque::new());
    let parts = SideParts { side, layout, stores, asking, clients };
    connect_side(parts, hasher).map(|(workers, _)| workers)
}

/// Connects the threads of a side with each other. Returns an engine for each worker, which serves clients, and
/// the partitions of other threads.
///
/// # Errors
/// [`PartitionError`].
///
/// # Panics
/// If there are not as many stores or links as the layout has.
pub(crate) fn connect_side(
    parts: SideParts,
    hasher: &KeyHasher,
) -> Result<(Vec<Partitioned>, ProcessingPartitions), PartitionError> {
    let SideParts { side, layout, stores, mut asking, mut clients } = parts;
    let own = layout.partitions_of(side);
    let threads = layout.threads(side);
    let channels =
        layout.routes(side).filter(|(.., route)| !matches!(route, Route::Own | Route::Link));
    let mut pairs = Channel::pairs(channels.count(), CHANNEL)?.into_iter();
    let mut stores = stores.into_iter();
    let processing: Vec<_> = stores.by_ref().take(threads.processing).collect();
    let complete: Vec<_> = stores.collect();
    // What a partition has of its own, as connections with replicas, rings the same one.
    let wakers = (0..threads.serving()).map(|worker| {
        match complete.get(worker).and_then(|store| store.waker()) {
            Some(waker) => Ok(waker),
            None => Waker::new().map(Arc::new),
        }
    });
    let wakers = wakers.collect::<io::Result<Vec<_>>>()?;
    let tasks: Vec<_> = complete.iter().map(|_| Arc::new(TaskQueue::default())).collect();
    let mut peers: Vec<Vec<Option<Peer>>> = wakers.iter().map(|_| Vec::new()).collect();
    let mut relays: Vec<Vec<Relay>> = wakers.iter().map(|_| Vec::new()).collect();
    for (thread, partition, route) in layout.routes(side) {
        let mut ask = || {
            let [asking, responder] = pairs.next().expect("a channel for each of them");
            let responder = Responder::new(responder, hasher.clone());
            match route {
                Route::Worker(other) if !own.contains(&partition) => {
                    relays[other].push(Relay { partition, responder });
                }
                _ => clients[partition - own.start].local.push(responder),
            }
            RemoteEngine::new(asking, Batching::Batch).without_timeout()
        };
        peers[thread].push(match route {
            Route::Own => None,
            Route::Processing(_) => Some(Peer::new(ask())),
            Route::Worker(other) => Some(Peer {
                waker: Some(Arc::clone(&wakers[other])),
                tasks: own.contains(&partition).then(|| Arc::clone(&tasks[other])),
                ..Peer::new(ask())
            }),
            Route::Link => {
                let remote = asking.pop_front().expect("a link for each of them");
                Some(Peer { is_link: true, ..Peer::new(remote) })
            }
        });
    }
    let is_changing_role = Arc::new(AtomicBool::new(false));
    let mut clients = clients.into_iter();
    let processing = processing.into_iter().zip(clients.by_ref()).collect();
    let numbers = own.skip(threads.processing);
    let parts = complete.into_iter().zip(clients).zip(tasks).zip(numbers);
    let mut inside = parts
        .map(|(((own, clients), tasks), number)| LocalPartition::new(number, own, clients, tasks));
    let all = peers.into_iter().zip(relays).zip(wakers);
    let workers = all.map(|((peers, relays), waker)| {
        Partitioned::new(inside.next(), relays, peers, waker, Arc::clone(&is_changing_role))
    });
    Ok((workers.collect(), processing))
}
