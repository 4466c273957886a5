//! DEFLATE in its three framings: raw (RFC 1951), zlib (RFC 1950), gzip (RFC 1952).

mod isal;
mod libdeflate;
mod zlib;

pub(crate) use isal::StreamDecoder;
pub use libdeflate::{adler32, crc32};
pub(crate) use zlib::{crc32 as zlib_crc32, version as zlib_version};

use crate::variant::Maker;
use crate::{Error, Format, Variant};

pub(crate) fn compressors() -> Vec<Variant> {
    vec![
        with_levels(isal::variant(), isal::LEVELS),
        with_levels(libdeflate::variant(), libdeflate::LEVELS),
        with_levels(zlib::variant(), zlib::LEVELS),
    ]
}

pub(crate) fn decompressors() -> Vec<Variant> {
    // On text libdeflate and ISA-L take turns at being first; on binaries, on tables, and on short
    // streams libdeflate leads.
    vec![libdeflate::variant(), isal::variant(), zlib::variant()]
}

/// libdeflate makes whole streams only.
pub(crate) fn part_compressors() -> Vec<Variant> {
    vec![
        with_levels(isal::variant(), isal::LEVELS),
        with_levels(zlib::variant(), zlib::LEVELS),
    ]
}

pub(crate) fn part_decompressors() -> Vec<Variant> {
    vec![isal::variant(), zlib::variant()]
}

pub(crate) fn compressor(variant: &'static str, format: Format, level: u32) -> Maker {
    match variant {
        isal::NAME => Box::new(move || Ok(Box::new(isal::Compressor::new(format, level)?))),
        libdeflate::NAME => {
            Box::new(move || Ok(Box::new(libdeflate::Compressor::new(format, level)?)))
        }
        _ => Box::new(move || Ok(Box::new(zlib::Compressor::new(format, level)?))),
    }
}

pub(crate) fn decompressor(variant: &'static str, format: Format) -> Maker {
    match variant {
        isal::NAME if format == Format::DeflatePart => {
            Box::new(|| Ok(Box::new(isal::PartDecompressor::new())))
        }
        isal::NAME => Box::new(move || Ok(Box::new(isal::Decompressor::new(format)))),
        libdeflate::NAME => Box::new(move || Ok(Box::new(libdeflate::Decompressor::new(format)?))),
        _ => Box::new(move || Ok(Box::new(zlib::Decompressor::new(format)?))),
    }
}

/// The levels of a library: lowest, highest, the one it uses unasked.
type Levels = (u32, u32, u32);

fn with_levels(variant: Variant, (min, max, default): Levels) -> Variant {
    Variant {
        levels: Some((min..=max, default)),
        ..variant
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
