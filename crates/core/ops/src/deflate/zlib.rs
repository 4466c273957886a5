//! zlib: the portable reference, and its CRC-32.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use libz_sys as z;

use super::one_call::{Compressor, Decompressor, Flush, Progress, Stream};
use super::{MAX_LEN, WHOLE_AND_PARTS, window_bits};
use crate::codec::entry::Codec;
use crate::variant::Library;
use crate::{Error, Format};

const NAME: &str = "zlib";

pub(super) const CODEC: Codec = Codec {
    library: Library { name: NAME, label: NAME, title: NAME, version, simd: false },
    formats: WHOLE_AND_PARTS,
    levels: Some((0..=9, 6)),
    compress_rank: 2,
    decompress_rank: 2,
    compressor_bytes: |_, _| 512 << 10,
    decompressor_bytes: 64 << 10,
    compressor: |format, level| {
        let stream = Deflate::new(format, level)?;
        Ok(Box::new(Compressor::new(stream, format)))
    },
    decompressor: |format| {
        let stream = Inflate::new(format)?;
        Ok(Box::new(Decompressor::new(stream, format)))
    },
};

/// zlib's own default for deflateInit (DEF_MEM_LEVEL).
const MEMORY_LEVEL: i32 = 8;

/// Returns the version that the library reports.
pub(crate) fn version() -> String {
    // SAFETY: the function takes nothing and returns a NUL-terminated string that lives as long
    // as the program.
    unsafe { CStr::from_ptr(z::zlibVersion()) }.to_string_lossy().into_owned()
}

/// Continues the CRC-32 `crc` over `bytes`; 0 starts one.
pub(crate) fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    let crc = bytes.chunks(MAX_LEN).fold(crc.into(), |crc, part| {
        // SAFETY: pointer and length are those of a slice that is not empty.
        unsafe { z::crc32(crc, part.as_ptr(), part.len() as u32) }
    });
    crc as u32
}

struct Deflate(RawStream);

impl Deflate {
    fn new(format: Format, level: u32) -> Result<Self, Error> {
        let level = i32::try_from(level).unwrap_or(i32::MAX);
        RawStream::new(z::deflateEnd, |stream| {
            // SAFETY: the stream is valid; version and size are those of the bindings.
            unsafe {
                z::deflateInit2_(
                    stream,
                    level,
                    z::Z_DEFLATED,
                    window_bits(format),
                    MEMORY_LEVEL,
                    z::Z_DEFAULT_STRATEGY,
                    z::zlibVersion(),
                    size_of::<z::z_stream>() as i32,
                )
            }
        })
        .map(Self)
    }
}

impl Stream for Deflate {
    fn reset(&mut self) -> Result<(), Error> {
        // SAFETY: the stream was made by deflateInit2_.
        check(unsafe { z::deflateReset(self.0.get()) })
    }

    fn step(&mut self, source: &[u8], room: &mut [u8], flush: Flush) -> Result<Progress, Error> {
        // SAFETY: the stream was made by deflateInit2_.
        (self.0).step(source, room, |stream| unsafe { z::deflate(stream, flush_code(flush)) })
    }
}

struct Inflate(RawStream);

impl Inflate {
    fn new(format: Format) -> Result<Self, Error> {
        RawStream::new(z::inflateEnd, |stream| {
            // SAFETY: the stream is valid; version and size are those of the bindings.
            unsafe {
                let size = size_of::<z::z_stream>() as i32;
                z::inflateInit2_(stream, window_bits(format), z::zlibVersion(), size)
            }
        })
        .map(Self)
    }
}

impl Stream for Inflate {
    fn reset(&mut self) -> Result<(), Error> {
        // SAFETY: the stream was made by inflateInit2_.
        check(unsafe { z::inflateReset(self.0.get()) })
    }

    fn step(&mut self, source: &[u8], room: &mut [u8], flush: Flush) -> Result<Progress, Error> {
        // SAFETY: the stream was made by inflateInit2_.
        (self.0).step(source, room, |stream| unsafe { z::inflate(stream, flush_code(flush)) })
    }
}

/// Decoder of raw DEFLATE that stops behind each block.
pub(super) struct BlockDecoder(Inflate);

/// Result of one step of a [`BlockDecoder`].
pub(super) struct BlockStep {
    /// Number of bytes of the source that were taken.
    pub taken: usize,
    /// Number of bytes that were written to the room.
    pub made: usize,
    /// End of the block, if the decoder stopped behind one.
    pub block_end: Option<BlockEnd>,
}

/// End of a block.
pub(super) struct BlockEnd {
    /// Number of bits of the last byte taken that do not belong to the block, counted from the highest.
    pub unused_bits: usize,
    /// `true` if the block is marked as the last one.
    pub is_last: bool,
}

impl BlockDecoder {
    pub(super) fn new() -> Result<Self, Error> {
        Inflate::new(Format::Deflate).map(Self)
    }

    /// Starts another stream.
    pub(super) fn reset(&mut self) -> Result<(), Error> {
        self.0.reset()
    }

    /// Continues until a block ends, or until source or room are used up.
    pub(super) fn step(&mut self, source: &[u8], room: &mut [u8]) -> Result<BlockStep, Error> {
        let state = &mut self.0.0;
        // SAFETY: the stream was made by inflateInit2_.
        let done = state.step(source, room, |stream| unsafe { z::inflate(stream, z::Z_BLOCK) })?;
        // zlib.h, inflate: 128 behind a block, 64 in the last one, and the bits below.
        let flags = state.fields().data_type;
        Ok(BlockStep {
            taken: done.taken,
            made: done.made,
            block_end: (flags & 128 != 0).then_some(BlockEnd {
                unused_bits: (flags & 7) as usize,
                is_last: flags & 64 != 0,
            }),
        })
    }
}

fn flush_code(flush: Flush) -> i32 {
    match flush {
        Flush::Sync => z::Z_SYNC_FLUSH,
        Flush::Full => z::Z_FULL_FLUSH,
        Flush::Finish => z::Z_FINISH,
    }
}

/// A `z_stream` and the function that ends it.
struct RawStream {
    // zlib's state points back to it, so it must not move. A `Box` would be wrong: moving a `Box` asserts
    // that no other pointer to its content exists. It is allocated as a `Box` and freed as one in `drop`.
    stream: NonNull<z::z_stream>,
    end: unsafe extern "C" fn(*mut z::z_stream) -> i32,
}

// SAFETY: zlib keeps no thread-local data; each call sets the pointers to buffers, which are not
// followed between calls.
unsafe impl Send for RawStream {}

impl RawStream {
    fn new(
        end: unsafe extern "C" fn(*mut z::z_stream) -> i32,
        init: impl FnOnce(*mut z::z_stream) -> i32,
    ) -> Result<Self, Error> {
        // The bindings declare the allocators as functions that cannot be null, but zlib's default
        // is null. These functions do what zlib's default does.
        let stream = Box::new(z::z_stream {
            next_in: ptr::null_mut(),
            avail_in: 0,
            total_in: 0,
            next_out: ptr::null_mut(),
            avail_out: 0,
            total_out: 0,
            msg: ptr::null_mut(),
            state: ptr::null_mut(),
            zalloc: allocate,
            zfree: free,
            opaque: ptr::null_mut(),
            data_type: 0,
            adler: 0,
            reserved: 0,
        });
        let stream = NonNull::from(Box::leak(stream));
        if let Err(error) = check(init(stream.as_ptr())) {
            // SAFETY: it came from a `Box`; a stream that was not made is not pointed to.
            drop(unsafe { Box::from_raw(stream.as_ptr()) });
            return Err(error);
        }
        Ok(Self { stream, end })
    }

    fn get(&mut self) -> *mut z::z_stream {
        self.stream.as_ptr()
    }

    /// Returns the fields of the stream, which may be read between calls of zlib.
    fn fields(&self) -> &z::z_stream {
        // SAFETY: the stream lives until `drop`, and zlib touches it only during calls, which
        // need `self` mutably or come after this borrow.
        unsafe { self.stream.as_ref() }
    }

    /// Returns the fields of the stream, to be changed.
    fn fields_mut(&mut self) -> &mut z::z_stream {
        // SAFETY: as for `fields`; the borrow is over before the next call.
        unsafe { self.stream.as_mut() }
    }

    /// Calls zlib with a source and a destination.
    fn step(
        &mut self,
        source: &[u8],
        room: &mut [u8],
        call: impl FnOnce(*mut z::z_stream) -> i32,
    ) -> Result<Progress, Error> {
        let (source_len, room_len) = (source.len().min(MAX_LEN), room.len().min(MAX_LEN));
        let stream = self.fields_mut();
        stream.next_in = source.as_ptr().cast_mut();
        stream.avail_in = source_len as u32;
        stream.next_out = room.as_mut_ptr();
        stream.avail_out = room_len as u32;
        let code = call(self.get());
        match code {
            z::Z_OK | z::Z_BUF_ERROR | z::Z_STREAM_END => Ok(Progress {
                taken: source_len - self.fields().avail_in as usize,
                made: room_len - self.fields().avail_out as usize,
                ended: code == z::Z_STREAM_END,
            }),
            z::Z_NEED_DICT => Err(Error::Corrupt("it needs a preset dictionary".into())),
            z::Z_DATA_ERROR => Err(Error::Corrupt(self.message())),
            code => Err(library(code)),
        }
    }

    /// Returns zlib's message for its last error.
    fn message(&self) -> String {
        if self.fields().msg.is_null() {
            return "invalid data".into();
        }
        // SAFETY: zlib sets `msg` to a constant NUL-terminated string.
        unsafe { CStr::from_ptr(self.fields().msg) }.to_string_lossy().into_owned()
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        // SAFETY: the stream was made by the init function that belongs to `end`, and is ended
        // only here.
        unsafe { (self.end)(self.get()) };
        // SAFETY: it came from a `Box`, and the state that pointed to it has just been freed.
        drop(unsafe { Box::from_raw(self.stream.as_ptr()) });
    }
}

/// Allocates like zlib's default allocator.
extern "C" fn allocate(_: z::voidpf, items: z::uInt, size: z::uInt) -> z::voidpf {
    // SAFETY: calloc takes any two numbers and returns null if it cannot.
    unsafe { libc::calloc(items as usize, size as usize) }
}

extern "C" fn free(_: z::voidpf, address: z::voidpf) {
    // SAFETY: zlib passes what `allocate` returned, once.
    unsafe { libc::free(address) }
}

fn check(code: i32) -> Result<(), Error> {
    match code {
        z::Z_OK => Ok(()),
        code => Err(library(code)),
    }
}

fn library(code: i32) -> Error {
    let reason = match code {
        z::Z_MEM_ERROR => "no memory".into(),
        z::Z_VERSION_ERROR => "another version than it was built for".into(),
        code => format!("error {code}"),
    };
    Error::Library { library: NAME, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the pointer to the stream that `state` keeps, as zlib's functions that end a stream do.
    unsafe extern "C" fn end(stream: *mut z::z_stream) -> i32 {
        // SAFETY: the test has stored the pointer there that the stream was created with.
        unsafe { (*(*stream).state.cast::<z::z_stream>()).adler += 1 };
        z::Z_OK
    }

    /// Test that is meant to run under Miri (`make test-miri`).
    #[test]
    fn a_pointer_kept_from_the_making_is_good_after_moves() {
        let mut kept = ptr::null_mut::<z::z_stream>();
        let stream = RawStream::new(end, |stream| {
            kept = stream;
            // SAFETY: the stream is valid.
            unsafe { (*stream).state = stream.cast() };
            z::Z_OK
        });
        let mut stream = [stream.unwrap()];
        let done = stream[0].step(b"abc", &mut [0; 2], |_| {
            // SAFETY: the stream lives and is not borrowed.
            unsafe { (*kept).avail_in -= 1 };
            z::Z_OK
        });
        let done = done.unwrap();
        assert_eq!((done.taken, done.made, done.ended), (1, 0, false));
        assert_eq!(stream[0].get(), kept);
    }

    #[test]
    fn what_cannot_be_made_is_not_ended() {
        // `end` would follow a null pointer.
        assert!(RawStream::new(end, |_| z::Z_MEM_ERROR).is_err());
    }
}
