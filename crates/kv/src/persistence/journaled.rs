//! The layer around an engine that keeps its state.

use std::io;
use std::sync::Arc;

use super::directory::Directory;
use super::effect;
use super::frame::Kind;
use super::log::FrameFile;
use super::recovery::{Recovery, recover};
use super::replicable::Copied;
use super::snapshot::SnapshotWriter;
use super::syncer::{SyncResult, Syncer, Task};
use super::{PersistenceError, PersistenceOptions, Snapshots, SyncPolicy};
use crate::server::{Backing, EXPIRY_BUCKETS};
use crate::{
    Answer, KeyHasher, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics,
    Transaction,
};

/// How often a failed write is tried again.
const RETRY_MS: u64 = 100;
/// How long after a failed snapshot the next is begun.
const SNAPSHOT_RETRY_MS: u64 = 10_000;
/// After each further failure twice as long, up to about an hour.
const SNAPSHOT_RETRY_DOUBLINGS: u32 = 8;
/// How often the log is synced under [`SyncPolicy::EverySecond`].
const SYNC_INTERVAL_MS: u64 = 1000;

/// An engine whose state is kept. See the [module](super).
#[derive(Debug)]
pub struct Journaled<E> {
    pub(super) engine: E,
    directory: Directory,
    options: PersistenceOptions,
    /// For the log, and for snapshots, which take longer.
    syncer: Syncer,
    snapshot_syncer: Syncer,
    /// The number of the log, or of the snapshot that was begun last.
    generation: u64,
    pub(super) log: Option<FrameFile>,
    /// Bytes of logs that are needed beside the one that is written.
    older_log_bytes: u64,
    pub(super) snapshot: Option<SnapshotWriter>,
    /// The engine's snapshot is taken for somebody else.
    pub(super) is_lent: bool,
    pub(super) copied: Copied,
    snapshot_bytes: u64,
    last_save_ms: u64,
    last_save: Result<(), String>,
    /// No snapshot is begun before.
    next_snapshot_ms: u64,
    /// Since one was completed.
    failed_snapshots: u32,
    /// Writes since the last snapshot was begun, and those before it until it is complete.
    pub(super) changes: u64,
    unsaved_changes: u64,
    /// Something was written since the last sync, which began then.
    is_dirty: bool,
    is_syncing: bool,
    last_sync_ms: u64,
    /// The last time that was heard of.
    now_ms: u64,
    /// Why writes are refused.
    pub(super) failure: Option<Failure>,
    next_retry_ms: u64,
    /// Writes were executed whose replies wait.
    pub(super) has_unanswered: bool,
}

#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    /// The log that was written then. A snapshot with a later number has what it lacks.
    generation: u64,
    /// What the log holds is not known, so that a snapshot has to take its place.
    is_log_lost: bool,
}

impl<E: Snapshots> Journaled<E> {
    /// Reads what the directory holds into `engine`, which is empty and hashes keys with `hasher`,
    /// and keeps from then on what changes.
    ///
    /// # Errors
    /// [`PersistenceError`]; nothing in the directory was changed then but snapshots that had not
    /// been completed.
    pub fn open(
        options: PersistenceOptions,
        mut engine: E,
        hasher: &KeyHasher,
        now_ms: u64,
    ) -> Result<(Self, Recovery), PersistenceError> {
        let directory = Directory::open(&options.directory)?;
        let recovered = recover(&directory, &mut engine, hasher)?;
        tracing::info!(
            directory = %directory.path().display(),
            snapshot = recovered.snapshot,
            logs = recovered.logs,
            requests = recovered.requests,
            cut_bytes = recovered.cut_bytes,
            seconds = recovered.elapsed.as_secs_f64(),
            "recovered"
        );
        let io = PersistenceError::io;
        let generation = recovered.generation + 1;
        let log = match options.log {
            Some(_) => {
                let path = directory.log(generation);
                let log = FrameFile::create(&path, recovered.generation, now_ms);
                let log = log.map_err(io(&path))?;
                directory.sync().map_err(io(directory.path()))?;
                Some(log)
            }
            None => None,
        };
        let journaled = Self {
            engine,
            syncer: Syncer::start().map_err(io(directory.path()))?,
            snapshot_syncer: Syncer::start().map_err(io(directory.path()))?,
            directory,
            options,
            generation,
            log,
            older_log_bytes: recovered.log_bytes,
            snapshot: None,
            is_lent: false,
            copied: Copied::new(&recovered),
            snapshot_bytes: recovered.snapshot_bytes,
            last_save_ms: now_ms,
            last_save: Ok(()),
            next_snapshot_ms: 0,
            failed_snapshots: 0,
            changes: 0,
            unsaved_changes: 0,
            is_dirty: false,
            is_syncing: false,
            last_sync_ms: now_ms,
            now_ms,
            failure: None,
            next_retry_ms: 0,
            has_unanswered: false,
        };
        Ok((journaled, recovered))
    }

    /// The engine inside.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// The engine inside. What is changed directly is not kept.
    pub fn engine_mut(&mut self) -> &mut E {
        &mut self.engine
    }

    fn fail(&mut self, error: &io::Error, is_log_lost: bool) {
        let path = self.log.as_ref().map(|log| log.path.clone());
        let path = path.unwrap_or_else(|| self.directory.path().into());
        let message = format!("{}: {error}", path.display());
        tracing::error!("writes are refused, the log cannot be written: {message}");
        let is_log_lost = is_log_lost || self.failure.as_ref().is_some_and(|f| f.is_log_lost);
        self.failure = Some(Failure {
            message,
            generation: self.generation,
            is_log_lost,
        });
    }

    /// Why writes are refused now, if they are.
    pub fn failure(&self) -> Option<&str> {
        self.failure
            .as_ref()
            .map(|failure| failure.message.as_str())
    }

    fn retry(&mut self) {
        let Some(failure) = &self.failure else {
            return;
        };
        if failure.is_log_lost || self.now_ms < self.next_retry_ms {
            return;
        }
        self.next_retry_ms = self.now_ms + RETRY_MS;
        let Some(log) = self.log.as_mut() else {
            return;
        };
        if log.write().is_ok() {
            self.is_dirty = true;
            match log.sync() {
                Ok(()) => self.recover_from_failure(),
                Err(error) => self.fail(&error, true),
            }
        }
    }

    fn recover_from_failure(&mut self) {
        if self.failure.take().is_some() {
            tracing::warn!("the log can be written again: writes are accepted");
        }
    }

    fn sync_in_background(&mut self) {
        let Some(log) = &self.log else {
            return;
        };
        if self.is_dirty && !self.is_syncing {
            self.syncer.ask(Task::SyncLog {
                file: Arc::clone(&log.file),
                generation: self.generation,
                len: log.len,
            });
            self.is_dirty = false;
            self.is_syncing = true;
            self.last_sync_ms = self.now_ms;
        }
    }

    fn should_begin_snapshot(&self) -> bool {
        let log = self.log.as_ref().map_or(0, |log| log.len);
        let is_large =
            self.older_log_bytes + log > self.options.log_bytes_max.max(self.snapshot_bytes);
        let is_lost = (self.failure.as_ref()).is_some_and(|failure| failure.is_log_lost);
        let is_failing = self.failure.is_some() && !is_lost;
        let is_free = self.snapshot.is_none() && !self.is_lent && !self.copied.is_partial;
        is_free && !is_failing && (is_lost || (is_large && self.log.is_some()))
    }

    /// Begins the next log, and the snapshot of what is there before it.
    fn begin_snapshot(&mut self) {
        if let Err(error) = self.try_begin_snapshot() {
            self.snapshot_failed(&error);
        }
    }

    fn try_begin_snapshot(&mut self) -> io::Result<()> {
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
            let new = FrameFile::create(&self.directory.log(next), self.generation, self.now_ms)?;
            // From here on: whatever fails, the new log goes on from the old one.
            self.generation = next;
            let old = std::mem::replace(log, new);
            self.older_log_bytes += old.len;
            if let Err(error) = self.directory.sync() {
                self.fail(&error, true);
                return Err(error);
            }
        }
        self.generation = next;
        let (engine, directory) = (&mut self.engine, &self.directory);
        let position = self.copied.position.as_ref();
        let snapshot = SnapshotWriter::begin(engine, directory, next, position, self.now_ms)?;
        self.snapshot = Some(snapshot);
        self.unsaved_changes = std::mem::take(&mut self.changes);
        Ok(())
    }

    fn snapshot_failed(&mut self, error: &io::Error) {
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

    fn step_snapshot(&mut self) {
        if let Some(snapshot) = &mut self.snapshot
            && let Err(error) = snapshot.step(&mut self.engine, &self.snapshot_syncer)
        {
            self.snapshot_failed(&error);
        }
    }

    /// Goes on with a snapshot until there is none under way.
    fn complete_snapshot(&mut self) {
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

    fn finished(&mut self, finished: SyncResult) {
        match finished {
            SyncResult::Log {
                generation,
                len,
                result,
            } => {
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
                self.snapshot_bytes = snapshot.len();
                self.older_log_bytes = 0;
                self.last_save_ms = self.now_ms;
                self.last_save = Ok(());
                self.failed_snapshots = 0;
                if let Err(error) = self.directory.remove_older(snapshot.generation) {
                    tracing::warn!("what is not needed any more could not be removed: {error}");
                }
                let has_all = |failure: &Failure| snapshot.generation > failure.generation;
                if self.failure.as_ref().is_some_and(has_all) {
                    self.recover_from_failure();
                }
            }
        }
    }

    /// Removes everything, and logs that as `kind`.
    pub(super) fn remove_all(&mut self, kind: Kind) -> Result<(), Refusal> {
        if self.failure.is_some() {
            return Err(Refusal::ReadOnly);
        }
        // What is written already is the state of before, which is right; the rest is not there any
        // more.
        if let Some(snapshot) = self.snapshot.take_if(|snapshot| !snapshot.is_written) {
            snapshot.cancel(&mut self.engine);
            self.changes += self.unsaved_changes;
        }
        self.changes += 1;
        self.has_unanswered = true;
        self.engine.flush()?;
        self.copied.position = None;
        if let Some(log) = &mut self.log {
            log.mark_now(kind);
        }
        Ok(())
    }

    /// Executes reads, and refuses writes.
    fn execute_reads(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        for (index, request) in batch.iter().enumerate() {
            if request.operation.is_write() {
                answers(index, Answer::Refused(Refusal::ReadOnly));
                continue;
            }
            let one = std::slice::from_ref(request);
            self.engine
                .execute(one, now_ms, &mut |_, answer| answers(index, answer));
        }
    }
}

impl<E: Snapshots> ProcessingEngine for Journaled<E> {
    fn execute(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        if self.failure.is_some() {
            return self.execute_reads(batch, now_ms, answers);
        }
        let before = self.changes;
        let changes = &mut self.changes;
        let has_unanswered = &mut self.has_unanswered;
        let log = &mut self.log;
        self.engine.execute(batch, now_ms, &mut |index, answer| {
            let request = &batch[index];
            if request.operation.is_write() {
                *changes += 1;
                *has_unanswered = true;
                if let Some(log) = log {
                    effect::record(request, &answer, log.payload(now_ms));
                }
            }
            answers(index, answer);
        });
        if self.changes != before {
            self.copied.position = None;
        }
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) -> bool {
        let requests = &transaction.requests;
        if self.failure.is_some() && requests.iter().any(|r| r.operation.is_write()) {
            let refused = Answer::Refused(Refusal::ReadOnly);
            (0..requests.len()).for_each(|index| answers(index, refused));
            return true;
        }
        self.has_unanswered = true;
        if requests.iter().any(|request| request.operation.is_write()) {
            self.copied.position = None;
        }
        let changes = &mut self.changes;
        // One frame, so that all of it is there or nothing.
        let mut payload = self.log.as_mut().map(|log| log.payload(now_ms));
        (self.engine).execute_transaction(transaction, now_ms, &mut |index, answer| {
            *changes += 1;
            if let Some(payload) = &mut payload {
                effect::record(&requests[index], &answer, payload);
            }
            answers(index, answer);
        })
    }

    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        self.engine.scan(position, count, now_ms, keys)
    }

    fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize {
        self.engine.expire_some(now_ms, buckets)
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.remove_all(Kind::Flush)
    }

    fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }
}

impl<E: Snapshots> Backing for Journaled<E> {
    /// Writes what was executed since the last call, and under [`SyncPolicy::Always`] waits until it
    /// is on the disk. If it could not be written, writes are refused until it can.
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
            (
                "aof_rewrite_in_progress",
                flag(is_saving && self.log.is_some()),
            ),
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
            return log.file.sync_all();
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
