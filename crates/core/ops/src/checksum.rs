//! Checksums of concatenated streams, for code that writes the frames itself.

pub use crate::deflate::{adler32, crc32};

/// Modulus of Adler-32 (RFC 1950, section 9).
const BASE: u64 = 65_521;

/// Returns the Adler-32 of two concatenated pieces, given the Adler-32 of each and the length of
/// the second one in bytes.
pub fn adler32_combine(first: u32, second: u32, second_len: u64) -> u32 {
    let halves = |adler: u32| (u64::from(adler & 0xffff), u64::from(adler >> 16));
    let ((a1, b1), (a2, b2)) = (halves(first), halves(second));
    // Each piece starts with a = 1, and each byte of the second piece adds the first piece's a to b.
    let a = (a1 + a2 + BASE - 1) % BASE;
    let b = (b1 + b2 + (second_len % BASE) * (a1 + BASE - 1)) % BASE;
    (b << 16 | a) as u32
}
