//! Asynchronous calls: `compress_async` and `decompress_async` await them
//! (`python/overside/asynchronous.py`).

use std::num::NonZeroUsize;

use overside_compress::asynchronous::{Cancel, start};
use pyo3::prelude::*;

use crate::arguments::PlacementArgs;
use crate::codec::{
    COMPRESSED_BYTES_A_THREAD, Chunk, MAX_SIZE, compress_all, compression_of, decompress_all,
    decompression,
};
use crate::memory::BorrowedBuffer;
use crate::result::Output;
use crate::{errors, guarded};

/// Running call.
#[pyclass(module = "overside._core", frozen)]
pub(crate) struct Call(Cancel);

#[pymethods]
impl Call {
    /// Ends it before its next chunk is written.
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// Begins what `compress` does; `done(result, error)` is called when it is over, in another thread.
#[pyfunction]
#[pyo3(signature = (data, done, *, format="gzip", level=None, placement=None, device=None, threads=None, verify=None, chunk=None, submitters=None, window=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn start_compress(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    done: Py<PyAny>,
    format: &str,
    level: Option<u32>,
    placement: Option<&str>,
    device: Option<&str>,
    threads: Option<usize>,
    verify: Option<&str>,
    chunk: Option<Chunk>,
    submitters: Option<NonZeroUsize>,
    window: Option<usize>,
) -> PyResult<Call> {
    let data = BorrowedBuffer::new(data)?;
    let targets =
        PlacementArgs::new(py, placement, device, threads, verify)?.submitted(submitters, window);
    let options = compression_of(data.len(), format, level, targets, chunk.as_ref())?;
    Ok(call(done, move |cancel| compress_all(data, &options, cancel).map_err(errors::stream)))
}

/// Begins what `decompress` does; `done(result, error)` is called when it is over, in another thread.
#[pyfunction]
#[pyo3(signature = (data, done, *, format=None, max_size=MAX_SIZE, placement=None, device=None, threads=None, verify=None, submitters=None, window=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn start_decompress(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    done: Py<PyAny>,
    format: Option<&str>,
    max_size: Option<u64>,
    placement: Option<&str>,
    device: Option<&str>,
    threads: Option<usize>,
    verify: Option<&str>,
    submitters: Option<NonZeroUsize>,
    window: Option<usize>,
) -> PyResult<Call> {
    let data = BorrowedBuffer::new(data)?;
    let targets = PlacementArgs::new(py, placement, device, threads, verify)?
        .for_bytes(data.len(), COMPRESSED_BYTES_A_THREAD)
        .submitted(submitters, window);
    let options = decompression(format, targets)?;
    Ok(call(done, move |cancel| decompress_all(data, &options, max_size, cancel)))
}

fn call(done: Py<PyAny>, run: impl FnOnce(&Cancel) -> PyResult<Output> + Send + 'static) -> Call {
    Call(start(move |cancel| {
        let result = guarded(|| run(cancel));
        Python::attach(|py| {
            let told = match result {
                Ok(output) => done.call1(py, (output, py.None())),
                Err(error) => done.call1(py, (py.None(), error)),
            };
            if let Err(error) = told {
                error.write_unraisable(py, None);
            }
            drop(done);
        });
    }))
}
