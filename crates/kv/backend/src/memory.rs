//! An engine that keeps its state only in memory.

use std::io;

use crate::persistence::{HistoryPosition, Replay, ReplayError, Replicable, Snapshots};
use crate::{EXPIRY_BUCKETS, StorageBackend};
use crate::{KeyHasher, ProcessingEngine, Refusal, forward_to};

/// An engine that keeps its state only in memory. It is lost when the process ends.
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

impl<E: ProcessingEngine> StorageBackend for Memory<E> {
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
        let parameters = [("dir", ""), ("save", ""), ("appendonly", "no"), ("appendfsync", "no")];
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

/// The contents end with the process, so it makes no difference whether a copy is complete.
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
