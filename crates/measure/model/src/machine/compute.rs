//! Arithmetic, strings and hash functions on one core.

use super::RATIOS;
use crate::lookup::{Coverage, Ratio, coverage, points};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Values};

/// The parameter with the rate of one core at an operation, or a similar one.
#[derive(Clone, Debug)]
struct Rate {
    parameter: String,
    closeness: EvidenceLevel,
}

impl Rate {
    /// Selects the published figure. Additions and subtractions are interchangeable. So are, with weaker
    /// evidence, the widths up to 64 bits of one kind of number, except for divisions of floating-point
    /// numbers.
    fn of(evidence: &Evidence, machine: &str, kind: &str, operation: &str) -> Option<Self> {
        let twin = match operation {
            "add" => "sub",
            "sub" => "add",
            same => same,
        };
        let is_float = kind.starts_with("fp");
        let widths: &[&str] = match (kind, operation) {
            ("int128" | "uint128", _) | ("fp16" | "fp32" | "fp64", "div") => &[],
            _ if is_float => &["fp64", "fp32"],
            _ => &["int32", "int8", "int64", "int16"],
        };
        let near = match operation {
            "mul" if !is_float => EvidenceLevel::Application,
            _ => EvidenceLevel::Card,
        };
        let own = [(kind, operation, EvidenceLevel::Same), (kind, twin, EvidenceLevel::Card)];
        let others =
            (widths.iter()).flat_map(|width| [(*width, operation, near), (*width, twin, near)]);
        (own.into_iter().chain(others)).find_map(|(kind, operation, closeness)| {
            let parameter = format!("{machine}/compute.{kind}.{operation}");
            evidence.get(&parameter)?;
            Some(Self { parameter, closeness })
        })
    }

    fn value(&self, values: &Values<'_>) -> Result<f64, MissingParameter> {
        values.get(&self.parameter)
    }
}

fn unknown(what: &str) -> Answer {
    super::unknown(what, "it on one core")
}

/// Operations a second of one core, on numbers of a type.
pub(crate) fn rate(library: &Library, machine: &str, kind: &str, operation: &str) -> Answer {
    let evidence = library.evidence(&[machine]);
    match Rate::of(&evidence, machine, kind, operation) {
        Some(rate) => evidence.predict(rate.closeness, |v| rate.value(v)),
        None => unknown(&format!("{kind} {operation} of {machine}")),
    }
}

/// Calls a second of a string function: the time grows with the length in a straight line through
/// the two published lengths that are nearest.
pub(crate) fn string_rate(library: &Library, machine: &str, function: &str, bytes: f64) -> Answer {
    let evidence = library.evidence(&[machine]);
    let name = format!("{machine}/string.{function}");
    if coverage(&evidence, &name, bytes) == Some(Coverage::Given) {
        return evidence.predict(EvidenceLevel::Same, |v| v.at(&name, bytes));
    }
    let mut ends: Vec<f64> = (points(&evidence, &name).iter()).map(|(at, _)| *at).collect();
    ends.sort_by(|a, b| (a / bytes).ln().abs().total_cmp(&(b / bytes).ln().abs()));
    let [near, far, ..] = ends[..] else {
        return unknown(&format!("{function} of {machine} at two lengths"));
    };
    evidence.predict(EvidenceLevel::Card, |v| {
        let (near_s, far_s) = (1.0 / v.at(&name, near)?, 1.0 / v.at(&name, far)?);
        let slope = (far_s - near_s) / (far - near);
        Ok(1.0 / (near_s + slope * (bytes - near)))
    })
}

/// The bandwidth of one hash function on two machines, or that of any.
pub(crate) fn hash_ratio(library: &Library, function: &str, (a, b): (&str, &str)) -> Answer {
    let names: Vec<&str> = RATIOS.iter().map(|(name, _)| *name).collect();
    let evidence = library.evidence(&names);
    let own = format!("hash.{function}");
    let found = Ratio::find(&evidence, &[&own, "hash.any"], &RATIOS, (a, b), 1.0);
    let Some(ratio) = found else {
        return unknown(&format!("{function} of {a} over {b}"));
    };
    let closeness = match () {
        () if ratio.passes("hash.any") && function != "any" => EvidenceLevel::Application,
        () if ratio.is_direct() => EvidenceLevel::Same,
        () => EvidenceLevel::Card,
    };
    evidence.predict(closeness, |v| ratio.value(v, 1.0))
}
