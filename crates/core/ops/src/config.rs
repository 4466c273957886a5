//! Configuration that an operation is prepared with.

use crate::Operation;

/// An operation and how it is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Operation to perform.
    pub operation: Operation,
    /// The library that does it: a name out of [`crate::variants`], or `auto`.
    pub variant: String,
    /// The compression level in the library's own numbers; its default if absent. Only
    /// compression has one.
    pub level: Option<u32>,
    /// Regular expressions in the syntax that the `regex` crate, RE2 and Hyperscan share. Only
    /// matching has them; at least one, at most 1000 of at most 1000 bytes each. Sets that engines
    /// would take very long to compile are refused.
    pub patterns: Vec<String>,
}

impl Config {
    /// The operation by the `auto` variant at its default level, without patterns.
    pub fn new(operation: Operation) -> Self {
        Self {
            operation,
            variant: "auto".into(),
            level: None,
            patterns: Vec::new(),
        }
    }
}
