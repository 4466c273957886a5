//! What can go wrong with a compressed stream.

use std::io;

use crate::Container;

/// Why a stream cannot be compressed or decompressed. After one, the stream cannot be
/// continued; what was written before it is correct.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input cannot be read.
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    /// There is no input at all.
    #[error("the input is empty")]
    Empty,
    /// The input begins like none of the formats.
    #[error("not gzip, zlib, LZ4 or Zstandard")]
    Unrecognized,
    /// The input is not what its format says it should be.
    #[error("{container} member {member}, at byte {offset}: {reason}")]
    Corrupt {
        /// The format.
        container: Container,
        /// Which member, frame or stream of the input, from 1.
        member: u64,
        /// Where it begins, in bytes of the input.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The input ends in the middle.
    #[error("{container} member {member}, at byte {offset}: truncated")]
    Truncated {
        /// The format.
        container: Container,
        /// Which member, frame or stream of the input, from 1.
        member: u64,
        /// Where it begins, in bytes of the input.
        offset: u64,
    },
    /// The input is valid, but uses what is not supported here.
    #[error("{container} member {member}, at byte {offset}: {reason}")]
    Unsupported {
        /// The format.
        container: Container,
        /// Which member, frame or stream of the input, from 1.
        member: u64,
        /// Where it begins, in bytes of the input.
        offset: u64,
        /// What is not supported.
        reason: String,
    },
    /// The output would be longer than the limit.
    #[error("the output exceeds the limit of {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: u64,
    },
    /// There are other bytes to be compressed than were announced.
    #[error("the input has {found} bytes, not {announced} as announced")]
    ContentBytes {
        /// What was said, in bytes.
        announced: u64,
        /// What came, in bytes; at least so many.
        found: u64,
    },
    /// A setting that is not valid.
    #[error("{0}")]
    Option(String),
    /// The targets cannot be set up, or the last one is gone.
    #[error(transparent)]
    Executor(#[from] overside_placement::Error),
    /// The library or the device failed at a chunk, and no other target could do it.
    #[error("a chunk failed: {0}")]
    Job(overside_device::JobError),
    /// The stream had failed before.
    #[error("the stream has failed before")]
    Spent,
}

impl From<overside_ops::Error> for Error {
    fn from(error: overside_ops::Error) -> Self {
        Self::Job(overside_device::JobError::Failed(error.to_string()))
    }
}
