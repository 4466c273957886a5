//! Options of a search: the patterns, the records to select, and the targets that do the work.

use std::sync::Arc;

use overside_device::Device;
use overside_placement::{Policy, Verify};

use crate::Context;

/// Default length of chunks in bytes, which fits in a core's cache. Chunks are shorter if a device
/// takes less.
pub const CHUNK_BYTES: usize = 256 << 10;
/// The longest record in bytes by default.
pub const RECORD_BYTES_MAX: usize = 256 << 20;

/// Result that the caller wants from a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The number of selected records.
    Count,
    /// The existence of a selected record. The search ends at the first.
    Any,
    /// All selected records.
    Records,
}

/// Part of a record that a pattern must match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatchScope {
    /// Any part of the record.
    #[default]
    Anywhere,
    /// A part between which and the letters, digits and underscores around it lies something else.
    Words,
    /// All of the record.
    Record,
}

/// Options of a [`crate::Search`].
#[derive(Clone)]
pub struct Options {
    /// Regular expressions; a record matches if one of them matches in it. See
    /// [`overside_ops::Config::patterns`].
    pub patterns: Vec<String>,
    /// The patterns are strings to be found as they are, and no regular expressions.
    pub fixed_strings: bool,
    /// Part of a record that a pattern must match.
    pub scope: MatchScope,
    /// Letters match in both cases (ASCII).
    pub ignore_case: bool,
    /// The records that do not match are selected.
    pub invert: bool,
    /// Result that is wanted: a count, the existence of a record, or the records.
    pub answer: Answer,
    /// Maximum number of selected records of an input, after which its search ends.
    pub records_max: Option<u64>,
    /// The records around selected ones that the sink gets as well; of [`Answer::Records`] only.
    pub context: Context,
    /// `true` if records of text must have their numbers. Rows always have them, and with context
    /// all records have them.
    pub numbers: bool,
    /// The library that searches on the CPU: a variant of `match-count`, or `auto`, which goes by
    /// the patterns and, for long inputs, by a trial on their first bytes.
    pub engine: String,
    /// Placement of the work on the CPU and the devices.
    pub policy: Policy,
    /// The devices, if the policy uses any.
    pub devices: Vec<Arc<dyn Device>>,
    /// Rule for which results of the devices are verified before they count: a sample unless set,
    /// because the CPU has to do the work again.
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
            fixed_strings: false,
            scope: MatchScope::Anywhere,
            ignore_case: false,
            invert: false,
            answer: Answer::Records,
            records_max: None,
            context: Context::default(),
            numbers: false,
            engine: "auto".into(),
            policy: Policy::Cpu,
            devices: Vec::new(),
            verify: Verify::Sampled,
            threads: 1,
            chunk_bytes: CHUNK_BYTES,
            record_bytes_max: RECORD_BYTES_MAX,
        }
    }

    /// Returns `true` if the records of a chunk must be counted before it is known which of them
    /// match.
    pub(crate) fn counts_records(&self) -> bool {
        self.invert || self.numbers || self.context.is_wanted()
    }
}
