//! Snapshots of a kept engine: when one begins, and the steps after it is complete or has failed.

use std::io;

use super::{Failure, LoggedEngine, begin_log};
use crate::persistence::link::Link;
use crate::persistence::log::FrameFile;
use crate::persistence::snapshot::SnapshotWriter;
use crate::persistence::syncer::SyncResult;
use crate::persistence::{PersistenceError, Snapshots};

/// Time from a failed snapshot to the next attempt, in milliseconds.
const SNAPSHOT_RETRY_MS: u64 = 10_000;
/// Maximum number of doublings of the time until the next attempt: up to about an hour.
const SNAPSHOT_RETRY_DOUBLINGS: u32 = 8;

impl<E: Snapshots> LoggedEngine<E> {
    pub(super) fn should_begin_snapshot(&self) -> bool {
        let log = self.log.as_ref().map_or(0, |log| log.len);
        let is_large =
            self.older_log_bytes + log > self.options.log_bytes_max.max(self.snapshot_bytes);
        let is_lost = (self.failure.as_ref()).is_some_and(|failure| failure.is_log_lost);
        let is_failing = self.failure.is_some() && !is_lost;
        let is_free = self.snapshot.is_none() && !self.is_lent && !self.copied.is_partial;
        is_free && !is_failing && (is_lost || (is_large && self.log.is_some()))
    }

    /// Begins the next log, and the snapshot of the state before it.
    pub(super) fn begin_snapshot(&mut self) {
        if let Err(error) = self.try_begin_snapshot() {
            self.snapshot_failed(&error);
        }
    }

    pub(super) fn try_begin_snapshot(&mut self) -> io::Result<()> {
        let next = self.generation + 1;
        if let Some(log) = &mut self.log {
            let is_lost = (self.failure.as_ref()).is_some_and(|failure| failure.is_log_lost);
            if !is_lost {
                log.write()?;
                // A log never has what goes on from something that is not on the disk.
                if let Err(error) = log.sync() {
                    self.fail(&error, true);
                    return Err(error);
                }
            }
            let Some(log) = &mut self.log else {
                return Ok(());
            };
            let new = FrameFile::create(&self.directory.log(next), next, log.link(), self.now_ms)?;
            // From here on: whatever fails, the new log goes on from the old one.
            self.generation = next;
            let old = std::mem::replace(log, new);
            self.older_log_bytes += old.len;
            if let Err(error) = begin_log(&self.directory, log, &mut self.newest) {
                self.fail(&error, true);
                return Err(error);
            }
        }
        self.generation = next;
        let (engine, directory) = (&mut self.engine, &self.directory);
        let position = self.copied.position.as_ref();
        let unknown = Link { generation: next, ..Link::default() };
        let log = self.log.as_ref().map_or(unknown, FrameFile::link);
        let snapshot = SnapshotWriter::begin(engine, directory, log, position, self.now_ms)?;
        self.snapshot = Some(snapshot);
        self.unsaved_changes = std::mem::take(&mut self.changes);
        Ok(())
    }

    pub(super) fn snapshot_failed(&mut self, error: &io::Error) {
        tracing::warn!("a snapshot was not completed: {error}");
        self.last_save = Err(error.to_string());
        // A full disk would be filled again each time.
        let doublings = self.failed_snapshots.min(SNAPSHOT_RETRY_DOUBLINGS);
        self.next_snapshot_ms = self.now_ms + (SNAPSHOT_RETRY_MS << doublings);
        self.failed_snapshots += 1;
        if let Some(snapshot) = self.snapshot.take() {
            snapshot.cancel(&mut self.engine);
            self.changes += self.unsaved_changes;
        }
    }

    pub(super) fn step_snapshot(&mut self) {
        if let Some(snapshot) = &mut self.snapshot
            && let Err(error) = snapshot.step(&mut self.engine, &self.snapshot_syncer)
        {
            self.snapshot_failed(&error);
        }
    }

    /// Continues a snapshot until none is running.
    pub(super) fn complete_snapshot(&mut self) {
        while let Some(snapshot) = &self.snapshot {
            match snapshot.is_written {
                false => self.step_snapshot(),
                true => match self.snapshot_syncer.wait() {
                    Some(finished) => self.finished(finished),
                    None => return,
                },
            }
        }
    }

    pub(super) fn finished(&mut self, finished: SyncResult) {
        match finished {
            SyncResult::Log { generation, len, result } => {
                self.is_syncing = false;
                match result {
                    Err(error) => self.fail(&error, true),
                    Ok(()) if generation == self.generation => {
                        self.log.iter_mut().for_each(|log| log.synced(len));
                    }
                    Ok(()) => {}
                }
            }
            SyncResult::Snapshot(Err(error)) => self.snapshot_failed(&error),
            SyncResult::Snapshot(Ok(())) => {
                let Some(snapshot) = self.snapshot.take() else {
                    return;
                };
                self.newest.snapshot = snapshot.link();
                self.snapshot_bytes = self.newest.snapshot.len;
                self.older_log_bytes = 0;
                self.last_save_ms = self.now_ms;
                self.last_save = Ok(());
                self.failed_snapshots = 0;
                let removed = self.directory.set_newest(&self.newest);
                let removed = removed.map_err(PersistenceError::io(&self.directory.lock_path()));
                let removed =
                    removed.and_then(|()| self.directory.remove_older(snapshot.generation));
                if let Err(error) = removed {
                    tracing::warn!("what is not needed any more could not be removed: {error}");
                }
                let has_all = |failure: &Failure| snapshot.generation > failure.generation;
                if self.failure.as_ref().is_some_and(has_all) {
                    self.recover_from_failure();
                }
            }
        }
    }
}
