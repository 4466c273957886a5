//! Matching: rates by pattern, buffer and batch.
//!
//! A pattern of one's own is answered from published ones of its form: where an engine stands still
//! depends on how a pattern begins, and on what follows a gap (`.+`) in it.

use crate::codec::rates::EvidenceTracker;
use crate::{
    Axis, Evidence, EvidenceLevel, Library, MissingParameter, ParameterValue, Quantity, Table,
    Unit, Values,
};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Buffers of the sweep over batches: at this size the sweep over buffers gives the same rates.
const BATCH_BUFFER_BYTES: f64 = 1024.0;
/// A batch at which the rate no longer grows.
const FULL_BATCH: f64 = 32.0;
/// Matching was published for both cards together; its figures stand with this one.
pub(crate) const CARD: &str = "bf2";

/// Parameter between 0 and 1 for the place of a pattern between two published ones.
const BETWEEN: &str = "pattern.between";
/// Longest pattern in bytes that is read.
const PATTERN_BYTES_MAX: usize = 1000;
/// Deepest nesting of groups that is read.
const NESTING_MAX: u32 = 100;
/// A class of more bytes, repeated without end, is a gap: nearly anything continues it.
const GAP_BYTES: usize = 128;

/// Form of a pattern, which decides how fast an engine matches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Begins with a gap, as Q2: a match may begin at every byte.
    Gap,
    /// Literals stand on both sides of a gap, as in Q1 and Q3.
    Around,
    /// Begins with a literal, and at most a gap ends it, as Q4.
    Prefix,
}

/// A part of a pattern, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Bytes,
    Gap,
}

impl Form {
    /// Returns the form of a regular expression.
    ///
    /// # Errors
    /// Description of the first mistake in it.
    pub(crate) fn of(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern has 1 to {PATTERN_BYTES_MAX} bytes"));
        }
        let mut parser =
            ParserBuilder::new().unicode(false).utf8(false).nest_limit(NESTING_MAX).build();
        let hir = parser.parse(pattern).map_err(|error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            format!("it is no regular expression: {}", last.trim_start_matches("error: "))
        })?;
        Ok(Self::of_parts(&parts(&hir)))
    }

    fn of_parts(parts: &[Part]) -> Self {
        let gap = parts.iter().position(|part| *part == Part::Gap);
        match gap {
            Some(0) => Self::Gap,
            Some(gap) if parts[gap..].contains(&Part::Bytes) => Self::Around,
            _ => Self::Prefix,
        }
    }
}

/// Returns the parts of a pattern in order; of alternatives those of the slowest.
fn parts(hir: &Hir) -> Vec<Part> {
    let is_broad = |hir: &Hir| match hir.kind() {
        HirKind::Class(Class::Bytes(class)) => {
            let bytes = class.ranges().iter().map(|range| range.len());
            bytes.sum::<usize>() > GAP_BYTES
        }
        _ => false,
    };
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Vec::new(),
        HirKind::Literal(_) | HirKind::Class(_) => vec![Part::Bytes],
        HirKind::Capture(capture) => parts(&capture.sub),
        HirKind::Repetition(repeated) => {
            let inner = match repeated.sub.kind() {
                HirKind::Capture(capture) => &capture.sub,
                _ => &repeated.sub,
            };
            match repeated.max.is_none() && is_broad(inner) {
                true => vec![Part::Gap],
                false => parts(inner),
            }
        }
        HirKind::Concat(all) => all.iter().flat_map(parts).collect(),
        HirKind::Alternation(all) => {
            let rank = |parts: &Vec<Part>| match Form::of_parts(parts) {
                Form::Gap => 0,
                Form::Around => 1,
                Form::Prefix => 2,
            };
            all.iter().map(parts).min_by_key(rank).unwrap_or_default()
        }
    }
}

/// Collects the parameters for matching: the card's values, and its patterns' rates by buffer as
/// `buffer.q1`. A rate of 0 is only a label and is left out.
pub(crate) fn evidence(library: &Library) -> Evidence {
    let mut evidence = library.evidence(&["host-coproc-bf2"]);
    let Some(card) = library.profile(CARD) else {
        return evidence;
    };
    evidence.insert_all(CARD, &card.evidence());
    let middle = Some(0.5);
    evidence.insert(BETWEEN, Quantity { value: middle, ..Quantity::range(0.0, 1.0, Unit::Count) });
    let patterns = card.operations.iter().flat_map(|entry| &entry.patterns);
    for pattern in patterns {
        let name = format!("{CARD}/buffer.{}", pattern.name.to_lowercase());
        if let Some(rate) = &pattern.rate {
            evidence.insert(name, ParameterValue::Quantity(rate.clone()));
        } else if let Some(sweep) = &pattern.sweep {
            let points = sweep.source_bytes.iter().zip(&sweep.rate);
            let (at, value) = points
                .filter(|(_, rate)| **rate > 0.0)
                .map(|(bytes, rate)| (*bytes as f64, *rate))
                .unzip::<f64, f64, Vec<_>, Vec<_>>();
            let Some(shortest) = at.first() else {
                continue;
            };
            let shortest = Quantity::number(*shortest, Unit::B);
            evidence.insert(format!("{name}.shortest"), ParameterValue::Quantity(shortest));
            let table = Table {
                by: Axis::Bytes,
                at,
                value,
                unit: sweep.unit,
                facts: sweep.facts.clone(),
                citation: None,
                note: None,
                cites: Vec::new(),
            };
            evidence.insert(name, ParameterValue::Table(table));
        }
    }
    evidence
}

/// Bytes a second of a pattern, `q1` to `q4` or one's own, by `rate` of published ones.
pub(crate) fn by_form(
    values: &Values<'_>,
    reach: &EvidenceTracker,
    pattern: &str,
    rate: impl Fn(&str) -> Result<f64, MissingParameter>,
) -> Result<f64, MissingParameter> {
    if matches!(pattern, "q1" | "q2" | "q3" | "q4") {
        return rate(pattern);
    }
    reach.weaken_to(EvidenceLevel::Application);
    match Form::of(pattern) {
        Ok(Form::Gap) => rate("q2"),
        Ok(Form::Prefix) => rate("q4"),
        Ok(Form::Around) => {
            let share = values.get(BETWEEN)?;
            Ok(rate("q3")?.powf(1.0 - share) * rate("q1")?.powf(share))
        }
        Err(why) => Err(MissingParameter::nothing(why, "write a regular expression")),
    }
}

/// Bytes a second of a published pattern, `q1` to `q4`, by buffer with full batches.
pub(crate) fn by_buffer(
    values: &Values<'_>,
    query: &str,
    bytes: f64,
) -> Result<f64, MissingParameter> {
    // Q2 and Q3 were published together.
    let own = format!("{CARD}/buffer.{query}");
    let joint = query == "q3" && !values.has(&own);
    let name = if joint { format!("{CARD}/buffer.q2") } else { own };
    // A shorter buffer takes as long as the shortest measured.
    let shortest = values.get(&format!("{name}.shortest")).unwrap_or(0.0);
    let counted = bytes.max(shortest);
    Ok(values.at(&name, counted)? * (bytes / counted))
}

/// Bytes a second of a published pattern by batch, at 1 KiB buffers.
pub(crate) fn by_batch(
    values: &Values<'_>,
    reach: &EvidenceTracker,
    query: &str,
    batch: f64,
) -> Result<f64, MissingParameter> {
    let joint = matches!(query, "q2" | "q3");
    let own = if joint { "q23" } else { query };
    let own = format!("{CARD}/codec.regex.{own}.batch");
    if values.has(&own) {
        return values.at(&own, batch);
    }
    reach.weaken_to(EvidenceLevel::Application);
    by_buffer(values, query, BATCH_BUFFER_BYTES)
}

/// Bytes a second, mean over the four queries with full batches of 1 KiB buffers.
pub(crate) fn mean_of_queries(
    values: &Values<'_>,
    reach: &EvidenceTracker,
) -> Result<f64, MissingParameter> {
    reach.weaken_to(EvidenceLevel::Card);
    let mut sum = 0.0;
    for query in ["q1", "q2", "q3", "q4"] {
        sum += by_batch(values, reach, query, FULL_BATCH)?;
    }
    Ok(sum / 4.0)
}

/// Returns `true` if a table has a point at `x`, or if the parameter is a number, which is the same
/// everywhere.
pub(crate) fn has_point(evidence: &Evidence, name: &str, x: f64) -> bool {
    match evidence.get(name) {
        Some(ParameterValue::Table(table)) => table.at.contains(&x),
        Some(ParameterValue::Quantity(_)) => true,
        None => false,
    }
}
