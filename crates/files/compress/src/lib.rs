//! Compressed streams over the executor: gzip, zlib, LZ4 and Zstandard files that the programs of
//! others read, and theirs.
//!
//! [`Compressor`] and [`Decompressor`] are given bytes and write to a [`std::io::Write`];
//! [`compress`] and [`decompress`] do it from a reader; [`compress_async`] and [`decompress_async`]
//! do it with memory, and are futures. The executor decides where the work is done: [`Options`] has
//! a policy, a CPU and devices. Framing, checksums and serial work are done on the caller's thread,
//! while the bytes are warm in its cache.
//!
//! `docs/files/compressed-files.md` describes the files.
//!
//! ```
//! use overside_compress::{Container, Options, compress, decompress};
//! let options = Options {
//!     container: Some(Container::Zstd),
//!     ..Options::default()
//! };
//! let mut file = Vec::new();
//! let summary = compress(&b"what is said three times is true"[..], &mut file, &options)?;
//! assert_eq!(summary.bytes_in, 32);
//! let mut back = Vec::new();
//! // The format is detected.
//! decompress(&file[..], &mut back, &Options::default())?;
//! assert_eq!(back, b"what is said three times is true");
//! # Ok::<(), overside_compress::Error>(())
//! ```

pub mod asynchronous;
mod compressor;
mod container;
mod decompressor;
mod error;
mod framing;
pub mod gzip;
mod lz4;
mod options;
mod output;
mod reader;
mod stored;
mod summary;
mod zlib;
pub mod zstd;

pub use asynchronous::{compress_async, decompress_async};
pub use compressor::Compressor;
pub use container::{Container, MAX_CHUNK_BYTES, UnknownContainer};
pub use decompressor::Decompressor;
pub use error::{Error, MemberPosition};
pub use gzip::GzipOriginal;
pub use options::{MIN_CHUNK_BYTES, Options};
pub use overside_placement::{MAX_ADAPTIVE_CHUNK_BYTES, Policy, Verify};
pub use reader::DecompressReader;
pub use summary::{Joining, Summary, TrailingData};

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
