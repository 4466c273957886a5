//! The `regex` crate.

use ::regex::bytes::{Regex, RegexBuilder};

use super::engine::{Engine, EngineLibrary, Program, step_by_step};
use super::pattern::{Compiled, MAX_PROGRAM_BYTES};
use crate::Error;
use crate::variant::Library;

pub(super) const NAME: &str = "regex";

pub(super) const ENGINE: EngineLibrary = EngineLibrary {
    library: Library {
        name: NAME,
        label: "Rust regex",
        title: "Rust regex",
        version: || env!("OVERSIDE_VERSION_REGEX").into(),
        simd: true,
    },
    is_supported: || true,
    suits: |_| true,
    compile: |patterns| {
        let regex = compile(patterns)?;
        // A clone has its own caches, so threads do not wait for each other's.
        Ok(Program::new(move || Ok(Box::new(regex.clone()))))
    },
};

pub(super) fn compile(patterns: &[Compiled]) -> Result<Regex, Error> {
    let build = |expression: &str| {
        RegexBuilder::new(expression)
            .unicode(false)
            .multi_line(true)
            .size_limit(MAX_PROGRAM_BYTES)
            .dfa_size_limit(MAX_PROGRAM_BYTES)
            .build()
    };
    Compiled::all(patterns, |expression| {
        build(expression).map_err(|error| error.to_string())
    })
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
