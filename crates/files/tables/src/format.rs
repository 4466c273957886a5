//! Formats of files.

use std::fmt;

/// Formats that tables are written in, as far as types differ.
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
