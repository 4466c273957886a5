//! Configuration that an operation is prepared with.

use crate::Operation;

/// Operation with its library, level and patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Operation to perform.
    pub operation: Operation,
    /// Library that performs it: a name from [`crate::variants`], or `auto`.
    pub variant: String,
    /// Compression level in the library's own numbers; `None` is the library's default. Only
    /// compression has levels.
    pub level: Option<u32>,
    /// Regular expressions in the syntax that the `regex` crate, RE2 and Hyperscan share, 1 to 1000 of at
    /// most 1000 bytes each. Only matching has them. Sets that take engines very long to compile are refused.
    pub patterns: Vec<String>,
}

impl Config {
    /// Returns a configuration of the operation by the `auto` variant at its default level, without patterns.
    pub fn new(operation: Operation) -> Self {
        Self { operation, variant: "auto".into(), level: None, patterns: Vec::new() }
    }
}
