//! Predicate pushdown: a card scans the table where it lies, instead of a host that pulls it.

use overside_config::Error;

use super::{Point, Row};
use crate::query::{Pushdown, all_cores, evidence, pushdown_speedup};
use crate::{Evaluation, EvidenceLevel, Library, Profile, Values};

/// 1, 2, 4 and so on, and all.
fn doubling(all: f64) -> Vec<f64> {
    let mut cores = vec![1.0];
    while let Some(last) = cores.last()
        && last * 2.0 < all
    {
        cores.push(last * 2.0);
    }
    if all > 1.0 {
        cores.push(all);
    }
    cores
}

/// The fewest cores with which scanning in place beats pulling the table.
fn fewest(values: &Values<'_>, machine: &str) -> Evaluation {
    let all = all_cores(values, machine)?;
    let mut cores = 1.0;
    while cores < all && pushdown_speedup(values, machine, Some(cores))? <= 1.0 {
        cores += 1.0;
    }
    Ok(cores)
}

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let (card, host) = (point.word("profile"), point.word("host"));
    let all = library.profile(card).and_then(Profile::cores);
    let cores = match (point.number_if_set("cores"), all) {
        (Some(cores), Some(all)) if cores > all => {
            let problem = format!("{card} has {all} cores");
            return Err(Error::of_key("cores", problem, format!("1 to {all}")));
        }
        (Some(cores), _) => vec![cores],
        (None, Some(all)) => doubling(all),
        (None, None) => vec![1.0],
    };
    let evidence = evidence(library, &[card, host]);
    let pull = format!("{host}/scan.pull");
    let rows = point.number("rows");
    let fewest = evidence.predict(EvidenceLevel::Application, |v| fewest(v, card));
    let pulled = evidence.predict(EvidenceLevel::Same, |v| v.get(&pull));
    let row = |cores: f64| {
        let scan = Pushdown::of(&evidence, card, Some(cores));
        let near = scan.closeness;
        let rate = |v: &Values<'_>| Ok(scan.speedup(v)? * v.get(&pull)?);
        let throughput = evidence.predict(near, rate);
        let time = evidence.predict(near, |v| Ok(rows / rate(v)? * 1e9));
        let speedup = evidence.predict(near, |v| scan.speedup(v));
        Row {
            labels: vec![("scanning cores".into(), cores.to_string())],
            throughput: Some(point.metric("rows", throughput)),
            latency: Some(point.metric("scan", time)),
            host_cores: Some(point.given("host cores that scan", 0.0)),
            more: vec![
                point.metric("over pulling", speedup),
                point.metric("pulled", pulled.clone()),
                point.metric("cores to beat pulling", fewest.clone()),
            ],
            bottleneck: Some(format!("{card}: cores")),
            notes: vec![
                "Selectivity 1 %, the table in the card's reach. Cards without a published scan are scaled by how their cores reach memory, and by how a BF-3's scale.".into(),
            ],
            ..Row::default()
        }
    };
    Ok(cores.into_iter().map(row).collect())
}
