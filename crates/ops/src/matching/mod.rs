//! Pattern matching by record, through engines that have to agree.
//!
//! [`crate::MatchKind`] says what is answered. Each pattern is parsed once, into [`pattern`]'s
//! own form, in which no part of it can match a record's end, and is written out again in the few
//! constructs that mean the same everywhere. An engine can then scan a whole buffer: what it
//! finds lies within one record.

mod engine;
mod hyperscan;
mod pattern;
mod re2;
mod records;
mod regex;

use std::sync::Arc;

use engine::{Engine, Every, Nothing};
use pattern::Patterns;
use records::Matcher;

use crate::variant::Maker;
use crate::{Error, Kernel, MatchKind, Variant};

pub(crate) fn matchers() -> Vec<Variant> {
    let mut variants = Vec::new();
    if hyperscan::is_supported() {
        variants.push(hyperscan::variant());
    }
    variants.extend([regex::variant(), re2::variant()]);
    variants
}

/// What makes matchers by `variant`'s engine, or by none where none is needed; `variant` says so
/// then.
pub(crate) fn matcher(
    variant: &mut Variant,
    kind: MatchKind,
    patterns: &[String],
) -> Result<Maker, Error> {
    let engine = engine(variant, patterns)?;
    Ok(Box::new(move || {
        let matcher: Box<dyn Kernel> = Box::new(Matcher::new(kind, engine()?));
        Ok(matcher)
    }))
}

/// What makes an engine for one thread.
type EngineMaker = Box<dyn Fn() -> Result<Box<dyn Engine>, Error> + Send + Sync>;

fn engine(variant: &mut Variant, patterns: &[String]) -> Result<EngineMaker, Error> {
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
    Ok(match variant.name {
        hyperscan::NAME => {
            let database = Arc::new(hyperscan::Database::compile(&patterns)?);
            Box::new(move || Ok(Box::new(hyperscan::Scanner::new(Arc::clone(&database))?)))
        }
        re2::NAME => {
            let program = re2::Program::compile(&patterns)?;
            Box::new(move || Ok(Box::new(program.again()?)))
        }
        _ => {
            let regex = regex::compile(&patterns)?;
            // A clone has its own caches, so threads do not wait for each other's.
            Box::new(move || Ok(Box::new(regex.clone())))
        }
    })
}
