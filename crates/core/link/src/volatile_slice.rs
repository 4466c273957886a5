//! Memory that others write while this process looks.

// Copies in and out of memory that no reference may point to.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use overside_base::prefetch_read;

/// A range that does not lie within a region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes at {start} do not lie within a region of {of}")]
pub struct OutOfBounds {
    /// Offset of the range's first byte.
    pub start: u64,
    /// Length of the range in bytes.
    pub len: u64,
    /// The region's length in bytes.
    pub of: u64,
}

/// Range of memory that other code, perhaps in another process, may write at any time. It does not own
/// the memory.
///
/// # Why this is sound
/// No reference to the bytes is ever made, so nothing relies on their staying the same. Bytes are
/// moved by the C library's `memcpy`, called through a pointer that the compiler cannot look
/// behind: to it, each copy is a foreign call that fills a private buffer with arbitrary bytes.
/// It can neither assume that two copies agree nor read a byte a second time. On the machine, plain
/// loads and stores that race only move old or new bytes. Words are accessed as atomics.
#[derive(Clone, Copy, Debug)]
pub struct VolatileSlice {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is an address range; its creator guarantees that the memory exists, and all access is
// as described above.
unsafe impl Send for VolatileSlice {}
// SAFETY: as above.
unsafe impl Sync for VolatileSlice {}

impl VolatileSlice {
    /// Makes a slice of `len` bytes from `start` on.
    ///
    /// # Safety
    /// They can be read and written while the slice and its copies are used, and this process accesses them
    /// only through such slices.
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// Returns the length of the memory in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns a pointer to the first byte, to be passed to the operating system.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn check(&self, at: usize, len: usize) -> Result<(), OutOfBounds> {
        if at <= self.len && len <= self.len - at {
            return Ok(());
        }
        Err(OutOfBounds { start: at as u64, len: len as u64, of: self.len as u64 })
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn part(&self, at: usize, len: usize) -> Result<Self, OutOfBounds> {
        self.check(at, len)?;
        // SAFETY: `at` lies within the window.
        let start = unsafe { self.start.add(at) };
        Ok(Self { start, len })
    }

    /// Copies bytes out from `at` on.
    ///
    /// # Errors
    /// [`OutOfBounds`]; then nothing is copied.
    #[inline]
    pub fn copy_out(&self, at: usize, into: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(at, into.len())?;
        // SAFETY: within the window, which `into` is not part of.
        unsafe { copy(self.start.as_ptr().add(at), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies `from` in, from `at` on.
    ///
    /// # Errors
    /// [`OutOfBounds`]; then nothing is copied.
    #[inline]
    pub fn copy_in(&self, at: usize, from: &[u8]) -> Result<(), OutOfBounds> {
        self.check(at, from.len())?;
        // SAFETY: within the window, which `from` is not part of.
        unsafe { copy(from.as_ptr(), self.start.as_ptr().add(at), from.len()) };
        Ok(())
    }

    /// Copies all bytes of another slice of the same length. If both are the same memory, the result is
    /// undefined.
    ///
    /// # Errors
    /// [`OutOfBounds`] if it is longer; then nothing is copied.
    #[inline]
    pub fn copy_from(&self, from: &Self) -> Result<(), OutOfBounds> {
        self.check(0, from.len)?;
        // SAFETY: within both windows.
        unsafe { copy(from.start.as_ptr(), self.start.as_ptr(), from.len) };
        Ok(())
    }

    /// Appends the `len` bytes at `at` to a vector.
    ///
    /// # Errors
    /// [`OutOfBounds`]; then nothing is appended.
    #[inline]
    pub fn append_to(&self, at: usize, len: usize, into: &mut Vec<u8>) -> Result<(), OutOfBounds> {
        self.check(at, len)?;
        into.reserve(len);
        let end = into.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: within the window, and there is room for `len` bytes behind the vector's end,
        // which are initialised by the copy.
        unsafe {
            copy(self.start.as_ptr().add(at), end, len);
            into.set_len(into.len() + len);
        }
        Ok(())
    }

    /// The eight bytes at `at`, a multiple of 8, in this machine's order, read at once.
    ///
    /// # Errors
    /// [`OutOfBounds`], also if `at` is not a multiple of 8.
    #[inline]
    pub fn load(&self, at: usize) -> Result<u64, OutOfBounds> {
        Ok(self.word(at)?.load(Ordering::Acquire))
    }

    /// Writes eight bytes at `at`, a multiple of 8, at once.
    ///
    /// # Errors
    /// [`OutOfBounds`], also if `at` is not a multiple of 8.
    #[inline]
    pub fn store(&self, at: usize, value: u64) -> Result<(), OutOfBounds> {
        self.word(at)?.store(value, Ordering::Release);
        Ok(())
    }

    /// Starts to fetch the cache line at `at`, if that is within. A hint: nothing else changes.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        if at < self.len {
            prefetch_read(self.start.as_ptr().wrapping_add(at));
        }
    }

    #[inline]
    fn word(&self, at: usize) -> Result<&AtomicU64, OutOfBounds> {
        self.check(at, size_of::<u64>())?;
        // SAFETY: within the window.
        let word = unsafe { self.start.as_ptr().add(at).cast::<AtomicU64>() };
        if !word.is_aligned() {
            return Err(OutOfBounds {
                start: at as u64,
                len: size_of::<u64>() as u64,
                of: self.len as u64,
            });
        }
        // SAFETY: aligned and within the window, whose bytes this process reaches by atomics and
        // by opaque copies only.
        Ok(unsafe { &*word })
    }
}

/// `memcpy`, but opaque.
///
/// # Safety
/// As `memcpy`, but that others may write either range meanwhile.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(not(miri))]
    {
        type Memcpy = unsafe extern "C" fn(
            *mut libc::c_void,
            *const libc::c_void,
            usize,
        ) -> *mut libc::c_void;
        let memcpy: Memcpy = std::hint::black_box(libc::memcpy);
        // SAFETY: the caller's.
        unsafe { memcpy(to.cast(), from.cast(), len) };
    }
    // Miri knows no foreign calls, and sees races that this process makes by itself.
    #[cfg(miri)]
    // SAFETY: the caller's.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, len)
    }
}
