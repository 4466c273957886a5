//! TPC-H queries of a database on a host, or on a card's cores and storage.

use overside_config::Error;

use super::{Better, Key, Metric, Point, Row, Scenario};
use crate::query::{Asked, QUERIES, evidence, provenance};
use crate::{EvidenceLevel, Library, Unit};

/// TPC-H on one machine in closed form: docs/model-machine.md.
pub struct QueryScenario;

const KEYS: &[Key] = &[
    Key::profile(
        "profile",
        "host-dpbento, bf3",
        "the machine that runs the database",
    ),
    Key::choice(
        "data",
        &["cold", "hot"],
        "cold, hot",
        "whether the data is on storage or in memory",
    ),
    Key::count(
        "query",
        1,
        22,
        "",
        "the number of a TPC-H query; all and their sum where it is not set",
    ),
    Key::amount(
        "scale",
        Unit::Count,
        (0.01, 3000.0),
        "10",
        "scale factor of TPC-H; the run times of others than 10 are scaled from it",
    ),
    Key::count(
        "cores",
        1,
        1024,
        "",
        "cores that work; all where it is not set",
    ),
];

impl Scenario for QueryScenario {
    fn name(&self) -> &'static str {
        "query"
    }

    fn about(&self) -> &'static str {
        "run times of the TPC-H queries in DuckDB, from storage or from memory"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let machine = point.word("profile");
        let evidence = evidence(library, &[machine]);
        let one = |query: Option<u32>| {
            let asked = Asked {
                query,
                scale: point.number("scale"),
                cold: point.word("data") == "cold",
                cores: point.number_if_set("cores"),
            };
            let time = evidence.predict(EvidenceLevel::Application, |v| asked.time_ns(v, machine));
            let name = query.map_or("all".into(), |query| format!("Q{query}"));
            Row {
                labels: vec![("work".into(), name)],
                latency: Some(Metric::new("run time", Unit::S, Better::Lower, time)),
                notes: vec![provenance()],
                ..Row::default()
            }
        };
        if let Some(query) = point.number_if_set("query") {
            return Ok(vec![one(Some(query as u32))]);
        }
        Ok(QUERIES.map(Some).chain([None]).map(one).collect())
    }
}
