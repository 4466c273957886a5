//! DEFLATE in its three framings: raw (RFC 1951), zlib (RFC 1950), gzip (RFC 1952).

mod isal;
mod libdeflate;
mod one_call;
mod part;
mod zlib;
mod zlib_rs;

pub(crate) use isal::StreamDecoder;
pub use libdeflate::{adler32, crc32};
pub use part::DeflateJoiner;
pub(crate) use zlib::{crc32 as zlib_crc32, version as zlib_version};

use crate::codec::entry::Codec;
use crate::{Error, Format};

/// Registry of the libraries for DEFLATE.
pub(crate) const CODECS: &[&Codec] =
    &[&isal::CODEC, &libdeflate::CODEC, &zlib::CODEC, &zlib_rs::CODEC];

/// The three framings, for libraries that only make whole streams.
const WHOLE: &[Format] = &[Format::Deflate, Format::Zlib, Format::Gzip];
/// The three framings, and parts of streams.
const WHOLE_AND_PARTS: &[Format] =
    &[Format::Deflate, Format::Zlib, Format::Gzip, Format::DeflatePart];

/// Returns zlib's `windowBits`: 15 for a window of 32 KiB, negative for raw streams, plus 16 for gzip.
fn window_bits(format: Format) -> i32 {
    match format {
        Format::Gzip => 15 + 16,
        Format::Zlib => 15,
        _ => -15,
    }
}

/// Empty stored block that is marked as the last one (RFC 1951, section 3.2.4). Appended to parts,
/// it makes them a stream.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// Longest buffer in bytes that zlib and ISA-L accept: they count in 32 bits.
const MAX_LEN: usize = u32::MAX as usize;

/// Returns the error for a result that does not fit or is longer than the library can count.
fn no_room(capacity: usize) -> Error {
    match capacity {
        0..=MAX_LEN => Error::OutputTooSmall { capacity },
        _ => Error::TooLarge(format!("the result is longer than {MAX_LEN} bytes")),
    }
}

/// Refuses bytes of the source behind the end of the stream.
fn ends_with_source(left: usize) -> Result<(), Error> {
    match left {
        0 => Ok(()),
        _ => Err(Error::Corrupt(format!("{left} bytes follow the stream"))),
    }
}

fn ends_early() -> Error {
    Error::Corrupt("the stream ends early".into())
}
