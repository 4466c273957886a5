//! Structures that two threads, or two processes, have in common.

// Points into memory that is kept by something else.
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// A `T` in memory that lives as long as this: its own, or a mapping's.
pub(crate) struct Shared<T> {
    at: NonNull<T>,
    keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: hands out `&T` only, and keeps its memory by an `Arc` of something that is Send and Sync.
unsafe impl<T: Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Moves the value to memory of its own.
    pub(crate) fn new(value: T) -> Self {
        let keep = Arc::new(value);
        Self { at: NonNull::from(&*keep), keep }
    }

    /// Refers to a value in memory that `keep` keeps.
    ///
    /// # Safety
    /// `at` is aligned and points to a `T` while `keep` lives. Others that can write there, including the
    /// peer's process, can only write valid values of `T`: it consists of atomics.
    pub(crate) unsafe fn within(at: NonNull<T>, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self { at, keep }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { at: self.at, keep: Arc::clone(&self.keep) }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `keep` keeps it.
        unsafe { self.at.as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
