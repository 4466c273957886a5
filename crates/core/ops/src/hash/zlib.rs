//! CRC-32 by zlib, which uses lookup tables.

use super::function::{HashLibrary, function};
use crate::deflate::{zlib_crc32, zlib_version};
use crate::variant::Library;

pub(super) const LIBRARY: HashLibrary = HashLibrary {
    library: Library {
        name: "zlib",
        label: "zlib",
        title: "zlib",
        version: zlib_version,
        simd: false,
    },
    functions: &[function!(Crc32, |bytes: &[u8]| zlib_crc32(0, bytes), Some(several))],
};

fn several(segments: &[&[u8]]) -> u32 {
    (segments.iter()).fold(0, |crc, segment| zlib_crc32(crc, segment))
}
