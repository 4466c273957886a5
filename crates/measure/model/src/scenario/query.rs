//! TPC-H queries of a database on a host, or on a card's cores and storage.

use overside_config::Error;

use super::{Point, Row};
use crate::query::{QUERIES, TpchQuery, evidence, provenance};
use crate::{EvidenceLevel, Library};

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let machine = point.word("profile");
    let evidence = evidence(library, &[machine]);
    let one = |query: Option<u32>| {
        let asked = TpchQuery {
            query,
            scale: point.number("scale"),
            cold: point.word("data") == "cold",
            cores: point.number_if_set("cores"),
        };
        let time = evidence.predict(EvidenceLevel::Application, |v| asked.time_ns(v, machine));
        let name = query.map_or("all".into(), |query| format!("Q{query}"));
        let memory = (!asked.cold).then(|| point.given("memory", asked.memory_bytes()));
        Row {
            labels: vec![("work".into(), name)],
            latency: Some(point.metric("run time", time)),
            more: memory.into_iter().collect(),
            notes: vec![provenance()],
            ..Row::default()
        }
    };
    if let Some(query) = point.word_if_set("query") {
        // What is no number stands for all.
        return Ok(vec![one(query.parse().ok())]);
    }
    Ok(QUERIES.map(Some).chain([None]).map(one).collect())
}
