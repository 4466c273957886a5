//! Writes the log before replies, and does other due work.

use std::io;

use super::{Failure, LoggedEngine};
use crate::persistence::{Snapshots, SyncPolicy};
use crate::{EXPIRY_BUCKETS, StorageBackend};

/// Time between two syncs of the log under [`SyncPolicy::EverySecond`], in milliseconds.
const SYNC_INTERVAL_MS: u64 = 1000;

impl<E: Snapshots> StorageBackend for LoggedEngine<E> {
    /// Writes the requests executed since the last call, and under [`SyncPolicy::Always`] waits
    /// until they are on the disk. If that fails, writes are refused until it works.
    fn before_replies(&mut self) -> io::Result<()> {
        let has_unanswered = std::mem::take(&mut self.has_unanswered);
        let Some(log) = self.log.as_mut() else {
            return Ok(());
        };
        match &self.failure {
            // It failed after they were executed.
            Some(failure) if has_unanswered => {
                return Err(io::Error::other(failure.message.clone()));
            }
            Some(_) => return Ok(()),
            None if !log.has_unwritten() => return Ok(()),
            None => {}
        }
        let always = self.options.log == Some(SyncPolicy::Always);
        if let Err(error) = log.write() {
            self.fail(&error, false);
            return Err(error);
        }
        self.is_dirty = !always;
        if always && let Err(error) = log.sync() {
            self.fail(&error, true);
            return Err(error);
        }
        Ok(())
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        self.now_ms = now_ms;
        while let Some(finished) = self.syncer.poll().or_else(|| self.snapshot_syncer.poll()) {
            self.finished(finished);
        }
        self.retry();
        let is_due = now_ms.saturating_sub(self.last_sync_ms) >= SYNC_INTERVAL_MS;
        if self.options.log == Some(SyncPolicy::EverySecond) && is_due {
            self.sync_in_background();
        }
        if self.should_begin_snapshot() && now_ms >= self.next_snapshot_ms {
            self.begin_snapshot();
        }
        self.step_snapshot();
        self.engine.expire_some(now_ms, EXPIRY_BUCKETS);
        (self.snapshot.as_ref()).is_some_and(|snapshot| !snapshot.is_written)
    }

    fn save(&mut self, in_background: bool) -> Result<(), String> {
        if self.snapshot.is_some() {
            return Err("a snapshot is already being written".into());
        }
        if self.is_lent {
            return Err("a replica is being sent a copy; try again later".into());
        }
        if self.copied.is_partial {
            return Err("the copy of the primary is not complete; try again later".into());
        }
        self.try_begin_snapshot().map_err(|error| {
            self.snapshot_failed(&error);
            error.to_string()
        })?;
        if in_background {
            return Ok(());
        }
        self.complete_snapshot();
        self.last_save.clone()
    }

    fn last_save_s(&self) -> u64 {
        self.last_save_ms / 1000
    }

    fn info(&self) -> Vec<(String, String)> {
        let status = |is_ok: bool| if is_ok { "ok" } else { "err" }.to_owned();
        let flag = |is: bool| u8::from(is).to_string();
        let log_bytes = self.older_log_bytes + self.log.as_ref().map_or(0, |log| log.len);
        let is_saving = self.snapshot.is_some();
        let lines = [
            ("loading", flag(false)),
            ("rdb_changes_since_last_save", self.changes.to_string()),
            ("rdb_bgsave_in_progress", flag(is_saving)),
            ("rdb_last_save_time", self.last_save_s().to_string()),
            ("rdb_last_bgsave_status", status(self.last_save.is_ok())),
            ("aof_enabled", flag(self.log.is_some())),
            ("aof_rewrite_in_progress", flag(is_saving && self.log.is_some())),
            ("aof_last_write_status", status(self.failure.is_none())),
            ("aof_current_size", log_bytes.to_string()),
        ];
        lines.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let (appends, policy) = match self.options.log {
            None => ("no", "no"),
            Some(SyncPolicy::Never) => ("yes", "no"),
            Some(SyncPolicy::EverySecond) => ("yes", "everysec"),
            Some(SyncPolicy::Always) => ("yes", "always"),
        };
        vec![
            ("dir", self.directory.path().display().to_string()),
            // Snapshots are not begun by counts of changes.
            ("save", String::new()),
            ("appendonly", appends.into()),
            ("appendfsync", policy.into()),
        ]
    }

    /// Syncs the log, or writes a snapshot if there is none and something has changed.
    fn finish(&mut self) -> io::Result<()> {
        self.cancel_snapshot();
        while self.is_syncing {
            match self.syncer.wait() {
                Some(finished) => self.finished(finished),
                None => break,
            }
        }
        let is_lost = |failure: &Option<Failure>| failure.as_ref().is_some_and(|f| f.is_log_lost);
        if is_lost(&self.failure) {
            self.complete_snapshot();
        }
        if is_lost(&self.failure) {
            return self.save(false).map_err(io::Error::other);
        }
        if let Some(log) = &mut self.log {
            log.write()?;
            log.sync()?;
            self.newest.log = log.link();
            return self.directory.set_newest(&self.newest);
        }
        self.complete_snapshot();
        match self.changes {
            0 => Ok(()),
            // The state of before is the better one.
            _ if self.copied.is_partial => Ok(()),
            _ => self.save(false).map_err(io::Error::other),
        }
    }
}
