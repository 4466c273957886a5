//! A snapshot that is being written.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::Snapshots;
use super::directory::Directory;
use super::frame::Kind;
use super::link::Link;
use super::log::FrameFile;
use super::position::HistoryPosition;
use super::syncer::{Syncer, Task};
use crate::KeyHasher;
use crate::codec::{DecodeError, decode};

/// Bytes written in one step: a few hundred microseconds.
const STEP_BYTES: usize = 256 << 10;
/// About the payload of a frame.
const PIECE_BYTES: usize = 1 << 20;

/// Takes whole requests off: as many as go into a frame.
pub(crate) fn take_piece<'a>(
    requests: &mut &'a [u8],
    hasher: &KeyHasher,
) -> Result<&'a [u8], DecodeError> {
    let begin = *requests;
    while !requests.is_empty() && begin.len() - requests.len() < PIECE_BYTES {
        decode(requests, hasher)?;
    }
    Ok(&begin[..begin.len() - requests.len()])
}

#[derive(Debug)]
pub(super) struct SnapshotWriter {
    pub generation: u64,
    frames: FrameFile,
    /// Requests that the last step returned.
    requests: Vec<u8>,
    /// Only to read requests again.
    hasher: KeyHasher,
    names: (PathBuf, PathBuf),
    /// Time at which the snapshot was begun, in milliseconds since 1970. Items that have expired
    /// since are not left out.
    now_ms: u64,
    /// Position in a primary's history at that time; `None` if there is none.
    position: Option<HistoryPosition>,
    /// All is written; it is being synced.
    pub is_written: bool,
}

impl SnapshotWriter {
    /// Begins the snapshot of the state at the beginning of `log`, whose identity is unknown if no log is
    /// written; it is that of a primary at `position` if there is one.
    pub(super) fn begin(
        engine: &mut impl Snapshots,
        directory: &Directory,
        log: Link,
        position: Option<&HistoryPosition>,
        now_ms: u64,
    ) -> io::Result<Self> {
        let generation = log.generation;
        let path = directory.unfinished_snapshot(generation);
        let frames = FrameFile::create(&path, generation, log, now_ms)?;
        if !engine.begin_snapshot() {
            // It would be in the way of the next attempt.
            let _ = fs::remove_file(&path);
            return Err(io::Error::other("the engine is taking another snapshot"));
        }
        Ok(Self {
            generation,
            frames,
            requests: Vec::new(),
            hasher: KeyHasher::with_seeds([0; 4]),
            names: (path, directory.snapshot(generation)),
            now_ms,
            position: position.cloned(),
            is_written: false,
        })
    }

    /// Writes the next part. After the last one it requests the sync and the renaming of the file.
    pub(super) fn step(&mut self, engine: &mut impl Snapshots, syncer: &Syncer) -> io::Result<()> {
        if self.is_written {
            return Ok(());
        }
        self.requests.clear();
        let is_last = engine.snapshot_step(&mut self.requests, STEP_BYTES);
        // A large collection, or much that was changed at once, is more than a frame holds.
        let mut rest = &self.requests[..];
        while !rest.is_empty() {
            let piece = take_piece(&mut rest, &self.hasher).map_err(io::Error::other)?;
            self.frames.payload(self.now_ms).extend_from_slice(piece);
            self.frames.write()?;
        }
        self.requests.shrink_to(2 * STEP_BYTES);
        if is_last {
            if let Some(position) = &self.position {
                self.frames.add_position(position, &[], self.now_ms);
            }
            self.frames.mark(Kind::End, self.now_ms);
        }
        self.frames.write()?;
        if is_last {
            self.is_written = true;
            syncer.ask(Task::FinishSnapshot {
                file: Arc::clone(&self.frames.file),
                names: self.names.clone(),
            });
        }
        Ok(())
    }

    /// Returns how `lock` names it once it is complete.
    pub(super) fn link(&self) -> Link {
        Link { len: self.frames.len, ..self.frames.link() }
    }

    /// Removes the incomplete file.
    pub(super) fn cancel(self, engine: &mut impl Snapshots) {
        engine.cancel_snapshot();
        // The next start removes what cannot be removed now.
        let _ = fs::remove_file(&self.names.0);
    }
}
