//! Pattern matching by record, with engines that give equal results.
//!
//! [`crate::MatchKind`] lists the kinds of results. Each pattern is parsed once into the form of [`pattern`],
//! in which no part can match the end of a record. It is then written again with the few constructs that mean
//! the same to every engine. So an engine can scan a whole buffer: each of its matches lies within one record.

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

pub use trial::{Trial, try_matchers};

use crate::family::{Family, Lengths, Memory, Parameter, Verification};
use crate::variant::Entry;
use crate::{Error, Kernel, MatchKind, Operation, Variant};

/// Registry entry of matching.
pub(crate) static MATCH: Family = Family {
    verb: "match",
    description: "find patterns in lines; plain regular expressions check each answer",
    title: "{kind}",
    parameter: Some(Parameter {
        name: "kind",
        doc: "the first matching line, how many lines match, one bit a line, or each match and what \
              its groups hold",
        default: "count",
    }),
    operations: || MatchKind::ALL.map(Operation::Match).into(),
    lengths: Lengths::Answers,
    verification: Verification::Reference,
    has_levels: false,
    has_patterns: true,
    data: "accidents",
    references: &["regex"],
    engine: Some("matching"),
    result_bytes_max: |operation, patterns, bytes| match operation {
        Operation::Match(MatchKind::Bitmap) => bytes.div_ceil(8),
        Operation::Match(MatchKind::Groups) => groups::match_groups_bytes_max(patterns, bytes),
        _ => 0,
    },
    entries: |operation| match operation {
        Operation::Match(kind) => matchers(kind),
        _ => Vec::new(),
    },
    memory: |config, _, _| {
        let program = program_bytes(&config.patterns);
        // For groups there may be a second engine.
        let programs = match config.operation {
            Operation::Match(MatchKind::Groups) => 2 * program,
            _ => program,
        };
        Memory { shared: programs, kernel: programs }
    },
    known_answers: |_| Ok(()),
};

/// Registry of the matching libraries. `auto` takes the first one.
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

/// Returns the matching libraries that this machine can run.
fn matchers(kind: MatchKind) -> Vec<Entry> {
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

/// Returns the memory in bytes of an engine's program for these patterns and its caches for one
/// thread: up to the engine's limit for long patterns, less for short ones.
fn program_bytes(patterns: &[String]) -> u64 {
    const BYTES_A_LETTER: u64 = 64 << 10;
    let letters: usize = patterns.iter().map(String::len).sum();
    let most = pattern::MAX_PROGRAM_BYTES as u64;
    (1 << 20) + (letters as u64).saturating_mul(BYTES_A_LETTER).min(most)
}

/// Returns the names of the libraries that `auto` may take for these patterns and the reason for
/// each, the most suitable one first.
pub(crate) fn auto(patterns: &[String]) -> Vec<(&'static str, &'static str)> {
    let compiled = match Patterns::parse(patterns) {
        Ok(Patterns::Some(compiled)) => Some(compiled),
        // Both are equally suitable.
        _ => None,
    };
    let suits = |one: &&EngineLibrary| {
        let suits = |compiled: &Vec<Compiled>| (one.suits)(compiled);
        compiled.as_ref().is_none_or(suits)
    };
    let suitable = supported().filter(suits);
    suitable.map(|one| (one.library.name, one.because)).collect()
}

/// Returns a function that makes engines with `library`. If the answer does not depend on the data,
/// no library is needed, and `variant` is changed accordingly.
fn engine(
    library: &EngineLibrary,
    variant: &mut Variant,
    patterns: &[String],
) -> Result<EngineMaker, Error> {
    let patterns = match Patterns::parse(patterns)? {
        // Matching without an engine must not be reported as the speed of the requested library.
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
