//! Memory that Python objects lend, read without being copied.

// Reads memory that Python objects lend.
#![allow(unsafe_code)]

use std::io::{self, Read};
use std::ptr;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
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
    /// Borrows the memory of `object`. Raises `TypeError` if it has none to lend, `BufferError` if it is not
    /// in one piece.
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
        Ok(Self { buffer, len, is_immutable })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reads it from the beginning, copying.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { lent: self, at: 0 }
    }
}

/// Returns `true` if the memory of `object` can never change: it belongs to `bytes`, to an
/// [`Output`] of this module, or to a view of one of them. A class derived from `bytes` does not
/// count, since it may lend other memory (PEP 688). Nor does another read-only view, such as of an
/// array or a mapped file: other code may write to the memory behind it.
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
    /// Wraps a buffer; `Err` returns one that may be written to.
    pub(crate) fn new(lent: BorrowedBuffer) -> Result<Self, BorrowedBuffer> {
        if lent.is_immutable { Ok(Self(lent)) } else { Err(lent) }
    }
}

impl AsRef<[u8]> for Immutable {
    fn as_ref(&self) -> &[u8] {
        match self.0.len {
            // The pointer of an empty buffer may be null.
            0 => &[],
            // SAFETY: an exporter keeps its memory valid, in place and initialised until the buffer
            // is released, which is when `self` is dropped; it is contiguous, as was checked, and
            // cannot be written to, as `is_immutable` says.
            len => unsafe { std::slice::from_raw_parts(self.0.buffer.buf_ptr().cast(), len) },
        }
    }
}

/// Copies memory that may be written to meanwhile. Each byte is read once, so a concurrent writer
/// changes only the copied bytes.
pub(crate) struct Reader<'a> {
    lent: &'a BorrowedBuffer,
    at: usize,
}

impl Reader<'_> {
    /// Length of the whole memory in bytes, including the part that was read.
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
