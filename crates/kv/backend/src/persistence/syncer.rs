//! A thread that waits for the disk, so that workers do not have to.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::directory;

/// Task for the thread that waits for the disk.
#[derive(Debug)]
pub(super) enum Task {
    /// Syncs a log's data to the disk.
    SyncLog {
        /// The log.
        file: Arc<File>,
        /// Generation of the log. `len` is its length in bytes when the task was created.
        generation: u64,
        len: u64,
    },
    /// Syncs a snapshot to the disk, then gives it its name.
    FinishSnapshot {
        /// The snapshot.
        file: Arc<File>,
        /// Path of the unfinished snapshot, and its final path.
        names: (PathBuf, PathBuf),
    },
}

/// Result of a [`Task`].
#[derive(Debug)]
pub(super) enum SyncResult {
    Log { generation: u64, len: u64, result: io::Result<()> },
    Snapshot(io::Result<()>),
}

/// The thread. It ends when this is dropped, after the requested syncs.
#[derive(Debug)]
pub(super) struct Syncer {
    tasks: Option<Sender<Task>>,
    finished: Receiver<SyncResult>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(super) fn start() -> io::Result<Self> {
        let (tasks, waiting) = channel();
        let (done, finished) = channel();
        let work = move || {
            // Ends with its owner.
            for task in waiting {
                if done.send(execute(task)).is_err() {
                    return;
                }
            }
        };
        let builder = std::thread::Builder::new().name("kv-sync".into());
        Ok(Self { tasks: Some(tasks), finished, thread: Some(builder.spawn(work)?) })
    }

    pub(super) fn ask(&self, task: Task) {
        let tasks = self.tasks.as_ref();
        // The thread lives as long as this.
        let _ = tasks.is_some_and(|tasks| tasks.send(task).is_ok());
    }

    /// Returns the result of a finished task; `None` if no task has finished.
    pub(super) fn poll(&self) -> Option<SyncResult> {
        self.finished.try_recv().ok()
    }

    /// Waits for the next that is finished.
    pub(super) fn wait(&self) -> Option<SyncResult> {
        self.finished.recv().ok()
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.tasks = None;
        let _ = self.thread.take().is_some_and(|thread| thread.join().is_ok());
    }
}

fn execute(task: Task) -> SyncResult {
    match task {
        Task::SyncLog { file, generation, len } => {
            SyncResult::Log { generation, len, result: file.sync_data() }
        }
        Task::FinishSnapshot { file, names } => SyncResult::Snapshot(finish(&file, &names)),
    }
}

fn finish(file: &File, (from, to): &(PathBuf, PathBuf)) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(from, to)?;
    directory::sync(to.parent().unwrap_or(to))
}
