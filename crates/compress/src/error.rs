//! What can go wrong with a compressed stream.

use std::{fmt, io};

use crate::Container;

/// Which member it is and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPosition {
    /// The format.
    pub container: Container,
    /// Which member, frame or stream of the input, from 1.
    pub member: u64,
    /// Where it begins, in bytes of the input.
    pub offset: u64,
}

impl fmt::Display for MemberPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (container, member, offset) = (self.container, self.member, self.offset);
        write!(f, "{container} member {member}, at byte {offset}")
    }
}

impl MemberPosition {
    pub(crate) fn corrupt(self, reason: impl Into<String>) -> Error {
        let (place, reason) = (self, reason.into());
        Error::Corrupt { place, reason }
    }

    pub(crate) fn unsupported(self, reason: &str) -> Error {
        let (place, reason) = (self, reason.into());
        Error::Unsupported { place, reason }
    }
}

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
    #[error("{place}: {reason}")]
    Corrupt {
        /// Where.
        place: MemberPosition,
        /// What is wrong.
        reason: String,
    },
    /// The input ends in the middle.
    #[error("{place}: truncated")]
    Truncated {
        /// Where.
        place: MemberPosition,
    },
    /// The input is valid, but uses what is not supported here.
    #[error("{place}: {reason}")]
    Unsupported {
        /// Where.
        place: MemberPosition,
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
    /// Nobody wants it any more.
    #[error("cancelled")]
    Cancelled,
    /// The stream had failed before.
    #[error("the stream has failed before")]
    Spent,
}

impl From<overside_ops::Error> for Error {
    fn from(error: overside_ops::Error) -> Self {
        Self::Job(overside_device::JobError::Failed(error.to_string()))
    }
}
