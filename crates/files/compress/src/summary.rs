//! Summary of a stream: its counts, its costs and the executor's report.

use overside_placement::Report;
use serde::Serialize;

use crate::{Container, GzipOriginal};

/// Summary of one compressed or decompressed stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Format of the compressed side of the stream.
    pub container: Container,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Members of gzip, frames of LZ4 and Zstandard, streams of zlib.
    pub members: u64,
    /// Chunks that were stored as they are, since compression would not have made them shorter.
    pub stored: u64,
    /// Members that were decompressed in pieces, one after the other, on the caller's thread: those
    /// without their length in the header, or too long to be held.
    pub streamed: u64,
    /// Maximum number of bytes of input that were in flight at once when compressing, which the window bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight_bytes_max: Option<usize>,
    /// Cost of joining chunks to one zlib stream; `None` unless devices made a stream of each
    /// chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joining: Option<Joining>,
    /// Data after the last member, which was ignored; `None` if there was none.
    pub ignored: Option<TrailingData>,
    /// Name and time of the original, from the first gzip member.
    pub original: Option<GzipOriginal>,
    /// Report of the executor's work; `None` if it was given none.
    pub report: Option<Report>,
}

/// Chunks that were made parts of one zlib stream, of which each had been a stream of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Joining {
    /// Number of chunks joined.
    pub chunks: u64,
    /// CPU time of the host that this took, in nanoseconds, on the caller's thread.
    pub cpu_ns: u64,
}

/// Data that followed the last member and was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrailingData {
    /// Number of bytes ignored.
    pub bytes: u64,
    /// `true` if the bytes are all zero: padding, not worth a warning.
    pub padding: bool,
}
