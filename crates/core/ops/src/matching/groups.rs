//! Matches with the contents of their groups.

use std::sync::Arc;

use super::engine::{Engine, EngineLibrary, GroupEngine, GroupEngineMaker, GroupsBy, NO_PLACE};
use super::grouped::Grouped;
use super::pattern::Patterns;
use super::records::each_record;
use super::regex;
use crate::variant::{Maker, at_most, single};
use crate::{Error, Kernel, Output};

/// Size in bytes of a number in the result.
const NUMBER_BYTES: u64 = 4;
/// Longest source in bytes: offsets have 32 bits, and all bits set marks a group without a match.
const MAX_LEN: usize = u32::MAX as usize - 1;

/// Prepares the patterns and returns a function that makes matchers with `library`.
pub(super) fn prepare(library: &EngineLibrary, sources: &[String]) -> Result<Maker, Error> {
    let records = Patterns::parse(sources)?;
    let grouped = Grouped::parse(sources)?;
    let (first_pass, groups): (_, GroupEngineMaker) = match &library.groups {
        GroupsBy::Itself(compile) => (None, compile(&grouped)?),
        GroupsBy::SecondPass(_) => {
            let Patterns::Some(patterns) = records else {
                let reason = "all lines match it, or none can: there is nothing to look for first";
                return Err(grouped.refused(reason.into()));
            };
            let program = (library.compile)(&patterns)?;
            (Some(program.engine), regex::groups(&grouped)?)
        }
    };
    let patterns = Arc::new(grouped);
    Ok(Box::new(move || {
        let matcher: Box<dyn Kernel> = Box::new(GroupMatcher {
            records: first_pass.as_ref().map(|engine| engine()).transpose()?,
            groups: groups()?,
            places: vec![NO_PLACE; 2 * patterns.groups()],
            patterns: Arc::clone(&patterns),
        });
        Ok(matcher)
    }))
}

/// Returns the maximum length in bytes of the result for these patterns and a source of
/// `source_bytes` bytes: each match is at least one byte long. Returns 0 for patterns that are
/// refused.
pub(super) fn match_groups_bytes_max(patterns: &[String], source_bytes: u64) -> u64 {
    let longest = Grouped::parse(patterns).map_or(0, |grouped| {
        let numbers = |groups: &std::ops::Range<usize>| 1 + 2 * groups.len() as u64;
        grouped.patterns.iter().map(numbers).max().unwrap_or(0)
    });
    source_bytes.saturating_mul(longest * NUMBER_BYTES)
}

/// Finds matches for one thread.
struct GroupMatcher {
    /// Engine that finds the matching records first; `None` if `groups` searches the whole buffer.
    records: Option<Box<dyn Engine>>,
    groups: Box<dyn GroupEngine>,
    patterns: Arc<Grouped>,
    /// Offsets at which the last match and each of its groups begin and end.
    places: Vec<usize>,
}

impl GroupMatcher {
    /// Reports the matches in `text` at or behind `from`.
    fn scan(&mut self, text: &[u8], mut from: usize, found: &mut MatchBuffer) -> Result<(), Error> {
        while from < text.len() && self.groups.find(text, from, &mut self.places)? {
            let (begin, end) = (self.places[0], self.places[1]);
            if begin == end {
                from = end + 1;
                continue;
            }
            let pattern = (self.patterns.patterns.iter())
                .position(|groups| self.places[2 * groups.start] != NO_PLACE)
                .unwrap_or(0);
            let groups = &self.patterns.patterns[pattern];
            found.push(pattern, &self.places[2 * groups.start..2 * groups.end])?;
            from = end;
        }
        Ok(())
    }
}

impl Kernel for GroupMatcher {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let buffer = single(source)?;
        at_most(buffer, MAX_LEN)?;
        let mut found = MatchBuffer { destination, written: 0, count: 0 };
        match self.records.take() {
            None => self.scan(buffer, 0, &mut found)?,
            Some(mut records) => {
                let mut result = Ok(());
                let searched = each_record(records.as_mut(), buffer, |begin, next| {
                    if result.is_ok() {
                        result = self.scan(&buffer[..next.min(buffer.len())], begin, &mut found);
                    }
                });
                self.records = Some(records);
                searched.and(result)?;
            }
        }
        Ok(Output { written: found.written, value: Some(found.count) })
    }
}

/// Matches so far, in the format of the result.
struct MatchBuffer<'a> {
    destination: &'a mut [u8],
    written: usize,
    count: u64,
}

impl MatchBuffer<'_> {
    fn push(&mut self, pattern: usize, places: &[usize]) -> Result<(), Error> {
        let len = (1 + places.len()) * NUMBER_BYTES as usize;
        let capacity = self.destination.len();
        let entry = (self.destination)
            .get_mut(self.written..self.written + len)
            .ok_or(Error::OutputTooSmall { capacity })?;
        let numbers = std::iter::once(pattern).chain(places.iter().copied());
        for (bytes, number) in entry.chunks_exact_mut(NUMBER_BYTES as usize).zip(numbers) {
            // `NO_PLACE` becomes all ones in 32 bits as well.
            bytes.copy_from_slice(&(number as u32).to_le_bytes());
        }
        self.written += len;
        self.count += 1;
        Ok(())
    }
}
