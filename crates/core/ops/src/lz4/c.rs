//! LZ4's C library.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use lz4_sys::{
    BlockChecksum, BlockMode, BlockSize, ContentChecksum, FrameType, LZ4_decompress_safe,
    LZ4_versionNumber, LZ4F_createCompressionContext, LZ4F_createDecompressionContext,
    LZ4F_decompress, LZ4F_freeCompressionContext, LZ4F_freeDecompressionContext, LZ4F_getErrorName,
    LZ4F_isError, LZ4F_resetDecompressionContext, LZ4FCompressionContext, LZ4FDecompressOptions,
    LZ4FDecompressionContext, LZ4FFrameInfo, LZ4FPreferences,
};

use super::frame::{Header, ends_early};
use super::{FORMATS, block};
use crate::codec::entry::Codec;
use crate::variant::{Library, at_most, single, written};
use crate::{Error, Format, Kernel, Output, Step};

const LIBRARY: &str = "LZ4";
/// Longest source of a block in bytes (LZ4_MAX_INPUT_SIZE).
const MAX_BLOCK: usize = 0x7e00_0000;
/// Lowest level of the "HC" compressor (LZ4HC_CLEVEL_MIN, lz4hc.h).
const HC_FROM: u32 = 2;
/// Version that frame contexts are created for (LZ4F_VERSION).
const FRAME_VERSION: u32 = 100;

// Functions that lz4-sys does not declare, from lz4.h, lz4hc.h and lz4frame.h 1.10.
unsafe extern "C" {
    fn LZ4_sizeofState() -> c_int;
    fn LZ4_compress_fast_extState(
        state: *mut c_void,
        source: *const c_char,
        destination: *mut c_char,
        source_size: c_int,
        capacity: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_sizeofStateHC() -> c_int;
    fn LZ4_compress_HC_extStateHC(
        state: *mut c_void,
        source: *const c_char,
        destination: *mut c_char,
        source_size: c_int,
        capacity: c_int,
        level: c_int,
    ) -> c_int;
    fn LZ4F_compressFrameBound(source_size: usize, preferences: *const LZ4FPreferences) -> usize;
    fn LZ4F_compressFrame_usingCDict(
        context: LZ4FCompressionContext,
        destination: *mut c_void,
        capacity: usize,
        source: *const c_void,
        source_size: usize,
        dictionary: *const c_void,
        preferences: *const LZ4FPreferences,
    ) -> usize;
}

pub(super) const CODEC: Codec = Codec {
    library: Library { name: "lz4", label: "LZ4", title: LIBRARY, version, simd: false },
    formats: FORMATS,
    // Level 1 is the fast compressor, levels from 2 on are the "HC" one.
    levels: Some((1..=12, 1)),
    compress_rank: 0,
    decompress_rank: 0,
    compressor_bytes: |_, source_bytes| source_bytes + (source_bytes >> 7) + (1 << 20),
    decompressor_bytes: 16 << 20,
    compressor: |format, level| {
        Ok(match format {
            Format::Lz4Block => Box::new(BlockCompressor::new(level)?),
            _ => Box::new(FrameCompressor::new(level)?),
        })
    },
    decompressor: |format| {
        Ok(match format {
            Format::Lz4Block => Box::new(BlockDecompressor),
            _ => Box::new(FrameDecompressor::new()?),
        })
    },
};

/// Returns the version that the library reports.
fn version() -> String {
    // SAFETY: the function takes nothing and returns a number.
    let number = unsafe { LZ4_versionNumber() };
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

struct BlockCompressor {
    /// State of the library, aligned as it requires.
    state: Vec<u64>,
    level: u32,
}

impl BlockCompressor {
    fn new(level: u32) -> Result<Self, Error> {
        // SAFETY: the functions take nothing and return a number.
        let size_bytes =
            unsafe { if level < HC_FROM { LZ4_sizeofState() } else { LZ4_sizeofStateHC() } };
        let words = usize::try_from(size_bytes).unwrap_or(0).div_ceil(8);
        Ok(Self { state: vec![0; words], level })
    }
}

impl Kernel for BlockCompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, MAX_BLOCK)?;
        let capacity = destination.len();
        let (compress, level): (unsafe extern "C" fn(_, _, _, _, _, _) -> _, _) = match self.level {
            level if level < HC_FROM => (LZ4_compress_fast_extState, 1),
            level => (LZ4_compress_HC_extStateHC, level as c_int),
        };
        // SAFETY: the state has the length and alignment that this function requires; pointers and
        // lengths are those of two slices, which cannot overlap.
        let len = unsafe {
            compress(
                self.state.as_mut_ptr().cast(),
                source.as_ptr().cast(),
                destination.as_mut_ptr().cast(),
                source.len() as c_int,
                as_int(capacity),
                level,
            )
        };
        match usize::try_from(len) {
            Ok(len) if len > 0 => Ok(written(len)),
            _ => Err(Error::OutputTooSmall { capacity }),
        }
    }
}

struct BlockDecompressor;

impl Kernel for BlockDecompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, c_int::MAX as usize)?;
        let capacity = destination.len();
        // SAFETY: pointers and lengths are those of two slices, which cannot overlap; the
        // function is safe for any contents.
        let len = unsafe {
            LZ4_decompress_safe(
                source.as_ptr().cast(),
                destination.as_mut_ptr().cast(),
                source.len() as c_int,
                as_int(capacity),
            )
        };
        let len = usize::try_from(len).map_err(|_| block::refusal(source, capacity))?;
        Ok(written(len))
    }
}

struct FrameCompressor {
    context: LZ4FCompressionContext,
    preferences: LZ4FPreferences,
    /// Buffer for the frame if the destination is shorter than the worst case, which the library requires.
    spare: Vec<u8>,
}

impl FrameCompressor {
    fn new(level: u32) -> Result<Self, Error> {
        let mut context = LZ4FCompressionContext(ptr::null_mut());
        // SAFETY: the context is set to memory that the library allocates.
        check(unsafe { LZ4F_createCompressionContext(&mut context, FRAME_VERSION) })?;
        let frame_info = LZ4FFrameInfo {
            block_size_id: BlockSize::Max4MB,
            block_mode: BlockMode::Independent,
            content_checksum_flag: ContentChecksum::ChecksumEnabled,
            frame_type: FrameType::Frame,
            // Any number except 0: the library replaces it with the real size.
            content_size: 1,
            dict_id: 0,
            block_checksum_flag: BlockChecksum::NoBlockChecksum,
        };
        let preferences = LZ4FPreferences {
            frame_info,
            compression_level: level,
            auto_flush: 1,
            favor_dec_speed: 0,
            reserved: [0; 3],
        };
        Ok(Self { context, preferences, spare: Vec::new() })
    }

    /// Compresses into a destination that has room for the worst case.
    ///
    /// # Safety
    /// `capacity` bytes at `destination` can be written and do not overlap `source`.
    unsafe fn compress(
        &mut self,
        source: &[u8],
        destination: *mut u8,
        capacity: usize,
    ) -> Result<usize, Error> {
        // SAFETY: the context is valid and ours alone (`&mut self`); the caller answers for the
        // destination; the dictionary may be null.
        check(unsafe {
            LZ4F_compressFrame_usingCDict(
                self.context,
                destination.cast(),
                capacity,
                source.as_ptr().cast(),
                source.len(),
                ptr::null(),
                &raw const self.preferences,
            )
        })
    }
}

impl Drop for FrameCompressor {
    fn drop(&mut self) {
        // SAFETY: the context was created by the library and is freed only here.
        unsafe { LZ4F_freeCompressionContext(self.context) };
    }
}

impl Kernel for FrameCompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        let capacity = destination.len();
        // SAFETY: the function only reads the preferences.
        let worst = unsafe { LZ4F_compressFrameBound(source.len(), &raw const self.preferences) };
        if capacity >= worst {
            // SAFETY: pointer and length are those of a slice that is borrowed mutably.
            let len = unsafe { self.compress(source, destination.as_mut_ptr(), capacity) }?;
            return Ok(written(len));
        }
        if self.spare.len() < worst {
            self.spare.resize(worst, 0);
        }
        let (spare, spare_len) = (self.spare.as_mut_ptr(), self.spare.len());
        // SAFETY: pointer and length are those of a vector that nothing else touches meanwhile.
        let len = unsafe { self.compress(source, spare, spare_len) }?;
        let room = destination.get_mut(..len).ok_or(Error::OutputTooSmall { capacity })?;
        room.copy_from_slice(&self.spare[..len]);
        Ok(written(len))
    }
}

struct FrameDecompressor(LZ4FDecompressionContext);

impl FrameDecompressor {
    fn new() -> Result<Self, Error> {
        let mut context = LZ4FDecompressionContext(ptr::null_mut());
        // SAFETY: the context is set to memory that the library allocates.
        check(unsafe { LZ4F_createDecompressionContext(&mut context, FRAME_VERSION) })?;
        Ok(Self(context))
    }

    /// Continues decompressing. Returns the number of bytes written, the number of bytes taken, and
    /// `true` if the frame has ended. With `stable`, the output stays in place until the frame
    /// ends, and each room follows the one before in memory.
    fn step(
        &mut self,
        source: &[u8],
        room: &mut [u8],
        stable: bool,
    ) -> Result<(usize, usize, bool), Error> {
        let (mut taken, mut made) = (source.len(), room.len());
        let options = LZ4FDecompressOptions { stable_dst: u32::from(stable), reserved: [0; 3] };
        // SAFETY: the context is valid and ours alone (`&mut self`); pointers and lengths are
        // those of two slices, which cannot overlap.
        let code = unsafe {
            LZ4F_decompress(
                self.0,
                room.as_mut_ptr(),
                &mut made,
                source.as_ptr(),
                &mut taken,
                &raw const options,
            )
        };
        match is_error(code) {
            true => Err(Error::Corrupt(error_name(code))),
            false => Ok((made, taken, code == 0)),
        }
    }

    /// Discards the state of an earlier call, including the address of its destination.
    fn reset(&mut self) {
        // SAFETY: the context is valid.
        unsafe { LZ4F_resetDecompressionContext(self.0) };
    }

    fn decompress(&mut self, source: &[u8], destination: &mut [u8]) -> Result<usize, Error> {
        Header::read(source)?;
        let capacity = destination.len();
        let (mut taken, mut made) = (0, 0);
        loop {
            let step = self.step(&source[taken..], &mut destination[made..], true)?;
            made += step.0;
            taken += step.1;
            if step.2 {
                break;
            }
            if (step.0, step.1) == (0, 0) {
                // It makes no progress. The destination is too short if it continues with one byte more.
                let has_more = self.step(&source[taken..], &mut [0; 1], true)?.0 > 0;
                return Err(match has_more {
                    true => Error::OutputTooSmall { capacity },
                    false => ends_early(),
                });
            }
        }
        match source.len() - taken {
            0 => Ok(made),
            excess => Err(Error::Corrupt(format!("{excess} bytes follow the frame"))),
        }
    }
}

impl Drop for FrameDecompressor {
    fn drop(&mut self) {
        // SAFETY: the context was created by the library and is freed only here.
        unsafe { LZ4F_freeDecompressionContext(self.0) };
    }
}

impl Kernel for FrameDecompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        self.reset();
        self.decompress(single(source)?, destination).map(written)
    }
}

/// Decoder of one frame after the other, in pieces.
pub(crate) struct StreamDecoder(FrameDecompressor);

impl StreamDecoder {
    pub(crate) fn new() -> Result<Self, Error> {
        FrameDecompressor::new().map(Self)
    }
}

impl crate::StreamDecoder for StreamDecoder {
    fn step(&mut self, source: &[u8], room: &mut [u8]) -> Result<Step, Error> {
        let (made, taken, ended) = self.0.step(source, room, false)?;
        Ok(Step { taken, made, ended, unread: 0 })
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.0.reset();
        Ok(())
    }
}

/// Converts a length to the library's type. Bytes beyond its maximum are not used.
fn as_int(len: usize) -> c_int {
    c_int::try_from(len).unwrap_or(c_int::MAX)
}

fn is_error(code: usize) -> bool {
    // SAFETY: the function takes any number.
    unsafe { LZ4F_isError(code) != 0 }
}

fn error_name(code: usize) -> String {
    // SAFETY: the function takes any number and returns a NUL-terminated constant.
    unsafe { CStr::from_ptr(LZ4F_getErrorName(code)) }.to_string_lossy().into_owned()
}

fn check(code: usize) -> Result<usize, Error> {
    match is_error(code) {
        true => Err(Error::Library { library: LIBRARY, reason: error_name(code) }),
        false => Ok(code),
    }
}
