//! Memory that crosses between Python and Rust without being copied.

// Reads memory that Python objects lend, and lends memory of this module's.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io::{self, Read};
use std::ptr;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

use crate::result::Output;

/// Memory that a Python object lends by the buffer protocol. It stays where it is and as long as it
/// is until this is dropped, which may be in any thread.
pub(crate) struct BorrowedBuffer {
    buffer: PyUntypedBuffer,
    len: usize,
    is_immutable: bool,
}

impl BorrowedBuffer {
    /// The memory of `object`. Raises `TypeError` if it lends none, `BufferError` if what it lends
    /// is not in one piece.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(
                "a bytes-like object is needed, not str; encode it first",
            ));
        }
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "the memory is not in one piece (C-contiguous); copy it first",
            ));
        }
        let len = buffer.len_bytes();
        let is_immutable = is_immutable(object)?;
        Ok(Self {
            buffer,
            len,
            is_immutable,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reads it from the beginning, copying.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { lent: self, at: 0 }
    }
}

/// Whether memory cannot change by any means: it is that of `bytes` or of a result of ours, or a view
/// of such; a class derived from `bytes` may lend other memory (PEP 688). What lies behind another read-only view, an array or a mapped file, may be written to by
/// somebody else.
fn is_immutable(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let owner = match object.cast::<PyMemoryView>() {
        Ok(view) => view.getattr("obj")?,
        Err(_) => object.clone(),
    };
    Ok(owner.is_exact_instance_of::<PyBytes>() || owner.is_instance_of::<Output>())
}

/// Memory that may be read where it is while other threads run.
pub(crate) struct Immutable(BorrowedBuffer);

impl Immutable {
    /// `Err` gives back what somebody may write to.
    pub(crate) fn new(lent: BorrowedBuffer) -> Result<Self, BorrowedBuffer> {
        if lent.is_immutable {
            Ok(Self(lent))
        } else {
            Err(lent)
        }
    }
}

impl AsRef<[u8]> for Immutable {
    fn as_ref(&self) -> &[u8] {
        match self.0.len {
            // The pointer of an empty buffer may be null.
            0 => &[],
            // SAFETY: an exporter keeps its memory valid, in place and initialised until the buffer
            // is released, which is when `self` is dropped; it is contiguous, as was checked, and
            // nobody can write to it, as `is_immutable` says.
            len => unsafe { std::slice::from_raw_parts(self.0.buffer.buf_ptr().cast(), len) },
        }
    }
}

/// Copies memory out that others may write to meanwhile. Each byte is read once, so whoever writes
/// changes what comes out and nothing else.
pub(crate) struct Reader<'a> {
    lent: &'a BorrowedBuffer,
    at: usize,
}

impl Reader<'_> {
    /// How much there is in all.
    pub(crate) fn len(&self) -> usize {
        self.lent.len
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let len = room.len().min(self.lent.len - self.at);
        if len > 0 {
            let start: *const u8 = self.lent.buffer.buf_ptr().cast();
            // SAFETY: as in `Immutable`, but for writers. What they write at the same time is plain
            // bytes, of which every value is valid; no reference to them is made, and the room is
            // memory of ours.
            unsafe { ptr::copy_nonoverlapping(start.add(self.at), room.as_mut_ptr(), len) };
            self.at += len;
        }
        Ok(len)
    }
}

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
