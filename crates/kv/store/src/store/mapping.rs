//! A range of memory that is reserved at once and used page by page.
//!
//! The only place that knows where the memory comes from: private and anonymous today.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use rustix::io::Errno;

/// Boundaries that huge pages need, on the machines where they are 2 MiB.
const ALIGNMENT: usize = 2 << 20;

/// Types for which zero bytes are a valid value.
///
/// # Safety
/// All-zero bytes must be a valid value, and dropping it must do nothing.
pub(super) unsafe trait Zeroed: Copy {}

// SAFETY: zero is a number.
unsafe impl Zeroed for u8 {}

/// `len` elements, zero at first, in memory that is taken when it is first written.
#[derive(Debug)]
pub(super) struct Mapping<T> {
    base: NonNull<T>,
    len: usize,
    whole: NonNull<u8>,
    whole_bytes: usize,
}

// SAFETY: it owns what it points to, as a `Vec` does.
unsafe impl<T: Send> Send for Mapping<T> {}
// SAFETY: as above; shared references only read.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T: Zeroed> Mapping<T> {
    /// Reserves address space; huge pages are asked for, and not had where there are none.
    pub(super) fn reserve(len: usize, huge_pages: bool) -> Result<Self, Errno> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(Errno::NOMEM)?;
        let whole_bytes = bytes.checked_add(ALIGNMENT).ok_or(Errno::NOMEM)?;
        if whole_bytes > isize::MAX as usize || align_of::<T>() > ALIGNMENT {
            return Err(Errno::NOMEM);
        }
        let whole = reserve(whole_bytes)?;
        let base = whole.as_ptr().align_offset(ALIGNMENT);
        // SAFETY: less than ALIGNMENT is left out, and so much more was reserved.
        let base = unsafe { whole.add(base) };
        if huge_pages {
            ask_for_huge_pages(base, bytes);
        }
        Ok(Self { base: base.cast(), len, whole, whole_bytes })
    }

    /// Returns the memory of these elements to the system: they become zero. The range consists of whole
    /// blocks of at least 4 KiB.
    pub(super) fn release(&mut self, range: Range<usize>) {
        let elements = &mut self[range];
        release(NonNull::from(&mut *elements).cast(), size_of_val(&*elements));
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        unmap(self.whole, self.whole_bytes);
    }
}

impl<T: Zeroed> Deref for Mapping<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements from `base` on are mapped as long as `self` is, are valid values
        // (zero, or written through `deref_mut`), and are borrowed together with it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl<T: Zeroed> DerefMut for Mapping<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

#[cfg(not(miri))]
fn reserve(bytes: usize) -> Result<NonNull<u8>, Errno> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses where, so nothing that is mapped already is replaced.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
    NonNull::new(at.cast()).ok_or(Errno::NOMEM)
}

#[cfg(not(miri))]
fn ask_for_huge_pages(at: NonNull<u8>, bytes: usize) {
    use rustix::mm::{Advice, madvise};

    // Refused where the kernel has none: small pages do as well.
    // SAFETY: the range was mapped by `reserve`; the advice changes no contents.
    let _ = unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
}

#[cfg(not(miri))]
fn release(at: NonNull<u8>, bytes: usize) {
    use rustix::mm::{Advice, madvise};

    // SAFETY: the range lies in what `reserve` mapped and is borrowed uniquely by the caller;
    // private anonymous memory reads as zero afterwards, which is valid by `Zeroed`. If it is
    // refused, the old contents stay, which are valid too.
    let _ = unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
}

#[cfg(not(miri))]
fn unmap(at: NonNull<u8>, bytes: usize) {
    // SAFETY: `reserve` mapped just this, and nobody borrows it any more.
    let _ = unsafe { rustix::mm::munmap(at.as_ptr().cast(), bytes) };
}

#[cfg(miri)]
fn layout(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, ALIGNMENT).expect("the size was checked")
}

#[cfg(miri)]
fn reserve(bytes: usize) -> Result<NonNull<u8>, Errno> {
    // SAFETY: `bytes` is at least ALIGNMENT, so not zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)) }).ok_or(Errno::NOMEM)
}

#[cfg(miri)]
fn ask_for_huge_pages(_at: NonNull<u8>, _bytes: usize) {}

#[cfg(miri)]
fn release(at: NonNull<u8>, bytes: usize) {
    // SAFETY: the range lies in what `reserve` allocated and is borrowed uniquely by the caller.
    unsafe { at.as_ptr().write_bytes(0, bytes) };
}

#[cfg(miri)]
fn unmap(at: NonNull<u8>, bytes: usize) {
    // SAFETY: `reserve` allocated just this with this layout.
    unsafe { std::alloc::dealloc(at.as_ptr(), layout(bytes)) };
}

#[cfg(test)]
mod tests {
    use super::Mapping;

    #[test]
    fn memory_is_zero_keeps_what_is_written_and_is_zero_after_release() {
        let mut mapping = Mapping::<u8>::reserve(64 << 10, true).expect("memory");
        assert_eq!(mapping.len(), 64 << 10);
        assert!(mapping.iter().all(|byte| *byte == 0));
        mapping[5] = 7;
        mapping[(64 << 10) - 1] = 8;
        assert_eq!(mapping[5], 7);
        mapping.release(0..4096);
        assert_eq!((mapping[5], mapping[(64 << 10) - 1]), (0, 8));
    }
}
