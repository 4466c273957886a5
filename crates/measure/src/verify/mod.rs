//! Whether an output is right, found by something other than what made it.

mod cross_checker;
mod expected;
mod hash_reference;
mod matching_reference;
mod output_checker;
mod reference_results;

use std::sync::Arc;

use overside_device::{Operation, Outcome, Output};
use overside_ops::{Config, Format, Kernel, prepare, variants};
use overside_probe::{Failure, FailureKind};
use xxhash_rust::xxh3::Xxh3;

use crate::data::Buffers;
use crate::sample::Check;
use cross_checker::CrossChecker;
use expected::Expected;
pub(crate) use hash_reference::HashReference;
pub(crate) use output_checker::OutputChecker;
use reference_results::ReferenceKey;
pub(crate) use reference_results::{ReferenceCache, ReferenceResults};

/// The buffers of one test.
#[derive(Clone)]
pub(crate) struct TestBuffers {
    /// The uncompressed side.
    pub original: Arc<Buffers>,
    /// What the jobs read; the same except for decompression.
    pub source: Arc<Buffers>,
}

/// Checks outputs of one operation made by one library.
pub(crate) struct Verifier {
    operation: Operation,
    buffers: TestBuffers,
    by: By,
}

enum By {
    /// Another decoder must restore the original.
    RoundTrip {
        kernel: Box<dyn Kernel>,
        restored: Vec<u8>,
        method: String,
        /// Another compressor, for what is called incompressible.
        cross_checker: Option<CrossChecker>,
    },
    /// The original is at hand.
    Original,
    /// Another implementation must say the same.
    ReferenceResults { answers: Arc<ReferenceResults> },
}

impl Verifier {
    /// A verifier for what `variant` makes.
    pub(crate) fn new(
        config: &Config,
        variant: &str,
        buffers: &TestBuffers,
        cache: &mut ReferenceCache,
    ) -> Result<Self, Failure> {
        let operation = config.operation;
        let by = match operation {
            Operation::Compress(format) => round_trip(format, config, variant, buffers)?,
            Operation::Decompress(_) | Operation::Copy => By::Original,
            Operation::Match(kind) => {
                // The reference is Rust's `regex`, so what `regex` computed needs a second one.
                let second = match variant {
                    "regex" => Some(any_other_engine(operation, variant)?),
                    _ => None,
                };
                let key = ReferenceKey {
                    sources: Arc::clone(&buffers.source),
                    operation,
                    patterns: config.patterns.clone(),
                    by: second.clone().unwrap_or_default(),
                };
                let make = || {
                    let answers =
                        matching_reference::results(kind, &config.patterns, &buffers.source)?;
                    match second {
                        Some(engine) => answers.cross_checked(config, &engine, &buffers.source),
                        None => Ok(answers),
                    }
                };
                By::ReferenceResults {
                    answers: cache.get(key, make)?,
                }
            }
            Operation::Hash(algorithm) => {
                let reference = HashReference::new(algorithm, variant)?;
                let key = ReferenceKey {
                    sources: Arc::clone(&buffers.source),
                    operation,
                    patterns: Vec::new(),
                    by: reference.variant.into(),
                };
                let make = || digests(reference, &buffers.source);
                By::ReferenceResults {
                    answers: cache.get(key, make)?,
                }
            }
        };
        Ok(Self {
            operation,
            buffers: buffers.clone(),
            by,
        })
    }

    /// Whether this is what the operation makes of source `number`.
    pub(crate) fn check(
        &mut self,
        number: usize,
        outcome: &Outcome,
        destination: &[u8],
    ) -> Result<(), Failure> {
        let original = self.buffers.original.get(number);
        let wrong = |what: String| {
            Failure::new(
                FailureKind::Verification,
                format!("buffer {number}: {what}"),
            )
        };
        let Outcome::Done(done) = outcome else {
            return match &mut self.by {
                By::RoundTrip {
                    cross_checker,
                    restored,
                    ..
                } => (cross_checker.as_mut())
                    .map_or(Ok(()), |cross_checker| {
                        cross_checker.check(original, restored)
                    })
                    .map_err(wrong),
                _ => Err(wrong(format!(
                    "{} called it incompressible",
                    self.operation
                ))),
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
            By::RoundTrip {
                kernel, restored, ..
            } => {
                let back = kernel.run(&[output], restored).map_err(|error| {
                    wrong(format!("the output cannot be decompressed: {error}"))
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

    /// What the outputs were compared with, and a value that is the same for everybody who does
    /// this work right on these buffers.
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
            _ => self
                .buffers
                .original
                .iter()
                .for_each(|buffer| sum.update(buffer)),
        }
        let value = format!("xxh3:{:016x}", sum.digest());
        Check {
            method,
            value,
            buffers: checked as u64,
        }
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
    let place = output
        .iter()
        .zip(right)
        .position(|(a, b)| a != b)
        .unwrap_or(0);
    Err(format!("the bytes differ from byte {place} on"))
}

/// The first variant of `operation` that is not `variant`; `variant` itself if there is no other.
fn another(operation: Operation, variant: &str) -> Result<String, Failure> {
    let all = variants(operation);
    (all.iter().find(|one| one.name != variant).or(all.first()))
        .map(|one| one.name.to_string())
        .ok_or_else(|| {
            Failure::new(
                FailureKind::Internal,
                format!("nothing here can verify {operation}"),
            )
        })
}

/// A matching engine other than `variant` that takes any patterns, which the first ones may not.
fn any_other_engine(operation: Operation, variant: &str) -> Result<String, Failure> {
    let all = variants(operation);
    (all.iter().rfind(|one| one.name != variant))
        .map(|one| one.name.to_string())
        .ok_or_else(|| {
            Failure::new(
                FailureKind::Internal,
                format!("nothing here can verify {operation}"),
            )
        })
}

fn round_trip(
    format: Format,
    compressor: &Config,
    variant: &str,
    buffers: &TestBuffers,
) -> Result<By, Failure> {
    let operation = Operation::Decompress(format);
    let decoder = another(operation, variant)?;
    let config = Config {
        variant: decoder.clone(),
        ..Config::new(operation)
    };
    let kernel = prepare(&config)
        .and_then(|prepared| prepared.kernel())
        .map_err(internal)?;
    let mut method = format!("decompressed by {decoder}, compared with the original");
    if decoder == variant {
        method.push_str("; no other library decodes it here");
    }
    let restored = vec![0; buffers.original.longest() as usize];
    Ok(By::RoundTrip {
        kernel,
        restored,
        method,
        cross_checker: CrossChecker::new(compressor, variant)?,
    })
}

fn digests(mut reference: HashReference, sources: &Buffers) -> Result<ReferenceResults, Failure> {
    let all = sources.iter().map(|source| {
        let bytes = reference.digest(source)?;
        let written = bytes.len();
        let value = None;
        Ok((Output { written, value }, bytes))
    });
    Ok(ReferenceResults {
        all: all.collect::<Result<_, Failure>>()?,
        method: reference.method(),
    })
}

fn internal(error: overside_ops::Error) -> Failure {
    Failure::new(FailureKind::Job, error.to_string())
}

#[cfg(test)]
mod tests {
    use overside_ops::MatchKind;

    use super::*;
    use crate::data::Cut;

    #[test]
    fn the_matching_reference_is_none_of_the_engines() {
        // They refuse it.
        let pattern = ["a{1001}".to_string()];
        let operation = Operation::Match(MatchKind::Count);
        let config = Config {
            patterns: pattern.to_vec(),
            ..Config::new(operation)
        };
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
        let buffers = TestBuffers {
            original: Arc::clone(&sources),
            source: sources,
        };
        let verifier =
            |variant| Verifier::new(&config, variant, &buffers, &mut ReferenceCache::default());
        let mut verifier = verifier("hyperscan").unwrap();
        let says = |value| {
            Outcome::Done(Output {
                written: 0,
                value: Some(value),
            })
        };
        verifier.check(0, &says(1), &[]).unwrap();
        verifier.check(0, &says(0), &[]).unwrap_err();
        assert!(verifier.summary(0).method.contains("record by record"));
    }
}
