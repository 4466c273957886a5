//! Pattern matching by record, through engines that have to agree.
//!
//! [`crate::MatchKind`] says what is answered. Each pattern is parsed once, into [`pattern`]'s
//! own form, in which no part of it can match a record's end, and is written out again in the few
//! constructs that mean the same everywhere. An engine can then scan a whole buffer: what it
//! finds lies within one record.

mod engine;
#[cfg(not(without_hyperscan))]
mod hyperscan;
mod literal;
mod pattern;
mod re2;
mod records;
mod regex;
mod trial;

#[cfg(not(without_hyperscan))]
use std::sync::Arc;

use engine::{Engine, Every, Nothing};
use pattern::Patterns;
use records::Matcher;

pub use trial::{Trial, try_matchers};

use crate::variant::Maker;
use crate::{Error, Kernel, MatchKind, Variant};

pub(crate) fn matchers() -> Vec<Variant> {
    let mut variants = vec![literal::variant()];
    #[cfg(not(without_hyperscan))]
    if hyperscan::is_supported() {
        variants.push(hyperscan::variant());
    }
    variants.extend([regex::variant(), re2::variant()]);
    variants
}

/// What `auto` takes for such patterns.
pub(crate) fn auto(patterns: &[String]) -> Variant {
    let mut all = matchers();
    let by_literals = match Patterns::parse(patterns) {
        Ok(Patterns::Some(patterns)) => literal::Literals::suit(&patterns),
        // It makes no difference.
        _ => true,
    };
    let is_taken = |variant: &Variant| by_literals || variant.name != literal::NAME;
    let index = all.iter().position(is_taken).unwrap_or(0);
    all.swap_remove(index)
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
        literal::NAME => {
            let literals = literal::Literals::compile(&patterns)?;
            if !literals.suffice() {
                let regex = regex::variant();
                variant.library = "memchr and Rust regex";
                variant.version = format!("{} and {}", variant.version, regex.version);
            }
            Box::new(move || Ok(Box::new(literals.searcher())))
        }
        #[cfg(not(without_hyperscan))]
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
