//! The LZ4 block format (lz4_Block_format.md), only to find out why a decoder refused a block.

use crate::Error;

/// Returns the error for a `source` that a decoder refused with room for `capacity` bytes. The
/// decoders do not always distinguish a block that is too long from one that is invalid.
pub(super) fn refusal(source: &[u8], capacity: usize) -> Error {
    match decompressed_len(source) {
        Some(len) if len > capacity as u64 => Error::OutputTooSmall { capacity },
        _ => Error::Corrupt("it is not a valid LZ4 block".into()),
    }
}

/// Returns the number of bytes that a block decompresses to, without decompressing it; `None` if it
/// is not a block.
fn decompressed_len(source: &[u8]) -> Option<u64> {
    let mut rest = source;
    let mut len = 0u64;
    loop {
        let (&token, behind) = rest.split_first()?;
        rest = behind;
        let literals = run_length(u64::from(token >> 4), &mut rest)?;
        rest = rest.get(usize::try_from(literals).ok()?..)?;
        len += literals;
        if rest.is_empty() {
            return Some(len);
        }
        let (offset, behind) = rest.split_first_chunk()?;
        rest = behind;
        let offset = u64::from(u16::from_le_bytes(*offset));
        // An offset of 0 is invalid, but the C library accepts it.
        if offset > len {
            return None;
        }
        len += run_length(u64::from(token & 15), &mut rest)? + 4;
    }
}

/// Reads a length of 4 bits, continued in the following bytes if all bits are set.
fn run_length(nibble: u64, rest: &mut &[u8]) -> Option<u64> {
    let mut length = nibble;
    if nibble < 15 {
        return Some(length);
    }
    loop {
        let (&more, behind) = rest.split_first()?;
        *rest = behind;
        length += u64::from(more);
        if more < 255 {
            return Some(length);
        }
    }
}
