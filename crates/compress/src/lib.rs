//! Compressed streams over the executor.

mod compressor;
mod container;
mod decompressor;
mod error;
mod framing;
pub mod gzip;
mod lz4;
mod options;
mod output;
mod stored;
mod summary;
mod zlib;
pub mod zstd;

pub use compressor::Compressor;
pub use container::{Container, UnknownContainer};
pub use decompressor::Decompressor;
pub use error::Error;
pub use options::{MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, Options};
pub use overside_placement::Policy;
pub use summary::{Ignored, Original, Summary};

use std::io::{Read, Write};

/// Compresses everything that `reader` gives and writes it to `writer`.
///
/// # Errors
/// [`Error`].
pub fn compress(
    mut reader: impl Read,
    writer: impl Write,
    options: &Options,
) -> Result<Summary, Error> {
    let mut compressor = Compressor::new(writer, options)?;
    while compressor.fill(&mut reader)? > 0 {}
    compressor.finish().map(|(_, summary)| summary)
}

/// Decompresses everything that `reader` gives and writes it to `writer`.
///
/// # Errors
/// [`Error`].
pub fn decompress(
    mut reader: impl Read,
    writer: impl Write,
    options: &Options,
) -> Result<Summary, Error> {
    let mut decompressor = Decompressor::new(writer, options)?;
    while decompressor.fill(&mut reader)? > 0 {}
    decompressor.finish().map(|(_, summary)| summary)
}
