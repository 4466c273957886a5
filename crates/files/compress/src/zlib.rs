//! The frame of zlib streams (RFC 1950).

/// CMF and FLG.
pub(crate) const HEADER_BYTES: usize = 2;
/// The Adler-32.
pub(crate) const TRAILER_BYTES: usize = 4;
/// An empty stored block, the stream's last.
pub(crate) const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];
/// DEFLATE with a window of 32 KiB.
const CMF: u8 = 0x78;
const DICTIONARY: u8 = 1 << 5;

/// Returns `true` if `bytes` begin with a zlib header.
pub(crate) fn is_header(bytes: &[u8]) -> bool {
    matches!(bytes, [cmf, flags, ..]
        if cmf & 15 == 8 && cmf >> 4 <= 7 && (u16::from(*cmf) << 8 | u16::from(*flags)) % 31 == 0)
}

/// Returns `true` if `bytes` begin with a zlib header that declares the usual window of 32 KiB.
pub(crate) fn is_usual_header(bytes: &[u8]) -> bool {
    bytes.first() == Some(&CMF) && is_header(bytes)
}

/// Returns `true` if the stream that begins with this header needs a preset dictionary.
pub(crate) fn needs_dictionary(header: &[u8]) -> bool {
    header.get(1).is_some_and(|flags| flags & DICTIONARY != 0)
}

/// The header. `level` is only a hint for readers (RFC 1950, section 2.2).
pub(crate) fn header(level: Option<u32>) -> [u8; HEADER_BYTES] {
    let hint: u8 = match level {
        None | Some(0..=1) => 0,
        Some(2..=5) => 1,
        Some(6) => 2,
        Some(_) => 3,
    };
    let flags = hint << 6;
    let rest = (u16::from(CMF) << 8 | u16::from(flags)) % 31;
    [CMF, flags + (31 - rest as u8) % 31]
}
