//! The layer around an engine that keeps its state.

mod backing;
mod copied;
mod engine;
mod snapshots;

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::directory::Directory;
use super::link::Newest;
use super::log::FrameFile;
use super::recovery::{Recovery, recover};
use super::snapshot::SnapshotWriter;
use super::syncer::{Syncer, Task};
use super::{PersistenceError, PersistenceOptions, Snapshots};
use crate::KeyHasher;
use copied::Copied;

/// Time between two attempts to write the log after one has failed, in milliseconds.
const RETRY_MS: u64 = 100;

/// An engine whose state is kept. See the [module](super).
#[derive(Debug)]
pub struct LoggedEngine<E> {
    engine: E,
    directory: Directory,
    options: PersistenceOptions,
    /// Syncer of the log, and of snapshots, which take longer.
    syncer: Syncer,
    snapshot_syncer: Syncer,
    /// The number of the log, or of the snapshot that was begun last.
    generation: u64,
    newest: Newest,
    log: Option<FrameFile>,
    /// Bytes of logs that are needed in addition to the current one.
    older_log_bytes: u64,
    snapshot: Option<SnapshotWriter>,
    /// `true` if a snapshot of the engine is in use by another reader than the log.
    is_lent: bool,
    copied: Copied,
    snapshot_bytes: u64,
    last_save_ms: u64,
    last_save: Result<(), String>,
    /// No snapshot is begun before.
    next_snapshot_ms: u64,
    /// Number of failed snapshots since the last complete one.
    failed_snapshots: u32,
    /// Writes since the last snapshot was begun, and those before it until it is complete.
    changes: u64,
    unsaved_changes: u64,
    /// `true` if something was written since the last sync began.
    is_dirty: bool,
    is_syncing: bool,
    last_sync_ms: u64,
    /// Last time that the engine was called with.
    now_ms: u64,
    /// Reason why writes are refused; `None` if they are accepted.
    failure: Option<Failure>,
    next_retry_ms: u64,
    /// Writes were executed whose replies wait.
    has_unanswered: bool,
}

#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    /// The log that was written then. A snapshot with a later number has its missing requests.
    generation: u64,
    /// `true` if the content of the log on disk is unknown, so that a snapshot must replace it.
    is_log_lost: bool,
}

/// Writes a new log to the disk, then its name, then the record of its existence. No request is executed
/// before.
fn begin_log(directory: &Directory, log: &mut FrameFile, newest: &mut Newest) -> io::Result<()> {
    log.sync()?;
    directory.sync()?;
    newest.log = log.link();
    directory.set_newest(newest)
}

impl<E: Snapshots> LoggedEngine<E> {
    /// Reads the directory's state into `engine`, which is empty and hashes keys with `hasher`, and
    /// keeps changes from then on.
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
        let (last, mut newest) = (recovered.files.last(), recovered.files);
        let generation = last.generation + 1;
        let log = match options.log {
            Some(_) => {
                // What a killed server wrote may not be on the disk, and the new log goes on from it.
                if last == newest.log && last.generation > 0 {
                    let path = directory.log(last.generation);
                    let file = File::open(&path).and_then(|file| file.sync_all());
                    file.map_err(io(&path))?;
                }
                let path = directory.log(generation);
                let log = FrameFile::create(&path, generation, last, now_ms);
                let mut log = log.map_err(io(&path))?;
                begin_log(&directory, &mut log, &mut newest).map_err(io(&path))?;
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
            newest,
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

    fn fail(&mut self, error: &io::Error, is_log_lost: bool) {
        let path = self.log.as_ref().map(|log| log.path.clone());
        let path = path.unwrap_or_else(|| self.directory.path().into());
        let message = format!("{}: {error}", path.display());
        tracing::error!("writes are refused, the log cannot be written: {message}");
        let is_log_lost = is_log_lost || self.failure.as_ref().is_some_and(|f| f.is_log_lost);
        self.failure = Some(Failure { message, generation: self.generation, is_log_lost });
    }

    /// Returns the reason why writes are refused now; `None` if they are accepted.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.message.as_str())
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
}
