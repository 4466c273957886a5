//! Checksums of compressed streams, over pieces: for whoever lays out the frames.

pub use crate::deflate::{adler32, crc32};

/// Modulus of Adler-32 (RFC 1950, section 9).
const BASE: u64 = 65_521;

/// The Adler-32 of two pieces in a row, out of theirs and the second one's length in bytes.
pub fn adler32_combine(first: u32, second: u32, second_len: u64) -> u32 {
    let halves = |adler: u32| (u64::from(adler & 0xffff), u64::from(adler >> 16));
    let ((a1, b1), (a2, b2)) = (halves(first), halves(second));
    // Each piece begins with a = 1, and every byte of the second adds the first's a to b.
    let a = (a1 + a2 + BASE - 1) % BASE;
    let b = (b1 + b2 + (second_len % BASE) * (a1 + BASE - 1)) % BASE;
    (b << 16 | a) as u32
}
