//! Verification of outputs, by something other than the library that made them.

mod cross_checker;
mod expected;
mod library_reference;
mod matching_reference;
mod output_checker;
mod reference_results;

use std::sync::Arc;

use overside_device::{Operation, Outcome, Output};
use overside_ops::{Config, Lengths, Verification, variants};
use overside_probe::{Failure, FailureKind};
use xxhash_rust::xxh3::Xxh3;

use crate::data::Buffers;
use crate::sample::Check;
use cross_checker::CrossChecker;
use expected::Expected;
pub(crate) use library_reference::LibraryReference;
pub(crate) use output_checker::OutputChecker;
use reference_results::ReferenceKey;
pub(crate) use reference_results::{ReferenceCache, ReferenceResults};

/// The buffers of one test.
#[derive(Clone)]
pub(crate) struct TestBuffers {
    /// The uncompressed side.
    pub original: Arc<Buffers>,
    /// Buffers that the jobs read; the same as `original`, except for decompression.
    pub source: Arc<Buffers>,
}

/// Checks outputs of one operation made by one library.
pub(crate) struct Verifier {
    operation: Operation,
    buffers: TestBuffers,
    by: By,
}

enum By {
    /// Another library must restore the original by the inverse operation.
    RoundTrip {
        inverse: LibraryReference,
        restored: Vec<u8>,
        method: String,
        /// Another compressor, for sources that are reported as incompressible.
        cross_checker: Option<CrossChecker>,
    },
    /// The original is at hand.
    Original,
    /// Another implementation must have the same results.
    ReferenceResults { answers: Arc<ReferenceResults> },
}

impl Verifier {
    /// A verifier for the outputs of `variant`.
    pub(crate) fn new(
        config: &Config,
        variant: &str,
        buffers: &TestBuffers,
        cache: &mut ReferenceCache,
    ) -> Result<Self, Failure> {
        let operation = config.operation;
        let is_original = operation.family().verification == Verification::Original;
        let by = match (operation.undone_by(), operation) {
            (Some(inverse), _) => round_trip(inverse, config, variant, buffers)?,
            (None, _) if is_original => By::Original,
            (None, Operation::Match(kind)) => {
                // The reference is Rust's `regex`, so what `regex` computed needs a second one.
                let second = match variant {
                    // The last one takes any patterns.
                    "regex" => others(operation, variant).last().copied(),
                    _ => None,
                };
                let key = ReferenceKey {
                    sources: Arc::clone(&buffers.source),
                    operation,
                    patterns: config.patterns.clone(),
                    by: second.unwrap_or_default().into(),
                };
                let make = || {
                    let answers =
                        matching_reference::results(kind, &config.patterns, &buffers.source)?;
                    match second {
                        Some(engine) => answers.cross_checked(config, engine, &buffers.source),
                        None => Ok(answers),
                    }
                };
                By::ReferenceResults { answers: cache.get(key, make)? }
            }
            (None, _) => {
                let reference = LibraryReference::new(operation, variant)?;
                let key = ReferenceKey {
                    sources: Arc::clone(&buffers.source),
                    operation,
                    patterns: Vec::new(),
                    by: reference.variant.into(),
                };
                let make = || results(reference, &buffers.source);
                By::ReferenceResults { answers: cache.get(key, make)? }
            }
        };
        Ok(Self { operation, buffers: buffers.clone(), by })
    }

    /// Checks that an outcome and its output are the operation's result for source `number`.
    pub(crate) fn check(
        &mut self,
        number: usize,
        outcome: &Outcome,
        destination: &[u8],
    ) -> Result<(), Failure> {
        let original = self.buffers.original.get(number);
        let wrong = |what: String| {
            Failure::new(FailureKind::Verification, format!("buffer {number}: {what}"))
        };
        let Outcome::Done(done) = outcome else {
            return match &mut self.by {
                By::RoundTrip { cross_checker, restored, .. }
                    if self.operation.lengths() == Lengths::Shrinks =>
                {
                    (cross_checker.as_mut())
                        .map_or(Ok(()), |cross_checker| cross_checker.check(original, restored))
                        .map_err(wrong)
                }
                _ => Err(wrong(format!("{} called it incompressible", self.operation))),
            };
        };
        let Some(output) = destination.get(..done.written) else {
            return Err(wrong(format!(
                "{} bytes are said to be written into {}",
                done.written,
                destination.len()
            )));
        };
        match &mut self.by {
            By::Original => compare(output, original).map_err(wrong),
            By::RoundTrip { inverse, restored, .. } => {
                let back = inverse.kernel.run(&[output], restored).map_err(|error| {
                    let verb = inverse.operation.family().verb;
                    wrong(format!("the output cannot be {verb}ed: {error}"))
                })?;
                compare(&restored[..back.written], original).map_err(wrong)
            }
            By::ReferenceResults { answers } => {
                let (right, bytes) = &answers.all[number];
                if done.value != right.value {
                    return Err(wrong(format!(
                        "the answer is {}; {}, which says {}",
                        shown(done.value),
                        answers.method,
                        shown(right.value)
                    )));
                }
                compare(output, bytes).map_err(wrong)
            }
        }
    }

    /// Returns the method of verification, and a value that is the same for all who do this work
    /// right on these buffers.
    pub(crate) fn summary(&self, checked: usize) -> Check {
        let mut sum = Xxh3::new();
        let method = match &self.by {
            By::Original => "compared with the original".into(),
            By::RoundTrip { method, .. } => method.clone(),
            By::ReferenceResults { answers } => answers.method.clone(),
        };
        match &self.by {
            By::ReferenceResults { answers } => {
                for (output, bytes) in &answers.all {
                    sum.update(&output.value.map_or(u64::MAX, |value| value).to_le_bytes());
                    sum.update(bytes);
                }
            }
            _ => self.buffers.original.iter().for_each(|buffer| sum.update(buffer)),
        }
        let value = format!("xxh3:{:016x}", sum.digest());
        Check { method, value, buffers: checked as u64 }
    }
}

fn shown(value: Option<u64>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

fn compare(output: &[u8], right: &[u8]) -> Result<(), String> {
    if output == right {
        return Ok(());
    }
    if output.len() != right.len() {
        return Err(format!("{} bytes instead of {}", output.len(), right.len()));
    }
    let place = output.iter().zip(right).position(|(a, b)| a != b).unwrap_or(0);
    Err(format!("the bytes differ from byte {place} on"))
}

/// Returns the libraries of `operation` but `variant`, or that one if there are no others.
fn others(operation: Operation, variant: &str) -> Vec<&'static str> {
    let all = || variants(operation).into_iter().map(|one| one.name);
    let others: Vec<_> = all().filter(|name| *name != variant).collect();
    match others.is_empty() {
        true => all().collect(),
        false => others,
    }
}

fn round_trip(
    inverse: Operation,
    config: &Config,
    variant: &str,
    buffers: &TestBuffers,
) -> Result<By, Failure> {
    let inverse = LibraryReference::new(inverse, variant)?;
    let (verb, library) = (inverse.operation.family().verb, inverse.variant);
    let mut method = format!("{verb}ed by {library}, compared with the original");
    if library == variant {
        method.push_str("; no other library decodes it here");
    }
    let cross_checker = match config.operation.lengths() {
        Lengths::Shrinks => CrossChecker::new(config, variant)?,
        _ => None,
    };
    Ok(By::RoundTrip {
        inverse,
        restored: vec![0; buffers.original.longest() as usize],
        method,
        cross_checker,
    })
}

fn results(
    mut reference: LibraryReference,
    sources: &Buffers,
) -> Result<ReferenceResults, Failure> {
    let all = sources.iter().map(|source| {
        let bytes = reference.result(source)?;
        let written = bytes.len();
        let value = None;
        Ok((Output { written, value }, bytes))
    });
    Ok(ReferenceResults { all: all.collect::<Result<_, Failure>>()?, method: reference.method() })
}

fn internal(error: overside_ops::Error) -> Failure {
    Failure::new(FailureKind::Job, error.to_string())
}

#[cfg(test)]
mod tests {
    use overside_ops::{MatchKind, prepare};

    use super::*;
    use crate::data::Cut;

    #[test]
    fn the_matching_reference_is_none_of_the_engines() {
        // They refuse it.
        let pattern = ["a{1001}".to_string()];
        let operation = Operation::Match(MatchKind::Count);
        let config = Config { patterns: pattern.to_vec(), ..Config::new(operation) };
        assert!(prepare(&config).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a".repeat(1001)).unwrap();
        let data = crate::Data {
            name: "made".into(),
            files: vec![file.path().into()],
            sample_bytes: 1001,
        };
        let Ok(sources) = Buffers::read(&data, 1001, Cut::Fixed) else {
            panic!("no buffers");
        };
        let sources = Arc::new(sources);
        let buffers = TestBuffers { original: Arc::clone(&sources), source: sources };
        let verifier =
            |variant| Verifier::new(&config, variant, &buffers, &mut ReferenceCache::default());
        let mut verifier = verifier("hyperscan").unwrap();
        let says = |value| Outcome::Done(Output { written: 0, value: Some(value) });
        verifier.check(0, &says(1), &[]).unwrap();
        verifier.check(0, &says(0), &[]).unwrap_err();
        assert!(verifier.summary(0).method.contains("record by record"));
    }
}
