//! Zstandard by its reference library. Frames have the content's size and checksum, like those of
//! the command-line tool.

use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode as Code;
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective,
    find_frame_compressed_size, get_error_name, version_string,
};

use crate::codec::entry::Codec;
use crate::variant::{Library, single, written};
use crate::{Error, Format, Kernel, Output, Step, ZSTD_WINDOW_LOG_MAX};

const LIBRARY: &str = "zstd";
/// Default level of Zstandard (ZSTD_CLEVEL_DEFAULT).
const DEFAULT_LEVEL: u32 = 3;
/// Highest level (ZSTD_maxCLevel).
const MAX_LEVEL: u32 = 22;
/// First bytes of a Zstandard frame (RFC 8878, section 3.1.1). Skippable frames begin differently.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Registry of the libraries for Zstandard.
pub(crate) const CODECS: &[&Codec] = &[&CODEC];

const CODEC: Codec = Codec {
    library: Library {
        name: "zstd",
        label: "Zstandard",
        title: LIBRARY,
        version: || version_string().into(),
        simd: false,
    },
    formats: &[Format::Zstd],
    levels: Some((1..=MAX_LEVEL, DEFAULT_LEVEL)),
    compress_rank: 0,
    decompress_rank: 0,
    compressor_bytes: table_bytes,
    decompressor_bytes: 1 << 20,
    compressor: |_, level| Ok(Box::new(Compressor::new(level)?)),
    decompressor: |_| {
        let context = DCtx::try_create().ok_or_else(no_memory)?;
        Ok(Box::new(Decompressor(context)))
    },
};

/// Returns the memory in bytes of the library's tables at a level. They are no larger than the source needs:
/// two tables with twice as many entries as the source has bytes, rounded up to a power of two.
fn table_bytes(level: u32, source_bytes: u64) -> u64 {
    let most: u64 = match level {
        ..=8 => 8 << 20,
        9..=12 => 48 << 20,
        13..=19 => 88 << 20,
        20 => 176 << 20,
        21 => 352 << 20,
        _ => 672 << 20,
    };
    most.min(16 * source_bytes.max(1).next_power_of_two()) + (4 << 20)
}

struct Compressor(CCtx<'static>);

impl Compressor {
    fn new(level: u32) -> Result<Self, Error> {
        let mut context = CCtx::try_create().ok_or_else(no_memory)?;
        let level = i32::try_from(level).unwrap_or(i32::MAX);
        for parameter in [CParameter::CompressionLevel(level), CParameter::ChecksumFlag(true)] {
            context.set_parameter(parameter).map_err(library)?;
        }
        Ok(Self(context))
    }
}

impl Kernel for Compressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let capacity = destination.len();
        let result = self.0.compress2(destination, single(source)?);
        result.map(written).map_err(|code| match is(code, Code::ZSTD_error_dstSize_tooSmall) {
            true => Error::OutputTooSmall { capacity },
            false => library(code),
        })
    }
}

struct Decompressor(DCtx<'static>);

impl Kernel for Decompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        let capacity = destination.len();
        // The library would accept several frames, and skippable ones, as one stream.
        if !source.starts_with(&MAGIC) {
            return Err(Error::Corrupt("it does not begin like a Zstandard frame".into()));
        }
        let frame_len = find_frame_compressed_size(source).map_err(corrupt)?;
        if frame_len != source.len() {
            let excess = source.len() - frame_len;
            return Err(Error::Corrupt(format!("{excess} bytes follow the frame")));
        }
        // Decoding in one call uses the destination as the window, so a frame with a huge window
        // costs no memory.
        self.0.decompress(destination, source).map(written).map_err(|code| {
            if is(code, Code::ZSTD_error_dstSize_tooSmall) {
                Error::OutputTooSmall { capacity }
            } else if is(code, Code::ZSTD_error_memory_allocation) {
                library(code)
            } else {
                corrupt(code)
            }
        })
    }
}

/// Decoder of one frame after the other, in pieces.
pub(crate) struct StreamDecoder(DCtx<'static>);

impl StreamDecoder {
    pub(crate) fn new() -> Result<Self, Error> {
        let mut context = DCtx::try_create().ok_or_else(no_memory)?;
        let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
        context.set_parameter(window).map_err(library)?;
        Ok(Self(context))
    }
}

impl crate::StreamDecoder for StreamDecoder {
    fn step(&mut self, source: &[u8], room: &mut [u8]) -> Result<Step, Error> {
        let (mut input, mut output) = (InBuffer::around(source), OutBuffer::around(room));
        let hint =
            (self.0.decompress_stream(&mut output, &mut input)).map_err(|code| {
                match is(code, Code::ZSTD_error_memory_allocation) {
                    true => library(code),
                    false => corrupt(code),
                }
            })?;
        let (taken, made) = (input.pos, output.pos());
        Ok(Step { taken, made, ended: hint == 0, unread: 0 })
    }

    fn reset(&mut self) -> Result<(), Error> {
        (self.0.reset(ResetDirective::SessionOnly)).map(drop).map_err(library)
    }
}

/// Returns `true` if `code` is this error: Zstandard returns errors as negated codes.
fn is(code: usize, error: Code) -> bool {
    0usize.wrapping_sub(code) == error as usize
}

fn corrupt(code: usize) -> Error {
    Error::Corrupt(get_error_name(code).into())
}

fn library(code: usize) -> Error {
    Error::Library { library: LIBRARY, reason: get_error_name(code).into() }
}

fn no_memory() -> Error {
    Error::Library { library: LIBRARY, reason: "no memory for its state".into() }
}

#[test]
fn the_highest_level_is_the_librarys() {
    let max = zstd::zstd_safe::max_c_level();
    assert_eq!(u32::try_from(max), Ok(MAX_LEVEL));
}

#[test]
fn the_library_takes_no_more_than_is_said() {
    for level in 1..=MAX_LEVEL {
        for source_bytes in [0, 1 << 10, 1 << 16, 1 << 18, 1 << 20, 9 << 20] {
            let mut compressor = Compressor::new(level).unwrap();
            let (source, mut room) = (vec![0; source_bytes], vec![0; 1 << 16]);
            compressor.run(&[&source], &mut room).unwrap();
            let (taken, said) = (compressor.0.sizeof(), table_bytes(level, source_bytes as u64));
            assert!(taken as u64 <= said, "{level}, {source_bytes}: {taken} of {said}");
        }
    }
}
