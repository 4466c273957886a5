//! What patterns match, found without the engines that are measured.

use overside_device::Output;
use overside_ops::MatchKind;
use overside_probe::{Failure, FailureKind};
use regex::bytes::{RegexSet, RegexSetBuilder};

use super::ReferenceResults;
use crate::data::Buffers;

/// What the reference may take for its program, and for its cache: as much as the engines.
const REGEX_BYTES_MAX: usize = 64 << 20;

/// What the patterns, as the user wrote them, find in each source, one record after the other:
/// [`MatchKind`] word by word. Nothing of it is shared with the engines of `overside-ops`, which
/// scan whole buffers for patterns that were rewritten.
pub(super) fn results(
    kind: MatchKind,
    patterns: &[String],
    sources: &Buffers,
) -> Result<ReferenceResults, Failure> {
    let patterns = RegexSetBuilder::new(patterns)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| {
            Failure::new(
                FailureKind::Internal,
                format!("nothing to compare with: {error}"),
            )
        })?;
    let all = sources.iter().map(|source| answer(kind, &patterns, source));
    Ok(ReferenceResults {
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
}
