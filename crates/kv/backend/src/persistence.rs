//! Durability: an append-only log and snapshots.
//!
//! 1. [`LoggedEngine`] is a layer around a processing engine. It writes every request that changed
//!    something, in the order of execution and with the time of its execution, so that executing
//!    the log again gives the same state. Requests are encoded by [`codec`](crate::codec).
//! 2. Requests between two calls of [`LoggedEngine::before_replies`] are written by one `write`,
//!    in *frames* with a length, a checksum and a number ([`frame`]). No reply is sent before that, and
//!    under [`SyncPolicy::Always`] not before the data is on the disk (group commit).
//! 3. Files have generations: `snapshot-N` is the state at the beginning of `log-N`. A snapshot is
//!    written while the engine continues, synced, and renamed when it is complete; only then older files
//!    are removed. So the newest snapshot and the logs from its number on are always the whole state.
//! 4. At the start they are executed. An incomplete last frame is cut off with a warning: it was not
//!    acknowledged under `Always`. Any other damage is an error, and the files stay unchanged.
//!    So is a file that is missing or of another generation: files name one another ([`link`]).
//! 5. While the log cannot be written, writes are refused and reads continue. The write is repeated, so
//!    earlier requests are not lost.

mod directory;
mod error;
pub mod frame;
mod frame_buffer;
mod link;
mod log;
mod logged_engine;
mod position;
mod recovery;
mod replicable;
mod snapshot;
mod syncer;

pub use directory::make;
pub use error::PersistenceError;
pub(crate) use frame_buffer::FrameBuffer;
pub use logged_engine::LoggedEngine;
pub use position::HistoryPosition;
pub use recovery::Recovery;
pub(crate) use recovery::Replay;
pub use recovery::ReplayError;
pub use replicable::Replicable;
pub(crate) use snapshot::take_piece;

use std::path::PathBuf;
use std::thread;

use serde::{Deserialize, Serialize};

pub use overside_kv_store::snapshots::Snapshots;

use crate::KeyHasher;

/// Rule by which written data is forced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicy {
    /// Before each reply: nothing acknowledged is lost, even if the machine stops.
    Always,
    /// Every second: up to about two seconds are lost when the machine stops, nothing when only the
    /// process does.
    EverySecond,
    /// At a time that the operating system chooses.
    Never,
}

/// Options for keeping the state of an engine on disk.
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
        Self { directory, log: Some(SyncPolicy::EverySecond), log_bytes_max: 64 << 20 }
    }
}

/// An engine that is kept, and the summary of its recovery.
pub type Opened<E> = (LoggedEngine<E>, Recovery);

/// Opens a directory for each of `engines`, as [`LoggedEngine::open`] does, all at the same time: reading takes as long as
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
                let options = PersistenceOptions { log, ..PersistenceOptions::new(directory) };
                scope.spawn(move || LoggedEngine::open(options, engine, hasher, now_ms))
            })
            .collect();
        let opened = threads.into_iter().map(|thread| thread.join());
        (opened.map(|opened| opened.expect("recovery does not panic"))).collect()
    })
}
