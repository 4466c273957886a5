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
            Self::Word(word) => Err(refused(format!(
                "chunk is a number of bytes or \"auto\", not {word:?}"
            ))),
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

/// Compresses data in memory. Other Python threads run meanwhile.
///
/// Args:
///     data: Bytes-like and in one piece: `bytes`, `bytearray`, `memoryview`, `mmap`, `array`, a
///         numpy array. Read where it is if it cannot change, otherwise copied chunk by chunk.
///     format: `gzip`, `zlib`, `lz4` or `zstd`.
///     level: Compression level in the library's own numbers. Default: the library's.
///     placement: Targets: `cpu`, `device`, `split:PERCENT` (of the bytes, to the device) or
///         `adaptive`. Default: `cpu`, or `adaptive` if there is a `device`.
///     device: A device as `overside devices` names it: `emulated:bf2`, `dpu0/cpu`; `A+B`: both.
///     threads: CPU threads. Default: one per core, but no more than the data have work for.
///     verify: Which results of the device the CPU verifies before they count: `all`, `sampled`
///         (one in 16) or `none`. Default: all.
///     chunk: Bytes of input that are compressed by themselves. Default: 1 MiB (1,048,576), less
///         for short inputs. `auto`: adaptive placement finds out which length is fastest.
///     submitters: Threads that submit to devices, for devices that one thread does not keep busy.
///         Default: 1.
///     window: Bytes of input in flight at most. Default: by the targets' depths.
///
/// Returns:
///     The compressed bytes, bytes-like, and where they were made.
///
/// Raises:
///     ValueError: An argument that cannot be.
///     TypeError: An argument of another type.
///     BufferError: The data are not in one piece.
///     DeviceError: The device is not there, cannot do it, or was lost with no CPU to replace it.
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
        py.detach(|| compress_all(data, &options, &Cancel::default()))
            .map_err(errors::stream)
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

/// Decompresses data in memory. Other Python threads run meanwhile.
///
/// Args:
///     data: Bytes-like and in one piece: `bytes`, `bytearray`, `memoryview`, `mmap`, `array`, a
///         numpy array. Read where it is if it cannot change, otherwise copied chunk by chunk.
///     format: `gzip`, `zlib`, `lz4` or `zstd`. Default: it is detected.
///     max_size: The most bytes that may come out, since a short input can become a very long
///         output; `None`: any number. Default: 1 GiB.
///     placement: Targets: `cpu`, `device`, `split:PERCENT` (of the bytes, to the device) or
///         `adaptive`. Default: `cpu`, or `adaptive` if there is a `device`.
///     device: A device as `overside devices` names it: `emulated:bf2`, `dpu0/cpu`; `A+B`: both.
///     threads: CPU threads. Default: one per core, but no more than the data have work for.
///     verify: Which results of the device the CPU verifies before they count: `all`, `sampled`
///         (one in 16) or `none`. Default: all.
///     submitters: Threads that submit to devices, for devices that one thread does not keep busy.
///         Default: 1.
///     window: Bytes of input in flight at most. Default: by the targets' depths.
///
/// Returns:
///     The plain bytes, bytes-like, and where they were made.
///
/// Raises:
///     DataError: The data are not what their format says; `output` of the error has what is whole.
///     TruncatedError: They end in the middle; a `DataError`.
///     LimitError: The output would be longer than `max_size`.
///     ValueError: An argument that cannot be.
///     TypeError: An argument of another type.
///     BufferError: The data are not in one piece.
///     DeviceError: The device is not there, cannot do it, or was lost with no CPU to replace it.
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
