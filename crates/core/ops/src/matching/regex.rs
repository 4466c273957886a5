//! The `regex` crate.

use ::regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::engine::{
    Engine, EngineLibrary, GroupEngine, GroupEngineMaker, GroupsBy, NO_PLACE, Program, step_by_step,
};
use super::grouped::Grouped;
use super::pattern::{Compiled, MAX_PROGRAM_BYTES};
use crate::Error;
use crate::variant::Library;

pub(super) const NAME: &str = "regex";

pub(super) const ENGINE: EngineLibrary = EngineLibrary {
    library: Library {
        name: NAME,
        label: "Rust regex",
        title: "Rust regex",
        version: || "1.13.1".into(),
        simd: true,
    },
    is_supported: || true,
    suits: |_| true,
    because: "of the engines for any pattern it is mostly the quickest here",
    compile: |patterns| {
        let regex = compile(patterns)?;
        // A clone has its own caches, so threads do not wait for each other's.
        Ok(Program::new(move || Ok(Box::new(regex.clone()))))
    },
    groups: GroupsBy::Itself(groups),
};

/// Compiles the expression and returns a function that makes engines for groups.
pub(super) fn groups(grouped: &Grouped) -> Result<GroupEngineMaker, Error> {
    let regex = build(&grouped.expression).map_err(|reason| grouped.refused(reason))?;
    Ok(Box::new(move || {
        let regex = regex.clone();
        let locations = regex.capture_locations();
        Ok(Box::new(WithGroups { regex, locations }))
    }))
}

struct WithGroups {
    regex: Regex,
    locations: CaptureLocations,
}

impl GroupEngine for WithGroups {
    fn find(&mut self, text: &[u8], from: usize, places: &mut [usize]) -> Result<bool, Error> {
        let found = (self.regex).captures_read_at(&mut self.locations, text, from);
        if found.is_none() {
            return Ok(false);
        }
        for (group, place) in places.chunks_exact_mut(2).enumerate() {
            let (begin, end) = self.locations.get(group).unwrap_or((NO_PLACE, NO_PLACE));
            place.copy_from_slice(&[begin, end]);
        }
        Ok(true)
    }
}

pub(super) fn compile(patterns: &[Compiled]) -> Result<Regex, Error> {
    Compiled::all(patterns, build)
}

fn build(expression: &str) -> Result<Regex, String> {
    RegexBuilder::new(expression)
        .unicode(false)
        .multi_line(true)
        .size_limit(MAX_PROGRAM_BYTES)
        .dfa_size_limit(MAX_PROGRAM_BYTES)
        .build()
        .map_err(|error| error.to_string())
}

impl Engine for Regex {
    fn first(&mut self, buffer: &[u8]) -> Result<Option<usize>, Error> {
        Ok(self.shortest_match(buffer))
    }

    fn each(&mut self, buffer: &[u8], found: &mut dyn FnMut(usize) -> usize) -> Result<(), Error> {
        step_by_step(buffer, found, |from| self.shortest_match_at(buffer, from));
        Ok(())
    }
}
