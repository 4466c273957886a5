//! The class `Result`.

// Lends its bytes to Python.
#![allow(unsafe_code)]

use std::ffi::c_int;

use overside_compress::Summary;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::lending::lend;
use crate::output::{applied, places, report};

#[doc = stub!("Result")]
#[pyclass(module = "overside", name = "Result", frozen)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    summary: Summary,
}

impl Output {
    pub(crate) fn new(bytes: Vec<u8>, summary: Summary) -> Self {
        Self { bytes, summary }
    }
}

#[pymethods]
impl Output {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the class is frozen, so its vector stays as it is.
        unsafe { lend(slf.as_any(), &slf.get().bytes, view, flags) }
    }

    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        PyMemoryView::from(slf.as_any())?.get_item(index)
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        match PyUntypedBuffer::get(other) {
            Ok(buffer) if buffer.is_c_contiguous() => {
                let view = PyMemoryView::from(slf.as_any())?;
                Ok(view.eq(other)?.into_pyobject(py)?.to_owned().into_any().unbind())
            }
            Ok(_) | Err(_) => Ok(py.NotImplemented()),
        }
    }

    fn __repr__(&self) -> String {
        let Summary { container, bytes_in, bytes_out, .. } = &self.summary;
        let places: Vec<String> = (places(&self.summary).iter())
            .map(|place| format!("{} on {}", place.applied.library, place.applied.device))
            .collect();
        let places = places.join(", ");
        format!("<overside.Result {container}: {bytes_in} bytes to {bytes_out}; {places}>")
    }

    #[doc = stub!("Result.format")]
    #[getter]
    fn format(&self) -> String {
        self.summary.container.to_string()
    }

    #[doc = stub!("Result.applied")]
    #[getter]
    fn applied<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        applied(py, &self.summary)
    }

    #[doc = stub!("Result.report")]
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        report(py, &self.summary)
    }
}
