//! Durability: an append-only log and snapshots.
//!
//! 1. [`Journaled`] is a layer around a processing engine. It writes every request that changed
//!    something, in the order of execution and with the time that it was executed at, so that executing
//!    the log again gives the same state. Requests are encoded by [`codec`](crate::codec).
//! 2. What was executed between two calls of [`Journaled::before_replies`] is written by one `write`,
//!    in *frames* with a length, a checksum and a number ([`frame`]). No reply leaves before that, and
//!    under [`SyncPolicy::Always`] not before the data is on the disk (group commit).
//! 3. Files have generations: `snapshot-N` is the state at the beginning of `log-N`. A snapshot is
//!    written while the engine goes on, synced, and renamed when it is complete; only then what is older
//!    is removed. So the newest snapshot and the logs from its number on are always the whole state.
//! 4. At the start they are executed. A last frame that was not written to its end is cut off: it was
//!    not acknowledged under `Always`. Whatever else is damaged is an error and stays as it is.
//! 5. While the log cannot be written, writes are refused and reads go on; it is tried again, and what
//!    was executed before is not forgotten.

mod directory;
mod effect;
mod error;
pub mod frame;
mod frame_buffer;
mod journaled;
mod log;
mod position;
mod recovery;
mod replicable;
mod snapshot;
mod syncer;

pub(crate) use effect::record;
pub use error::PersistenceError;
pub(crate) use frame_buffer::FrameBuffer;
pub use journaled::Journaled;
pub use position::HistoryPosition;
pub use recovery::Recovery;
pub(crate) use recovery::Replay;
pub use recovery::ReplayError;
pub use replicable::Replicable;
pub(crate) use snapshot::take_piece;

use std::path::PathBuf;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::{KeyHasher, ProcessingEngine};

/// An engine whose state can be written while it goes on.
pub trait Snapshots: ProcessingEngine {
    /// Begins a snapshot of the state as it is now. One that is under way for the same caller ends;
    /// false, and nothing was begun, if one is under way for another.
    fn begin_snapshot(&mut self) -> bool;

    /// Appends the next requests, encoded, that recreate the state at the beginning of the snapshot:
    /// about `max_bytes` of them, and all that had to be kept because it has changed since. Says
    /// whether that was the last.
    fn snapshot_step(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> bool;

    /// Ends a snapshot that is not complete.
    fn cancel_snapshot(&mut self);

    /// Has what has expired stay, hidden, when it is met, instead of being removed: only reads are
    /// executed then. For a replica, whose clock may be ahead of its primary's.
    fn keep_expired(&mut self, keeps: bool);
}

/// When written data is made to reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicy {
    /// Before each reply: nothing acknowledged is lost, also when the machine stops.
    Always,
    /// Every second: up to about two seconds are lost when the machine stops, nothing when only the
    /// process does.
    EverySecond,
    /// When the system likes.
    Never,
}

/// Where and how state is kept.
#[derive(Clone, Debug)]
pub struct PersistenceOptions {
    /// The directory; made if it is missing. One process at a time uses it.
    pub directory: PathBuf,
    /// `None`: no log, snapshots only.
    pub log: Option<SyncPolicy>,
    /// A snapshot is begun when the logs are larger than this and than the newest snapshot.
    pub log_bytes_max: u64,
}

impl PersistenceOptions {
    /// Usual ones, with a log that is synced every second.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            log: Some(SyncPolicy::EverySecond),
            log_bytes_max: 64 << 20,
        }
    }
}

/// An engine that is kept, and what was read into it.
pub type Opened<E> = (Journaled<E>, Recovery);

/// Opens a directory for each of `engines`, as [`Journaled::open`] does, all at the same time: reading takes as long as
/// it takes one core to execute everything again.
///
/// # Errors
/// [`PersistenceError`] of the first that cannot be opened.
///
/// # Panics
/// If recovery does.
pub fn open_all<E: Snapshots + Send>(
    directories: Vec<PathBuf>,
    engines: Vec<E>,
    log: Option<SyncPolicy>,
    hasher: &KeyHasher,
    now_ms: u64,
) -> Result<Vec<Opened<E>>, PersistenceError> {
    thread::scope(|scope| {
        let all = directories.into_iter().zip(engines);
        let threads: Vec<_> = all
            .map(|(directory, engine)| {
                let options = PersistenceOptions {
                    log,
                    ..PersistenceOptions::new(directory)
                };
                scope.spawn(move || Journaled::open(options, engine, hasher, now_ms))
            })
            .collect();
        let opened = threads.into_iter().map(|thread| thread.join());
        (opened.map(|opened| opened.expect("recovery does not panic"))).collect()
    })
}
