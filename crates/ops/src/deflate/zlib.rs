//! zlib: the portable reference, and its CRC-32.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use libz_sys as z;

use super::{LAST_BLOCK, Levels, MAX_LEN, ends_early, ends_with_source, no_room};
use crate::variant::{at_most, single, written};
use crate::{Error, Format, Kernel, Output, Variant};

const NAME: &str = "zlib";
pub(super) const LEVELS: Levels = (0, 9, 6);

/// zlib's own default for deflateInit (DEF_MEM_LEVEL).
const MEMORY_LEVEL: i32 = 8;

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        library: NAME,
        version: version(),
        simd: false,
        levels: None,
    }
}

/// The version that the library reports.
pub(crate) fn version() -> String {
    // SAFETY: the function takes nothing and returns a NUL-terminated string that lives as long
    // as the program.
    unsafe { CStr::from_ptr(z::zlibVersion()) }
        .to_string_lossy()
        .into_owned()
}

/// Continues a CRC-32, from 0, over `bytes`.
pub(crate) fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    let crc = bytes.chunks(MAX_LEN).fold(crc.into(), |crc, part| {
        // SAFETY: pointer and length are those of a slice that is not empty.
        unsafe { z::crc32(crc, part.as_ptr(), part.len() as u32) }
    });
    crc as u32
}

pub(super) struct Compressor {
    stream: Stream,
    /// The stream is not ended but flushed.
    part: bool,
}

impl Compressor {
    pub(super) fn new(format: Format, level: u32) -> Result<Self, Error> {
        let level = i32::try_from(level).unwrap_or(i32::MAX);
        Stream::new(z::deflateEnd, |stream| {
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
        .map(|stream| Self {
            stream,
            part: format == Format::DeflatePart,
        })
    }
}

impl Kernel for Compressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        let capacity = destination.len();
        // SAFETY: the stream was made by deflateInit2_.
        check(unsafe { z::deflateReset(self.stream.get()) })?;
        self.stream.set(source, destination)?;
        let how = if self.part {
            z::Z_FULL_FLUSH
        } else {
            z::Z_FINISH
        };
        // SAFETY: the stream's pointers and lengths are those of two slices.
        match unsafe { z::deflate(self.stream.get(), how) } {
            z::Z_STREAM_END => Ok(written(self.stream.made(capacity))),
            // A flush is complete if it leaves room behind it (zlib.h, deflate).
            z::Z_OK if self.part && self.stream.has_room() => {
                Ok(written(self.stream.made(capacity)))
            }
            // It stopped before the end, so it stopped for want of room.
            z::Z_OK | z::Z_BUF_ERROR => Err(no_room(capacity)),
            code => Err(library(code)),
        }
    }
}

pub(super) struct Decompressor {
    stream: Stream,
    /// The stream is not ended but flushed.
    part: bool,
}

impl Decompressor {
    pub(super) fn new(format: Format) -> Result<Self, Error> {
        Stream::new(z::inflateEnd, |stream| {
            // SAFETY: the stream is valid; version and size are those of the bindings.
            unsafe {
                let size = size_of::<z::z_stream>() as i32;
                z::inflateInit2_(stream, window_bits(format), z::zlibVersion(), size)
            }
        })
        .map(|stream| Self {
            stream,
            part: format == Format::DeflatePart,
        })
    }
}

impl Kernel for Decompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        let capacity = destination.len();
        // SAFETY: the stream was made by inflateInit2_.
        check(unsafe { z::inflateReset(self.stream.get()) })?;
        self.stream.set(source, destination)?;
        // SAFETY: the stream's pointers and lengths are those of two slices.
        match unsafe { z::inflate(self.stream.get(), z::Z_FINISH) } {
            z::Z_STREAM_END => {
                ends_with_source(self.stream.left())?;
                match self.part {
                    true => Err(Error::Corrupt("one of its blocks is the last one".into())),
                    false => Ok(written(self.stream.made(capacity))),
                }
            }
            z::Z_NEED_DICT => Err(Error::Corrupt("it needs a preset dictionary".into())),
            z::Z_OK | z::Z_BUF_ERROR => {
                let made = self.stream.made(capacity);
                if self.stream.has_more() {
                    Err(no_room(capacity))
                } else if self.part && self.stream.is_between_blocks() {
                    Ok(written(made))
                } else {
                    Err(ends_early())
                }
            }
            z::Z_DATA_ERROR => Err(Error::Corrupt(self.stream.message())),
            code => Err(library(code)),
        }
    }
}

/// What zlib calls window bits: 15 for 32 KiB, negative for raw streams, 16 more for gzip.
fn window_bits(format: Format) -> i32 {
    match format {
        Format::Gzip => 15 + 16,
        Format::Zlib => 15,
        _ => -15,
    }
}

/// A z_stream and the function that ends it.
struct Stream {
    // zlib's state points back to it, so it must not move, and must not be in a `Box` either:
    // moving a `Box` says that nobody else points into it. It came from one, and goes back in
    // `drop`.
    stream: NonNull<z::z_stream>,
    end: unsafe extern "C" fn(*mut z::z_stream) -> i32,
}

// SAFETY: zlib keeps no thread-local data; the pointers to buffers are set anew by each call and
// not followed between calls.
unsafe impl Send for Stream {}

impl Stream {
    fn new(
        end: unsafe extern "C" fn(*mut z::z_stream) -> i32,
        init: impl FnOnce(*mut z::z_stream) -> i32,
    ) -> Result<Self, Error> {
        // The bindings declare the allocators as functions that are never null, though zlib wants
        // null for its own, so give it what it would take.
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

    /// What the stream holds, between calls of zlib.
    fn fields(&self) -> &z::z_stream {
        // SAFETY: the stream lives until `drop`, and zlib touches it only during calls, which
        // need `self` mutably or come after this borrow.
        unsafe { self.stream.as_ref() }
    }

    /// The same, to be changed.
    fn fields_mut(&mut self) -> &mut z::z_stream {
        // SAFETY: as for `fields`; the borrow is over before the next call.
        unsafe { self.stream.as_mut() }
    }

    fn set(&mut self, source: &[u8], destination: &mut [u8]) -> Result<(), Error> {
        at_most(source, MAX_LEN)?;
        let stream = self.fields_mut();
        stream.next_in = source.as_ptr().cast_mut();
        stream.avail_in = source.len() as u32;
        stream.next_out = destination.as_mut_ptr();
        stream.avail_out = destination.len().min(MAX_LEN) as u32;
        Ok(())
    }

    /// Bytes of the source that were not taken.
    fn left(&self) -> usize {
        self.fields().avail_in as usize
    }

    /// Bytes that were written to a destination of `capacity` bytes.
    fn made(&self, capacity: usize) -> usize {
        capacity.min(MAX_LEN) - self.fields().avail_out as usize
    }

    /// Whether decompression that stopped would go on if there were more room.
    fn has_more(&mut self) -> bool {
        let mut room = [0u8; 1];
        let stream = self.fields_mut();
        stream.next_out = room.as_mut_ptr();
        stream.avail_out = 1;
        // SAFETY: the source is the one that the caller of `run` still lends; the destination is
        // `room`, and zlib keeps its own copy of the window.
        unsafe { z::inflate(self.get(), z::Z_SYNC_FLUSH) };
        self.fields().avail_out == 0
    }

    /// Whether there is room behind what was written.
    fn has_room(&self) -> bool {
        self.fields().avail_out > 0
    }

    /// Whether decompression that has taken all of its source would take a stream's last block
    /// now, and nothing else before it.
    fn is_between_blocks(&mut self) -> bool {
        let mut room = [0u8; 1];
        let stream = self.fields_mut();
        stream.next_in = LAST_BLOCK.as_ptr().cast_mut();
        stream.avail_in = LAST_BLOCK.len() as u32;
        stream.next_out = room.as_mut_ptr();
        stream.avail_out = 1;
        // SAFETY: source and destination are the ones that were just set.
        let code = unsafe { z::inflate(self.get(), z::Z_SYNC_FLUSH) };
        let stream = self.fields();
        code == z::Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 1
    }

    /// zlib's words for its last error.
    fn message(&self) -> String {
        if self.fields().msg.is_null() {
            return "invalid data".into();
        }
        // SAFETY: zlib sets `msg` to a constant NUL-terminated string.
        unsafe { CStr::from_ptr(self.fields().msg) }
            .to_string_lossy()
            .into_owned()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream was made by the init function that belongs to `end`, and is ended
        // only here.
        unsafe { (self.end)(self.get()) };
        // SAFETY: it came from a `Box`, and whoever pointed to it has just been ended.
        drop(unsafe { Box::from_raw(self.stream.as_ptr()) });
    }
}

/// The allocator that zlib would use by itself.
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
    Error::Library {
        library: NAME,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the pointer to itself that a stream keeps in `state`, as zlib's ends do.
    unsafe extern "C" fn end(stream: *mut z::z_stream) -> i32 {
        // SAFETY: the test has put there what the stream was made with.
        unsafe { (*(*stream).state.cast::<z::z_stream>()).adler += 1 };
        z::Z_OK
    }

    /// What Miri looks at: `cargo miri test -p overside-ops --lib zlib::tests`.
    #[test]
    fn a_pointer_kept_from_the_making_is_good_after_moves() {
        let mut kept = ptr::null_mut::<z::z_stream>();
        let stream = Stream::new(end, |stream| {
            kept = stream;
            // SAFETY: the stream is valid.
            unsafe { (*stream).state = stream.cast() };
            z::Z_OK
        });
        let mut stream = [stream.unwrap()];
        stream[0].set(b"abc", &mut [0; 2]).unwrap();
        // SAFETY: the stream lives, and nobody borrows it.
        unsafe { (*kept).avail_in -= 1 };
        assert_eq!((stream[0].left(), stream[0].made(2)), (2, 0));
        assert_eq!(stream[0].get(), kept);
    }

    #[test]
    fn what_cannot_be_made_is_not_ended() {
        // `end` would follow a null pointer.
        assert!(Stream::new(end, |_| z::Z_MEM_ERROR).is_err());
    }
}
