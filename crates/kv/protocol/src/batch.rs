//! Requests of many commands, and the state that their replies are made from.

use std::sync::Arc;

use crate::cluster::ClusterView;
use overside_kv_store::{KeyHasher, Request};

/// Default number of requests above which no further command is added to a batch.
pub(super) const BATCH_REQUESTS: usize = overside_kv_store::engine::BATCH_REQUESTS;

/// Requests that are executed together. `F` is the format of replies.
#[derive(Debug)]
pub(super) struct Batch<'a, F> {
    pub(super) requests: Vec<Request<'a>>,
    pub(super) pending: Vec<Pending<F>>,
    pub(super) hasher: &'a KeyHasher,
    pub(super) now_ms: u64,
    /// Maximum number of requests, after which no further command is added, and of pending commands
    /// divided by two (some commands have no request).
    pub(super) most: usize,
    /// Cluster whose slots the keys of each command must be in; `None` if any key is served.
    pub(super) cluster: Option<Arc<ClusterView>>,
}

/// Command whose requests are in the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<F> {
    /// Index of the connection that the command came from.
    pub(super) connection: u32,
    /// Number of the command's requests.
    pub(super) requests: u32,
    /// Offset in the connection's input at which the command ends.
    pub(super) end: usize,
    pub(super) form: F,
}

/// Reason why no further command of a connection was added to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// No command is left, or none can be taken now.
    Idle,
    /// The next command is executed by itself.
    Direct,
    /// The batch is full.
    Full,
}

impl<'a, F> Batch<'a, F> {
    pub(super) fn new(hasher: &'a KeyHasher, now_ms: u64) -> Self {
        Self {
            requests: Vec::new(),
            pending: Vec::new(),
            hasher,
            now_ms,
            most: BATCH_REQUESTS,
            cluster: None,
        }
    }

    /// Returns `true` if another command may be added.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.requests.len() < self.most && self.pending.len() < 2 * self.most
    }

    /// Adds a command of connection `connection` that ends at `end`. Its requests are those from
    /// index `first` on.
    #[inline]
    pub(super) fn command(&mut self, (connection, end): (u32, usize), first: usize, form: F) {
        self.pending.push(Pending {
            connection,
            requests: (self.requests.len() - first) as u32,
            end,
            form,
        });
    }
}

/// Converts an empty vector to one of another lifetime and keeps its memory.
pub(super) fn recycle<A, B>(mut vector: Vec<A>) -> Vec<B> {
    // Limit of the kept capacity: one long command must not hold its memory forever.
    const KEPT: usize = 4096;
    vector.clear();
    vector.shrink_to(KEPT);
    let empty = vector.into_iter();
    empty.map(|_| unreachable!("it has been cleared")).collect()
}
