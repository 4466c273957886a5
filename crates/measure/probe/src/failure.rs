//! Reason why there is no sample, in a form that can be sent to another machine.

use crate::bounds::OutOfRange;
use overside_link::verbs::{ConnectError, ExportError, ImportError, LinkError, PostError};
use serde::{Deserialize, Serialize};

/// Reason why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Description of the failure, with its subject.
    pub message: String,
}

/// Sorts of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The device, the link or the machine does not support this; nothing has failed.
    Unsupported,
    /// A result is wrong.
    Verification,
    /// An operation has no result, or was not taken.
    Job,
    /// The device, the link or the other side is lost.
    Lost,
    /// The sample took too long.
    Timeout,
    /// The data set cannot be read.
    Data,
    /// A bug of ours.
    Internal,
}

impl Failure {
    /// Creates a failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The device, the link or the machine cannot do this: a test is skipped.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self::new(FailureKind::Unsupported, reason)
    }

    /// Checks that `found` equals `expected`; `what` names the value.
    ///
    /// # Errors
    /// [`FailureKind::Verification`], unless they are the same.
    pub(crate) fn unless_same<T: PartialEq + std::fmt::Display>(
        what: impl Fn() -> String,
        found: T,
        expected: T,
    ) -> Result<(), Self> {
        if found == expected {
            return Ok(());
        }
        let message = format!("{}: {found} where {expected} was expected", what());
        Err(Self::new(FailureKind::Verification, message))
    }

    /// An operation whose result is wrong.
    pub fn wrong(slot: usize, what: &str) -> Self {
        let message = format!("operation {slot}: {what}");
        Self::new(FailureKind::Verification, message)
    }
}

/// A test with a value out of its bounds is unsupported.
impl From<OutOfRange> for Failure {
    fn from(error: OutOfRange) -> Self {
        Self::unsupported(error.to_string())
    }
}

impl From<LinkError> for Failure {
    fn from(lost: LinkError) -> Self {
        Self::new(FailureKind::Lost, lost.to_string())
    }
}

impl From<PostError> for Failure {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Lost(lost) => lost.into(),
            refused @ PostError::Refused { .. } => Self::new(FailureKind::Job, refused.to_string()),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Lost(lost) => lost.into(),
            other => Self::new(FailureKind::Job, other.to_string()),
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Lost(lost) => lost.into(),
            other => Self::new(FailureKind::Job, other.to_string()),
        }
    }
}

/// Converts the failure to connect: a link that cannot have the requested properties is unsupported.
impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::Config(_) | ConnectError::Unavailable { .. } => FailureKind::Unsupported,
            _ => FailureKind::Job,
        };
        Self::new(kind, error.to_string())
    }
}
