//! lz4_flex: LZ4 in portable Rust. This module writes and reads the frames around its blocks: the
//! crate's own frame reader accepts a frame that was truncated between two blocks.

use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into,
    decompress_into_with_dict, get_maximum_output_size,
};
use xxhash_rust::xxh32::{Xxh32, xxh32};

use super::frame::{Header, STORED, ends_early, take_u32};
use super::{FORMATS, block};
use crate::codec::entry::Codec;
use crate::variant::{Library, at_most, single, written};
use crate::{Error, Format, Kernel, Output};

/// Maximum distance in bytes to which a block may refer back.
const WINDOW: usize = 64 << 10;
/// Longest block in bytes (LZ4_MAX_INPUT_SIZE); positions are counted in 32 bits.
const MAX_BLOCK: usize = 0x7e00_0000;

pub(super) const CODEC: Codec = Codec {
    library: Library {
        name: "lz4-flex",
        label: "lz4_flex",
        title: "lz4_flex",
        version: || "0.14.0".into(),
        simd: false,
    },
    formats: FORMATS,
    levels: None,
    compress_rank: 1,
    decompress_rank: 1,
    compressor_bytes: |_, source_bytes| source_bytes + (source_bytes >> 7) + (1 << 20),
    decompressor_bytes: 64 << 10,
    compressor: |format, _| {
        Ok(match format {
            Format::Lz4Block => Box::<BlockCompressor>::default(),
            _ => Box::<FrameCompressor>::default(),
        })
    },
    decompressor: |format| {
        Ok(match format {
            Format::Lz4Block => Box::new(BlockDecompressor),
            _ => Box::new(FrameDecompressor),
        })
    },
};

/// Hash tables of the library, one for sources below 64 KiB and one for all others.
struct Tables {
    small: CompressTable,
    large: CompressTable,
    /// Buffer for the block if the destination is shorter than the worst case, which the library requires.
    spare: Vec<u8>,
}

impl Default for Tables {
    fn default() -> Self {
        let (small, large) = (CompressTable::small(), CompressTable::large());
        Self { small, large, spare: Vec::new() }
    }
}

impl Tables {
    /// Compresses a block into the beginning of `destination`; `None` if it does not fit.
    fn compress(&mut self, source: &[u8], destination: &mut [u8]) -> Option<usize> {
        let worst = get_maximum_output_size(source.len());
        let small = source.len() < usize::from(u16::MAX);
        let table = if small { &mut self.small } else { &mut self.large };
        if destination.len() >= worst {
            return compress_into_with_table(source, destination, table).ok();
        }
        if self.spare.len() < worst {
            self.spare.resize(worst, 0);
        }
        let len = compress_into_with_table(source, &mut self.spare, table).ok()?;
        destination.get_mut(..len)?.copy_from_slice(&self.spare[..len]);
        Some(len)
    }
}

#[derive(Default)]
struct BlockCompressor(Tables);

impl Kernel for BlockCompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, MAX_BLOCK)?;
        let capacity = destination.len();
        let len = self.0.compress(source, destination);
        len.map(written).ok_or(Error::OutputTooSmall { capacity })
    }
}

struct BlockDecompressor;

impl Kernel for BlockDecompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        let capacity = destination.len();
        decompress_into(source, destination)
            .map(written)
            .map_err(|_| block::refusal(source, capacity))
    }
}

#[derive(Default)]
struct FrameCompressor(Tables);

impl Kernel for FrameCompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        let header = Header::for_content(source.len());
        let mut out = Writer { destination, position: 0 };
        out.put(&header.write())?;
        for block in source.chunks(header.block_max) {
            let length_at = out.position;
            out.put(&[0; 4])?;
            let room = &mut out.destination[out.position..];
            // A block that does not become smaller is stored.
            let room_len = room.len().min(block.len() - 1);
            let length = match self.0.compress(block, room).filter(|&len| len <= room_len) {
                Some(len) => {
                    out.position += len;
                    len as u32
                }
                None => {
                    out.put(block)?;
                    block.len() as u32 | STORED
                }
            };
            out.destination[length_at..][..4].copy_from_slice(&length.to_le_bytes());
        }
        out.put(&[0; 4])?;
        out.put(&xxh32(source, 0).to_le_bytes())?;
        Ok(written(out.position))
    }
}

/// Fills a destination from its beginning.
struct Writer<'a> {
    destination: &'a mut [u8],
    position: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let capacity = self.destination.len();
        let room = self.destination[self.position..].get_mut(..bytes.len());
        room.ok_or(Error::OutputTooSmall { capacity })?.copy_from_slice(bytes);
        self.position += bytes.len();
        Ok(())
    }
}

struct FrameDecompressor;

impl Kernel for FrameDecompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let (header, mut rest) = Header::read(single(source)?)?;
        let mut out = Writer { destination, position: 0 };
        let mut content = Xxh32::new(0);
        loop {
            let length = take_u32(&mut rest)?;
            if length == 0 {
                break;
            }
            let len = (length & !STORED) as usize;
            if len > header.block_max {
                return Err(Error::Corrupt("a block is too long".into()));
            }
            let (block, behind) = rest.split_at_checked(len).ok_or_else(ends_early)?;
            rest = behind;
            if header.block_checksums && take_u32(&mut rest)? != xxh32(block, 0) {
                return Err(Error::Corrupt("a block has a wrong checksum".into()));
            }
            let begin = out.position;
            match length & STORED {
                0 => out.position += decompress_block(&header, block, &mut out)?,
                _ => out.put(block)?,
            }
            if header.content_checksum {
                content.update(&out.destination[begin..out.position]);
            }
        }
        if header.content_size.is_some_and(|size| size != out.position as u64) {
            return Err(Error::Corrupt("the content has another size than it says".into()));
        }
        if header.content_checksum && take_u32(&mut rest)? != content.digest() {
            return Err(Error::Corrupt("the content has a wrong checksum".into()));
        }
        match rest.len() {
            0 => Ok(written(out.position)),
            excess => Err(Error::Corrupt(format!("{excess} bytes follow the frame"))),
        }
    }
}

/// Decompresses one block behind the earlier ones. Returns its length.
fn decompress_block(header: &Header, block: &[u8], out: &mut Writer<'_>) -> Result<usize, Error> {
    let capacity = out.destination.len();
    let (before, room) = out.destination.split_at_mut(out.position);
    let is_full_block = room.len() >= header.block_max;
    let room_len = room.len().min(header.block_max);
    let room = &mut room[..room_len];
    let result = match header.linked {
        true => {
            let window = &before[before.len().saturating_sub(WINDOW)..];
            decompress_into_with_dict(block, room, window)
        }
        false => decompress_into(block, room),
    };
    result.map_err(|error| match error {
        DecompressError::OutputTooSmall { .. } if !is_full_block => {
            Error::OutputTooSmall { capacity }
        }
        error => Error::Corrupt(error.to_string()),
    })
}
