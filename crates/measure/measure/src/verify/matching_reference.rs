//! Matches of patterns, found without the engines that are measured.

use overside_device::Output;
use overside_ops::MatchKind;
use overside_probe::{Failure, FailureKind};
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::ReferenceResults;
use crate::data::Buffers;

/// Maximum number of bytes that the reference may use for its program and for its cache; the same as for the
/// engines.
const REGEX_BYTES_MAX: usize = 64 << 20;

/// Finds the matches of the patterns, as the user wrote them, in each source, record by record,
/// literally as [`MatchKind`] specifies. It shares no code with the engines of `overside-ops`,
/// which scan whole buffers for rewritten patterns.
pub(super) fn results(
    kind: MatchKind,
    patterns: &[String],
    sources: &Buffers,
) -> Result<ReferenceResults, Failure> {
    let reference = Reference::new(kind, patterns).map_err(|error| {
        Failure::new(FailureKind::Internal, format!("nothing to compare with: {error}"))
    })?;
    let all = sources.iter().map(|source| reference.answer(source));
    Ok(ReferenceResults {
        method: "compared with the answer of Rust's regex, record by record, for the patterns as \
                 they were written"
            .into(),
        all: all.collect(),
    })
}

/// Patterns as they were written.
struct Reference {
    kind: MatchKind,
    any: RegexSet,
    /// Expressions for groups; empty if groups are not requested.
    each: Vec<Regex>,
}

impl Reference {
    fn new(kind: MatchKind, patterns: &[String]) -> Result<Self, regex::Error> {
        let any = RegexSetBuilder::new(patterns)
            .unicode(false)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build()?;
        let one = |pattern: &String| {
            RegexBuilder::new(pattern)
                .unicode(false)
                .size_limit(REGEX_BYTES_MAX)
                .dfa_size_limit(REGEX_BYTES_MAX)
                .build()
        };
        let each = match kind {
            MatchKind::Groups => patterns.iter().map(one).collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        Ok(Self { kind, any, each })
    }

    /// Returns the result of the patterns on one source: the output, and the bytes that it writes.
    fn answer(&self, source: &[u8]) -> (Output, Vec<u8>) {
        let (mut begin, mut count, mut bytes) = (0, 0, Vec::new());
        for (number, line) in source.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let record = line.strip_suffix(b"\n").unwrap_or(line);
            let matches = self.any.is_match(record);
            match self.kind {
                MatchKind::Search if matches => {
                    let value = Some(begin as u64);
                    return (Output { written: 0, value }, Vec::new());
                }
                MatchKind::Bitmap if number % 8 == 0 => bytes.push(u8::from(matches)),
                MatchKind::Bitmap => bytes[number / 8] |= u8::from(matches) << (number % 8),
                MatchKind::Groups if matches => count += self.groups(record, begin, &mut bytes),
                MatchKind::Search | MatchKind::Count | MatchKind::Groups => {}
            }
            count += u64::from(matches && self.kind != MatchKind::Groups);
            begin += line.len();
        }
        let output = Output {
            written: bytes.len(),
            value: Some(count).filter(|_| self.kind != MatchKind::Search),
        };
        (output, bytes)
    }

    /// Appends the matches in a record that begins at `offset`. Returns how many.
    fn groups(&self, record: &[u8], offset: usize, out: &mut Vec<u8>) -> u64 {
        let (mut count, mut from) = (0, 0);
        loop {
            let found = (self.each.iter().enumerate()).filter_map(|(pattern, regex)| {
                let captures = regex.captures_at(record, from)?;
                Some((captures.get(0)?.start(), pattern, captures))
            });
            let Some((begin, pattern, captures)) = found.min_by_key(|one| (one.0, one.1)) else {
                return count;
            };
            let end = captures.get(0).map_or(begin, |whole| whole.end());
            if begin < end {
                let places = captures.iter().flat_map(|group| match group {
                    Some(group) => [offset + group.start(), offset + group.end()],
                    None => [u32::MAX as usize; 2],
                });
                for number in std::iter::once(pattern).chain(places) {
                    out.extend_from_slice(&(number as u32).to_le_bytes());
                }
                count += 1;
            }
            from = end.max(begin + 1);
            if from > record.len() {
                return count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: MatchKind, patterns: &[&str], source: &[u8]) -> (Option<u64>, Vec<u8>) {
        let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
        let (output, bytes) = Reference::new(kind, &patterns).unwrap().answer(source);
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
        assert_eq!(said(Count, &[r"a\s*b", "(?s)a.b"], b"a\nb"), (Some(0), none()));
        assert_eq!(said(Count, &["(?x) b # c", "(?i)A"], b"a\nb"), (Some(2), none()));
        assert_eq!(said(Count, &[r"^\xff.$"], b"\xff\xfe"), (Some(1), none()));
    }

    #[test]
    fn the_matching_reference_reports_groups() {
        let groups = |patterns: &[&str], source: &[u8]| {
            let (count, bytes) = said(MatchKind::Groups, patterns, source);
            let numbers = bytes.chunks_exact(4).map(|four| {
                let number = u32::from_le_bytes(four.try_into().unwrap());
                i64::from(number.cast_signed())
            });
            (count, numbers.collect::<Vec<_>>())
        };
        // The pattern, the match, and the groups, of which one takes no part.
        let expected = vec![0, 3, 6, 5, 6, -1, -1, 0, 7, 10, -1, -1, 9, 10];
        let pattern = "a=(?:([0-9])|([a-z]))";
        assert_eq!(groups(&[pattern], b"x\n a=1\na=b"), (Some(2), expected));
        // The leftmost one, of two there the first pattern's; empty ones are left out.
        assert_eq!(groups(&["b*", "aa"], b"aabaa"), (Some(1), vec![0, 2, 3]));
        assert_eq!(groups(&["a+b?", "aa"], b"aa\naa"), (Some(2), vec![0, 0, 2, 0, 3, 5]));
    }
}
