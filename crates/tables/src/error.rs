//! Why a table cannot be read.

use std::io;

use arrow_schema::ArrowError;
use overside_base::quietly;

/// Why a table cannot be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// The file is not what its format says.
    #[error("{0}")]
    Format(String),
    /// No column of that name.
    #[error("there is no column {name:?}; there are: {known}")]
    NoColumn {
        /// What was asked for.
        name: String,
        /// The columns, separated by commas.
        known: String,
    },
    /// Several columns of that name.
    #[error("{count} columns are called {name:?}")]
    SameColumns {
        /// The name.
        name: String,
        /// How many.
        count: usize,
    },
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::format(error)
    }
}

impl Error {
    /// What a format's library says, in one line.
    pub(crate) fn format(error: impl std::fmt::Display) -> Self {
        let words: Vec<_> = error
            .to_string()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        Self::Format(words.join(" "))
    }
}

/// Runs a file format's decoder. What a hostile file makes it stumble over is the file's mistake.
pub(crate) fn guarded<T, E: From<Error>>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let damaged = || Error::Format("the file is damaged".into()).into();
    quietly(decode).unwrap_or_else(|_| Err(damaged()))
}
