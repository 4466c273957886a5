//! The LZ4 frame format (lz4_Frame_format.md): headers, block lengths and checksums.

use xxhash_rust::xxh32::xxh32;

use crate::Error;

/// First bytes of a frame.
pub const MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();
const VERSION: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 0b0010_0000;
const BLOCK_CHECKSUMS: u8 = 0b0001_0000;
const CONTENT_SIZE: u8 = 0b0000_1000;
const CONTENT_CHECKSUM: u8 = 0b0000_0100;
const RESERVED: u8 = 0b0000_0010;
const DICTIONARY: u8 = 0b0000_0001;

/// Bit of a block's length that marks an uncompressed block.
pub const STORED: u32 = 1 << 31;

/// Contents of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Maximum number of content bytes of a block.
    pub block_max: usize,
    /// `true` if blocks refer to earlier ones.
    pub linked: bool,
    /// `true` if a checksum follows each block.
    pub block_checksums: bool,
    /// `true` if a checksum of the content follows the last block.
    pub content_checksum: bool,
    /// Size of the content in bytes; `None` if the header does not give it.
    pub content_size: Option<u64>,
}

impl Header {
    /// Returns the header of frames that this crate makes.
    pub(super) fn for_content(len: usize) -> Self {
        Self::for_blocks(len, Some(len as u64))
    }

    /// Returns the header of a frame of independent blocks of up to `block_bytes` each, at most 4
    /// MiB, with a checksum of the content.
    pub fn for_blocks(block_bytes: usize, content_size: Option<u64>) -> Self {
        let holds = |max: &usize| block_bytes <= *max;
        let block_max = [4, 5, 6].map(block_len).into_iter().find(holds);
        Self {
            block_max: block_max.unwrap_or(block_len(7)),
            linked: false,
            block_checksums: false,
            content_checksum: true,
            content_size,
        }
    }

    /// Encodes the header.
    pub fn write(&self) -> Vec<u8> {
        let mut flags = VERSION;
        for (bit, set) in [
            (INDEPENDENT, !self.linked),
            (BLOCK_CHECKSUMS, self.block_checksums),
            (CONTENT_SIZE, self.content_size.is_some()),
            (CONTENT_CHECKSUM, self.content_checksum),
        ] {
            flags |= if set { bit } else { 0 };
        }
        let id = (4..=7).find(|&id| block_len(id) == self.block_max).unwrap_or(7);
        let mut out = MAGIC.to_vec();
        out.extend([flags, id << 4]);
        out.extend(self.content_size.iter().flat_map(|size| size.to_le_bytes()));
        out.push(header_checksum(&out[MAGIC.len()..]));
        out
    }

    /// Reads the header that `source` begins with. Also returns the bytes behind it.
    ///
    /// # Errors
    /// Those of [`Header::parse`]; also if the source ends within the header.
    pub(super) fn read(source: &[u8]) -> Result<(Self, &[u8]), Error> {
        let (header, len) = Self::parse(source)?.ok_or_else(ends_early)?;
        Ok((header, &source[len..]))
    }

    /// Reads the header that `source` begins with. Also returns its length in bytes. Returns `None` if
    /// it is longer than the source.
    ///
    /// # Errors
    /// [`Error::Corrupt`], also for skippable and legacy frames and for those that need a dictionary.
    pub fn parse(source: &[u8]) -> Result<Option<(Self, usize)>, Error> {
        let corrupt = |reason: &str| Error::Corrupt(reason.into());
        let Some(descriptor) = source.strip_prefix(&MAGIC) else {
            return match MAGIC.starts_with(source) {
                true => Ok(None),
                false => Err(corrupt("it does not begin like an LZ4 frame")),
            };
        };
        let &[flags, sizes, ..] = descriptor else {
            return Ok(None);
        };
        let id = sizes >> 4;
        if flags >> 6 != VERSION >> 6 || flags & RESERVED != 0 || sizes & 15 != 0 {
            return Err(corrupt("its header has unknown flags"));
        }
        if !(4..=7).contains(&id) {
            return Err(corrupt("its header has an unknown block size"));
        }
        if flags & DICTIONARY != 0 {
            return Err(corrupt("it needs a dictionary"));
        }
        let has_size = flags & CONTENT_SIZE != 0;
        let len = if has_size { 10 } else { 2 };
        let Some((described, [checksum, ..])) = descriptor.split_at_checked(len) else {
            return Ok(None);
        };
        if header_checksum(described) != *checksum {
            return Err(corrupt("its header has a wrong checksum"));
        }
        let size = described[2..].first_chunk().map(|size| u64::from_le_bytes(*size));
        let header = Self {
            block_max: block_len(id),
            linked: flags & INDEPENDENT == 0,
            block_checksums: flags & BLOCK_CHECKSUMS != 0,
            content_checksum: flags & CONTENT_CHECKSUM != 0,
            content_size: size,
        };
        Ok(Some((header, MAGIC.len() + len + 1)))
    }
}

/// Removes a little-endian number from the front of `rest`.
pub(super) fn take_u32(rest: &mut &[u8]) -> Result<u32, Error> {
    let (number, behind) = rest.split_first_chunk().ok_or_else(ends_early)?;
    *rest = behind;
    Ok(u32::from_le_bytes(*number))
}

pub(super) fn ends_early() -> Error {
    Error::Corrupt("the frame ends early".into())
}

/// Returns the block size of an identifier: 64 KiB, 256 KiB, 1 MiB, 4 MiB for 4 to 7.
const fn block_len(id: u8) -> usize {
    1 << (8 + 2 * id)
}

fn header_checksum(descriptor: &[u8]) -> u8 {
    (xxh32(descriptor, 0) >> 8) as u8
}
