//! gzip members (RFC 1952). Overside writes the length of each member and of its content into the
//! member's header, so that members can be found and decompressed side by side.
//! docs/files/compressed-files.md describes the field.

use serde::Serialize;

use crate::stored;

/// Magic bytes at the beginning of a gzip member.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The name of the subfield with the two lengths: O and V of Overside.
const SIZES_ID: [u8; 2] = *b"OV";
/// The name of the subfield with the member's length in BGZF (SAM specification, section 4.1).
const BGZF_ID: [u8; 2] = *b"BC";
/// The longest header that is read, in bytes: an extra field is up to 64 KiB, and names and
/// comments have no limit of their own.
pub const MAX_HEADER_BYTES: usize = 256 << 10;
/// The longest name that is written, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 4096;
/// CRC-32 and length of the content.
pub const TRAILER_BYTES: usize = 8;
/// Maximum ratio by which DEFLATE data expand: a match of 258 bytes takes 2 bits.
const MAX_GROWTH: u64 = 1032;
const FIXED_BYTES: usize = 10;

const METHOD_DEFLATE: u8 = 8;
const OS_UNIX: u8 = 3;
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// Parsed header of a gzip member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header's own length in bytes.
    pub len: usize,
    /// Lengths of the member, if the header declares them.
    pub sizes: Option<Sizes>,
    /// Name and time of the original.
    pub original: GzipOriginal,
}

/// Name and time of the original, from a gzip header (RFC 1952, section 2.3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GzipOriginal {
    /// Name of the original, as bytes of an unknown encoding; `None` if the header has none.
    pub name: Option<Vec<u8>>,
    /// Modification time of the original, in seconds since 1970; 0 if unknown.
    pub mtime: u32,
}

/// Lengths of a member that its header declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The whole member, header and trailer included, in bytes.
    pub member: u64,
    /// Content in bytes; `None` for BGZF, which does not declare it.
    pub content: Option<u32>,
}

impl Header {
    /// Reads the header that `bytes` begin with; `None` if it is longer than they are.
    ///
    /// # Errors
    /// The mistake in the header, in words.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, String> {
        match Self::parsed(bytes) {
            Some(result) => result.map(Some),
            None if bytes.len() >= MAX_HEADER_BYTES => {
                Err(format!("its header is longer than {MAX_HEADER_BYTES} bytes"))
            }
            None => Ok(None),
        }
    }

    fn parsed(bytes: &[u8]) -> Option<Result<Self, String>> {
        let mut rest = Rest { bytes, at: 0 };
        let fixed = rest.take(FIXED_BYTES)?;
        let (method, flags) = (fixed[2], fixed[3]);
        if !fixed.starts_with(&MAGIC) {
            return Some(Err("it does not begin like a gzip member".into()));
        }
        if method != METHOD_DEFLATE {
            return Some(Err(format!("its compression method {method} is unknown")));
        }
        if flags & RESERVED != 0 {
            return Some(Err("its header has unknown flags".into()));
        }
        let mtime = u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        let mut sizes = None;
        if flags & EXTRA != 0 {
            let len = rest.u16()?;
            sizes = sizes_in(rest.take(len.into())?);
        }
        let name = match flags & NAME {
            0 => None,
            _ => Some(rest.text()?.to_vec()),
        };
        if flags & COMMENT != 0 {
            rest.text()?;
        }
        if flags & HEADER_CRC != 0 {
            let crc = overside_ops::checksum::crc32(0, &bytes[..rest.at]) as u16;
            if rest.u16()? != crc {
                return Some(Err("its header has a wrong checksum".into()));
            }
        }
        let len = rest.at;
        Some(match sizes {
            Some(sizes) if !sizes.are_possible(len) => {
                Err("its header says a length that cannot be".into())
            }
            sizes => Ok(Self { len, sizes, original: GzipOriginal { name, mtime } }),
        })
    }
}

impl Sizes {
    fn are_possible(&self, header_bytes: usize) -> bool {
        let frame = (header_bytes + TRAILER_BYTES) as u64;
        let Some(deflate) = self.member.checked_sub(frame) else {
            return false;
        };
        // The shortest stream is one empty block of fixed codes.
        deflate >= 2
            && self.content.is_none_or(|content| u64::from(content) <= deflate * MAX_GROWTH)
    }
}

/// Looks for a subfield with lengths (RFC 1952, section 2.3.1.1). Unknown and malformed subfields
/// are ignored.
fn sizes_in(extra: &[u8]) -> Option<Sizes> {
    let mut rest = Rest { bytes: extra, at: 0 };
    loop {
        let id = [rest.take(1)?[0], rest.take(1)?[0]];
        let len = rest.u16()?;
        match (id, rest.take(len.into())?) {
            (SIZES_ID, &[m0, m1, m2, m3, c0, c1, c2, c3]) => {
                return Some(Sizes {
                    member: u32::from_le_bytes([m0, m1, m2, m3]).into(),
                    content: Some(u32::from_le_bytes([c0, c1, c2, c3])),
                });
            }
            (BGZF_ID, &[low, high]) => {
                return Some(Sizes {
                    member: u64::from(u16::from_le_bytes([low, high])) + 1,
                    content: None,
                });
            }
            _ => {}
        }
    }
}

/// CRC-32 and length of the content, from a trailer.
pub(crate) fn trailer(bytes: [u8; TRAILER_BYTES]) -> (u32, u32) {
    let [c0, c1, c2, c3, l0, l1, l2, l3] = bytes;
    (u32::from_le_bytes([c0, c1, c2, c3]), u32::from_le_bytes([l0, l1, l2, l3]))
}

/// Header and trailer around a member's DEFLATE stream.
pub(crate) struct Frame {
    pub(crate) header: Vec<u8>,
    pub(crate) trailer: [u8; TRAILER_BYTES],
}

/// Returns the frame around `deflate_bytes` with a content of `content_bytes`. `level` is only a hint for
/// readers.
pub(crate) fn frame(
    original: Option<&GzipOriginal>,
    level: Option<u32>,
    deflate_bytes: usize,
    content_bytes: usize,
    crc: u32,
) -> Frame {
    let name = original.and_then(|original| original.name.as_deref());
    let mtime = original.map_or(0, |original| original.mtime);
    let extra_flags = match level {
        None | Some(0..=1) => 4,
        Some(9..) => 2,
        Some(_) => 0,
    };
    let mut header = Vec::with_capacity(64);
    header.extend(MAGIC);
    header.extend([METHOD_DEFLATE, EXTRA | if name.is_some() { NAME } else { 0 }]);
    header.extend(mtime.to_le_bytes());
    header.extend([extra_flags, OS_UNIX]);
    header.extend(12u16.to_le_bytes());
    header.extend(SIZES_ID);
    header.extend(8u16.to_le_bytes());
    let name_bytes = name.map_or(0, |name| name.len() + 1);
    // Chunks are bounded, so neither length comes near 32 bits.
    let member = header.len() + 8 + name_bytes + deflate_bytes + TRAILER_BYTES;
    header.extend((member as u32).to_le_bytes());
    header.extend((content_bytes as u32).to_le_bytes());
    if let Some(name) = name {
        header.extend(name);
        header.push(0);
    }
    let mut trailer = [0; TRAILER_BYTES];
    trailer[..4].copy_from_slice(&crc.to_le_bytes());
    trailer[4..].copy_from_slice(&(content_bytes as u32).to_le_bytes());
    Frame { header, trailer }
}

/// The length of a DEFLATE stream that stores `content_bytes` bytes.
pub(crate) fn stored_bytes(content_bytes: usize) -> usize {
    content_bytes + stored::BLOCK_HEADER_BYTES * stored::blocks(content_bytes)
}

/// Takes one thing after the other off the front.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes[self.at..].get(..len)?;
        self.at += len;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let &[low, high] = self.take(2)? else {
            return None;
        };
        Some(u16::from_le_bytes([low, high]))
    }

    /// Up to the next zero, which is taken as well.
    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.bytes[self.at..].iter().position(|byte| *byte == 0)?;
        let text = self.take(len)?;
        self.at += 1;
        Some(text)
    }
}
