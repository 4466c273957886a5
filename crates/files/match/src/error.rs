//! Errors of a search.

use std::io;

/// Reason that a search cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The patterns, or the engine.
    #[error(transparent)]
    Operation(#[from] overside_ops::Error),
    /// The number of threads is not possible.
    #[error(transparent)]
    Cpu(#[from] overside_backend_cpu::CpuError),
    /// The placement, a device or memory.
    #[error(transparent)]
    Placement(#[from] overside_placement::Error),
    /// A chunk has no result, on either side.
    #[error("a chunk has no result: {0}")]
    Job(#[from] overside_device::JobError),
    /// The input cannot be read.
    #[error("{0}")]
    Read(io::Error),
    /// The sink cannot write the records that it was given.
    #[error("{0}")]
    Write(io::Error),
    /// A record is too long.
    #[error("the {place} is longer than {max_bytes} bytes")]
    TooLong {
        /// Kind of record, and where it begins or ends, for the message.
        place: String,
        /// The longest that it may be.
        max_bytes: usize,
    },
    /// The file does not have the format that it claims.
    #[error("{0}")]
    Format(String),
    /// The table cannot be read, or has no such column.
    #[cfg(feature = "tables")]
    #[error(transparent)]
    Table(#[from] overside_tables::Error),
    /// The column holds something else than text or bytes.
    #[cfg(feature = "tables")]
    #[error("column {name:?} holds {kind}; text and bytes can be searched")]
    ColumnType {
        /// Name of the column.
        name: String,
        /// Arrow type of the column.
        kind: String,
    },
}

impl Error {
    /// Returns `true` if the sink's output is a pipe that its reader has closed.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
