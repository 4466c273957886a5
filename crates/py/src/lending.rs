//! Memory of this module's that Python reads without copying it.

// Lends it.
#![allow(unsafe_code)]

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// Answers a request for a view of `bytes`, which `owner` keeps as they are and where they are.
///
/// # Safety
/// `view` and `flags` are those of a call of `__getbuffer__`; `bytes` stay valid and unchanged as
/// long as `owner` lives.
pub(crate) unsafe fn lend(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let len = isize::try_from(bytes.len())?;
    // SAFETY: `view` is the caller's to be filled; the function takes its own reference to `owner`,
    // marks the view read-only and refuses one that is to be written to.
    let result = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            bytes.as_ptr().cast_mut().cast(),
            len,
            1,
            flags,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(PyErr::fetch(owner.py())),
    }
}

/// Numbers of this module's, as bytes that Python can look at.
#[pyclass(module = "overside._core", frozen)]
pub(crate) struct Numbers(Vec<u64>);

impl Numbers {
    pub(crate) fn new(numbers: Vec<u64>) -> Self {
        Self(numbers)
    }

    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// A `memoryview` of the numbers, of format `Q`.
    pub(crate) fn view<'py>(numbers: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        PyMemoryView::from(numbers.as_any())?.call_method1("cast", ("Q",))
    }
}

#[pymethods]
impl Numbers {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let numbers = &slf.get().0;
        // SAFETY: numbers are bytes without gaps.
        let bytes = unsafe {
            std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers.as_slice()))
        };
        // SAFETY: the class is frozen, so its vector stays as it is.
        unsafe { lend(slf.as_any(), bytes, view, flags) }
    }
}
