//! The functions `compress` and `decompress`.

use std::num::NonZeroUsize;

use overside_compress::asynchronous::Cancel;
use overside_compress::{Compressor, Container, Decompressor, Error, Options, Verify};
use overside_device::ExternalBytes;
use pyo3::prelude::*;

use crate::arguments::PlacementArgs;
use crate::memory::{BorrowedBuffer, Immutable};
use crate::output::{OutputBuffer, Stream};
use crate::result::Output;
use crate::{errors, guarded, refused};

/// The longest output of decompression in bytes by default.
pub(crate) const MAX_SIZE: u64 = 1 << 30;
/// Shortest chunk length, in bytes, that is chosen by default for a short input.
const SHORT_CHUNK_BYTES: usize = 64 << 10;
/// Compressed bytes that are worth a thread.
pub(crate) const COMPRESSED_BYTES_A_THREAD: usize = 128 << 10;

/// Chunk length, as given in the argument `chunk`.
#[derive(FromPyObject)]
pub(crate) enum Chunk {
    /// Bytes.
    Bytes(usize),
    /// `auto`: adaptive placement finds out.
    Word(String),
}

impl Chunk {
    /// Bytes that each has at first.
    fn first_bytes(chunk: Option<&Self>) -> usize {
        match chunk {
            Some(&Self::Bytes(bytes)) => bytes,
            _ => Options::default().chunk_bytes,
        }
    }

    fn is_auto(&self) -> PyResult<bool> {
        match self {
            Self::Bytes(_) => Ok(false),
            Self::Word(word) if word == "auto" => Ok(true),
            Self::Word(word) => {
                Err(refused(format!("chunk is a number of bytes or \"auto\", not {word:?}")))
            }
        }
    }
}

/// Options for compression, from the arguments of a function or of `Compressor`.
pub(crate) fn compression(
    format: &str,
    level: Option<u32>,
    targets: PlacementArgs,
    chunk: Option<&Chunk>,
) -> PyResult<Options> {
    Ok(Options {
        container: Some(format.parse().map_err(refused)?),
        level,
        policy: targets.policy,
        devices: targets.devices,
        threads: targets.threads,
        submitters: targets.submitters,
        window_bytes: targets.window_bytes,
        verify: targets.verify.unwrap_or(Verify::All),
        chunk_bytes: Chunk::first_bytes(chunk),
        adaptive_chunks: chunk.map_or(Ok(false), Chunk::is_auto)?,
        ..Options::default()
    })
}

/// Options for decompression. `format` is the format that the input must have; `None`: it is
/// detected.
pub(crate) fn decompression(format: Option<&str>, targets: PlacementArgs) -> PyResult<Options> {
    let container: Option<Container> = format.map(str::parse).transpose().map_err(refused)?;
    Ok(Options {
        container,
        policy: targets.policy,
        devices: targets.devices,
        threads: targets.threads,
        submitters: targets.submitters,
        window_bytes: targets.window_bytes,
        verify: targets.verify.unwrap_or(Verify::All),
        ..Options::default()
    })
}

#[doc = stub!("compress")]
#[pyfunction]
#[pyo3(signature = (data, *, format="gzip", level=None, placement=None, device=None, threads=None, verify=None, chunk=None, submitters=None, window=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn compress(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    format: &str,
    level: Option<u32>,
    placement: Option<&str>,
    device: Option<&str>,
    threads: Option<usize>,
    verify: Option<&str>,
    chunk: Option<Chunk>,
    submitters: Option<NonZeroUsize>,
    window: Option<usize>,
) -> PyResult<Output> {
    guarded(|| {
        let data = BorrowedBuffer::new(data)?;
        let bytes_a_thread = Chunk::first_bytes(chunk.as_ref());
        let targets = PlacementArgs::new(py, placement, device, threads, verify)?
            .for_bytes(data.len(), bytes_a_thread)
            .submitted(submitters, window);
        let options = compression_of(data.len(), format, level, targets, chunk.as_ref())?;
        py.detach(|| compress_all(data, &options, &Cancel::default())).map_err(errors::stream)
    })
}

/// Options for compressing an input of `bytes` bytes. Without a given chunk length, chunks are no
/// longer than a short input needs.
pub(crate) fn compression_of(
    bytes: usize,
    format: &str,
    level: Option<u32>,
    targets: PlacementArgs,
    chunk: Option<&Chunk>,
) -> PyResult<Options> {
    let mut options = compression(format, level, targets, chunk)?;
    options.content_bytes = Some(bytes as u64);
    if chunk.is_none() {
        // Buffers for a short input need not be longer than it is.
        let usual = options.chunk_bytes;
        options.chunk_bytes = bytes.clamp(SHORT_CHUNK_BYTES.min(usual), usual);
    }
    Ok(options)
}

pub(crate) fn compress_all(
    data: BorrowedBuffer,
    options: &Options,
    cancel: &Cancel,
) -> Result<Output, Error> {
    let output = OutputBuffer::new(None).ended_by(cancel);
    let mut compressor = Compressor::new(output, options)?;
    match Immutable::new(data) {
        Ok(data) => compressor.lend(ExternalBytes::new(data))?,
        Err(data) => {
            let mut reader = data.reader();
            while compressor.fill(&mut reader)? > 0 {}
        }
    }
    let (mut gathered, summary) = compressor.finish()?;
    Ok(Output::new(gathered.take(), summary))
}

#[doc = stub!("decompress")]
#[pyfunction]
#[pyo3(signature = (data, *, format=None, max_size=MAX_SIZE, placement=None, device=None, threads=None, verify=None, submitters=None, window=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn decompress(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    format: Option<&str>,
    max_size: Option<u64>,
    placement: Option<&str>,
    device: Option<&str>,
    threads: Option<usize>,
    verify: Option<&str>,
    submitters: Option<NonZeroUsize>,
    window: Option<usize>,
) -> PyResult<Output> {
    guarded(|| {
        let data = BorrowedBuffer::new(data)?;
        let targets = PlacementArgs::new(py, placement, device, threads, verify)?
            .for_bytes(data.len(), COMPRESSED_BYTES_A_THREAD)
            .submitted(submitters, window);
        let options = decompression(format, targets)?;
        py.detach(|| decompress_all(data, &options, max_size, &Cancel::default()))
    })
}

pub(crate) fn decompress_all(
    data: BorrowedBuffer,
    options: &Options,
    max_size: Option<u64>,
    cancel: &Cancel,
) -> PyResult<Output> {
    let output = OutputBuffer::new(max_size).ended_by(cancel);
    let mut decompressor = Decompressor::new(output, options).map_err(errors::stream)?;
    let output = decompressor.output_of(|decompressor| {
        match Immutable::new(data) {
            Ok(data) => decompressor.lend(ExternalBytes::new(data))?,
            Err(data) => {
                let mut reader = data.reader();
                while decompressor.fill(&mut reader)? > 0 {}
            }
        }
        decompressor.complete()
    })?;
    let (_, summary) = decompressor.finish().map_err(errors::stream)?;
    Ok(Output::new(output, summary))
}
