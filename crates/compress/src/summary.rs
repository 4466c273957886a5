//! What became of a stream.

use overside_placement::Report;
use serde::Serialize;

use crate::Container;

/// What became of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Its format.
    pub container: Container,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Members of gzip, frames of LZ4 and Zstandard, streams of zlib.
    pub members: u64,
    /// Chunks that were stored as they are, since compression would not have made them shorter.
    pub stored: u64,
    /// Members that were decompressed in pieces, one after the other, on the caller's thread:
    /// those that do not say how long they are, or are too long to be held.
    pub streamed: u64,
    /// The most bytes of input that were in flight at once when compressing, which the window bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight_bytes_max: Option<usize>,
    /// What joining chunks to one stream cost, where devices made a stream of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joining: Option<Joining>,
    /// What followed the last member and was ignored.
    pub ignored: Option<TrailingData>,
    /// What the first gzip member says about the original.
    pub original: Option<GzipOriginal>,
    /// What the executor did; `None` if nothing was given to it.
    pub report: Option<Report>,
}

/// Chunks that were made parts of one zlib stream, of which each had been a stream of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Joining {
    /// How many.
    pub chunks: u64,
    /// CPU time of the host that this took, in nanoseconds, on the caller's thread.
    pub cpu_ns: u64,
}

/// What followed the last member and was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrailingData {
    /// How much.
    pub bytes: u64,
    /// They are all zero: padding, not worth a warning.
    pub padding: bool,
}

/// What a gzip header says about the original (RFC 1952, section 2.3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GzipOriginal {
    /// Its name, as bytes of an unknown encoding.
    pub name: Option<Vec<u8>>,
    /// When it was changed, in seconds since 1970; 0: unknown.
    pub mtime: u32,
}
