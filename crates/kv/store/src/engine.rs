//! The contract of a processing engine.

use crate::{Answer, Metadata, Refusal, Request};

/// Requests of a batch, by default: enough to hide the latency of fetches, and few enough to stay
/// in a cache.
pub const BATCH_REQUESTS: usize = 256;

/// Executes requests: a store in this process, or one behind a link.
pub trait ProcessingEngine {
    /// Executes a batch in order, as of `now_ms` (milliseconds since 1970; never goes back), and
    /// hands each answer over with its request's index, in order.
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>);

    /// Executes all of a transaction, with nothing in between, if every watched key still has its
    /// version. Returns `true` if it did.
    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool;

    /// Passes on keys from `position` on, about `count` of them, or fewer. Returns the next position. A key
    /// that exists during the whole scan is seen at least once.
    ///
    /// # Errors
    /// If the keys cannot be reached. Some may have been passed on.
    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal>;

    /// Removes some of the expired keys that no client has read since: looks at up to `buckets`
    /// buckets of its index. Returns how many keys it removed. Call it periodically: expired keys
    /// that no client reads are freed only here.
    fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize;

    /// Removes everything.
    ///
    /// # Errors
    /// If the engine takes no writes now; nothing was removed then.
    fn flush(&mut self) -> Result<(), Refusal>;

    /// Counts and sizes; those of other threads as of the last [`ProcessingEngine::refresh`].
    fn statistics(&self) -> Statistics;

    /// Asks the engines with other parts of the keys for their [`ProcessingEngine::statistics`] and the like.
    fn refresh(&mut self) {}

    /// Number of requests that are worth executing as one batch.
    fn batch_requests(&self) -> usize {
        BATCH_REQUESTS
    }

    /// Into how many parts the keys are divided ([`partition_of`](crate::partition_of)). All keys of a
    /// transaction are in one of them.
    fn partitions(&self) -> usize {
        1
    }
}

/// Takes the answer to each request of a batch, with the request's number in it.
pub type Answers<'a> = &'a mut dyn FnMut(usize, Answer<'_>);

/// Requests that are executed together if nothing that was watched has changed.
#[derive(Clone, Debug, Default)]
pub struct Transaction<'a> {
    /// Keys, their hashes, and their versions by [`Operation::Watch`](crate::Operation::Watch); 0
    /// for a key that has to be missing.
    pub watched: Vec<(&'a [u8], u64, u64)>,
    /// Requests that are executed, in order, if no watched key has changed.
    pub requests: Vec<Request<'a>>,
}

/// Position of a scan. 0 is both the beginning and the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanPosition(pub u64);

crate::counts! {
    /// Counts since the start, and sizes now.
    pub struct Statistics {
        items: "items" = "Keys.",
        items_with_expiry: "items_with_expiry" = "Keys that have an expiry.",
        payload_bytes: "payload_bytes" = "Bytes of keys and values.",
        memory_bytes: "memory_bytes" = "Memory of the store, its index and free space inside included.",
        memory_limit_bytes: "memory_limit_bytes" = "Most memory that the store may take.",
        hits: "hits_total" = "Reads that found their key.",
        misses: "misses_total" = "Reads that did not.",
        evictions: "evictions_total" = "Keys dropped to make room.",
        expirations: "expirations_total" = "Keys removed because their time had passed.",
        refusals: "refusals_total" = "Writes refused because the store was full.",
    }
}
