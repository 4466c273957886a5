//! Why a flow cannot go on.

use arrow_schema::ArrowError;

/// Why batches cannot be read, changed or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What Arrow's library says of the data.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// No column of that name.
    #[error("there is no column {name:?}; there are: {known}")]
    NoColumn {
        /// What was asked for.
        name: String,
        /// The columns, separated by commas.
        known: String,
    },
}
