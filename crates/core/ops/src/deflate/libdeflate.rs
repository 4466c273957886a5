//! libdeflate: whole buffers at once, optimized for SIMD units.
//!
//! Bound directly because the safe bindings do not report where a stream ends, so bytes behind it
//! would go unnoticed.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_adler32, libdeflate_alloc_compressor, libdeflate_alloc_decompressor,
    libdeflate_compressor, libdeflate_crc32, libdeflate_decompressor, libdeflate_deflate_compress,
    libdeflate_deflate_decompress_ex, libdeflate_free_compressor, libdeflate_free_decompressor,
    libdeflate_gzip_compress, libdeflate_gzip_decompress_ex,
    libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE, libdeflate_result_LIBDEFLATE_SUCCESS,
    libdeflate_zlib_compress, libdeflate_zlib_decompress_ex,
};

use super::{WHOLE, ends_with_source};
use crate::codec::entry::Codec;
use crate::variant::{Library, single, written};
use crate::{Error, Format, Kernel, Output};

const NAME: &str = "libdeflate";

pub(super) const CODEC: Codec = Codec {
    library: Library {
        name: NAME,
        label: NAME,
        title: NAME,
        version: || env!("OVERSIDE_VERSION_LIBDEFLATE").into(),
        simd: true,
    },
    formats: WHOLE,
    levels: Some((0..=12, 6)),
    // On text, libdeflate and ISA-L are about equally fast at decompression; on binaries, tables
    // and short streams libdeflate is faster.
    compress_rank: 1,
    decompress_rank: 0,
    compressor_bytes: |level, _| if level < 10 { 2 << 20 } else { 16 << 20 },
    decompressor_bytes: 64 << 10,
    compressor: |format, level| Ok(Box::new(Compressor::new(format, level)?)),
    decompressor: |format| Ok(Box::new(Decompressor::new(format)?)),
};

/// Continues the CRC-32 `crc` over `bytes`; 0 starts one.
pub fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: pointer and length are those of a slice; the pointer is never null, for which the
    // function would return the initial value.
    unsafe { libdeflate_crc32(crc, bytes.as_ptr().cast(), bytes.len()) }
}

/// Continues the Adler-32 `adler` over `bytes`; 1 starts one.
pub fn adler32(adler: u32, bytes: &[u8]) -> u32 {
    // SAFETY: as in `crc32`.
    unsafe { libdeflate_adler32(adler, bytes.as_ptr().cast(), bytes.len()) }
}

struct Compressor {
    state: NonNull<libdeflate_compressor>,
    format: Format,
}

// SAFETY: the state is plain memory that only this value points to; libdeflate has no
// thread-local data.
unsafe impl Send for Compressor {}

impl Compressor {
    fn new(format: Format, level: u32) -> Result<Self, Error> {
        let level = i32::try_from(level).unwrap_or(i32::MAX);
        // SAFETY: the function takes any level and returns null for those it does not have.
        let state = unsafe { libdeflate_alloc_compressor(level) };
        Ok(Self { state: NonNull::new(state).ok_or_else(no_memory)?, format })
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: the state was allocated by libdeflate and is freed only here.
        unsafe { libdeflate_free_compressor(self.state.as_ptr()) }
    }
}

impl Kernel for Compressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        let capacity = destination.len();
        let compress = match self.format {
            Format::Gzip => libdeflate_gzip_compress,
            Format::Zlib => libdeflate_zlib_compress,
            _ => libdeflate_deflate_compress,
        };
        // SAFETY: the state is valid and ours alone (`&mut self`); pointers and lengths are those
        // of two slices, which cannot overlap.
        let len = unsafe {
            compress(
                self.state.as_ptr(),
                source.as_ptr().cast(),
                source.len(),
                destination.as_mut_ptr().cast(),
                capacity,
            )
        };
        match len {
            0 => Err(Error::OutputTooSmall { capacity }),
            len => Ok(written(len)),
        }
    }
}

struct Decompressor {
    state: NonNull<libdeflate_decompressor>,
    format: Format,
}

// SAFETY: as for `Compressor`.
unsafe impl Send for Decompressor {}

impl Decompressor {
    fn new(format: Format) -> Result<Self, Error> {
        // SAFETY: the function takes nothing and returns null if there is no memory.
        let state = unsafe { libdeflate_alloc_decompressor() };
        Ok(Self { state: NonNull::new(state).ok_or_else(no_memory)?, format })
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: the state was allocated by libdeflate and is freed only here.
        unsafe { libdeflate_free_decompressor(self.state.as_ptr()) }
    }
}

impl Kernel for Decompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        let capacity = destination.len();
        let decompress = match self.format {
            Format::Gzip => libdeflate_gzip_decompress_ex,
            Format::Zlib => libdeflate_zlib_decompress_ex,
            _ => libdeflate_deflate_decompress_ex,
        };
        let (mut taken, mut made) = (0, 0);
        // SAFETY: the state is valid and ours alone (`&mut self`); pointers and lengths are those
        // of two slices, which cannot overlap; the two results are written before the return.
        let result = unsafe {
            decompress(
                self.state.as_ptr(),
                source.as_ptr().cast(),
                source.len(),
                destination.as_mut_ptr().cast(),
                capacity,
                &raw mut taken,
                &raw mut made,
            )
        };
        #[allow(non_upper_case_globals)]
        match result {
            libdeflate_result_LIBDEFLATE_SUCCESS => {
                ends_with_source(source.len() - taken)?;
                Ok(written(made))
            }
            libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => {
                Err(Error::OutputTooSmall { capacity })
            }
            // libdeflate gives no reason.
            _ => Err(Error::Corrupt("it is not a valid stream, or ends early".into())),
        }
    }
}

fn no_memory() -> Error {
    Error::Library { library: NAME, reason: "no memory for its state".into() }
}
