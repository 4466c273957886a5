//! Literals that a record must contain, found by `memchr`. The rest of a pattern is only checked in the
//! records that contain its literals.
//!
//! 1. Many patterns are literals with arbitrary bytes between them (`on .+ at .`): they need no engine.
//! 2. Records with the literals of any other pattern are checked by the `regex` crate.
//! 3. Of a pattern's literals, the search looks for the rarest one in a sample of the buffer first.

use std::sync::Arc;

use ::regex::bytes::Regex;
use memchr::memmem::Finder;
use memchr::{memchr, memrchr};

use super::engine::{Engine, EngineLibrary, GroupsBy, Program, step_by_step};
use super::pattern::{Compiled, Node};
use super::regex;
use crate::Error;
use crate::variant::Library;

const NAME: &str = "literal";

/// Maximum number of patterns that are searched for at the same time.
const MAX_PATTERNS: usize = 8;
/// Maximum number of patterns for which `auto` searches by literals. Each pattern must consist of
/// literals and gaps only, or have a literal of at least `SUITABLE_BYTES`.
const SUITABLE_PATTERNS: usize = 4;
const SUITABLE_BYTES: usize = 3;
/// Maximum length in bytes of the sample that decides which literal is rare: a sixteenth of a
/// buffer, but no more than this. The decision is used for `SAMPLE_BUFFERS` buffers.
const SAMPLE_BYTES: usize = 16 << 10;
const SAMPLE_BUFFERS: u32 = 16;

const ALONE: Library = Library {
    name: NAME,
    label: "Literal search",
    title: "memchr",
    version: || "2.8.3".into(),
    simd: true,
};

pub(super) const ENGINE: EngineLibrary = EngineLibrary {
    library: ALONE,
    is_supported: || true,
    suits: Literals::suit,
    because: "the literals of these patterns are mostly found quickest",
    compile: |patterns| {
        let literals = Literals::compile(patterns)?;
        Ok(Program {
            combined: (!literals.suffice()).then_some(&WITH_REGEX),
            ..Program::new(move || Ok(Box::new(literals.searcher())))
        })
    },
    groups: GroupsBy::SecondPass(&WITH_REGEX),
};

/// Literals first, then the `regex` crate in the records that contain them.
const WITH_REGEX: Library = Library {
    title: "memchr and Rust regex",
    version: || {
        let regex = (regex::ENGINE.library.version)();
        format!("{} and {regex}", (ALONE.version)())
    },
    ..ALONE
};

/// Patterns with literals, shared by the threads that search.
struct Literals(Arc<[Pattern]>);

impl Literals {
    /// Finds the literals of the patterns.
    ///
    /// # Errors
    /// [`Error::Pattern`] for a pattern without a literal, or for too many patterns.
    fn compile(patterns: &[Compiled]) -> Result<Self, Error> {
        if patterns.len() > MAX_PATTERNS {
            let reason =
                format!("it is one of {}, and {NAME} takes {MAX_PATTERNS}", patterns.len());
            return Err(patterns[MAX_PATTERNS].refused(reason));
        }
        patterns.iter().map(Pattern::compile).collect::<Result<_, _>>().map(Self)
    }

    /// Returns `true` if the search by literals is usually the fastest one for such patterns.
    fn suit(patterns: &[Compiled]) -> bool {
        let suits = |compiled: &Compiled| {
            let (literals, gaps) = split(compiled.parts());
            gaps.is_some() || literals.iter().any(|literal| literal.len() >= SUITABLE_BYTES)
        };
        patterns.len() <= SUITABLE_PATTERNS && patterns.iter().all(suits)
    }

    /// Returns `true` if all patterns consist of literals and gaps only.
    fn suffice(&self) -> bool {
        let is_chain = |pattern: &Pattern| matches!(pattern.rest, Rest::Chain(_));
        self.0.iter().all(is_chain)
    }

    /// Makes a searcher for one thread.
    fn searcher(&self) -> Searcher {
        let rests = self.0.iter().map(|pattern| pattern.rest.clone());
        Searcher {
            patterns: Arc::clone(&self.0),
            // A clone of a regex has its own caches, so threads do not wait for each other's.
            rests: rests.collect(),
            cursors: Vec::new(),
            buffers: 0,
        }
    }
}

/// Literals of a pattern, and the other conditions that a record must meet to match.
struct Pattern {
    literals: Vec<Finder<'static>>,
    rest: Rest,
}

#[derive(Clone)]
enum Rest {
    /// Literals in order, with minimum gaps around and between them.
    Chain(Gaps),
    /// Expression that the record must match.
    Regex(Regex),
}

/// Minimum numbers of bytes in a record before the first literal, between two literals, and behind
/// the last one.
#[derive(Clone, Debug, PartialEq)]
struct Gaps {
    before: usize,
    between: Vec<usize>,
    behind: usize,
}

impl Pattern {
    fn compile(compiled: &Compiled) -> Result<Self, Error> {
        let (literals, gaps) = split(compiled.parts());
        if literals.is_empty() {
            let reason = format!("it has no literal, and {NAME} needs one");
            return Err(compiled.refused(reason));
        }
        let rest = match gaps {
            Some(gaps) => Rest::Chain(gaps),
            None => Rest::Regex(regex::compile(std::slice::from_ref(compiled))?),
        };
        let literals = literals.iter().map(|literal| Finder::new(literal).into_owned());
        Ok(Self { literals: literals.collect(), rest })
    }

    /// Returns the literal that is the rarest in `sample`; the longest one if several are equally rare.
    fn rarest(&self, sample: &[u8]) -> usize {
        if self.literals.len() == 1 {
            return 0;
        }
        let rank = |literal: &Finder<'_>| {
            let count = literal.find_iter(sample).count();
            (count, usize::MAX - literal.needle().len())
        };
        let ranked = self.literals.iter().enumerate();
        ranked.min_by_key(|(_, literal)| rank(literal)).map_or(0, |(index, _)| index)
    }
}

/// Returns the literals among the parts of a pattern, and the gaps if there is nothing else around them.
fn split(parts: &[Node]) -> (Vec<Vec<u8>>, Option<Gaps>) {
    let mut literals: Vec<Vec<u8>> = Vec::new();
    let mut between = Vec::new();
    let mut is_chain = true;
    // Gap since the last literal: its minimum, and `true` if it may be longer.
    let (mut gap, mut is_open, mut is_literal) = (0usize, false, false);
    for part in parts {
        match (part, any(part)) {
            (Node::Byte(byte), _) => {
                if !is_literal {
                    // Before the first literal a record may have more bytes in any case.
                    is_chain &= is_open || literals.is_empty();
                    between.push(gap);
                    literals.push(Vec::new());
                    (gap, is_open) = (0, false);
                }
                if let Some(literal) = literals.last_mut() {
                    literal.push(*byte);
                }
                is_literal = true;
                continue;
            }
            (_, Some((min, more))) => {
                gap += min as usize;
                is_open |= more;
            }
            _ => is_chain = false,
        }
        is_literal = false;
    }
    if literals.is_empty() {
        return (literals, None);
    }
    let gaps = Gaps { before: between.remove(0), between, behind: gap };
    (literals, is_chain.then_some(gaps))
}

/// Returns the minimum number of arbitrary bytes that a part matches, and `true` if it also matches
/// any larger number. `None` if the part matches anything else.
fn any(node: &Node) -> Option<(u32, bool)> {
    const ANY: [(u8, u8); 2] = [(0, b'\n' - 1), (b'\n' + 1, 0xff)];
    match node {
        Node::Class(ranges) if ranges[..] == ANY => Some((1, false)),
        Node::Repeat { node, min, max } if any(node) == Some((1, false)) => match max {
            None => Some((*min, true)),
            Some(max) => (min == max).then_some((*min, false)),
        },
        _ => None,
    }
}

/// One thread's searcher.
struct Searcher {
    patterns: Arc<[Pattern]>,
    rests: Vec<Rest>,
    cursors: Vec<Cursor>,
    /// Number of buffers that were searched; wraps around.
    buffers: u32,
}

/// State of the search for one pattern's rarest literal.
struct Cursor {
    literal: usize,
    /// Offset of the literal's next occurrence; `None` if there is none.
    place: Option<usize>,
}

impl Searcher {
    fn start(&mut self, buffer: &[u8]) {
        if self.buffers.is_multiple_of(SAMPLE_BUFFERS) {
            let sample = &buffer[..(buffer.len() / 16).min(SAMPLE_BYTES)];
            let rarest = self
                .patterns
                .iter()
                .map(|pattern| Cursor { literal: pattern.rarest(sample), place: None });
            self.cursors = rarest.collect();
        }
        self.buffers = self.buffers.wrapping_add(1);
        for (pattern, cursor) in self.patterns.iter().zip(&mut self.cursors) {
            cursor.seek(pattern, buffer, 0);
        }
    }

    /// Returns a place in the next matching record, from the record that begins at `from` on.
    fn next(&mut self, buffer: &[u8], from: usize) -> Option<usize> {
        loop {
            // Position of the nearest candidate, and the index of its pattern.
            let mut nearest: Option<(usize, usize)> = None;
            for (index, cursor) in self.cursors.iter_mut().enumerate() {
                if cursor.place.is_some_and(|place| place < from) {
                    cursor.seek(&self.patterns[index], buffer, from);
                }
                if let Some(place) = cursor.place
                    && nearest.is_none_or(|(least, _)| place < least)
                {
                    nearest = Some((place, index));
                }
            }
            let (place, index) = nearest?;
            let (pattern, cursor) = (&self.patterns[index], &mut self.cursors[index]);
            let candidate = Candidate { buffer, from, place };
            let check = match &self.rests[index] {
                Rest::Chain(gaps) => candidate.chain(gaps, &pattern.literals, cursor.literal),
                Rest::Regex(regex) => candidate.regex(regex),
            };
            match check {
                Check::Match(place) => return Some(place),
                Check::Skip(next) => cursor.seek(pattern, buffer, next),
            }
        }
    }
}

impl Cursor {
    fn seek(&mut self, pattern: &Pattern, buffer: &[u8], from: usize) {
        let found = pattern.literals[self.literal].find(&buffer[from..]);
        self.place = found.map(|place| from + place);
    }
}

/// Occurrence of a pattern's rarest literal.
struct Candidate<'a> {
    buffer: &'a [u8],
    /// Beginning of the candidate's record or of an earlier one.
    from: usize,
    place: usize,
}

enum Check {
    /// The record matches. Holds a place in it, as near to the record's end as is known.
    Match(usize),
    /// The record does not match with anything before this place. If it is the record's end, the
    /// record does not match.
    Skip(usize),
}

impl Candidate<'_> {
    fn begin(&self) -> usize {
        let before = &self.buffer[self.from..self.place];
        memrchr(b'\n', before).map_or(self.from, |end| self.from + end + 1)
    }

    fn end(&self) -> usize {
        let len = memchr(b'\n', &self.buffer[self.place..]);
        len.map_or(self.buffer.len(), |len| self.place + len)
    }

    fn regex(&self, regex: &Regex) -> Check {
        let end = self.end();
        match regex.is_match(&self.buffer[self.begin()..end]) {
            true => Check::Match(end),
            false => Check::Skip(end),
        }
    }

    /// Checks that the other literals are around this one, which has the index `which`.
    fn chain(&self, gaps: &Gaps, literals: &[Finder<'_>], which: usize) -> Check {
        if which > 0 || gaps.before > 0 {
            let (begin, before) = (self.begin(), &literals[..which]);
            if gaps.least(&self.buffer[begin..self.place], before).is_none() {
                // The literal may occur in this record again.
                let end = self.end();
                let least = gaps.least(&self.buffer[begin..end], before);
                return Check::Skip(least.map_or(end, |least| begin + least));
            }
        }
        let behind = self.place + literals[which].needle().len();
        if which + 1 == literals.len() {
            let rest = &self.buffer[behind..(behind + gaps.behind).min(self.buffer.len())];
            return match rest.len() == gaps.behind && memchr(b'\n', rest).is_none() {
                true => Check::Match(behind + rest.len()),
                false => Check::Skip(self.end()),
            };
        }
        let end = self.end();
        match gaps.fit(&self.buffer[behind..end], literals, which) {
            true => Check::Match(end),
            // A later occurrence of the literal has even less behind it.
            false => Check::Skip(end),
        }
    }
}

impl Gaps {
    /// Returns the smallest offset in `text`, the beginning of a record, at which the literal after
    /// `literals` can begin. `literals` are the first ones of the pattern. Returns `None` if they
    /// and their gaps do not fit into `text`.
    fn least(&self, text: &[u8], literals: &[Finder<'_>]) -> Option<usize> {
        let mut at = self.before;
        for (literal, gap) in literals.iter().zip(&self.between) {
            at += literal.find(text.get(at..)?)? + literal.needle().len() + gap;
        }
        (at <= text.len()).then_some(at)
    }

    /// Returns `true` if the literals after index `which`, with the gaps around them, fit into
    /// `text`: the rest of the record behind that literal.
    fn fit(&self, text: &[u8], literals: &[Finder<'_>], which: usize) -> bool {
        let mut at = 0;
        for (literal, gap) in literals[which + 1..].iter().zip(&self.between[which..]) {
            at += gap;
            let Some(place) = text.get(at..).and_then(|text| literal.find(text)) else {
                return false;
            };
            at += place + literal.needle().len();
        }
        at + self.behind <= text.len()
    }
}

impl Engine for Searcher {
    fn first(&mut self, buffer: &[u8]) -> Result<Option<usize>, Error> {
        self.start(buffer);
        Ok(self.next(buffer, 0))
    }

    fn each(&mut self, buffer: &[u8], found: &mut dyn FnMut(usize) -> usize) -> Result<(), Error> {
        self.start(buffer);
        step_by_step(buffer, found, |from| self.next(buffer, from));
        Ok(())
    }
}
