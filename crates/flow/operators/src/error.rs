//! Errors of reading, transforming and writing batches.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;

/// Reason why reading, transforming or writing of batches ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Arrow's library reports an error in the data.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// A table cannot be read, or does not have the column.
    #[error(transparent)]
    Table(#[from] overside_tables::Error),
    /// The type of a column does not fit its role.
    #[error("column {name:?} holds {kind}, which cannot be {role}")]
    ColumnType {
        /// Name of the node.
        name: String,
        /// Arrow type of the column.
        kind: String,
        /// Role of the column, such as `times`.
        role: &'static str,
    },
    /// The request is not possible; the text gives the reason.
    #[error("{0}")]
    Refused(String),
    /// Another service that is needed does not answer.
    #[error("{address} does not answer: {reason}")]
    Away {
        /// Expected address of the service.
        address: String,
        /// Reason if it is known.
        reason: String,
    },
    /// Another service cannot process the request now.
    #[error("{address}: {reason}")]
    NotYet {
        /// Address of the service.
        address: String,
        /// Reason that the service gives.
        reason: String,
    },
    /// The text is not a partition method.
    #[error(
        "{text:?} is no partition method: {reason}; methods: bits:N, bits:A..B, hash:N, ranges:A,B,..."
    )]
    Method {
        /// Text that was parsed.
        text: String,
        /// The problem with the text.
        reason: String,
    },
    /// The method does not support the type of the key column.
    #[error(
        "column {column:?} of type {kind} cannot be partitioned by {method}: {reason}; {remedy}"
    )]
    KeyType {
        /// Name of the node.
        column: String,
        /// Arrow type of the column.
        kind: String,
        /// Partition method.
        method: String,
        /// Reason why the method does not support the column.
        reason: String,
        /// Method or column to use instead.
        remedy: String,
    },
    /// The number of partitions is out of range.
    #[error(
        "between 2 and {} partitions are possible, not {}",
        crate::MAX_PARTITIONS,
        asked(*.partitions)
    )]
    Partitions {
        /// Requested number of partitions; `u64::MAX` also stands for larger ones.
        partitions: u64,
    },
    /// A call follows one that failed.
    #[error("an earlier error ended the stream")]
    Spent,
    /// Data do not have the expected format.
    #[error("the Arrow data is damaged: {0}")]
    Damaged(String),
    /// There is already a file of that name.
    #[error("{} exists", .0.display())]
    Exists(PathBuf),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A file cannot be created, read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        error: Box<Self>,
    },
    /// A result differs from that of another algorithm.
    #[error("a result is wrong: {0}")]
    Verification(String),
    /// A configuration file cannot be read or written.
    #[error(transparent)]
    Config(Box<overside_config::Error>),
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] overside_ops::Error),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] overside_device::MemoryError),
    /// A stage of a pipeline does not accept the batches, or failed.
    #[error("stage {stage:?}: {error}")]
    Stage {
        /// Name of the stage.
        stage: String,
        /// Cause of the failure.
        error: Box<Self>,
    },
    /// A search failed.
    #[error(transparent)]
    Search(#[from] overside_match::Error),
    /// The values are too many for a batch of that type.
    #[error("{bytes} bytes of a column belong into one batch; write the input in smaller batches")]
    BatchBytes {
        /// Total number of bytes of the values.
        bytes: u64,
    },
    /// An expression cannot be parsed, does not fit the columns, or cannot be evaluated.
    #[error("the expression is refused: {reason}")]
    Expression {
        /// Reason why the expression is refused.
        reason: String,
    },
}

fn asked(partitions: u64) -> String {
    match partitions {
        u64::MAX => "2^64 or more".into(),
        fewer => fewer.to_string(),
    }
}

impl Error {
    /// Returns an [`Error::File`] with this path and this cause.
    pub fn file(path: &Path, error: impl Into<Self>) -> Self {
        Self::File { path: path.into(), error: Box::new(error.into()) }
    }

    /// Returns the kind of the I/O error that caused this error; `None` if the cause is not an I/O
    /// error.
    pub fn io_kind(&self) -> Option<ErrorKind> {
        match self {
            Self::File { error, .. } => error.io_kind(),
            Self::Io(error) | Self::Table(overside_tables::Error::Io(error)) => Some(error.kind()),
            _ => None,
        }
    }
}

impl From<overside_config::Error> for Error {
    fn from(error: overside_config::Error) -> Self {
        Self::Config(Box::new(error))
    }
}
