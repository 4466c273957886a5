//! Matching: rates by pattern, buffer and batch.

use crate::codec::rates::EvidenceTracker;
use crate::{
    Axis, Evidence, EvidenceLevel, Library, MissingParameter, ParameterValue, Quantity, Table,
    Unit, Values,
};

/// Buffers of the sweep over batches: at this size the sweep over buffers gives the same rates.
const BATCH_BUFFER_BYTES: f64 = 1024.0;
/// A batch at which the rate no longer grows.
const FULL_BATCH: f64 = 32.0;
/// Matching was published for both cards together; its figures stand with this one.
pub(crate) const CARD: &str = "bf2";

/// Collects the parameters for matching: the card's values, and its patterns' rates by buffer as
/// `buffer.q1`. A rate of 0 is only a label and is left out.
pub(crate) fn evidence(library: &Library) -> Evidence {
    let mut evidence = library.evidence(&["host-coproc-bf2"]);
    let Some(card) = library.profile(CARD) else {
        return evidence;
    };
    evidence.insert_all(CARD, &card.evidence());
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

/// Bytes a second of a pattern, `q1` to `q4`, by buffer with full batches.
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

/// Bytes a second of a pattern by batch, at 1 KiB buffers.
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
