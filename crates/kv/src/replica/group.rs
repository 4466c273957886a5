//! The partitions of a server as replication sees them: each has a history, and a connection with each replica.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use overside_base::lock;

use super::links;
use crate::server::{Bell, random_hex};

/// What the partitions of a server have in common. No lock of one partition is held with that of another.
#[derive(Debug)]
struct Group {
    /// Another one for each process: by it a primary knows which connections are one replica's.
    id: String,
    partitions: Box<[Partition]>,
}

#[derive(Debug)]
struct Partition {
    /// Wakes its worker.
    bell: Arc<Bell>,
    /// Of its replicas, if it has or had some.
    links: Mutex<Weak<links::Shared>>,
    /// Clients of its worker wait for acknowledgments of any partition.
    is_awaiting: AtomicBool,
    /// It is a replica's, and its copy is not complete.
    is_loading: AtomicBool,
}

/// One partition of a server that can have replicas or be one.
#[derive(Clone, Debug)]
pub struct GroupMember {
    group: Arc<Group>,
    number: usize,
}

impl GroupMember {
    /// All of a server with so many.
    ///
    /// # Errors
    /// If the system has no descriptors or random numbers.
    pub fn all(partitions: usize) -> io::Result<Vec<Self>> {
        let partition = |_| {
            Ok(Partition {
                bell: Arc::new(Bell::new()?),
                links: Mutex::default(),
                is_awaiting: AtomicBool::new(false),
                is_loading: AtomicBool::new(false),
            })
        };
        let group = Arc::new(Group {
            id: random_hex()?,
            partitions: (0..partitions).map(partition).collect::<io::Result<_>>()?,
        });
        let member = |number| Self {
            group: Arc::clone(&group),
            number,
        };
        Ok((0..partitions).map(member).collect())
    }

    /// Which one it is.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.group.partitions.len()
    }

    pub(super) fn server_id(&self) -> &str {
        &self.group.id
    }

    fn partition(&self) -> &Partition {
        &self.group.partitions[self.number]
    }

    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.partition().bell
    }

    pub(super) fn set_links(&self, links: &Arc<links::Shared>) {
        *lock(&self.partition().links) = Arc::downgrade(links);
    }

    pub(super) fn set_loading(&self, is_loading: bool) {
        (self.partition().is_loading).store(is_loading, Ordering::Release);
    }

    /// Whether any partition has no complete copy.
    pub(super) fn is_any_loading(&self) -> bool {
        let mut all = self.group.partitions.iter();
        all.any(|partition| partition.is_loading.load(Ordering::Acquire))
    }

    /// How many replicas have executed and kept what is before `ends`, the offset of each partition. If those are
    /// fewer than `wanted`, this partition's worker is woken when there may be more.
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
                partition.bell.ring();
            }
        }
    }
}
