//! Errors of directories of logs and snapshots.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::codec::DecodeError;

/// Beginning of a log's name.
pub(super) const LOG: &str = "log-";

/// Reason why state could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum PersistenceError {
    /// A file or the directory could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Underlying I/O error.
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
        /// Path of the file.
        path: PathBuf,
        /// Offset in bytes at which the first damaged frame begins.
        offset: u64,
    },
    /// A file of a series is missing.
    #[error("{path} is missing", path = path.display())]
    Missing {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file has the name of another one: it was copied or renamed.
    #[error("{path} is a copy of the file with number {generation}", path = path.display())]
    Misnamed {
        /// Path of the file.
        path: PathBuf,
        /// Number of the file that was copied.
        generation: u64,
    },
    /// A file does not go with another one that names it.
    #[error("{path} is not the file that {by} names: it is of another server or another time", path = path.display(), by = by.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// File that names it.
        by: PathBuf,
    },
    /// A file is of a later version of this program.
    #[error("{path} has format {format}, which this version cannot read", path = path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Number of the file's format.
        format: u8,
    },
    /// A frame has no valid request, although its checksum is right.
    #[error("{path}: the frame at byte {offset} cannot be read: {source}", path = path.display())]
    Request {
        /// Path of the file.
        path: PathBuf,
        /// Offset in bytes at which the frame begins.
        offset: u64,
        /// Error in the encoded request.
        source: DecodeError,
    },
    /// The engine refuses a request that it had executed before.
    #[error("{path} does not fit into the memory limit", path = path.display())]
    DoesNotFit {
        /// Path of the file.
        path: PathBuf,
    },
}

impl PersistenceError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), source }
    }

    /// Returns the error message, followed by the remedy.
    #[must_use]
    pub fn with_remedy(&self) -> String {
        match self.remedy() {
            remedy if remedy.is_empty() => self.to_string(),
            remedy => format!("{self}; {remedy}"),
        }
    }

    /// Returns the remedy for the error; empty if the message has it.
    fn remedy(&self) -> String {
        match self {
            Self::Io { .. } => String::new(),
            Self::InUse { .. } => "end that server, or use another directory".into(),
            Self::Damaged { path, offset } if is_log(path) => format!(
                "restore the file from a copy; or, to lose all that follows, `truncate -s {offset} {}`, \
                 move files with greater numbers away, and remove `lock`",
                path.display()
            ),
            Self::Missing { path } if is_log(path) => format!(
                "restore the file from a copy; or, to lose what it held and all that follows, `touch {}`, \
                 move files with greater numbers away, and remove `lock`",
                path.display()
            ),
            Self::Misnamed { .. } => {
                "move it away, and restore the file of that name from a copy if it was there".into()
            }
            Self::Damaged { .. } | Self::Missing { .. } | Self::Foreign { .. } => {
                "restore the file from a copy".into()
            }
            Self::Format { .. } => "use a newer version".into(),
            Self::Request { .. } => "restore the file from a copy".into(),
            Self::DoesNotFit { .. } => "start with a greater memory limit".into(),
        }
    }
}

fn is_log(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with(LOG))
}
