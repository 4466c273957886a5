//! What can be wrong with a directory of logs and snapshots.

use std::io;
use std::path::{Path, PathBuf};

use crate::codec::DecodeError;

/// Why state could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum PersistenceError {
    /// A file or the directory could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process uses the directory.
    #[error("{path} is in use by another server", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A file is damaged.
    #[error("{path} is damaged at byte {offset}", path = path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where the first damaged frame begins.
        offset: u64,
    },
    /// A file of a series is missing.
    #[error("{path} is missing", path = path.display())]
    Missing {
        /// Which.
        path: PathBuf,
    },
    /// A file is of a later version of this program.
    #[error("{path} has format {format}, which this version cannot read", path = path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// Its number.
        format: u8,
    },
    /// A frame holds what is no request, although its checksum is right.
    #[error("{path}: the frame at byte {offset} cannot be read: {source}", path = path.display())]
    Request {
        /// Which.
        path: PathBuf,
        /// Where the frame begins.
        offset: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// The engine refuses what it had executed before.
    #[error("{path} does not fit into the memory limit", path = path.display())]
    DoesNotFit {
        /// Which.
        path: PathBuf,
    },
}

impl PersistenceError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.into(),
            source,
        }
    }

    /// What happened, and what can be done about it.
    #[must_use]
    pub fn with_remedy(&self) -> String {
        match self.remedy() {
            remedy if remedy.is_empty() => self.to_string(),
            remedy => format!("{self}; {remedy}"),
        }
    }

    /// What can be done about it; empty where the message says it.
    fn remedy(&self) -> String {
        match self {
            Self::Io { .. } => String::new(),
            Self::InUse { .. } => "end that server, or use another directory".into(),
            Self::Damaged { path, offset } => format!(
                "restore the file from a copy; or, to lose all that follows, `truncate -s {offset} {}` and \
                 move files with greater numbers away",
                path.display()
            ),
            Self::Missing { .. } => "restore the file from a copy".into(),
            Self::Format { .. } => "use a newer version".into(),
            Self::Request { .. } => "restore the file from a copy".into(),
            Self::DoesNotFit { .. } => "start with a greater memory limit".into(),
        }
    }
}
