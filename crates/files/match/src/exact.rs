//! The patterns as they were written, for one record at a time.

use std::ops::Range;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use crate::Error;

/// Limit on the size of an engine's program, and of its caches, in bytes.
const MAX_PROGRAM_BYTES: usize = 64 << 20;

/// The patterns by the `regex` crate's engine. It agrees with the others about which records match,
/// takes records with line feeds in them, and finds the position of a match in a record.
#[derive(Clone)]
pub struct Exact(Regex);

impl Exact {
    /// # Errors
    /// [`Error::Operation`] for a pattern that does not compile.
    pub(crate) fn compile(patterns: &[String]) -> Result<Self, Error> {
        let config = Regex::config()
            .nfa_size_limit(Some(MAX_PROGRAM_BYTES))
            .hybrid_cache_capacity(MAX_PROGRAM_BYTES)
            // Matches of bytes, whatever characters they cut.
            .utf8_empty(false);
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let regex = Regex::builder().configure(config).syntax(syntax).build_many(patterns);
        regex.map(Self).map_err(|error| {
            let pattern = error.pattern().and_then(|id| patterns.get(id.as_usize()));
            let reason = match error.syntax_error() {
                Some(reason) => reason.to_string(),
                None => error.to_string(),
            };
            Error::Operation(overside_ops::Error::Pattern {
                pattern: pattern.cloned().unwrap_or_default(),
                reason,
            })
        })
    }

    /// Returns `true` if one of the patterns matches in the record.
    pub fn is_match(&self, record: &[u8]) -> bool {
        self.0.is_match(record)
    }

    /// Returns where matches lie in a record, from left to right and without overlaps. Of several
    /// that begin in the same place, the first pattern's counts. Empty matches are left out.
    pub fn find<'a>(&'a self, record: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        let matches = self.0.find_iter(record).map(|found| found.range());
        matches.filter(|range| !range.is_empty())
    }
}
