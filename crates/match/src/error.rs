//! Why a search ends early.

use std::io;

/// Why a search cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The patterns, or the engine.
    #[error(transparent)]
    Operation(#[from] overside_ops::Error),
    /// There cannot be so many threads.
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
    /// What was found cannot be written.
    #[error("{0}")]
    Write(io::Error),
    /// A record is too long.
    #[error("the {place} is longer than {max_bytes} bytes")]
    TooLong {
        /// What it is and where it begins.
        place: String,
        /// The longest that it may be.
        max_bytes: usize,
    },
    /// The file is not what its format says.
    #[error("{0}")]
    Format(String),
    /// The table cannot be read, or has no such column.
    #[error(transparent)]
    Table(#[from] overside_tables::Error),
    /// The column holds something else than text or bytes.
    #[error("column {name:?} holds {kind}; text and bytes can be searched")]
    ColumnType {
        /// Its name.
        name: String,
        /// Its Arrow type.
        kind: String,
    },
}

impl Error {
    /// Nobody reads what is written any more.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
