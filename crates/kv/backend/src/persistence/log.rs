//! The log that is being written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use overside_base::random_bytes;

use super::frame::{FrameWriter, Kind};
use super::frame_buffer::FrameBuffer;
use super::link::Link;
use super::position::{HistoryPosition, POSITION_BYTES};

/// A file of frames that is appended to.
#[derive(Debug)]
pub(super) struct FrameFile {
    pub file: Arc<File>,
    pub path: PathBuf,
    generation: u64,
    /// Whole frames in the file.
    pub len: u64,
    /// Frames that are not in the file yet.
    buffer: FrameBuffer,
}

impl FrameFile {
    /// Creates the file of a generation, which must not exist, and writes its first frame, which names the
    /// file that it continues.
    pub(super) fn create(
        path: &Path,
        generation: u64,
        previous: Link,
        now_ms: u64,
    ) -> io::Result<Self> {
        let mut queue = Vec::new();
        let more = previous.more(generation);
        let writer =
            FrameWriter::begin(random_bytes()?, previous.generation, &more, now_ms, &mut queue);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path)?;
        let mut frames = Self {
            file: Arc::new(file),
            path: path.into(),
            generation,
            len: 0,
            buffer: FrameBuffer::new(writer, queue, now_ms),
        };
        match frames.write() {
            Ok(()) => Ok(frames),
            Err(error) => {
                // It would be in the way of the next attempt.
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Returns how other files name this one, as far as it has reached the disk.
    pub(super) fn link(&self) -> Link {
        Link {
            generation: self.generation,
            identity: u64::from_le_bytes(self.buffer.writer.identity()),
            len: self.buffer.writer.synced,
        }
    }

    /// Writes all data to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced(self.len);
        Ok(())
    }

    /// Records that the first `len` bytes have reached the disk.
    pub(super) fn synced(&mut self, len: u64) {
        let synced = &mut self.buffer.writer.synced;
        *synced = len.max(*synced);
    }

    /// Returns the buffer to which requests executed at `now_ms` must be appended.
    pub(super) fn payload(&mut self, now_ms: u64) -> &mut Vec<u8> {
        self.buffer.payload(now_ms)
    }

    /// Returns the time at which the last requests were executed, in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        self.buffer.now_ms()
    }

    /// Adds a frame without requests.
    pub(super) fn mark(&mut self, kind: Kind, now_ms: u64) {
        self.buffer.mark(kind, now_ms);
    }

    /// Adds a frame without requests, at the time of the last ones.
    pub(super) fn mark_now(&mut self, kind: Kind) {
        self.buffer.mark_now(kind);
    }

    /// Adds a frame whose payload is made of these parts.
    pub(super) fn add(&mut self, kind: Kind, now_ms: u64, parts: &[&[u8]]) {
        self.buffer.add(kind, now_ms, parts);
    }

    /// Adds a position in a primary's history, and the requests that lead there.
    pub(super) fn add_position(
        &mut self,
        position: &HistoryPosition,
        requests: &[u8],
        now_ms: u64,
    ) {
        let mut encoded = Vec::with_capacity(POSITION_BYTES);
        position.encode(&mut encoded);
        self.add(Kind::Followed, now_ms, &[&encoded, requests]);
    }

    /// Returns `true` if there are frames that are not in the file yet.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Writes the bytes that are not in the file yet. If that fails it can be tried again: the same
    /// bytes are written to the same place.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let frames = self.buffer.frames();
        if frames.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(frames, self.len)?;
        self.len += frames.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
