//! Counts of what is going on.

use std::sync::atomic::{AtomicUsize, Ordering};

/// One of those that a counter counts, until it is dropped.
pub struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    /// Increases the counter.
    pub fn one(counter: &'c AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::AcqRel);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
