//! The registry of compression libraries.

use std::ops::RangeInclusive;

use crate::variant::{Entry, Library, Variant};
use crate::{Error, Format, Kernel, deflate, lz4, zstd};

/// A library that compresses and decompresses.
pub(crate) struct Codec {
    pub library: Library,
    /// What it makes and takes.
    pub formats: &'static [Format],
    /// Its compression levels and the one that is used unasked, if it has any.
    pub levels: Option<(RangeInclusive<u32>, u32)>,
    /// `auto` takes the library with the lowest number to compress.
    pub compress_rank: u8,
    /// And to decompress.
    pub decompress_rank: u8,
    /// What a compressor takes at a level for sources of so many bytes, in bytes; at most.
    pub compressor_bytes: fn(u32, u64) -> u64,
    /// What a decompressor takes.
    pub decompressor_bytes: u64,
    /// Makes a compressor of one of `formats` at one of `levels` (0 without levels).
    pub compressor: fn(Format, u32) -> Result<Box<dyn Kernel>, Error>,
    /// Makes a decompressor of one of `formats`.
    pub decompressor: fn(Format) -> Result<Box<dyn Kernel>, Error>,
}

impl Codec {
    fn compressor(&'static self, format: Format) -> Entry {
        let compressor = self.compressor;
        Entry {
            variant: Variant {
                levels: self.levels.clone(),
                ..self.library.variant()
            },
            prepare: Box::new(move |_, level, _| Ok(Box::new(move || compressor(format, level)))),
        }
    }

    fn decompressor(&'static self, format: Format) -> Entry {
        let decompressor = self.decompressor;
        Entry {
            variant: self.library.variant(),
            prepare: Box::new(move |_, _, _| Ok(Box::new(move || decompressor(format)))),
        }
    }
}

/// Those that make `format`, the one that `auto` takes first.
pub(crate) fn compressors(format: Format) -> Vec<Entry> {
    let codecs = ranked(format, |codec| codec.compress_rank);
    codecs.map(|codec| codec.compressor(format)).collect()
}

/// Those that take `format`, the one that `auto` takes first.
pub(crate) fn decompressors(format: Format) -> Vec<Entry> {
    let codecs = ranked(format, |codec| codec.decompress_rank);
    codecs.map(|codec| codec.decompressor(format)).collect()
}

/// The library of that name.
pub(crate) fn find(name: &str) -> Option<&'static Codec> {
    all().into_iter().find(|codec| codec.library.name == name)
}

fn all() -> Vec<&'static Codec> {
    [deflate::CODECS, lz4::CODECS, zstd::CODECS].concat()
}

fn ranked(format: Format, rank: fn(&Codec) -> u8) -> impl Iterator<Item = &'static Codec> {
    let mut codecs: Vec<&Codec> = (all().into_iter())
        .filter(|codec| codec.formats.contains(&format))
        .collect();
    codecs.sort_by_key(|codec| rank(codec));
    codecs.into_iter()
}
