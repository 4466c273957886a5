//! What is searched for, and where.

use std::sync::Arc;

use overside_device::Device;
use overside_placement::{Policy, Verify};

/// How long chunks are by default or a device takes less: what a core's cache holds.
pub const CHUNK_BYTES: usize = 256 << 10;
/// The longest record in bytes by default.
pub const RECORD_BYTES_MAX: usize = 256 << 20;

/// What is wanted of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// How many are selected.
    Count,
    /// Whether there is one. The search ends at the first.
    Any,
    /// Each of them.
    Records,
}

/// What a [`crate::Search`] is made of.
#[derive(Clone)]
pub struct Options {
    /// Regular expressions; a record matches if one of them matches in it. See
    /// [`overside_ops::Config::patterns`].
    pub patterns: Vec<String>,
    /// Letters match in both cases (ASCII).
    pub ignore_case: bool,
    /// The records that do not match are selected.
    pub invert: bool,
    /// What is wanted.
    pub answer: Answer,
    /// Whether records of text are to have their numbers; those of rows always have.
    pub numbers: bool,
    /// The library that searches on the CPU: a variant of `match-count`, or `auto`, which goes by
    /// the patterns and, for long inputs, by a trial on their first bytes.
    pub engine: String,
    /// Who does the work.
    pub policy: Policy,
    /// The device, if the policy uses one.
    pub device: Option<Arc<dyn Device>>,
    /// Which results of the device are verified before they count: a sample unless set, because the
    /// CPU has to do the work again.
    pub verify: Verify,
    /// Threads on the CPU.
    pub threads: usize,
    /// The longest chunk in bytes.
    pub chunk_bytes: usize,
    /// The longest record in bytes. A longer one ends the search: it has to be in memory as a
    /// whole.
    pub record_bytes_max: usize,
}

impl Options {
    /// All records that match one of the patterns, found by one thread of the CPU.
    pub fn new<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> Self {
        Self {
            patterns: patterns.into_iter().map(Into::into).collect(),
            ignore_case: false,
            invert: false,
            answer: Answer::Records,
            numbers: false,
            engine: "auto".into(),
            policy: Policy::Cpu,
            device: None,
            verify: Verify::Sampled,
            threads: 1,
            chunk_bytes: CHUNK_BYTES,
            record_bytes_max: RECORD_BYTES_MAX,
        }
    }
}
