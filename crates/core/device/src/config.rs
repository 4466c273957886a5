//! Configuration of a context.

use overside_ops::Config as OperationConfig;

/// Configuration of a context: the operation, and the limits on jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextConfig {
    /// The operation, its variant, level and patterns.
    pub operation: OperationConfig,
    /// Maximum number of jobs in flight; at least 1.
    pub depth: usize,
    /// The longest source of a job in bytes.
    pub max_source_bytes: u64,
    /// The longest destination of a job in bytes.
    pub max_destination_bytes: u64,
}
