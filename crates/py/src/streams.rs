//! The classes `Compressor` and `Decompressor`.

use std::sync::Mutex;
use std::thread::{ThreadId, current};

use overside_base::lock;
use overside_compress::{Compressor, Decompressor, Error, Options, Summary};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::PlacementArgs;
use crate::codec::{Chunk, MAX_SIZE, compression, decompression};
use crate::memory::BorrowedBuffer;
use crate::output::{OutputBuffer, Stream, applied, report};
use crate::process::ProcessBound;
use crate::{errors, guarded, refused};

/// A value that several threads may use, one at a time.
struct SharedStream<T> {
    value: Mutex<T>,
    /// Thread whose call uses the value now. It makes a signal handler fail that calls the stream
    /// during a call of its own thread: the handler would wait for itself.
    holder: Mutex<Option<ThreadId>>,
}

impl<T: Send> SharedStream<T> {
    fn new(value: T) -> Self {
        Self { value: Mutex::new(value), holder: Mutex::new(None) }
    }

    /// Waits for its turn and does something, while other Python threads run.
    fn take<R: Send>(
        &self,
        py: Python<'_>,
        turn: impl FnOnce(&mut T) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        guarded(|| py.detach(|| self.detached(turn)))
    }

    fn detached<R>(&self, turn: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        let me = Some(current().id());
        if *lock(&self.holder) == me {
            return Err(PyRuntimeError::new_err(
                "the stream is in use by this thread already (a signal handler called it)",
            ));
        }
        let mut value = lock(&self.value);
        let holder = Holder(&self.holder);
        holder.set(me);
        turn(&mut value)
    }
}

/// Guard that clears the holder when its turn ends in any way.
struct Holder<'a>(&'a Mutex<Option<ThreadId>>);

impl Holder<'_> {
    fn set(&self, holder: Option<ThreadId>) {
        *lock(self.0) = holder;
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        self.set(None);
    }
}

/// A stream of several threads of one process.
type Shared<S> = ProcessBound<SharedStream<StreamState<S>>>;

/// A stream, or the way in which it ended.
enum StreamState<S> {
    Open(Box<S>),
    Finished(Box<Summary>),
    /// The stream failed and cannot be continued.
    Failed,
}

impl<S: Stream> StreamState<S> {
    /// Does something with the open stream, and gives the output that there is then. If that fails, or
    /// panics, the stream has failed.
    fn with(&mut self, step: impl FnOnce(&mut S) -> Result<(), Error>) -> PyResult<Vec<u8>> {
        let mut stream = self.take()?;
        let output = stream.output_of(step)?;
        *self = Self::Open(stream);
        Ok(output)
    }

    /// Finishes the stream and returns the rest of its output.
    fn finish(&mut self) -> PyResult<Vec<u8>> {
        let mut stream = self.take()?;
        let mut output = stream.output_of(S::complete)?;
        let (mut rest, summary) = stream.finish().map_err(errors::stream)?;
        output.append(&mut rest.take());
        *self = Self::Finished(Box::new(summary));
        Ok(output)
    }

    /// The open stream, for the time being.
    fn take(&mut self) -> PyResult<Box<S>> {
        match std::mem::replace(self, Self::Failed) {
            Self::Open(stream) => Ok(stream),
            Self::Finished(summary) => {
                *self = Self::Finished(summary);
                Err(refused("the stream is finished"))
            }
            Self::Failed => Err(refused(Error::Spent)),
        }
    }
}

impl<S: Stream> SharedStream<StreamState<S>> {
    /// Passes all of `data` to the stream, and takes the current output.
    fn feed<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let data = BorrowedBuffer::new(data)?;
        self.output(py, |stream| {
            let mut reader = data.reader();
            while stream.fill(&mut reader)? > 0 {}
            Ok(())
        })
    }

    /// Returns the output for the input so far, as far as possible.
    fn flush<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.output(py, S::flush)
    }

    /// Takes a turn with the open stream, and gives the output that there is then.
    fn output<'py>(
        &self,
        py: Python<'py>,
        step: impl FnOnce(&mut S) -> Result<(), Error> + Send,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.take(py, |state| state.with(step))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Finishes the stream, and gives the output that was left.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.take(py, StreamState::finish)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the summary of the stream as `tell` presents it; `None` before the stream is
    /// finished.
    fn summary<'py>(
        &self,
        py: Python<'py>,
        tell: impl FnOnce(Python<'py>, &Summary) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let summary = self.take(py, |state| match state {
            StreamState::Finished(summary) => Ok(Some((**summary).clone())),
            StreamState::Open(_) | StreamState::Failed => Ok(None),
        })?;
        summary.map(|summary| tell(py, &summary)).transpose()
    }
}

/// The methods of a class of streams: those that are given, and those that both classes have.
macro_rules! stream_methods {
    ($class:ident, { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            #[doc = stub!("Compressor.flush")]
            fn flush<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                self.0.get()?.flush(py)
            }

            #[doc = stub!("Compressor.finish")]
            fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                self.0.get()?.finish(py)
            }

            #[doc = stub!("Compressor.applied")]
            #[getter]
            fn applied<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
                self.0.get()?.summary(py, applied)
            }

            #[doc = stub!("Compressor.report")]
            #[getter]
            fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
                self.0.get()?.summary(py, report)
            }
        }
    };
}

#[doc = stub!("Compressor")]
#[pyclass(module = "overside", name = "Compressor", frozen)]
pub(crate) struct PyCompressor(Shared<Compressor<OutputBuffer>>);

stream_methods!(PyCompressor, {
    #[new]
    #[pyo3(signature = (*, format="gzip", level=None, placement=None, device=None, threads=None, verify=None, chunk=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        format: &str,
        level: Option<u32>,
        placement: Option<&str>,
        device: Option<&str>,
        threads: Option<usize>,
        verify: Option<&str>,
        chunk: Option<Chunk>,
    ) -> PyResult<Self> {
        guarded(|| {
            let targets = PlacementArgs::new(py, placement, device, threads, verify)?;
            let options = compression(format, level, targets, chunk.as_ref())?;
            let stream = py.detach(|| Compressor::new(OutputBuffer::new(None), &options));
            let stream = stream.map_err(errors::stream)?;
            Ok(Self(ProcessBound::new(SharedStream::new(StreamState::Open(Box::new(stream))))))
        })
    }

    #[doc = stub!("Compressor.compress")]
    fn compress<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.0.get()?.feed(py, data)
    }
});

#[doc = stub!("Decompressor")]
#[pyclass(module = "overside", name = "Decompressor", frozen)]
pub(crate) struct PyDecompressor(Shared<Decompressor<OutputBuffer>>);

stream_methods!(PyDecompressor, {
    #[new]
    #[pyo3(signature = (*, format=None, max_size=MAX_SIZE, placement=None, device=None, threads=None, verify=None))]
    fn new(
        py: Python<'_>,
        format: Option<&str>,
        max_size: Option<u64>,
        placement: Option<&str>,
        device: Option<&str>,
        threads: Option<usize>,
        verify: Option<&str>,
    ) -> PyResult<Self> {
        guarded(|| {
            let options: Options =
                decompression(format, PlacementArgs::new(py, placement, device, threads, verify)?)?;
            let stream = Decompressor::new(OutputBuffer::new(max_size), &options);
            let stream = stream.map_err(errors::stream)?;
            Ok(Self(ProcessBound::new(SharedStream::new(StreamState::Open(Box::new(stream))))))
        })
    }

    #[doc = stub!("Decompressor.decompress")]
    fn decompress<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.0.get()?.feed(py, data)
    }
});
