//! Errors of reading, changing and writing batches.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;

/// Error that ends reading, changing or writing batches.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Arrow's library reports an error in the data.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// A table cannot be read, or has no such column.
    #[error(transparent)]
    Table(#[from] overside_tables::Error),
    /// A column of a type that cannot play a role.
    #[error("column {name:?} holds {kind}, which cannot be {role}")]
    ColumnType {
        /// The column.
        name: String,
        /// Arrow type of the column.
        kind: String,
        /// Role that the column was to have, such as `times`.
        role: &'static str,
    },
    /// Parquet's library reports an error in the data.
    #[error("{0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// The request is not possible; the text gives the reason.
    #[error("{0}")]
    Refused(String),
    /// Another service, which is needed, does not answer.
    #[error("{address} does not answer: {reason}")]
    Away {
        /// Address at which the service was expected.
        address: String,
        /// Reason, as far as it is known.
        reason: String,
    },
    /// Another service answers that it cannot do it now.
    #[error("{address}: {reason}")]
    NotYet {
        /// Address of the service.
        address: String,
        /// Reason that the service gives.
        reason: String,
    },
    /// A partition method that cannot be read.
    #[error(
        "{text:?} is no partition method: {reason}; methods: bits:N, bits:A..B, hash:N, ranges:A,B,..."
    )]
    Method {
        /// The text.
        text: String,
        /// The problem with the text.
        reason: String,
    },
    /// A key column whose type the method cannot take.
    #[error(
        "column {column:?} of type {kind} cannot be partitioned by {method}: {reason}; {remedy}"
    )]
    KeyType {
        /// The column.
        column: String,
        /// Arrow type of the column.
        kind: String,
        /// The method.
        method: String,
        /// Reason why the method cannot take the column.
        reason: String,
        /// Suggestion of a method or a column that would work.
        remedy: String,
    },
    /// Fewer or more partitions than there may be.
    #[error(
        "between 2 and {} partitions are possible, not {}",
        crate::MAX_PARTITIONS,
        asked(*.partitions)
    )]
    Partitions {
        /// Number of partitions that were requested; `u64::MAX` is that or more.
        partitions: u64,
    },
    /// Options that exclude each other or that the format does not have.
    #[error("{0}")]
    Options(String),
    /// A call after one that failed.
    #[error("an earlier error ended the stream")]
    Spent,
    /// Data that is not what the format says.
    #[error("the Arrow data is damaged: {0}")]
    Damaged(String),
    /// There is a file of that name already.
    #[error("{} exists", .0.display())]
    Exists(PathBuf),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A file cannot be made, read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        error: Box<Self>,
    },
    /// A result is not what another algorithm finds.
    #[error("a result is wrong: {0}")]
    Verification(String),
    /// A file that says what others are cannot be read or written.
    #[error(transparent)]
    Config(Box<overside_config::Error>),
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] overside_ops::Error),
    /// A job on a device failed, and nothing could do it again.
    #[error(transparent)]
    Job(#[from] overside_device::JobError),
    /// The placement cannot be set up or cannot go on.
    #[error(transparent)]
    Placement(#[from] overside_placement::Error),
    /// There is no memory.
    #[error(transparent)]
    Memory(#[from] overside_device::MemoryError),
    /// A stage of a pipeline cannot take the batches, or failed at one.
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
    /// Values that no batch of that type can hold.
    #[error("{bytes} bytes of a column belong into one batch; write the input in smaller batches")]
    BatchBytes {
        /// Total bytes of the values that were to be in one batch.
        bytes: u64,
    },
    /// An expression that cannot be parsed, does not fit the columns, or cannot be evaluated.
    #[error("the expression is refused: {reason}")]
    Expression {
        /// Reason why the method cannot take the column.
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
        Self::File {
            path: path.into(),
            error: Box::new(error.into()),
        }
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
