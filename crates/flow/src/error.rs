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
    /// Several columns of that name.
    #[error("{count} columns are called {name:?}; rename them")]
    SameColumns {
        /// The name.
        name: String,
        /// How many.
        count: usize,
    },
    /// A batch of another schema in the middle of a stream.
    #[error("the schema changed in the middle of the stream, from {expected} to {found}")]
    SchemaChange {
        /// The schema that the stream began with.
        expected: String,
        /// The schema of the batch.
        found: String,
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
        "{partitions} partitions: between 2 and {} are possible",
        crate::operators::MAX_PARTITIONS
    )]
    Partitions {
        /// How many were asked for.
        partitions: u64,
    },
}
