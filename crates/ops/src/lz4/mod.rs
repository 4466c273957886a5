//! LZ4, as single blocks and as frames, through the C library and through portable Rust.
//!
//! Frames have independent blocks, the content's size and its checksum, as those of the
//! command-line tool have by default but for the size.

mod block;
mod c;
mod flex;
pub mod frame;

pub(crate) use c::StreamDecoder;

use crate::Variant;
use crate::variant::Maker;

const C: &str = "lz4";
const FLEX: &str = "lz4-flex";

/// The C library's levels: 1 is the fast compressor, from 2 on it is the "HC" one.
const LEVELS: (std::ops::RangeInclusive<u32>, u32) = (1..=12, 1);

pub(crate) fn compressors() -> Vec<Variant> {
    let mut variants = decompressors();
    variants[0].levels = Some(LEVELS);
    variants
}

pub(crate) fn decompressors() -> Vec<Variant> {
    let variant = |name, library, version| Variant {
        name,
        library,
        version,
        simd: false,
        levels: None,
    };
    vec![
        variant(C, "LZ4", c::version()),
        variant(FLEX, "lz4_flex", env!("OVERSIDE_VERSION_LZ4_FLEX").into()),
    ]
}

pub(crate) fn block_compressor(variant: &'static str, level: u32) -> Maker {
    match variant {
        C => Box::new(move || Ok(Box::new(c::BlockCompressor::new(level)?))),
        _ => Box::new(|| Ok(Box::<flex::BlockCompressor>::default())),
    }
}

pub(crate) fn block_decompressor(variant: &'static str) -> Maker {
    match variant {
        C => Box::new(|| Ok(Box::new(c::BlockDecompressor))),
        _ => Box::new(|| Ok(Box::new(flex::BlockDecompressor))),
    }
}

pub(crate) fn frame_compressor(variant: &'static str, level: u32) -> Maker {
    match variant {
        C => Box::new(move || Ok(Box::new(c::FrameCompressor::new(level)?))),
        _ => Box::new(|| Ok(Box::<flex::FrameCompressor>::default())),
    }
}

pub(crate) fn frame_decompressor(variant: &'static str) -> Maker {
    match variant {
        C => Box::new(|| Ok(Box::new(c::FrameDecompressor::new()?))),
        _ => Box::new(|| Ok(Box::new(flex::FrameDecompressor))),
    }
}
