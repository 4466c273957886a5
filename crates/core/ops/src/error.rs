//! Errors of operations.

/// Reason why an operation could not be prepared or a buffer could not be processed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No operation has that name.
    #[error("no operation is called {0:?}")]
    UnknownOperation(String),
    /// No usable library of that name performs this operation.
    #[error("{operation} has no variant {name:?}; there are: {known}")]
    UnknownVariant {
        /// Requested operation.
        operation: String,
        /// Requested library.
        name: String,
        /// Names of the available libraries, separated by commas.
        known: String,
    },
    /// A level that the library does not have.
    #[error("{variant} has levels {min} to {max}, not {level}")]
    Level {
        /// Name of the library.
        variant: &'static str,
        /// Requested level.
        level: u32,
        /// Lowest level of the library.
        min: u32,
        /// Highest level of the library.
        max: u32,
    },
    /// A level for a library that has none.
    #[error("{variant} has no levels")]
    NoLevels {
        /// Name of the library.
        variant: &'static str,
    },
    /// A pattern that does not compile.
    #[error("pattern {pattern:?} does not compile: {reason}")]
    Pattern {
        /// Text of the pattern.
        pattern: String,
        /// Error message of the engine.
        reason: String,
    },
    /// Matching without a pattern.
    #[error("matching needs at least one pattern")]
    NoPattern,
    /// The result does not fit into the destination. The destination's contents are unspecified.
    #[error("the output does not fit into {capacity} bytes")]
    OutputTooSmall {
        /// Length of the destination in bytes.
        capacity: usize,
    },
    /// The source is not valid in its format.
    #[error("the input is corrupt: {0}")]
    Corrupt(String),
    /// More segments, or more bytes, than the library takes at once.
    #[error("the input is too large: {0}")]
    TooLarge(String),
    /// The library failed for a reason of its own.
    #[error("{library} failed: {reason}")]
    Library {
        /// Name of the library.
        library: &'static str,
        /// Error message of the library.
        reason: String,
    },
}
