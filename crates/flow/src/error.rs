//! Why a flow cannot go on.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;

/// Why batches cannot be read, changed or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What Arrow's library says of the data.
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
        /// Its Arrow type.
        kind: String,
        /// What it was to be.
        role: &'static str,
    },
    /// What Parquet's library says of the data.
    #[error("{0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// What is asked for is not possible, and why.
    #[error("{0}")]
    Refused(String),
    /// Another service, which is needed, does not answer.
    #[error("{address} does not answer: {reason}")]
    Away {
        /// Where it should be.
        address: String,
        /// What is known.
        reason: String,
    },
    /// Another service answers that it cannot do it now.
    #[error("{address}: {reason}")]
    NotYet {
        /// Where it is.
        address: String,
        /// What it says.
        reason: String,
    },
    /// A partition method that cannot be read.
    #[error(
        "{text:?} is no partition method: {reason}; methods: {}",
        crate::operators::PartitionMethod::FORMS
    )]
    Method {
        /// The text.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// A key column whose type the method cannot take.
    #[error(
        "column {column:?} of type {kind} cannot be partitioned by {method}: {reason}; {remedy}"
    )]
    KeyType {
        /// The column.
        column: String,
        /// Its Arrow type.
        kind: String,
        /// The method.
        method: String,
        /// Why.
        reason: String,
        /// What would work.
        remedy: String,
    },
    /// Fewer or more partitions than there may be.
    #[error(
        "between 2 and {} partitions are possible, not {}",
        crate::operators::MAX_PARTITIONS,
        asked(*.partitions)
    )]
    Partitions {
        /// How many were asked for; the greatest number is that or more.
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
        /// Why.
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
        /// Its name.
        stage: String,
        /// Why.
        error: Box<Self>,
    },
    /// A search failed.
    #[error(transparent)]
    Search(#[from] overside_match::Error),
    /// Values that no batch of that type can hold.
    #[error("{bytes} bytes of a column belong into one batch; write the input in smaller batches")]
    BatchBytes {
        /// How many bytes.
        bytes: u64,
    },
    /// An expression that cannot be parsed, does not fit the columns, or cannot be evaluated.
    #[error("the expression is refused: {reason}")]
    Expression {
        /// Why.
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
    /// That something cannot be done with a file.
    pub(crate) fn file(path: &Path, error: impl Into<Self>) -> Self {
        Self::File {
            path: path.into(),
            error: Box::new(error.into()),
        }
    }

    /// What the system says, if it is why.
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
