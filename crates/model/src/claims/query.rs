//! Queries of a database, predicate pushdown and index offload.

use crate::facts::{Figure, Ordering};
use crate::lookup::mean;
use crate::query::{
    Pushdown, QUERIES, TpchQuery, all_cores, evidence, index_gain, pushdown_speedup,
};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Values};

use super::subject::{
    cores, cores_in_keys, descending, given, itself, machine, machines, named, pair, together, unit,
};
use super::{Claim, OrderingClaim};

const HOST: &str = "host-dpbento";

fn claimed(
    scenario: &'static str,
    unit_in_base: f64,
    predict: impl Fn(&Library) -> Answer + 'static,
) -> Option<Claim> {
    Some(Claim {
        scenario,
        unit_in_base,
        predict: Box::new(predict),
    })
}

/// Figures about a database's queries, scans and indexes.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    database(figure)
        .or_else(|| pushdown(figure))
        .or_else(|| index(figure))
}

/// The number that follows a word's beginning, as in `SF10` and `Q6`.
fn numbered(text: &str, prefix: &str) -> Option<f64> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix(prefix)?.parse().ok())
}

/// All machines of the study, with what queries need.
fn study(library: &Library, paper: &str) -> Evidence {
    let names: Vec<&str> = machines(paper).iter().map(|(name, _)| *name).collect();
    evidence(library, &names)
}

fn database(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let workload = &fact.workload;
    workload.contains("DuckDB").then_some(())?;
    let cold = match (workload.contains("cold"), workload.contains("hot")) {
        (true, false) => true,
        (false, true) => false,
        _ => return None,
    };
    let query = match numbered(workload, "Q") {
        Some(number) => Some(QUERIES.into_iter().find(|one| f64::from(*one) == number)?),
        None => None,
    };
    let asked = TpchQuery {
        query,
        scale: numbered(workload, "SF").unwrap_or(10.0),
        cold,
        cores: cores_in_keys(figure).or_else(|| cores(&fact.conditions)),
    };
    let (unit, paper) = (unit(figure)?, fact.paper.clone());
    if fact.metric.contains("ratio") {
        let (dividends, divisors) = pair(figure)?;
        let ([a], [b]) = (&dividends[..], &divisors[..]) else {
            return None;
        };
        let (a, b) = (*a, *b);
        return claimed("query", unit, move |library| {
            study(library, &paper).predict(EvidenceLevel::Application, |v| {
                Ok(asked.time_ns(v, a)?.value / asked.time_ns(v, b)?.value)
            })
        });
    }
    fact.metric.contains("time").then_some(())?;
    let machine = machine(figure)?;
    claimed("query", unit, move |library| {
        study(library, &paper).predict(EvidenceLevel::Application, |v| asked.time_ns(v, machine))
    })
}

/// The fewest cores with which scanning in place beats pulling the table.
fn fewest(values: &Values<'_>, machine: &str) -> Result<f64, MissingParameter> {
    let all = all_cores(values, machine)?;
    let mut cores = 1.0;
    while cores < all && pushdown_speedup(values, machine, Some(cores))? <= 1.0 {
        cores += 1.0;
    }
    Ok(cores)
}

fn pushdown(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let (metric, paper) = (fact.metric.as_str(), fact.paper.clone());
    fact.workload.contains("pushdown").then_some(())?;
    let unit = unit(figure)?;
    if metric.contains("baseline scan") {
        return claimed("pushdown", unit, |library| {
            given(library, HOST, "scan.pull", 1.0)
        });
    }
    let cards = match machine(figure) {
        Some(one) => vec![one],
        None => named(&paper, figure.device()),
    };
    if cards.is_empty() || cards.contains(&HOST) {
        return None;
    }
    if metric.contains("cores to beat") {
        return claimed("pushdown", unit, move |library| {
            study(library, &paper).predict(EvidenceLevel::Application, |v| {
                let each: Result<Vec<f64>, _> = cards.iter().map(|card| fewest(v, card)).collect();
                Ok(each?.into_iter().fold(1.0, f64::max))
            })
        });
    }
    let absolute = metric.contains("throughput");
    if !absolute && !metric.contains("speedup") {
        return None;
    }
    let cores = if metric.contains("all cores") {
        None
    } else {
        cores_in_keys(figure).or_else(|| cores(&fact.conditions))
    };
    claimed("pushdown", unit, move |library| {
        let evidence = study(library, &paper);
        let each: Vec<_> = (cards.iter())
            .map(|card| Pushdown::of(&evidence, card, cores))
            .collect();
        let closeness = each.iter().map(|one| one.closeness).max();
        evidence.predict(closeness.unwrap_or(EvidenceLevel::Application), |v| {
            let speedups: Result<Vec<_>, _> = each.iter().map(|one| one.speedup(v)).collect();
            let speedup = mean(&speedups?);
            let pull = format!("{HOST}/scan.pull");
            Ok(if absolute {
                speedup * v.get(&pull)?
            } else {
                speedup
            })
        })
    })
}

fn index(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let (metric, paper) = (fact.metric.as_str(), fact.paper.clone());
    fact.workload.contains("B+tree").then_some(())?;
    metric.contains("throughput").then_some(())?;
    let unit = unit(figure)?;
    if fact.device == "host" {
        return claimed("index", unit, |library| {
            given(library, HOST, "index.lookup", 1.0)
        });
    }
    let card = *(named(&paper, &figure.path.join(" ")).iter())
        .chain(&named(&paper, &fact.device))
        .find(|one| **one != HOST)?;
    let relative = metric.contains("gain");
    let cores = figure.path.iter().find_map(|key| cores(key));
    claimed("index", unit, move |library| {
        study(library, &paper).predict(EvidenceLevel::Application, |v| {
            let gain = index_gain(v, card, cores, HOST)?;
            if relative {
                return Ok(gain);
            }
            Ok((1.0 + gain) * v.get(&format!("{HOST}/index.lookup"))?)
        })
    })
}

/// Orderings of queries, scans and indexes.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    let evidence = study(library, &ordering.paper);
    let near = EvidenceLevel::Application;
    match ordering.id.as_str() {
        "ord.B6" => {
            let beats = |card: &str, cores: f64| {
                let one = Pushdown::of(&evidence, card, Some(cores));
                let answer = evidence.predict(one.closeness, |v| one.speedup(v));
                let name = format!("{card} with {cores} cores over pulling the table");
                let same = itself("pulling the table over itself");
                descending("pushdown", vec![(name, answer), same])
            };
            together(vec![
                beats("bf2", 2.0),
                beats("octeon-tx2", 2.0),
                beats("bf3", 1.0),
            ])
        }
        "ord.B7" => {
            let side = |card: &str| {
                let gain = evidence.predict(near, |v| index_gain(v, card, None, HOST));
                (format!("gain of {card}"), gain)
            };
            // A share of something positive is above zero.
            let sides = ["bf3", "octeon-tx2", "bf2"].map(side);
            descending("index", sides.into())
        }
        "ord.B8" => {
            let all = |cold: bool, machines: [&str; 4]| {
                let asked = TpchQuery {
                    query: None,
                    scale: 10.0,
                    cold,
                    cores: None,
                };
                let side = |machine: &str| {
                    let state = if cold { "cold" } else { "hot" };
                    let time = evidence.predict(near, |v| asked.time_ns(v, machine));
                    (format!("all queries {state} on {machine}"), time)
                };
                descending("query", machines.map(side).into())
            };
            together(vec![
                all(true, ["octeon-tx2", "bf2", "bf3", HOST]),
                all(false, ["bf2", "octeon-tx2", "bf3", HOST]),
            ])
        }
        _ => None,
    }
}
