//! Output buffer in memory, and the report of the targets that produced its content.

use std::io::{self, IoSlice, Read, Write};
use std::time::{Duration, Instant};

use overside_compress::asynchronous::Cancel;
use overside_compress::{Compressor, Container, Decompressor, Error, Summary};
use overside_device::{Applied, Provenance};
use overside_ops::variants;
use overside_placement::{Report, Target};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{errors, refused};

/// Shortest time between two checks for signals, such as that of Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Looks for signals now and then in work for which Python does not wait otherwise.
pub(crate) struct Signals(Instant);

impl Signals {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// Makes Python handle signals if it is time. An error is the exception of a handler.
    pub(crate) fn check(&mut self) -> PyResult<()> {
        if self.0.elapsed() < SIGNALS_EVERY {
            return Ok(());
        }
        let result = Python::attach(|py| py.check_signals());
        self.0 = Instant::now();
        result
    }
}

/// Output in memory, up to a limit.
pub(crate) struct OutputBuffer {
    bytes: Vec<u8>,
    limit_bytes: Option<u64>,
    signals: Signals,
    cancel: Cancel,
}

impl OutputBuffer {
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self { bytes: Vec::new(), limit_bytes, signals: Signals::new(), cancel: Cancel::default() }
    }

    /// Takes no more when that says so.
    pub(crate) fn ended_by(self, cancel: &Cancel) -> Self {
        let cancel = cancel.clone();
        Self { cancel, ..self }
    }

    /// Takes the gathered output. The buffer is empty afterwards, and the limit applies again.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Makes room for more. The errors that are raised are wrapped, to be unwrapped by
    /// [`errors::stream`].
    fn reserve(&mut self, more: usize) -> io::Result<()> {
        let len = self.bytes.len() as u64 + more as u64;
        if let Some(limit_bytes) = self.limit_bytes.filter(|limit| len > *limit) {
            return Err(errors::limit(limit_bytes).into());
        }
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.signals.check()?;
        (self.bytes.try_reserve(more)).map_err(|_| {
            PyMemoryError::new_err(format!("no memory for {len} bytes of output")).into()
        })
    }
}

impl Write for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.reserve(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.reserve(len)?;
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Operations that compressors and decompressors have in common.
pub(crate) trait Stream: Sized + Send {
    fn fill(&mut self, reader: &mut impl Read) -> Result<usize, Error>;
    fn flush(&mut self) -> Result<(), Error>;
    /// Writes the rest of the output at the end of the input.
    fn complete(&mut self) -> Result<(), Error>;
    fn finish(self) -> Result<(OutputBuffer, Summary), Error>;
    fn gathered(&mut self) -> &mut OutputBuffer;

    /// Does something, and takes the output that there is then. An error has it.
    fn output_of(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> PyResult<Vec<u8>> {
        let result = step(self);
        let output = self.gathered().take();
        match result {
            Ok(()) => Ok(output),
            Err(error) => Err(errors::stream_after(error, &output)),
        }
    }
}

macro_rules! stream {
    ($kind:ident, $complete:ident) => {
        impl Stream for $kind<OutputBuffer> {
            fn fill(&mut self, reader: &mut impl Read) -> Result<usize, Error> {
                self.fill(reader)
            }

            fn flush(&mut self) -> Result<(), Error> {
                self.flush()
            }

            fn complete(&mut self) -> Result<(), Error> {
                self.$complete()
            }

            fn finish(self) -> Result<(OutputBuffer, Summary), Error> {
                self.finish()
            }

            fn gathered(&mut self) -> &mut OutputBuffer {
                self.get_mut()
            }
        }
    };
}
stream!(Compressor, flush);
stream!(Decompressor, complete);

/// A target that did something.
#[derive(Serialize)]
pub(crate) struct Place {
    target: String,
    /// Chunks, or members in pieces.
    chunks: u64,
    #[serde(flatten)]
    pub(crate) applied: Applied,
}

/// Targets of an executor that completed at least one chunk.
fn targets(report: &Report) -> Vec<Place> {
    let cpu = report.cpu.iter().map(|part| (Target::Cpu, part));
    let devices = report.devices.iter().enumerate();
    let devices = devices.map(|(index, part)| (Target::Device(index), part));
    (cpu.chain(devices))
        .filter(|(_, part)| part.chunks > 0)
        .filter_map(|(target, part)| {
            Some(Place {
                target: target.to_string(),
                chunks: part.chunks,
                applied: part.applied.clone()?,
            })
        })
        .collect()
}

/// All targets that worked on a stream, including the caller's thread if it decompressed members in
/// pieces.
pub(crate) fn places(summary: &Summary) -> Vec<Place> {
    let mut places = summary.report.as_ref().map_or_else(Vec::new, targets);
    if summary.streamed > 0 {
        places.push(Place {
            target: Target::Cpu.to_string(),
            chunks: summary.streamed,
            applied: streamed(summary.container),
        });
    }
    places
}

/// Describes the library that decompresses members in pieces on the caller's thread.
fn streamed(container: Container) -> Applied {
    let (operation, variant) = match container {
        Container::Gzip | Container::Zlib => ("decompress-deflate", "isal"),
        Container::Lz4 => ("decompress-lz4", "lz4"),
        Container::Zstd => ("decompress-zstd", "zstd"),
    };
    let known = operation.parse().map_or_else(|_| Vec::new(), variants);
    let library = (known.iter().find(|known| known.name == variant))
        .map_or_else(|| variant.into(), |known| format!("{} {}", known.library, known.version));
    let cpu = overside_backends::open("cpu", &overside_backends::Options::default());
    Applied {
        device: "cpu".into(),
        driver: cpu.map_or_else(|_| String::new(), |cpu| cpu.info().driver.clone()),
        variant: variant.into(),
        library,
        because: None,
        provenance: Provenance::Measured,
    }
}

/// The dicts of `Result.applied`.
pub(crate) fn applied<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyAny>> {
    value(py, &json!(places(summary)))
}

/// The dict of `Result.report`.
pub(crate) fn report<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyAny>> {
    let mut all = serde_json::to_value(summary).map_err(refused)?;
    if let Value::Object(all) = &mut all {
        let parts = all.remove("report").unwrap_or_default();
        let format = all.remove("container").unwrap_or_default();
        all.insert("format".into(), format);
        all.insert("executor".into(), parts);
    }
    value(py, &all)
}

/// The dicts of the targets of an executor alone.
pub(crate) fn applied_of<'py>(
    py: Python<'py>,
    report: Option<&Report>,
) -> PyResult<Bound<'py, PyAny>> {
    value(py, &json!(report.map_or_else(Vec::new, targets)))
}

/// JSON as Python objects.
pub(crate) fn value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}
