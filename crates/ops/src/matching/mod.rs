//! Pattern matching by record, through engines that have to agree.
//!
//! [`crate::MatchKind`] says what is answered. Each pattern is parsed once, into [`pattern`]'s
//! own form, in which no part of it can match a record's end, and is written out again in the few
//! constructs that mean the same everywhere. An engine can then scan a whole buffer: what it
//! finds lies within one record.

mod engine;
mod grouped;
mod groups;
#[cfg(not(without_hyperscan))]
mod hyperscan;
mod literal;
mod pattern;
mod re2;
mod records;
mod regex;
mod trial;

use engine::{EngineLibrary, EngineMaker, Every, GroupsBy, Nothing};
use pattern::{Compiled, Patterns};
use records::Matcher;

pub use groups::match_groups_bytes_max;
pub use trial::{Trial, try_matchers};

use crate::variant::Entry;
use crate::{Error, Kernel, MatchKind, Variant};

/// The registry of matching libraries, the one that `auto` takes first.
const ENGINES: &[&EngineLibrary] = &[
    &literal::ENGINE,
    #[cfg(not(without_hyperscan))]
    &hyperscan::ENGINE,
    &regex::ENGINE,
    &re2::ENGINE,
];

fn supported() -> impl Iterator<Item = &'static EngineLibrary> {
    ENGINES.iter().copied().filter(|one| (one.is_supported)())
}

/// Those that this machine can run.
pub(crate) fn matchers(kind: MatchKind) -> Vec<Entry> {
    supported()
        .map(|library| Entry {
            variant: match (kind, &library.groups) {
                (MatchKind::Groups, GroupsBy::SecondPass(both)) => both.variant(),
                _ => library.library.variant(),
            },
            prepare: Box::new(move |variant, _, patterns| {
                if kind == MatchKind::Groups {
                    return groups::prepare(library, patterns);
                }
                let engine = engine(library, variant, patterns)?;
                Ok(Box::new(move || {
                    let matcher: Box<dyn Kernel> = Box::new(Matcher::new(kind, engine()?));
                    Ok(matcher)
                }))
            }),
        })
        .collect()
}

/// What an engine's program for these patterns takes, and its caches for one thread, in bytes: what
/// long ones may spend, and less of short ones.
pub(crate) fn program_bytes(patterns: &[String]) -> u64 {
    const BYTES_A_LETTER: u64 = 64 << 10;
    let letters: usize = patterns.iter().map(String::len).sum();
    let most = pattern::MAX_PROGRAM_BYTES as u64;
    (1 << 20) + (letters as u64).saturating_mul(BYTES_A_LETTER).min(most)
}

/// The names of those that `auto` may take for such patterns, the one that suits them best first, and
/// why it would.
pub(crate) fn auto(patterns: &[String]) -> Vec<(&'static str, &'static str)> {
    let compiled = match Patterns::parse(patterns) {
        Ok(Patterns::Some(compiled)) => Some(compiled),
        // It makes no difference.
        _ => None,
    };
    let suits = |one: &&EngineLibrary| {
        let suits = |compiled: &Vec<Compiled>| (one.suits)(compiled);
        compiled.as_ref().is_none_or(suits)
    };
    let suitable = supported().filter(suits);
    suitable
        .map(|one| (one.library.name, one.because))
        .collect()
}

/// What makes engines by `library`, or none where none is needed; `variant` says so then.
fn engine(
    library: &EngineLibrary,
    variant: &mut Variant,
    patterns: &[String],
) -> Result<EngineMaker, Error> {
    let patterns = match Patterns::parse(patterns)? {
        // No need for an engine where the answer does not depend on the data. What was asked for
        // would be credited with a speed that is not its own.
        Patterns::Never => {
            variant.is_no_library("no engine needed: no record can match");
            return Ok(Box::new(|| Ok(Box::new(Nothing))));
        }
        Patterns::Always => {
            variant.is_no_library("no engine needed: every record matches");
            return Ok(Box::new(|| Ok(Box::new(Every))));
        }
        Patterns::Some(patterns) => patterns,
    };
    let program = (library.compile)(&patterns)?;
    if let Some(combined) = program.combined {
        *variant = combined.variant();
    }
    Ok(program.engine)
}
