//! Whether an output is right, found by something other than what made it.

use std::collections::VecDeque;
use std::sync::Arc;

use overside_device::{Operation, Outcome, Output};
use overside_ops::{Config, Format, Kernel, MatchKind, prepare, variants};
use regex::bytes::{RegexSet, RegexSetBuilder};
use xxhash_rust::xxh3::Xxh3;

use crate::data::Buffers;
use crate::reference::HashReference;
use crate::sample::{Check, Failure, Kind};

/// Bytes at an output's end that are looked at in every completion. No digest is longer.
const TAIL_BYTES: usize = 32;
/// What tables and framing may add to a short output: a source of no more than this may be
/// incompressible for one library and not for another.
const SLACK_BYTES: usize = 1024;
/// What the matching reference may take for its program, and for its cache: as much as the engines.
const REGEX_BYTES_MAX: usize = 64 << 20;

/// The buffers of one test.
#[derive(Clone)]
pub(crate) struct Material {
    /// The uncompressed side.
    pub original: Arc<Buffers>,
    /// What the jobs read; the same except for decompression.
    pub source: Arc<Buffers>,
}

/// What an operation makes of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The outcome with its length and value.
    pub outcome: Outcome,
    /// The last bytes of the output, as many as there are.
    tail: [u8; TAIL_BYTES],
    /// XXH3 of the output.
    digest: u64,
}

impl Expected {
    /// What a verified completion looked like.
    pub(crate) fn new(outcome: Outcome, destination: &[u8]) -> Self {
        let output = &destination[..written(&outcome)];
        let mut tail = [0; TAIL_BYTES];
        let len = output.len().min(TAIL_BYTES);
        tail[..len].copy_from_slice(&output[output.len() - len..]);
        Self {
            outcome,
            tail,
            digest: xxhash_rust::xxh3::xxh3_64(output),
        }
    }

    fn tail_range(&self) -> std::ops::Range<usize> {
        let end = written(&self.outcome);
        end.saturating_sub(TAIL_BYTES)..end
    }

    /// Spoils the place where the output's end will be, so that a completion without an output,
    /// or one that comes before its output, cannot look like the one before.
    pub(crate) fn spoil(&self, destination: &mut [u8]) {
        let Some(tail) = destination.get_mut(self.tail_range()) else {
            return;
        };
        for (byte, right) in tail.iter_mut().zip(&self.tail) {
            *byte = !right;
        }
    }

    /// The same outcome, length, value and last bytes. Cheap enough to be asked under the clock.
    pub(crate) fn looks_like(&self, outcome: &Outcome, destination: &[u8]) -> bool {
        let Some(tail) = destination.get(self.tail_range()) else {
            return false;
        };
        *outcome == self.outcome && *tail == self.tail[..tail.len()]
    }

    /// What was compressed well before is not incompressible now, whatever a compressor's output
    /// depends on.
    pub(crate) fn not_incompressible(
        &self,
        outcome: &Outcome,
        source_bytes: usize,
    ) -> Result<(), Failure> {
        match (outcome, self.outcome) {
            (Outcome::Incompressible, Outcome::Done(before))
                if before.written < source_bytes - source_bytes / 8 =>
            {
                let message = format!(
                    "{source_bytes} bytes that had been compressed to {} were called incompressible",
                    before.written
                );
                Err(Failure::new(Kind::Verification, message))
            }
            _ => Ok(()),
        }
    }

    /// The same in every byte.
    pub(crate) fn is(&self, outcome: &Outcome, destination: &[u8]) -> bool {
        let Some(output) = destination.get(..written(outcome)) else {
            return false;
        };
        *outcome == self.outcome && xxhash_rust::xxh3::xxh3_64(output) == self.digest
    }
}

fn written(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Done(output) => output.written,
        Outcome::Incompressible => 0,
    }
}

/// Checks outputs of one operation made by one library.
pub(crate) struct Verifier {
    operation: Operation,
    material: Material,
    by: By,
}

enum By {
    /// Another decoder must restore the original.
    RoundTrip {
        kernel: Box<dyn Kernel>,
        restored: Vec<u8>,
        method: String,
        /// Another compressor, for what is called incompressible.
        doubter: Option<Doubter>,
    },
    /// The original is at hand.
    Original,
    /// Another implementation must say the same.
    Answers { answers: Arc<Answers> },
}

/// A compressor that has to fail where another is believed to have failed.
struct Doubter {
    name: String,
    kernel: Box<dyn Kernel>,
}

impl Doubter {
    /// For what `config`'s library calls incompressible; none at level 0, which may only store.
    fn new(config: &Config, variant: &str) -> Result<Option<Self>, Failure> {
        if config.level == Some(0) {
            return Ok(None);
        }
        let name = another(config.operation, variant)?;
        let config = Config {
            variant: name.clone(),
            // Zstandard's levels reach back differently far, and no other library has its format.
            level: config.level.filter(|_| name == variant),
            ..Config::new(config.operation)
        };
        let kernel = prepare(&config)
            .and_then(|prepared| prepared.kernel())
            .map_err(internal)?;
        Ok(Some(Self { name, kernel }))
    }

    /// Refuses to believe that what this compresses to less than half is incompressible. Libraries
    /// differ, but not by so much. `room` is as long as the source.
    fn believe(&mut self, original: &[u8], room: &mut [u8]) -> Result<(), String> {
        let half = original.len().saturating_sub(SLACK_BYTES) / 2;
        match self.kernel.run(&[original], &mut room[..half]) {
            Ok(made) if made.written > 0 => Err(format!(
                "it was called incompressible, but {} makes {} bytes of its {}",
                self.name,
                made.written,
                original.len()
            )),
            _ => Ok(()),
        }
    }
}

/// What another implementation says about every source.
pub(crate) struct Answers {
    method: String,
    all: Vec<(Output, Vec<u8>)>,
}

impl Answers {
    /// Bytes of memory they take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.all
            .iter()
            .map(|(_, bytes)| (bytes.len() + 64) as u64)
            .sum()
    }

    /// The same answers, if `engine` gives them too.
    fn seconded(
        mut self,
        config: &Config,
        engine: &str,
        sources: &Buffers,
    ) -> Result<Self, Failure> {
        let config = Config {
            variant: engine.into(),
            ..config.clone()
        };
        let mut kernel = prepare(&config)
            .and_then(|prepared| prepared.kernel())
            .map_err(internal)?;
        // A bitmap has at most one bit a byte.
        let mut out = vec![0; sources.longest().div_ceil(8) as usize];
        for (number, (source, (right, bytes))) in sources.iter().zip(&self.all).enumerate() {
            let done = kernel.run(&[source], &mut out).map_err(internal)?;
            if done != *right || out[..done.written] != **bytes {
                let message = format!(
                    "buffer {number}: {engine} says {}, but Rust's regex, record by record, {}",
                    shown(done.value),
                    shown(right.value)
                );
                return Err(Failure::new(Kind::Verification, message));
            }
        }
        self.method
            .push_str(&format!(", and with that of {engine}"));
        Ok(self)
    }
}

/// Answers that are kept from test to test, because they depend on nothing but the sources.
#[derive(Default)]
pub(crate) struct AnswerCache {
    kept: VecDeque<(AnswerKey, Arc<Answers>)>,
}

/// What answers depend on: the sources (which stay alive with it, so no other can have the same
/// address), the operation, the patterns, and who answers.
#[derive(Clone)]
struct AnswerKey {
    sources: Arc<Buffers>,
    operation: Operation,
    patterns: Vec<String>,
    by: String,
}

impl PartialEq for AnswerKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.sources, &other.sources)
            && self.operation == other.operation
            && self.patterns == other.patterns
            && self.by == other.by
    }
}

impl AnswerCache {
    const ENTRIES_MAX: usize = 16;
    const BYTES_MAX: u64 = 256 << 20;

    fn get(
        &mut self,
        key: AnswerKey,
        make: impl FnOnce() -> Result<Answers, Failure>,
    ) -> Result<Arc<Answers>, Failure> {
        if let Some((_, answers)) = self.kept.iter().find(|(kept, _)| *kept == key) {
            return Ok(Arc::clone(answers));
        }
        let answers = Arc::new(make()?);
        self.kept.push_back((key, Arc::clone(&answers)));
        let bytes = |kept: &VecDeque<(AnswerKey, Arc<Answers>)>| -> u64 {
            kept.iter().map(|(_, answers)| answers.memory_bytes()).sum()
        };
        while self.kept.len() > Self::ENTRIES_MAX
            || (self.kept.len() > 1 && bytes(&self.kept) > Self::BYTES_MAX)
        {
            self.kept.pop_front();
        }
        Ok(answers)
    }

    /// Forgets what was answered about sources that nobody else holds.
    pub(crate) fn forget_unused(&mut self) {
        self.kept
            .retain(|(key, _)| Arc::strong_count(&key.sources) > 1);
    }
}

impl Verifier {
    /// A verifier for what `variant` makes.
    pub(crate) fn new(
        config: &Config,
        variant: &str,
        material: &Material,
        cache: &mut AnswerCache,
    ) -> Result<Self, Failure> {
        let operation = config.operation;
        let by = match operation {
            Operation::Compress(format) => round_trip(format, config, variant, material)?,
            Operation::Decompress(_) | Operation::Copy => By::Original,
            Operation::Match(kind) => {
                // The reference is Rust's `regex`, so what `regex` computed needs a second one.
                let second = match variant {
                    "regex" => Some(any_other_engine(operation, variant)?),
                    _ => None,
                };
                let key = AnswerKey {
                    sources: Arc::clone(&material.source),
                    operation,
                    patterns: config.patterns.clone(),
                    by: second.clone().unwrap_or_default(),
                };
                let make = || {
                    let answers = matches(kind, &config.patterns, &material.source)?;
                    match second {
                        Some(engine) => answers.seconded(config, &engine, &material.source),
                        None => Ok(answers),
                    }
                };
                By::Answers {
                    answers: cache.get(key, make)?,
                }
            }
            Operation::Hash(algorithm) => {
                let reference = HashReference::new(algorithm, variant)?;
                let key = AnswerKey {
                    sources: Arc::clone(&material.source),
                    operation,
                    patterns: Vec::new(),
                    by: reference.variant.into(),
                };
                let make = || digests(reference, &material.source);
                By::Answers {
                    answers: cache.get(key, make)?,
                }
            }
        };
        Ok(Self {
            operation,
            material: material.clone(),
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
        let original = self.material.original.get(number);
        let wrong =
            |what: String| Failure::new(Kind::Verification, format!("buffer {number}: {what}"));
        let Outcome::Done(done) = outcome else {
            return match &mut self.by {
                By::RoundTrip {
                    doubter, restored, ..
                } => (doubter.as_mut())
                    .map_or(Ok(()), |doubter| doubter.believe(original, restored))
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
            By::Answers { answers } => {
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
    pub(crate) fn summary(&self, expected: &[Expected]) -> Check {
        let mut sum = Xxh3::new();
        let method = match &self.by {
            By::Original => "compared with the original".into(),
            By::RoundTrip { method, .. } => method.clone(),
            By::Answers { answers } => answers.method.clone(),
        };
        match &self.by {
            By::Answers { answers } => {
                for (output, bytes) in &answers.all {
                    sum.update(&output.value.map_or(u64::MAX, |value| value).to_le_bytes());
                    sum.update(bytes);
                }
            }
            _ => self
                .material
                .original
                .iter()
                .for_each(|buffer| sum.update(buffer)),
        }
        let value = format!("xxh3:{:016x}", sum.digest());
        Check {
            method,
            value,
            buffers: expected.len() as u64,
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
                Kind::Internal,
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
                Kind::Internal,
                format!("nothing here can verify {operation}"),
            )
        })
}

fn round_trip(
    format: Format,
    compressor: &Config,
    variant: &str,
    material: &Material,
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
    let restored = vec![0; material.original.longest() as usize];
    Ok(By::RoundTrip {
        kernel,
        restored,
        method,
        doubter: Doubter::new(compressor, variant)?,
    })
}

/// What the patterns, as the user wrote them, find in each source, one record after the other:
/// [`MatchKind`] word by word. Nothing of it is shared with the engines of `overside-ops`, which
/// scan whole buffers for patterns that were rewritten.
fn matches(kind: MatchKind, patterns: &[String], sources: &Buffers) -> Result<Answers, Failure> {
    let patterns = RegexSetBuilder::new(patterns)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| {
            Failure::new(Kind::Internal, format!("nothing to compare with: {error}"))
        })?;
    let all = sources.iter().map(|source| answer(kind, &patterns, source));
    Ok(Answers {
        method: "compared with the answer of Rust's regex, record by record, for the patterns as \
                 they were written"
            .into(),
        all: all.collect(),
    })
}

/// What `patterns` find in one source.
fn answer(kind: MatchKind, patterns: &RegexSet, source: &[u8]) -> (Output, Vec<u8>) {
    let (mut begin, mut count, mut bitmap) = (0, 0, Vec::new());
    for (number, line) in source.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let matches = patterns.is_match(line.strip_suffix(b"\n").unwrap_or(line));
        match kind {
            MatchKind::Search if matches => {
                let value = Some(begin as u64);
                return (Output { written: 0, value }, Vec::new());
            }
            MatchKind::Bitmap if number % 8 == 0 => bitmap.push(u8::from(matches)),
            MatchKind::Bitmap => bitmap[number / 8] |= u8::from(matches) << (number % 8),
            MatchKind::Search | MatchKind::Count => {}
        }
        count += u64::from(matches);
        begin += line.len();
    }
    let output = Output {
        written: bitmap.len(),
        value: Some(count).filter(|_| kind != MatchKind::Search),
    };
    (output, bitmap)
}

fn digests(mut reference: HashReference, sources: &Buffers) -> Result<Answers, Failure> {
    let all = sources.iter().map(|source| {
        let bytes = reference.digest(source)?;
        let written = bytes.len();
        let value = None;
        Ok((Output { written, value }, bytes))
    });
    Ok(Answers {
        all: all.collect::<Result<_, Failure>>()?,
        method: reference.method(),
    })
}

fn internal(error: overside_ops::Error) -> Failure {
    Failure::new(Kind::Job, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: MatchKind, patterns: &[&str], source: &[u8]) -> (Option<u64>, Vec<u8>) {
        let patterns = RegexSetBuilder::new(patterns).unicode(false).build();
        let (output, bytes) = answer(kind, &patterns.unwrap(), source);
        assert_eq!(output.written, bytes.len());
        (output.value, bytes)
    }

    #[test]
    fn the_matching_reference_answers_by_record() {
        use MatchKind::{Bitmap, Count, Search};
        let none = Vec::new;
        // Records are `a`, an empty one, `b` and, where no line feed ends it, `ab`.
        assert_eq!(said(Count, &["a"], b"a\n\nb\nab"), (Some(2), none()));
        assert_eq!(said(Bitmap, &["a"], b"a\n\nb\nab"), (Some(2), vec![0b1001]));
        assert_eq!(said(Bitmap, &["^$"], b"a\n\nb\n"), (Some(1), vec![0b010]));
        assert_eq!(said(Search, &["b"], b"a\n\nb\nab"), (Some(3), none()));
        assert_eq!(said(Search, &["c"], b"a\n\nb\nab"), (None, none()));
        assert_eq!(said(Count, &[""], b"a\n\nb\nab"), (Some(4), none()));
        assert_eq!(said(Count, &[""], b""), (Some(0), none()));
        assert_eq!(said(Bitmap, &[""], b""), (Some(0), none()));
        let nine = (Some(9), vec![0xff, 1]);
        assert_eq!(said(Bitmap, &["^a$", "b"], &b"a\n".repeat(9)), nine);
        // No pattern sees a line feed, and each stands for itself.
        assert_eq!(
            said(Count, &[r"a\s*b", "(?s)a.b"], b"a\nb"),
            (Some(0), none())
        );
        assert_eq!(
            said(Count, &["(?x) b # c", "(?i)A"], b"a\nb"),
            (Some(2), none())
        );
        assert_eq!(said(Count, &[r"^\xff.$"], b"\xff\xfe"), (Some(1), none()));
    }

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
        let Ok(sources) = Buffers::read(&data, 1001) else {
            panic!("no buffers");
        };
        let sources = Arc::new(sources);
        let material = Material {
            original: Arc::clone(&sources),
            source: sources,
        };
        let verifier =
            |variant| Verifier::new(&config, variant, &material, &mut AnswerCache::default());
        let mut verifier = verifier("hyperscan").unwrap();
        let says = |value| {
            Outcome::Done(Output {
                written: 0,
                value: Some(value),
            })
        };
        verifier.check(0, &says(1), &[]).unwrap();
        verifier.check(0, &says(0), &[]).unwrap_err();
        assert!(verifier.summary(&[]).method.contains("record by record"));
    }

    #[test]
    fn a_spoiled_destination_does_not_look_right() {
        for len in [1, 5, 31, 32, 33, 1000] {
            let mut destination = vec![7; 1000];
            let outcome = Outcome::Done(Output {
                written: len,
                value: None,
            });
            let expected = Expected::new(outcome, &destination);
            assert!(expected.looks_like(&outcome, &destination));
            expected.spoil(&mut destination);
            assert!(!expected.looks_like(&outcome, &destination), "{len}");
        }
    }
}
