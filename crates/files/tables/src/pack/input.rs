//! Inputs that messages are read from. Lengths that messages declare are not trusted: memory is
//! allocated for existing bytes, or for little more than has arrived.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_buffer::Buffer;

use crate::Error;
use crate::memory::BufferPool;

/// Maximum number of bytes that are allocated at once if the reader has returned fewer so far.
const TRUSTED_BYTES: usize = 1 << 20;

/// Source of messages.
pub(super) enum Source<'a> {
    /// File with a known length.
    File(File, u64),
    /// Memory, which is not copied.
    Memory(Buffer),
    /// Reader of unknown length.
    Reader(Box<dyn Read + Send + 'a>),
}

/// Source with the current position.
pub(super) struct Input<'a> {
    source: Source<'a>,
    position: u64,
    memory: Arc<BufferPool>,
    /// Largest number of bytes that the reader returned at once.
    most: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(source: Source<'a>, memory: &Arc<BufferPool>) -> Self {
        Self { source, position: 0, memory: Arc::clone(memory), most: 0 }
    }

    /// Returns the number of bytes that were read in sequence.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the length if it is known.
    pub(super) fn len(&self) -> Option<u64> {
        match &self.source {
            Source::File(_, len) => Some(*len),
            Source::Memory(buffer) => Some(buffer.len() as u64),
            Source::Reader(_) => None,
        }
    }

    /// Reads the next `len` bytes.
    pub(super) fn next(&mut self, len: u64) -> Result<Buffer, Error> {
        let bytes = match &mut self.source {
            Source::Reader(reader) => {
                let len = usize::try_from(len).map_err(|_| cut())?;
                let bytes = read(reader, len, TRUSTED_BYTES.max(2 * self.most), &self.memory)?;
                self.most = self.most.max(len);
                bytes
            }
            _ => self.at(self.position, len)?,
        };
        self.position += len;
        Ok(bytes)
    }

    /// Reads the next four bytes as a number; `None` at the end.
    pub(super) fn word(&mut self) -> Result<Option<u32>, Error> {
        let mut word = [0; 4];
        match &mut self.source {
            Source::Reader(reader) => {
                let read = fill(reader, &mut word)?;
                match read {
                    0 => return Ok(None),
                    4 => {}
                    _ => return Err(cut()),
                }
            }
            Source::File(_, len) if self.position == *len => return Ok(None),
            Source::Memory(buffer) if self.position == buffer.len() as u64 => return Ok(None),
            _ => word.copy_from_slice(&self.at(self.position, 4)?),
        }
        self.position += 4;
        Ok(Some(u32::from_le_bytes(word)))
    }

    /// Reads bytes at an offset of a source with a known length.
    pub(super) fn at(&self, begin: u64, len: u64) -> Result<Buffer, Error> {
        let end = begin.checked_add(len);
        if end.is_none_or(|end| self.len().is_none_or(|len| end > len)) {
            return Err(cut());
        }
        let len = usize::try_from(len).map_err(|_| cut())?;
        match &self.source {
            Source::File(file, _) => {
                let mut region = self.memory.take(len)?;
                file.read_exact_at(&mut region[..len], begin)?;
                Ok(self.memory.lend(region, len))
            }
            Source::Memory(buffer) => Ok(buffer.slice_with_length(begin as usize, len)),
            Source::Reader(_) => Err(cut()),
        }
    }
}

/// Reads `len` bytes into memory that starts with `trusted` bytes and grows as data arrive.
fn read(
    reader: &mut dyn Read,
    len: usize,
    trusted: usize,
    memory: &Arc<BufferPool>,
) -> Result<Buffer, Error> {
    let mut capacity = len.min(trusted);
    let mut region = memory.take(capacity)?;
    let mut read = 0;
    loop {
        read += fill(reader, &mut region[read..capacity])?;
        if read < capacity {
            return Err(cut());
        }
        if capacity == len {
            return Ok(memory.lend(region, len));
        }
        capacity = len.min(2 * capacity);
        let mut longer = memory.take(capacity)?;
        longer[..read].copy_from_slice(&region[..read]);
        region = longer;
    }
}

/// Fills `room` as far as the reader has bytes. Returns their number.
fn fill(reader: &mut dyn Read, room: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < room.len() {
        match reader.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// Returns the error for data that end too early.
pub(super) fn cut() -> Error {
    Error::Damaged("it ends in the middle of a message".into())
}
