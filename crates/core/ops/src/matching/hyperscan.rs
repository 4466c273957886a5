//! Hyperscan on x86-64; on Arm, Vectorscan, which has the same interface.

use std::sync::Arc;

use ::hyperscan::{
    BlockDatabase, Builder, Error as HyperscanError, HsError, Matching, Pattern, PatternFlags,
    Patterns, Platform, Scratch, version_str,
};
use memchr::{memchr, memrchr};

use super::engine::{Engine, EngineLibrary, GroupsBy, Program};
use super::pattern::Compiled;
use super::regex;
use crate::Error;
use crate::variant::{Library, at_most};

const LIBRARY: &str = if cfg!(target_arch = "x86_64") { "Hyperscan" } else { "Vectorscan" };

// These limits bound the time to compile a set: a few seconds near them, minutes far beyond them.

/// Maximum number of bytes and classes that a set may gain when counted repetitions are expanded.
const MAX_GROWTH: u64 = 2000;
/// Maximum number of classes, repetitions, alternatives and assertions of a set.
const MAX_CONSTRUCTS: u64 = 2000;
/// Maximum of the sum, over the patterns, of the squared number of optional parts: each optional
/// part connects everything before it with everything behind it.
const MAX_WAYS: u64 = 10_000;
/// Maximum nesting of repetitions: each level doubles the compile time.
const MAX_REPETITION_NESTING: u32 = 12;

/// Longest buffer in bytes: the library counts in 32 bits.
const MAX_LEN: usize = u32::MAX as usize;

const ALONE: Library =
    Library { name: "hyperscan", label: LIBRARY, title: LIBRARY, version, simd: true };

pub(super) const ENGINE: EngineLibrary = EngineLibrary {
    library: ALONE,
    // The library needs SSSE3.
    is_supported: || Platform::is_valid().is_ok(),
    suits: |_| true,
    because: "of the engines for any pattern it is mostly the quickest",
    compile: |patterns| {
        let database = Arc::new(Database::compile(patterns)?);
        Ok(Program::new(move || Ok(Box::new(Scanner::new(Arc::clone(&database))?))))
    },
    groups: GroupsBy::SecondPass(&WITH_REGEX),
};

/// Hyperscan finds the records, the `regex` crate finds the groups.
const WITH_REGEX: Library = Library {
    title: if cfg!(target_arch = "x86_64") {
        "Hyperscan and Rust regex"
    } else {
        "Vectorscan and Rust regex"
    },
    version: || format!("{} and {}", version(), (regex::ENGINE.library.version)()),
    ..ALONE
};

fn version() -> String {
    // "5.4.0 2021-01-26": the version and the build date.
    let version = version_str().to_string_lossy();
    version.split(' ').next().unwrap_or_default().into()
}

/// Compiled patterns, shared by the threads that scan.
struct Database(BlockDatabase);

impl Database {
    fn compile(patterns: &[Compiled]) -> Result<Self, Error> {
        check_effort(patterns)?;
        let flags = PatternFlags::MULTILINE | PatternFlags::ALLOWEMPTY;
        let one = |compiled: &Compiled| {
            Pattern::with_flags(compiled.expression.as_str(), flags).map_err(|e| e.to_string())
        };
        let build = |set: &[Compiled]| {
            let set: Patterns = set.iter().map(one).collect::<Result<_, _>>()?;
            set.build().map_err(|error| error.to_string())
        };
        build(patterns).map(Self).map_err(|reason| {
            let alone = |pattern: &Compiled| build(std::slice::from_ref(pattern)).err();
            Compiled::blame(patterns, reason, alone)
        })
    }
}

/// Refuses patterns that would take long to compile.
fn check_effort(patterns: &[Compiled]) -> Result<(), Error> {
    let (mut growth, mut constructs, mut ways) = (0u64, 0, 0u64);
    for pattern in patterns {
        let node = pattern.node();
        growth = growth.saturating_add(node.growth());
        constructs += node.constructs();
        ways = ways.saturating_add(node.optional().saturating_pow(2));
        if growth > MAX_GROWTH {
            return Err(pattern.refused("its repetitions are too large".into()));
        }
        if node.nesting() > MAX_REPETITION_NESTING {
            return Err(pattern.refused("its repetitions nest too deep".into()));
        }
        if constructs > MAX_CONSTRUCTS || ways > MAX_WAYS {
            return Err(pattern.refused("with it the patterns are too large".into()));
        }
    }
    Ok(())
}

/// One thread's scanner.
struct Scanner {
    database: Arc<Database>,
    scratch: Scratch,
    places: Vec<usize>,
}

impl Scanner {
    fn new(database: Arc<Database>) -> Result<Self, Error> {
        let scratch = database.0.alloc_scratch().map_err(library)?;
        Ok(Self { database, scratch, places: Vec::new() })
    }

    /// Calls `found` with the end of each match, in no guaranteed order, until `found` stops it.
    fn scan(&self, buffer: &[u8], mut found: impl FnMut(usize) -> Matching) -> Result<(), Error> {
        at_most(buffer, MAX_LEN)?;
        let visit = |_, _, end: u64, _| found(end as usize);
        match self.database.0.scan(buffer, &self.scratch, visit) {
            Ok(()) | Err(HyperscanError::Hyperscan(HsError::ScanTerminated)) => Ok(()),
            Err(error) => Err(library(error)),
        }
    }
}

impl Engine for Scanner {
    fn first(&mut self, buffer: &[u8]) -> Result<Option<usize>, Error> {
        let mut first = None;
        let mut rest = buffer;
        // The first match reported is not always the leftmost: another one may lie before it.
        while !rest.is_empty() {
            let mut place = None;
            self.scan(rest, |end| {
                if end == rest.len() && rest.ends_with(b"\n") {
                    return Matching::Continue;
                }
                place = Some(end);
                Matching::Terminate
            })?;
            let Some(place) = place else { break };
            first = Some(place);
            rest = &buffer[..memrchr(b'\n', &buffer[..place]).map_or(0, |end| end + 1)];
        }
        Ok(first)
    }

    fn each(&mut self, buffer: &[u8], found: &mut dyn FnMut(usize) -> usize) -> Result<(), Error> {
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        // A pattern may end at many places of one record; the first report is enough.
        let mut record = 0..0;
        let result = self.scan(buffer, |end| {
            if !record.contains(&end) {
                let len = memchr(b'\n', &buffer[end..]).unwrap_or(buffer.len() - end);
                record = end..end + len + 1;
                places.push(end);
            }
            Matching::Continue
        });
        if !places.is_sorted() {
            places.sort_unstable();
        }
        let mut next = 0;
        for &place in &places {
            if place >= next {
                next = found(place);
            }
        }
        self.places = places;
        result
    }
}

fn library(error: HyperscanError) -> Error {
    Error::Library { library: LIBRARY, reason: error.to_string() }
}
