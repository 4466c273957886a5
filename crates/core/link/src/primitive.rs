//! Primitives that the queues are built from, replaced by loom's for model checking.

pub(crate) use overside_device::primitive::{AtomicU32, AtomicU64, Ordering, Padded, fence};

#[cfg(loom)]
pub(crate) use loom::{cell::UnsafeCell, sync::Arc};
#[cfg(not(loom))]
pub(crate) use std::sync::Arc;

/// The standard one, with loom's way of reaching into it.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
