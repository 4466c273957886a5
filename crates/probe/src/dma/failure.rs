//! What goes wrong between two sides, in a form that can be sent.

use overside_link::verbs::{ConnectError, ExportError, ImportError, Lost, PostError};
use serde::{Deserialize, Serialize};

/// Why a command was not obeyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Which sort of thing went wrong.
    pub kind: Kind,
    /// What happened, to what.
    pub message: String,
}

/// Sorts of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The link or the machine cannot do this; nothing has gone wrong.
    Unsupported,
    /// Bytes are not where they belong.
    Verification,
    /// An operation has no result, or was not taken.
    Job,
    /// The link or the other side is gone.
    Lost,
    /// It took too long.
    Timeout,
    /// A bug of ours.
    Internal,
}

impl Failure {
    /// Of that sort.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// What the link or the machine cannot do.
pub(super) fn unsupported(message: impl Into<String>) -> Failure {
    Failure::new(Kind::Unsupported, message)
}

/// The bytes did not arrive, or not only where they were to.
pub fn misplaced(slot: usize, what: &str) -> Failure {
    Failure::new(Kind::Verification, format!("operation {slot}: {what}"))
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::new(Kind::Lost, lost.to_string())
    }
}

impl From<PostError> for Failure {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Lost(lost) => lost.into(),
            refused @ PostError::Refused { .. } => Self::new(Kind::Job, refused.to_string()),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Lost(lost) => lost.into(),
            other => Self::new(Kind::Job, other.to_string()),
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Lost(lost) => lost.into(),
            other => Self::new(Kind::Job, other.to_string()),
        }
    }
}

/// A link that cannot be as it was asked for is one that cannot do this.
impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::Config(_) | ConnectError::Unavailable { .. } => Kind::Unsupported,
            _ => Kind::Job,
        };
        Self::new(kind, error.to_string())
    }
}
