//! Requests of many commands, and what their replies are made of.

use crate::{KeyHasher, Request};

/// Requests above which no further command is added to a batch, where nothing else is said.
pub(super) const BATCH_REQUESTS: usize = crate::engine::BATCH_REQUESTS;

/// Requests that are executed together. `F` says how a reply is made of answers.
#[derive(Debug)]
pub(super) struct Batch<'a, F> {
    pub(super) requests: Vec<Request<'a>>,
    pub(super) pending: Vec<Pending<F>>,
    pub(super) hasher: &'a KeyHasher,
    pub(super) now_ms: u64,
    /// Requests above which no further command is added; of commands, some of which have no request, twice as many.
    pub(super) most: usize,
}

/// A command whose requests are in the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<F> {
    /// Whose it is: an index.
    pub(super) connection: u32,
    /// How many requests it has.
    pub(super) requests: u32,
    /// Where it ends in the connection's input.
    pub(super) end: usize,
    pub(super) form: F,
}

/// Why no further command of a connection was added to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has none, or may have none.
    Idle,
    /// The next one is executed by itself.
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
        }
    }

    /// Whether another command may be added.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.requests.len() < self.most && self.pending.len() < 2 * self.most
    }

    /// Adds a command of connection `connection` that ends at `end`, whose requests are those from
    /// `first` on.
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

/// A vector of another lifetime with the same memory.
pub(super) fn recycle<A, B>(mut vector: Vec<A>) -> Vec<B> {
    // So much is kept: one long command must not hold its memory for ever.
    const KEPT: usize = 4096;
    vector.clear();
    vector.shrink_to(KEPT);
    let empty = vector.into_iter();
    empty.map(|_| unreachable!("it has been cleared")).collect()
}
