//! Values that a forked child cannot use.

use std::process;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A value whose threads live in the process that made it. In a forked child, which has none of them, it
/// is an error to use it, and dropping it waits for nothing.
pub(crate) struct ProcessBound<T> {
    process: u32,
    /// `None` only while this is dropped.
    value: Option<T>,
}

impl<T> ProcessBound<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: process::id(), value: Some(value) }
    }

    /// The value. Raises `RuntimeError` in another process than its own.
    pub(crate) fn get(&self) -> PyResult<&T> {
        let is_ours = self.process == process::id();
        self.value.as_ref().filter(|_| is_ours).ok_or_else(|| {
            PyRuntimeError::new_err(
                "this was opened before the process was forked, and its threads are not in the child; \
                 open it in the child",
            )
        })
    }
}

impl<T> Drop for ProcessBound<T> {
    fn drop(&mut self) {
        if self.process != process::id() {
            // Its own drop would wait for the threads.
            std::mem::forget(self.value.take());
        }
    }
}
