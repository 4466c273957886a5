//! The processing engine of this process.

/// A partition in memory.
#[derive(Debug)]
pub struct Store;
