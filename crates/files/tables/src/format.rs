//! File formats.

use std::fmt;

/// Formats of written tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Arrow IPC, files and streams.
    Arrow,
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
            Self::Csv => "csv",
        })
    }
}
