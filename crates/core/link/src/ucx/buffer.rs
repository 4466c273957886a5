//! Memory of this process that a peer may write.

// Allocates it, and hands out a window to it.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::volatile_slice::VolatileSlice;

/// Zeroed memory, reached through windows only.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns a range of bytes that belongs to no thread.
unsafe impl Send for Buffer {}
// SAFETY: it only tells where they are.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` bytes, at least one; `None` if there is no memory. `align` is a power of two.
    pub(crate) fn zeroed(len: usize, align: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), align).ok()?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout })
    }

    /// The whole buffer. Its user must keep the buffer: the window is invalid once that is dropped.
    pub(crate) fn window(&self) -> VolatileSlice {
        // SAFETY: allocated with this size; no references to it are made; and see above.
        unsafe { VolatileSlice::new(self.start, self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeroed` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
