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

/// The registry of libraries for DEFLATE.
pub(crate) const CODECS: &[&Codec] = &[
    &isal::CODEC,
    &libdeflate::CODEC,
    &zlib::CODEC,
    &zlib_rs::CODEC,
];

/// The three framings, for libraries that make whole streams only.
const WHOLE: &[Format] = &[Format::Deflate, Format::Zlib, Format::Gzip];
/// The three framings, and pieces of streams.
const WHOLE_AND_PARTS: &[Format] = &[
    Format::Deflate,
    Format::Zlib,
    Format::Gzip,
    Format::DeflatePart,
];

/// Returns what zlib calls window bits: 15 for 32 KiB, negative for raw streams, 16 more for gzip.
fn window_bits(format: Format) -> i32 {
    match format {
        Format::Gzip => 15 + 16,
        Format::Zlib => 15,
        _ => -15,
    }
}

/// An empty stored block that is the last one (RFC 1951, section 3.2.4). It makes a stream of parts.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// The most bytes that zlib and ISA-L count, for want of more than 32 bits.
const MAX_LEN: usize = u32::MAX as usize;

/// The error for a result that does not fit, or that is longer than the library can count.
fn no_room(capacity: usize) -> Error {
    match capacity {
        0..=MAX_LEN => Error::OutputTooSmall { capacity },
        _ => Error::TooLarge(format!("the result is longer than {MAX_LEN} bytes")),
    }
}

/// A stream must end where the source ends.
fn ends_with_source(left: usize) -> Result<(), Error> {
    match left {
        0 => Ok(()),
        _ => Err(Error::Corrupt(format!("{left} bytes follow the stream"))),
    }
}

fn ends_early() -> Error {
    Error::Corrupt("the stream ends early".into())
}
