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
//! 5. Partitions on the other side of a link are peers as well, without a waker: so the worker polls
//!    often, as long as requests come.
//! 6. Rare, server-wide operations (snapshots, statistics) run as closures on the worker of each
//!    partition ([`task_queue`]).

mod backing;
mod directory;
mod engine;
mod local_partition;
mod merge;
mod replication;
mod task_queue;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use directory::{DirectoryError, KeptPartitions, PartitionLayout, RemotePartitions};
pub use engine::Partitioned;

use crate::KeyHasher;
use crate::{Batching, Channel, ChannelOptions, OffloadError, RemoteEngine, Responder};
use engine::Peer;
use local_partition::LocalPartition;
use overside_kv_backend::StorageBackend;
use overside_kv_backend::Waker;
use task_queue::TaskQueue;

/// Maximum number of partitions: each pair has two channels.
pub const PARTITIONS_MAX: usize = 64;

/// Memory of each channel in each direction: more than a batch has in most cases, and little enough for many.
pub(crate) const CHANNEL: ChannelOptions = ChannelOptions { slot_bytes: 16 << 10, slots: 4 };

/// Memory of the channels between `count` partitions.
#[must_use]
pub fn channel_bytes(count: usize) -> usize {
    // A ring in each direction, and as much for what is being written.
    count * (count - 1) * 3 * CHANNEL.slot_bytes * CHANNEL.slots
}

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

/// Connections between the partitions of this process and those on the other side of a link.
#[derive(Debug)]
pub struct Neighbors {
    /// The numbers of the partitions in this process, and how many there are on both sides.
    pub own: Range<usize>,
    /// See `own`.
    pub count: usize,
    /// Engines of each partition here for each partition there, in order.
    pub asking: VecDeque<RemoteEngine>,
    /// Responders for each partition there to each partition here, in order.
    pub answering: VecDeque<Responder>,
}

/// Connects all partitions, in order, whose keys `hasher` hashes: an engine for the worker of each.
///
/// # Errors
/// [`PartitionError`].
///
/// # Panics
/// If there are none, or more than [`PARTITIONS_MAX`].
pub fn connect(
    partitions: Vec<Box<dyn StorageBackend + Send>>,
    hasher: &KeyHasher,
) -> Result<Vec<Partitioned>, PartitionError> {
    let count = partitions.len();
    let neighbors =
        Neighbors { own: 0..count, count, asking: VecDeque::new(), answering: VecDeque::new() };
    connect_sides(partitions, neighbors, hasher)
}

/// Connects partitions like [`connect`], where further partitions are on the other side of a link.
///
/// # Errors
/// [`PartitionError`].
///
/// # Panics
/// As [`connect`], and if there are not as many neighbors as partitions need.
pub fn connect_sides(
    partitions: Vec<Box<dyn StorageBackend + Send>>,
    mut neighbors: Neighbors,
    hasher: &KeyHasher,
) -> Result<Vec<Partitioned>, PartitionError> {
    let (own, count) = (neighbors.own.clone(), neighbors.count);
    assert!((1..=PARTITIONS_MAX).contains(&count), "{count} partitions");
    let here = own.len();
    let mut pairs = VecDeque::from(Channel::pairs(here * (here - 1), CHANNEL)?);
    let mailboxes: Vec<_> = (0..here).map(|_| Arc::new(TaskQueue::default())).collect();
    // What a partition has of its own, as connections with replicas, rings the same one.
    let wakers = partitions.iter().map(|partition| match partition.waker() {
        Some(waker) => Ok(waker),
        None => Waker::new().map(Arc::new),
    });
    let wakers = wakers.collect::<io::Result<Vec<_>>>()?;
    let is_changing_role = Arc::new(AtomicBool::new(false));
    let mut peers: Vec<Vec<Option<Peer>>> = Vec::new();
    let mut responders: Vec<Vec<Responder>> = (0..here).map(|_| Vec::new()).collect();
    for _ in own.len()..count {
        for of_own in &mut responders {
            of_own.extend(neighbors.answering.pop_front());
        }
    }
    for number in own.clone() {
        let mut of_own = Vec::new();
        for other in 0..count {
            of_own.push(if other == number {
                None
            } else if own.contains(&other) {
                let other = other - own.start;
                let [asking, answering] = pairs.pop_front().expect("a channel for each pair");
                responders[other].push(Responder::new(answering, hasher.clone()));
                Some(Peer {
                    remote: RemoteEngine::new(asking, Batching::Batch).without_timeout(),
                    thread: Some((Arc::clone(&wakers[other]), Arc::clone(&mailboxes[other]))),
                })
            } else {
                let remote = neighbors.asking.pop_front().expect("a link for each pair");
                let thread = None;
                Some(Peer { remote, thread })
            });
        }
        peers.push(of_own);
    }
    let all = partitions.into_iter().zip(peers).zip(responders);
    let all = all.zip(wakers.into_iter().zip(mailboxes)).zip(own);
    Ok(all
        .map(|((((own, peers), responders), (waker, task_queue)), number)| {
            let inside = LocalPartition::new(own, responders, task_queue);
            Partitioned::new(number, inside, peers, waker, Arc::clone(&is_changing_role))
        })
        .collect())
}
