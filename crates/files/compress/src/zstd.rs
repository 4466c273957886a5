//! Zstandard frames (RFC 8878): where they end, and frames of blocks that store their bytes.

use xxhash_rust::xxh64::xxh64;

/// Magic bytes at the beginning of a frame.
pub const MAGIC: [u8; 4] = 0xfd2f_b528u32.to_le_bytes();
/// Maximum number of content bytes of a block (RFC 8878, section 3.1.1.2.4).
const BLOCK_MAX: usize = 128 << 10;
const BLOCK_HEADER_BYTES: usize = 3;

const SINGLE_SEGMENT: u8 = 1 << 5;
const RESERVED: u8 = 1 << 3;
const CHECKSUM: u8 = 1 << 2;

/// Parsed header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header's own length in bytes.
    pub len: usize,
    /// Bytes of content.
    pub content_bytes: Option<u64>,
    /// `true` if it needs a dictionary.
    pub dictionary: bool,
    /// A checksum follows the last block.
    checksum: bool,
}

impl Header {
    /// Reads the header that `bytes` begin with; `None` if it is longer than they are.
    ///
    /// # Errors
    /// The mistake in the header, in words.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, String> {
        let Some(&descriptor) = bytes.get(MAGIC.len()) else {
            return Ok(None);
        };
        if !bytes.starts_with(&MAGIC) {
            return Err("it does not begin like a Zstandard frame".into());
        }
        if descriptor & RESERVED != 0 {
            return Err("its header has unknown flags".into());
        }
        let single = descriptor & SINGLE_SEGMENT != 0;
        let window_bytes = usize::from(!single);
        let id_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let size_bytes = match descriptor >> 6 {
            0 => usize::from(single),
            flag => 1 << flag,
        };
        let id_at = MAGIC.len() + 1 + window_bytes;
        let size_at = id_at + id_bytes;
        let len = size_at + size_bytes;
        let Some(header) = bytes.get(..len) else {
            return Ok(None);
        };
        let number = |bytes: &[u8]| {
            (bytes.iter().rev()).fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let size = number(&header[size_at..]);
        Ok(Some(Self {
            len,
            content_bytes: match size_bytes {
                0 => None,
                2 => Some(size + 256),
                _ => Some(size),
            },
            dictionary: number(&header[id_at..size_at]) != 0,
            checksum: descriptor & CHECKSUM != 0,
        }))
    }

    /// The content's checksum at the end of a whole frame, if there is one: the low half of XXH64.
    pub fn checksum(&self, frame: &[u8]) -> Option<u32> {
        let last = frame.last_chunk().filter(|_| self.checksum)?;
        Some(u32::from_le_bytes(*last))
    }

    /// The length of the frame that `bytes` begin with and that this is the header of; `None` if
    /// it is longer than they are.
    ///
    /// # Errors
    /// The mistake in a block, in words.
    pub fn frame_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let mut at = self.len;
        loop {
            let Some(&[b0, b1, b2]) = bytes.get(at..at + BLOCK_HEADER_BYTES) else {
                return Ok(None);
            };
            let header = u32::from_le_bytes([b0, b1, b2, 0]);
            let (last, kind, size) = (header & 1 != 0, header >> 1 & 3, (header >> 3) as usize);
            if kind == 3 || size > BLOCK_MAX {
                return Err("one of its blocks is not valid".into());
            }
            // A run of one byte is that byte.
            at += BLOCK_HEADER_BYTES + if kind == 1 { 1 } else { size };
            if last {
                break;
            }
        }
        let end = at + if self.checksum { 4 } else { 0 };
        Ok((end <= bytes.len()).then_some(end))
    }
}

/// A frame that stores its content: the frame header, the header of each block, and the trailer.
pub(crate) struct Stored {
    pub(crate) header: Vec<u8>,
    pub(crate) blocks: Vec<[u8; BLOCK_HEADER_BYTES]>,
    pub(crate) checksum: [u8; 4],
}

impl Stored {
    pub(crate) fn new(content: &[u8]) -> Self {
        let len = content.len();
        let mut header = MAGIC.to_vec();
        let flags = SINGLE_SEGMENT | CHECKSUM;
        match len {
            0..256 => header.extend([flags, len as u8]),
            256..65_792 => {
                header.push(flags | 1 << 6);
                header.extend(((len - 256) as u16).to_le_bytes());
            }
            _ => {
                // Chunks are bounded far below 32 bits.
                header.push(flags | 2 << 6);
                header.extend((len as u32).to_le_bytes());
            }
        }
        let count = len.div_ceil(BLOCK_MAX).max(1);
        let block = |index: usize| {
            let size = BLOCK_MAX.min(len - index * BLOCK_MAX) as u32;
            let [b0, b1, b2, _] = (size << 3 | u32::from(index + 1 == count)).to_le_bytes();
            [b0, b1, b2]
        };
        Self {
            header,
            blocks: (0..count).map(block).collect(),
            checksum: (xxh64(content, 0) as u32).to_le_bytes(),
        }
    }

    /// The frame's parts in order.
    pub(crate) fn parts<'a>(&'a self, content: &'a [u8]) -> Vec<&'a [u8]> {
        let mut parts: Vec<&[u8]> = vec![&self.header];
        let mut contents = content.chunks(BLOCK_MAX);
        for block in &self.blocks {
            parts.push(block);
            parts.extend(contents.next());
        }
        parts.push(&self.checksum);
        parts
    }
}
