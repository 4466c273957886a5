//! Entry of a compression library in the registry.

use std::ops::RangeInclusive;

use crate::variant::{Entry, Library, Variant};
use crate::{Error, Format, Kernel};

/// A library that compresses and decompresses.
pub(crate) struct Codec {
    pub library: Library,
    /// Formats that the library compresses to and decompresses from.
    pub formats: &'static [Format],
    /// Range of the compression levels, and the default level; `None` if the library has no levels.
    pub levels: Option<(RangeInclusive<u32>, u32)>,
    /// Rank for compression: `auto` takes the library with the lowest one.
    pub compress_rank: u8,
    /// Rank for decompression.
    pub decompress_rank: u8,
    /// Returns an upper bound of the memory of a compressor in bytes, given a level and the length
    /// of sources in bytes.
    pub compressor_bytes: fn(u32, u64) -> u64,
    /// Memory of a decompressor in bytes.
    pub decompressor_bytes: u64,
    /// Makes a compressor of one of `formats` at one of `levels` (0 without levels).
    pub compressor: fn(Format, u32) -> Result<Box<dyn Kernel>, Error>,
    /// Makes a decompressor of one of `formats`.
    pub decompressor: fn(Format) -> Result<Box<dyn Kernel>, Error>,
}

impl Codec {
    pub(super) fn compressor(&'static self, format: Format) -> Entry {
        let compressor = self.compressor;
        Entry {
            variant: Variant { levels: self.levels.clone(), ..self.library.variant() },
            prepare: Box::new(move |_, level, _| Ok(Box::new(move || compressor(format, level)))),
        }
    }

    pub(super) fn decompressor(&'static self, format: Format) -> Entry {
        let decompressor = self.decompressor;
        Entry {
            variant: self.library.variant(),
            prepare: Box::new(move |_, _, _| Ok(Box::new(move || decompressor(format)))),
        }
    }
}
