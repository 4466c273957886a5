//! The partitions of a server as replication sees them: each has a history, and a connection with each replica.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use overside_base::lock;

use super::link::Replicas;
use crate::Waker;
use overside_base::random_hex;

/// State that the partitions of a server share. No thread locks two partitions at the same time.
#[derive(Debug)]
struct Group {
    /// Another one for each process: by it a primary knows which connections are one replica's.
    id: String,
    partitions: Box<[Partition]>,
}

#[derive(Debug)]
struct Partition {
    /// Wakes its worker.
    waker: Arc<Waker>,
    /// Connections with the replicas of the partition; empty if it never had any.
    links: Mutex<Weak<Replicas>>,
    /// Clients of its worker wait for acknowledgments of any partition.
    is_awaiting: AtomicBool,
    /// `true` for a replica whose copy is not complete.
    is_loading: AtomicBool,
}

/// One partition of a server that can have replicas or be one.
#[derive(Clone, Debug)]
pub struct GroupMember {
    group: Arc<Group>,
    number: usize,
}

impl GroupMember {
    /// All groups of a server with `partitions` partitions.
    ///
    /// # Errors
    /// If the system has no descriptors or random numbers.
    pub fn all(partitions: usize) -> io::Result<Vec<Self>> {
        let partition = |_| {
            Ok(Partition {
                waker: Arc::new(Waker::new()?),
                links: Mutex::default(),
                is_awaiting: AtomicBool::new(false),
                is_loading: AtomicBool::new(false),
            })
        };
        let group = Arc::new(Group {
            id: random_hex()?,
            partitions: (0..partitions).map(partition).collect::<io::Result<_>>()?,
        });
        let member = |number| Self { group: Arc::clone(&group), number };
        Ok((0..partitions).map(member).collect())
    }

    /// Returns the number of the partition.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Returns the number of partitions of the server.
    pub(super) fn count(&self) -> usize {
        self.group.partitions.len()
    }

    pub(super) fn server_id(&self) -> &str {
        &self.group.id
    }

    fn partition(&self) -> &Partition {
        &self.group.partitions[self.number]
    }

    pub(super) fn waker(&self) -> &Arc<Waker> {
        &self.partition().waker
    }

    pub(super) fn set_links(&self, links: &Arc<Replicas>) {
        *lock(&self.partition().links) = Arc::downgrade(links);
    }

    pub(super) fn set_loading(&self, is_loading: bool) {
        (self.partition().is_loading).store(is_loading, Ordering::Release);
    }

    /// Returns `true` if any partition is a replica's and has no complete copy.
    pub(super) fn is_any_loading(&self) -> bool {
        let mut all = self.group.partitions.iter();
        all.any(|partition| partition.is_loading.load(Ordering::Acquire))
    }

    /// Returns the number of replicas that have executed and kept everything before `ends`, the
    /// offset of each partition. If that is less than `wanted`, this partition's worker is woken
    /// when the number may have grown.
    pub(super) fn acknowledgments(&self, ends: &[u64], wanted: usize) -> usize {
        let is_awaiting = &self.partition().is_awaiting;
        // Before looking, so that none that comes meanwhile is missed.
        is_awaiting.store(true, Ordering::SeqCst);
        let mut partitions_of: HashMap<String, usize> = HashMap::new();
        for (partition, end) in self.group.partitions.iter().zip(ends) {
            let Some(links) = lock(&partition.links).upgrade() else {
                continue;
            };
            for replica in links.acknowledged(*end) {
                *partitions_of.entry(replica).or_default() += 1;
            }
        }
        let all = partitions_of.values();
        let count = all.filter(|&&partitions| partitions == ends.len()).count();
        if count >= wanted {
            is_awaiting.store(false, Ordering::SeqCst);
        }
        count
    }

    /// A replica has acknowledged something.
    pub(super) fn wake_awaiting(&self) {
        for partition in &self.group.partitions {
            if partition.is_awaiting.swap(false, Ordering::SeqCst) {
                partition.waker.wake();
            }
        }
    }
}
