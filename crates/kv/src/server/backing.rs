//! What a server serves from.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Bell;
use crate::persistence::{HistoryPosition, Replay, ReplayError, Replicable, Snapshots};
use crate::replica::Replication;
use crate::{KeyHasher, ProcessingEngine, Refusal, forward_to};

/// A processing engine, and what it keeps beside memory.
pub trait Backing: ProcessingEngine {
    /// Called after batches were executed and before any of their replies is sent.
    ///
    /// # Errors
    /// What was executed may be lost: the connections that wait for these replies are closed
    /// without them.
    fn before_replies(&mut self) -> io::Result<()>;

    /// Does what is due in the background, for about a millisecond at most. Called every
    /// [`TICK_MS`] milliseconds at least, and again without a pause as long as it says that more is
    /// due at once.
    fn tick(&mut self, now_ms: u64) -> bool;

    /// Writes everything to disk (`SAVE`), or begins to (`BGSAVE`).
    ///
    /// # Errors
    /// Why not, as the client reads it after `ERR `.
    fn save(&mut self, in_background: bool) -> Result<(), String>;

    /// When everything was last on disk by [`Backing::save`], in seconds since 1970.
    fn last_save_s(&self) -> u64;

    /// Names and values of `INFO persistence`, and of the metrics where a value is a number.
    fn info(&self) -> Vec<(String, String)>;

    /// What `CONFIG GET` says of how things are kept: names of Redis, and values.
    fn parameters(&self) -> Vec<(&'static str, String)>;

    /// By what other threads wake the worker that serves from this, if it works for others
    /// ([`Backing::serve_others`]).
    fn bell(&self) -> Option<Arc<Bell>> {
        None
    }

    /// Executes what others ask for: other workers, where each has a part of the keys; the primary of a
    /// replica; replicas that wait for a copy. Whether there was something. Called every turn, before
    /// the worker sleeps, and after it has been woken by the bell. Replies to others leave with it: it
    /// does for them what [`Backing::before_replies`] does.
    fn serve_others(&mut self, _now_ms: u64) -> bool {
        false
    }

    /// How long the worker may sleep at most, where nobody can wake it by the bell.
    fn sleep_max(&self) -> Option<Duration> {
        None
    }

    /// Where the requests of this worker's clients were executed.
    fn partition_work(&self) -> PartitionWork {
        PartitionWork::default()
    }

    /// Called once, after the last reply.
    ///
    /// # Errors
    /// What may be lost.
    fn finish(&mut self) -> io::Result<()>;

    /// Its copies, or what it is a copy of; `None`: it has none and can have none.
    fn replication(&self) -> Option<&dyn Replication> {
        None
    }

    /// The same.
    fn replication_mut(&mut self) -> Option<&mut dyn Replication> {
        None
    }
}

/// Requests of the clients of one worker, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionWork {
    /// Those that came to the worker that has their keys.
    pub own: u64,
    /// Those that were sent on to another worker.
    pub forwarded: u64,
}

/// Longest time between two calls of [`Backing::tick`] in milliseconds.
pub const TICK_MS: u64 = 100;
/// Buckets that a [`Backing::tick`] looks at for what has expired: some hundred microseconds of work.
pub const EXPIRY_BUCKETS: usize = 4096;

/// An engine that keeps nothing beside memory. What it holds ends with the process.
#[derive(Debug)]
pub struct Memory<E> {
    engine: E,
    started_s: u64,
}

impl<E: ProcessingEngine> Memory<E> {
    /// Keeps everything in `engine`; `now_ms` is the time of the start.
    #[must_use]
    pub fn new(engine: E, now_ms: u64) -> Self {
        let started_s = now_ms / 1000;
        Self { engine, started_s }
    }
}

impl<E: ProcessingEngine> ProcessingEngine for Memory<E> {
    forward_to!(engine: execute, execute_transaction, scan, expire_some, flush, statistics, refresh, partitions);
}

impl<E: ProcessingEngine> Backing for Memory<E> {
    fn before_replies(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        self.engine.expire_some(now_ms, EXPIRY_BUCKETS);
        false
    }

    fn save(&mut self, _: bool) -> Result<(), String> {
        Err("nothing is kept on disk: the server was started without a directory".into())
    }

    fn last_save_s(&self) -> u64 {
        self.started_s
    }

    fn info(&self) -> Vec<(String, String)> {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            field("loading", "0"),
            field("rdb_changes_since_last_save", "0"),
            field("rdb_bgsave_in_progress", "0"),
            field("rdb_last_save_time", &self.started_s.to_string()),
            field("rdb_last_bgsave_status", "ok"),
            field("aof_enabled", "0"),
            field("aof_rewrite_in_progress", "0"),
            field("aof_last_write_status", "ok"),
        ]
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let parameters = [
            ("dir", ""),
            ("save", ""),
            ("appendonly", "no"),
            ("appendfsync", "no"),
        ];
        parameters.map(|(name, value)| (name, value.into())).into()
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<E: Snapshots> Snapshots for Memory<E> {
    fn begin_snapshot(&mut self) -> bool {
        self.engine.begin_snapshot()
    }

    fn snapshot_step(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> bool {
        self.engine.snapshot_step(out, max_bytes)
    }

    fn cancel_snapshot(&mut self) {
        self.engine.cancel_snapshot();
    }

    fn keep_expired(&mut self, keeps: bool) {
        self.engine.keep_expired(keeps);
    }
}

/// What is here ends with the process, complete or not.
impl<E: Snapshots> Replicable for Memory<E> {
    fn begin_copy(&mut self) -> Result<(), Refusal> {
        self.engine.flush()
    }

    fn end_copy(&mut self, _: &HistoryPosition) {}

    fn replay(
        &mut self,
        requests: &[u8],
        now_ms: u64,
        _: Option<&HistoryPosition>,
        hasher: &KeyHasher,
    ) -> Result<(), ReplayError> {
        let engine = &mut self.engine;
        let mut replay = Replay { engine, hasher };
        replay.execute_payload(requests, now_ms).map(|_| ())
    }

    fn position(&self) -> Option<HistoryPosition> {
        None
    }

    fn forget_position(&mut self) {}
}
