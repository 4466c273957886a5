//! Several cores, each with a part of the keys that nobody else touches (EREW).
//!
//! 1. A *worker* is one thread with its own connections, its own communication engine and the store of
//!    its partition. [`partition_of`](crate::partition_of) says which partition has a key.
//! 2. Its processing engine is [`Partitioned`]: requests for keys of its own partition are executed at
//!    once, those for others go to their workers as one message over a channel in shared memory, by the
//!    same [`RemoteEngine`](crate::offload::RemoteEngine) and [`Responder`](crate::offload::Responder)
//!    that connect a host with its DPU. Each pair of workers has a channel in each direction.
//! 3. While a worker waits for answers it answers what others ask of it. So two that wait for each other
//!    both go on, and nobody waits in a circle.
//! 4. A worker without anything to do sleeps. Whoever sends it something rings its
//!    [`Bell`](crate::server::Bell).
//! 5. Where further partitions are on the other side of a link, those are peers as well, without a bell:
//!    so the worker looks often, as long as somebody asks.
//! 6. What is rare and of the server as a whole (snapshots, statistics) is asked by letters: closures
//!    that the worker of a partition executes ([`mailbox`]).

mod backing;
mod directory;
mod engine;
mod inside;
mod mailbox;
mod merge;
mod replication;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use directory::{DirectoryError, Division, Elsewhere, KeptPartitions};
pub use engine::Partitioned;

use crate::KeyHasher;
use crate::offload::{Batching, Channel, ChannelOptions, OffloadError, RemoteEngine, Responder};
use crate::server::{Backing, Bell};
use engine::Peer;
use inside::Inside;
use mailbox::Mailbox;

/// Most partitions: each pair has two channels.
pub const PARTITIONS_MAX: usize = 64;

/// Memory of each channel in each direction: more than a batch has in most cases, and little enough for many.
pub(crate) const CHANNEL: ChannelOptions = ChannelOptions {
    slot_bytes: 16 << 10,
    slots: 4,
};

/// Memory of the channels between so many partitions.
#[must_use]
pub fn channel_bytes(count: usize) -> usize {
    // A ring in each direction, and as much for what is being written.
    count * (count - 1) * 3 * CHANNEL.slot_bytes * CHANNEL.slots
}

/// Why partitions cannot be connected.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// There is no channel between two of them.
    #[error("no channel between workers: {0}")]
    Channel(#[from] OffloadError),
    /// The system has no more descriptors.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// What partitions of this process have to do with those on the other side of a link.
#[derive(Debug)]
pub struct Neighbors {
    /// The numbers of the partitions in this process, and how many there are on both sides.
    pub own: Range<usize>,
    /// See `own`.
    pub count: usize,
    /// For each partition here, a way to each there, in order.
    pub asking: VecDeque<RemoteEngine>,
    /// For each partition there, one that answers it for each here, in order.
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
    partitions: Vec<Box<dyn Backing + Send>>,
    hasher: &KeyHasher,
) -> Result<Vec<Partitioned>, PartitionError> {
    let count = partitions.len();
    let neighbors = Neighbors {
        own: 0..count,
        count,
        asking: VecDeque::new(),
        answering: VecDeque::new(),
    };
    connect_sides(partitions, neighbors, hasher)
}

/// As [`connect`], where further partitions are on the other side of a link.
///
/// # Errors
/// [`PartitionError`].
///
/// # Panics
/// As [`connect`], and if there are not as many neighbors as partitions need.
pub fn connect_sides(
    partitions: Vec<Box<dyn Backing + Send>>,
    mut neighbors: Neighbors,
    hasher: &KeyHasher,
) -> Result<Vec<Partitioned>, PartitionError> {
    let (own, count) = (neighbors.own.clone(), neighbors.count);
    assert!((1..=PARTITIONS_MAX).contains(&count), "{count} partitions");
    let here = own.len();
    let mut pairs = VecDeque::from(Channel::pairs(here * (here - 1), CHANNEL)?);
    let mailboxes: Vec<_> = (0..here).map(|_| Arc::new(Mailbox::default())).collect();
    // What a partition has of its own, as connections with replicas, rings the same one.
    let bells = partitions.iter().map(|partition| match partition.bell() {
        Some(bell) => Ok(bell),
        None => Bell::new().map(Arc::new),
    });
    let bells = bells.collect::<io::Result<Vec<_>>>()?;
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
                    thread: Some((Arc::clone(&bells[other]), Arc::clone(&mailboxes[other]))),
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
    let all = all.zip(bells.into_iter().zip(mailboxes)).zip(own);
    Ok(all
        .map(|((((own, peers), responders), (bell, mailbox)), number)| {
            let inside = Inside::new(own, responders, mailbox);
            Partitioned::new(number, inside, peers, bell, Arc::clone(&is_changing_role))
        })
        .collect())
}
