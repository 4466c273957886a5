//! StorageBackend of a server: a processing engine, and its state outside memory.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::ProcessingEngine;
use crate::Waker;
use crate::replica::ReplicaHost;

/// A processing engine, and its state outside memory.
pub trait StorageBackend: ProcessingEngine {
    /// Called after batches were executed and before any of their replies is sent.
    ///
    /// # Errors
    /// Executed requests may be lost: the connections that wait for these replies are closed without them.
    fn before_replies(&mut self) -> io::Result<()>;

    /// Does due background work, for about a millisecond at most. Called every [`TICK_MS`]
    /// milliseconds at least, and again without a pause as long as it returns `true`.
    fn tick(&mut self, now_ms: u64) -> bool;

    /// Writes everything to disk (`SAVE`), or begins to (`BGSAVE`).
    ///
    /// # Errors
    /// Why not, as the client reads it after `ERR `.
    fn save(&mut self, in_background: bool) -> Result<(), String>;

    /// Returns the time at which [`StorageBackend::save`] last had everything on disk, in seconds since
    /// 1970.
    fn last_save_s(&self) -> u64;

    /// Names and values of `INFO persistence`, and of the metrics where a value is a number.
    fn info(&self) -> Vec<(String, String)>;

    /// Returns the parameters of persistence for `CONFIG GET`: names of Redis, and values.
    fn parameters(&self) -> Vec<(&'static str, String)>;

    /// Waker by which other threads wake the worker that serves from this, if it works for others
    /// ([`StorageBackend::serve_others`]).
    fn waker(&self) -> Option<Arc<Waker>> {
        None
    }

    /// Executes requests of others: other workers, where each has a part of the keys; the primary
    /// of a replica; replicas that wait for a copy. Returns `true` if there were any. Called every
    /// turn, before the worker sleeps, and after it has been woken by the waker. Replies to others
    /// leave with it, after the work of [`StorageBackend::before_replies`].
    fn serve_others(&mut self, _now_ms: u64) -> bool {
        false
    }

    /// Returns the longest time that the worker may sleep where no other thread can ring its waker;
    /// `None` if there is no limit.
    fn sleep_max(&self) -> Option<Duration> {
        None
    }

    /// Returns the numbers of requests of this worker's clients that this worker and other ones
    /// executed.
    fn partition_work(&self) -> PartitionWork {
        PartitionWork::default()
    }

    /// Called once, after the last reply.
    ///
    /// # Errors
    /// Data that may be lost.
    fn finish(&mut self) -> io::Result<()>;

    /// Returns the replication of this backing; `None` if it can neither have replicas nor be one.
    fn replication(&self) -> Option<&dyn ReplicaHost> {
        None
    }

    /// Mutable access to the replication.
    fn replication_mut(&mut self) -> Option<&mut dyn ReplicaHost> {
        None
    }
}

overside_kv_store::counts! {
    /// Requests of the clients of one worker, or of all.
    pub struct PartitionWork {
        own: "requests_at_owner_total" = "Requests that came to the core that has their keys.",
        forwarded: "requests_forwarded_total" = "Requests that were sent on to the core that has their keys.",
    }
}

/// Longest time between two calls of [`StorageBackend::tick`] in milliseconds.
pub const TICK_MS: u64 = 100;
/// Buckets that a [`StorageBackend::tick`] searches for expired keys: some hundred microseconds of work.
pub const EXPIRY_BUCKETS: usize = 4096;
