//! Matching regular expressions: on a card's engine, or by a library on a core.

use overside_config::Error;

use super::codec::by_size;
use super::{Point, Row};
use crate::codec::rates::predict;
use crate::matching::{self, CARD, by_form, has_point};
use crate::{EvidenceLevel, Library};

/// Patterns of the study, and the mean over them.
const PUBLISHED: [&str; 5] = ["q1", "q2", "q3", "q4", "mean"];

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let host = point.word("host");
    let mut evidence = matching::evidence(library);
    if let Some(profile) = library.profile(host) {
        evidence.insert_all(host, &profile.evidence());
    }
    let (on, pattern) = (point.word("on"), point.word("pattern"));
    let is_own = !PUBLISHED.contains(&pattern);
    if on != "engine" {
        let name = format!("{host}/codec.regex.{on}.rate");
        // The mean over the study's patterns is no figure of another one.
        let near = if is_own { EvidenceLevel::Application } else { EvidenceLevel::Same };
        let rate = evidence.predict(near, |values| values.get(&name));
        return Ok(vec![Row {
            throughput: Some(point.metric("throughput", rate)),
            notes: vec!["a library's rate is the mean over the patterns, on one core".into()],
            ..Row::default()
        }]);
    }
    let bytes = point.number("buffer");
    let library_rate = format!("{host}/codec.regex.hyperscan.rate");
    let over = predict(&evidence, |values, reach| {
        reach.weaken_to(EvidenceLevel::Application);
        let rate = match pattern {
            "mean" => matching::mean_of_queries(values, reach)?,
            pattern => {
                by_form(values, reach, pattern, |one| matching::by_buffer(values, one, bytes))?
            }
        };
        Ok(rate / values.get(&library_rate)?)
    });
    let rate = match (pattern, point.number_if_set("batch")) {
        ("mean", _) => predict(&evidence, matching::mean_of_queries),
        (pattern, Some(batch)) => predict(&evidence, |values, reach| {
            let name = format!("{CARD}/codec.regex.{pattern}.batch");
            if values.has(&name) && !has_point(&evidence, &name, batch) {
                reach.weaken_to(EvidenceLevel::Card);
            }
            by_form(values, reach, pattern, |one| matching::by_batch(values, reach, one, batch))
        }),
        (pattern, None) => predict(&evidence, |values, reach| {
            if !has_point(&evidence, &format!("{CARD}/buffer.{pattern}"), bytes) {
                reach.weaken_to(EvidenceLevel::Card);
            }
            by_form(values, reach, pattern, |one| matching::by_buffer(values, one, bytes))
        }),
    };
    let card = point.word("profile");
    let of_card = library.evidence(&[card]);
    let slower = |own: &str| {
        let data = point.number_if_set("size").unwrap_or(bytes);
        by_size(&of_card, &format!("{card}/codec.regex.slowdown{own}"), data)
    };
    let mut row = Row {
        throughput: Some(point.metric("throughput", rate)),
        more: vec![point.metric("over a core with Hyperscan", over)],
        notes: vec!["published for BlueField-2 and BlueField-3 together, with full batches unless one is set".into()],
        ..Row::default()
    };
    if is_own {
        let note = "a pattern of one's own is taken to be as fast as published ones of its form: that begin with a gap (.+), \
                    have literals on both sides of one, or neither";
        row.notes.push(note.into());
    }
    if point.number_if_set("size").is_some() {
        row.more.extend([
            point.metric("all threads of the host over it", slower("")),
            point.metric("all threads of the card over it", slower(".own")),
        ]);
    }
    Ok(vec![row])
}
