//! The log that is being written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};

use super::frame::{FrameWriter, Kind};

/// A payload longer than this begins another frame, except within a transaction.
const FRAME_BYTES: usize = 1 << 20;

/// A file of frames that is appended to.
#[derive(Debug)]
pub(super) struct FrameFile {
    pub file: Arc<File>,
    pub path: PathBuf,
    /// Whole frames in the file.
    pub len: u64,
    writer: FrameWriter,
    /// Frames that are not in the file yet.
    queue: Vec<u8>,
    /// Requests for the next frame, and when they were executed.
    payload: Vec<u8>,
    now_ms: u64,
}

impl FrameFile {
    /// Makes the file, which must not be there, and writes its first frame. `previous`: see
    /// [`FrameWriter::begin`].
    pub fn create(path: &Path, previous: u64, now_ms: u64) -> io::Result<Self> {
        let mut identity = [0; 8];
        getrandom(&mut identity, GetRandomFlags::empty())?;
        let mut queue = Vec::new();
        let writer = FrameWriter::begin(identity, previous, now_ms, &mut queue);
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mut frames = Self {
            file: Arc::new(file),
            path: path.into(),
            len: 0,
            writer,
            queue,
            payload: Vec::new(),
            now_ms,
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

    /// Has everything written reach the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced(self.len);
        Ok(())
    }

    /// So many bytes have reached the disk.
    pub fn synced(&mut self, len: u64) {
        self.writer.synced = self.writer.synced.max(len);
    }

    /// Where requests executed at `now_ms` are appended.
    pub fn payload(&mut self, now_ms: u64) -> &mut Vec<u8> {
        if now_ms != self.now_ms || self.payload.len() > FRAME_BYTES {
            self.end_frame();
        }
        self.now_ms = now_ms;
        &mut self.payload
    }

    /// Ends the frame that is being filled.
    pub fn end_frame(&mut self) {
        if !self.payload.is_empty() {
            let payload = &self.payload;
            (self.writer).append(Kind::Requests, self.now_ms, payload, &mut self.queue);
            self.payload.clear();
        }
    }

    /// Adds a frame without requests.
    pub fn mark(&mut self, kind: Kind, now_ms: u64) {
        self.end_frame();
        self.writer.append(kind, now_ms, &[], &mut self.queue);
    }

    /// Adds that everything was removed.
    pub fn mark_flush(&mut self) {
        self.mark(Kind::Flush, self.now_ms);
    }

    /// Whether something is not in the file yet.
    pub fn has_unwritten(&self) -> bool {
        !self.payload.is_empty() || !self.queue.is_empty()
    }

    /// Writes what is not in the file yet. If that fails it can be tried again: the same bytes are
    /// written to the same place.
    pub fn write(&mut self) -> io::Result<()> {
        self.end_frame();
        if self.queue.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(&self.queue, self.len)?;
        self.len += self.queue.len() as u64;
        self.queue.clear();
        // Values of 64 MiB are rare.
        self.queue.shrink_to(2 * FRAME_BYTES);
        self.payload.shrink_to(2 * FRAME_BYTES);
        Ok(())
    }
}
