//! Buffers of a message, compressed as the format defines it: the length as a number of 64 bits, then an LZ4
//! or Zstandard frame. A buffer that would not become shorter follows -1 instead and is not compressed.
//!
//! LZ4 frames consist of independent blocks, so threads and devices can decode blocks in parallel.
//! Other readers are not affected.

use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use overside_ops::lz4_frame::{Header, STORED};
use overside_ops::{Error as OpsError, Format, Operation};

use super::codec::Codec;
use super::threads::Kernels;
use crate::Error;
use crate::memory::BufferPool;

/// Number of bytes of the length before each buffer.
pub(super) const PREFIX_BYTES: usize = 8;
/// Value in place of the length before a buffer that is not compressed.
pub(super) const NOT_COMPRESSED: i64 = -1;
/// Number of content bytes of a block of an LZ4 frame.
pub(super) const LZ4_BLOCK_BYTES: usize = 256 << 10;
/// Maximum number of bytes that one compressed byte can stand for: an LZ4 length grows by 255 with
/// each byte; a Zstandard block has at least 4 bytes and a content of at most 128 KiB.
pub(super) const LZ4_RATIO_MAX: u64 = 255;
pub(super) const ZSTD_RATIO_MAX: u64 = 32 << 10;

/// Encoded buffer.
pub(super) enum Encoded {
    /// Compressed buffer with the length before it.
    Compressed(Buffer),
    /// Buffer that would not become shorter.
    Stored(Buffer),
}

/// Returns the header of written frames. It has neither content size nor checksum: the format has
/// its own lengths, and Arrow's libraries write no checksums.
pub(super) fn lz4_header(len: usize) -> Header {
    Header { content_checksum: false, ..Header::for_blocks(LZ4_BLOCK_BYTES.min(len), None) }
}

/// Compresses a buffer that is not empty.
pub(super) fn compress(
    kernels: &mut Kernels,
    memory: &Arc<BufferPool>,
    codec: Codec,
    source: Buffer,
) -> Result<Encoded, Error> {
    let mut region = memory.take(PREFIX_BYTES + source.len())?;
    let (prefix, room) = region.split_at_mut(PREFIX_BYTES);
    // The result must be shorter than the source; otherwise the buffer is stored.
    let room = &mut room[..source.len()];
    let written = match codec {
        Codec::None => return Ok(Encoded::Stored(source)),
        Codec::Lz4 => lz4_frame(kernels, &source, room)?,
        Codec::Zstd(level) => {
            let kernel = kernels.get(Operation::Compress(Format::Zstd), Some(level))?;
            fitting(kernel.run(&[&source], room))?
        }
    };
    let Some(written) = written.filter(|&written| written < source.len()) else {
        return Ok(Encoded::Stored(source));
    };
    prefix.copy_from_slice(&(source.len() as i64).to_le_bytes());
    Ok(Encoded::Compressed(memory.lend(region, PREFIX_BYTES + written)))
}

/// Returns the length that was written; `None` if it did not fit.
fn fitting(result: Result<overside_ops::Output, OpsError>) -> Result<Option<usize>, Error> {
    match result {
        Ok(output) => Ok(Some(output.written)),
        Err(OpsError::OutputTooSmall { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn lz4_frame(
    kernels: &mut Kernels,
    source: &[u8],
    room: &mut [u8],
) -> Result<Option<usize>, Error> {
    let header = lz4_header(source.len());
    let kernel = kernels.get(Operation::Compress(Format::Lz4Block), None)?;
    let mut frame = Lz4FrameWriter::new(&header, room);
    for block in source.chunks(header.block_max) {
        let Some(room) = frame.as_mut().and_then(Lz4FrameWriter::room) else {
            return Ok(None);
        };
        let room_len = room.len().min(block.len() - 1);
        let written = fitting(kernel.run(&[block], &mut room[..room_len]))?;
        frame = frame.and_then(|frame| frame.block(block, written));
    }
    Ok(frame.and_then(Lz4FrameWriter::end))
}

/// Writer of a frame around its blocks. Its room may be too short.
pub(super) struct Lz4FrameWriter<'a> {
    room: &'a mut [u8],
    written: usize,
}

const WORD_BYTES: usize = 4;

impl<'a> Lz4FrameWriter<'a> {
    pub(super) fn new(header: &Header, room: &'a mut [u8]) -> Option<Self> {
        let header = header.write();
        room.get_mut(..header.len())?.copy_from_slice(&header);
        Some(Self { room, written: header.len() })
    }

    /// Returns the room for the next block; `None` if there is no room left.
    fn room(&mut self) -> Option<&mut [u8]> {
        self.room.get_mut(self.written + WORD_BYTES..)
    }

    /// Adds the next block, of which `compressed` bytes are in the room; `None` for a block to be
    /// stored. Returns `None` if there is no room left.
    fn block(mut self, source: &[u8], compressed: Option<usize>) -> Option<Self> {
        let len = match compressed {
            Some(len) => len as u32,
            None => {
                self.room()?.get_mut(..source.len())?.copy_from_slice(source);
                source.len() as u32 | STORED
            }
        };
        self.word(len)?;
        self.written += (len & !STORED) as usize;
        Some(self)
    }

    /// Adds the next block, which was compressed elsewhere; `None` for a block to be stored.
    /// Returns `None` if there is no room left.
    pub(super) fn copied_block(mut self, source: &[u8], compressed: Option<&[u8]>) -> Option<Self> {
        if let Some(bytes) = compressed {
            self.room()?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        }
        self.block(source, compressed.map(<[u8]>::len))
    }

    /// Completes the frame. Returns its length, or `None` if there is no room left.
    pub(super) fn end(mut self) -> Option<usize> {
        self.word(0)?;
        Some(self.written)
    }

    fn word(&mut self, word: u32) -> Option<()> {
        let room = self.room.get_mut(self.written..)?.first_chunk_mut()?;
        *room = word.to_le_bytes();
        self.written += WORD_BYTES;
        Some(())
    }
}

/// Compressed buffer without the length before it.
pub(super) struct Frame {
    pub codec: CompressionType,
    pub bytes: Buffer,
    /// Length of the content in bytes.
    pub len: usize,
}

/// Decompresses a frame, whose content must have exactly the declared length.
pub(super) fn decompress(
    kernels: &mut Kernels,
    memory: &Arc<BufferPool>,
    frame: &Frame,
) -> Result<Buffer, Error> {
    let (bytes, len) = (&frame.bytes, frame.len);
    let mut region = memory.take(len)?;
    let room = &mut region[..len];
    let written = match frame.codec {
        CompressionType::LZ4_FRAME => match lz4_blocks(bytes)? {
            Some(blocks) => lz4_independent(kernels, bytes, &blocks, room)?,
            None => whole(kernels, Format::Lz4, bytes, room)?,
        },
        _ => whole(kernels, Format::Zstd, bytes, room)?,
    };
    match written == len {
        true => Ok(memory.lend(region, len)),
        false => Err(other_length(len, written)),
    }
}

pub(super) fn other_length(len: usize, written: usize) -> Error {
    Error::Damaged(format!("a buffer of {len} bytes has {written}"))
}

fn whole(
    kernels: &mut Kernels,
    format: Format,
    frame: &[u8],
    room: &mut [u8],
) -> Result<usize, Error> {
    let kernel = kernels.get(Operation::Decompress(format), None)?;
    kernel.run(&[frame], room).map(|output| output.written).map_err(damaged)
}

/// Converts a codec's error for input from outside. Corrupt or overlong input is reported as
/// damaged.
pub(super) fn damaged(error: OpsError) -> Error {
    match error {
        OpsError::Corrupt(reason) => Error::Damaged(format!("a compressed buffer: {reason}")),
        OpsError::OutputTooSmall { capacity } => {
            Error::Damaged(format!("a buffer of {capacity} bytes has more"))
        }
        error => error.into(),
    }
}

/// Block of a frame.
pub(super) struct Lz4Block {
    /// Offset of the block in the frame, in bytes.
    pub begin: usize,
    pub len: usize,
    pub is_stored: bool,
    /// Maximum number of bytes of its content.
    pub block_max: usize,
}

/// Returns the blocks of a frame; `None` if they depend on each other, or if the frame has other
/// parts that must be verified.
pub(super) fn lz4_blocks(frame: &[u8]) -> Result<Option<Vec<Lz4Block>>, Error> {
    let cut = || Error::Damaged("an LZ4 frame ends early".into());
    let (header, mut begin) = Header::parse(frame).map_err(damaged)?.ok_or_else(cut)?;
    if header.linked || header.block_checksums || header.content_checksum {
        return Ok(None);
    }
    let mut blocks = Vec::new();
    loop {
        let word = frame.get(begin..).and_then(|rest| rest.first_chunk());
        let word = u32::from_le_bytes(*word.ok_or_else(cut)?);
        begin += WORD_BYTES;
        if word == 0 {
            break;
        }
        let len = (word & !STORED) as usize;
        if len > header.block_max {
            return Err(Error::Damaged("a block of an LZ4 frame is too long".into()));
        }
        if frame.len() - begin < len {
            return Err(cut());
        }
        blocks.push(Lz4Block {
            begin,
            len,
            is_stored: word & STORED != 0,
            block_max: header.block_max,
        });
        begin += len;
    }
    match frame.len() - begin {
        0 => Ok(Some(blocks)),
        excess => Err(Error::Damaged(format!("{excess} bytes follow an LZ4 frame"))),
    }
}

fn lz4_independent(
    kernels: &mut Kernels,
    frame: &[u8],
    blocks: &[Lz4Block],
    room: &mut [u8],
) -> Result<usize, Error> {
    let kernel = kernels.get(Operation::Decompress(Format::Lz4Block), None)?;
    let mut written = 0;
    for block in blocks {
        let source = &frame[block.begin..][..block.len];
        let left = room.len() - written;
        let room = &mut room[written..][..left.min(block.block_max)];
        written += match block.is_stored {
            true => {
                let capacity = room.len();
                let room = room.get_mut(..source.len());
                room.ok_or_else(|| damaged(OpsError::OutputTooSmall { capacity }))?
                    .copy_from_slice(source);
                source.len()
            }
            false => kernel.run(&[source], room).map_err(damaged)?.written,
        };
    }
    Ok(written)
}
