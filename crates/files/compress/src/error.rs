//! Errors of compressed streams.

use std::{fmt, io};

use crate::Container;

/// Number of a member, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPosition {
    /// The format.
    pub container: Container,
    /// Number of the member, frame or stream in the input, from 1.
    pub member: u64,
    /// Byte offset in the input at which the member begins.
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

/// Error of compressing or decompressing a stream. After one, the stream cannot be continued; the
/// output written before it is correct.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input cannot be read.
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    /// The input is empty.
    #[error("the input is empty")]
    Empty,
    /// The input begins like none of the formats.
    #[error("not gzip, zlib, LZ4 or Zstandard")]
    Unrecognized,
    /// The input does not have the format that it claims.
    #[error("{place}: {reason}")]
    Corrupt {
        /// Member that the error is in.
        place: MemberPosition,
        /// Description of the mistake.
        reason: String,
    },
    /// The input ends in the middle.
    #[error("{place}: truncated")]
    Truncated {
        /// Member that the error is in.
        place: MemberPosition,
    },
    /// The input is valid, but uses a feature that is not supported here.
    #[error("{place}: {reason}")]
    Unsupported {
        /// Member that the error is in.
        place: MemberPosition,
        /// Description of the feature that is not supported.
        reason: String,
    },
    /// The output would be longer than the limit.
    #[error("the output exceeds the limit of {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The content differs from the announced length.
    #[error("the input has {found} bytes, not {announced} as announced")]
    ContentBytes {
        /// Announced length of the input, in bytes.
        announced: u64,
        /// Bytes found so far; the input may have more.
        found: u64,
    },
    /// A setting that is not valid.
    #[error("{0}")]
    Option(String),
    /// The targets cannot be set up, or the last one is lost.
    #[error(transparent)]
    Executor(#[from] overside_placement::Error),
    /// The library or the device failed at a chunk, and no other target could do it.
    #[error("a chunk failed: {0}")]
    Job(overside_device::JobError),
    /// The caller cancelled the call.
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
