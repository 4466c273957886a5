//! LZ4 frames (lz4_Frame_format.md), beyond the header that the codecs know.

use overside_ops::lz4_frame;
pub(crate) use overside_ops::lz4_frame::STORED;

/// Magic bytes at the beginning of a frame: the current format's, then the legacy format's.
pub(crate) const MAGICS: [[u8; 4]; 2] = [lz4_frame::MAGIC, LEGACY_MAGIC];
/// A frame as the first versions of the tool made them.
pub(crate) const LEGACY_MAGIC: [u8; 4] = 0x184c_2102u32.to_le_bytes();
/// The header of a skippable frame.
pub(crate) const SKIPPABLE_HEADER_BYTES: usize = 8;

/// Returns the length of the skippable frame that the bytes begin with, header included. Returns
/// `None` if they begin with another frame or have fewer than 8 bytes. LZ4 and Zstandard share
/// skippable frames (RFC 8878, section 3.1.2).
pub(crate) fn skippable_bytes(bytes: &[u8]) -> Option<u64> {
    let &[m0, m1, m2, m3, l0, l1, l2, l3, ..] = bytes else {
        return None;
    };
    begins_skippable(&[m0, m1, m2, m3]).then(|| 8 + u64::from(u32::from_le_bytes([l0, l1, l2, l3])))
}

/// Returns `true` if the bytes, at least 4, begin a skippable frame.
pub(crate) fn begins_skippable(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}
