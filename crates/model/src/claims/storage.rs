//! Storage: rates and latencies by access size.

use crate::facts::Figure;
use crate::lookup::{Coverage, coverage, points};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Values};

use super::Claim;
use super::memory::access;
use super::subject::{between, machine, nothing, pair, sizes, unit};

const SCENARIO: &str = "storage";
const ACCESSES: [&str; 4] = [
    "random-read",
    "random-write",
    "sequential-read",
    "sequential-write",
];

/// From here on a device is as fast at random as in order, and one access at a time keeps it busy.
const LARGE_BYTES: f64 = 262_144.0;

fn claimed(unit_in_base: f64, predict: impl Fn(&Library) -> Answer + 'static) -> Option<Claim> {
    Some(Claim {
        scenario: SCENARIO,
        unit_in_base,
        predict: Box::new(predict),
    })
}

/// What says how fast a device is at accesses of one size.
#[derive(Clone, Debug)]
struct Rate {
    parameter: String,
    bytes: f64,
    closeness: EvidenceLevel,
}

impl Rate {
    /// Large accesses are as fast at random as in order (nearly, where they write), and as fast as
    /// larger ones.
    fn of(evidence: &Evidence, machine: &str, access: &str, bytes: f64) -> Option<Self> {
        let found = |access: &str, closeness| {
            let parameter = format!("{machine}/storage.{access}");
            (coverage(evidence, &parameter, bytes) == Some(Coverage::Given)).then_some(Self {
                parameter,
                bytes,
                closeness,
            })
        };
        if let Some(rate) = found(access, EvidenceLevel::Same) {
            return Some(rate);
        }
        let (order, direction) = access.split_once('-')?;
        let other = if order == "random" {
            "sequential"
        } else {
            "random"
        };
        let near = if direction == "read" {
            EvidenceLevel::Card
        } else {
            EvidenceLevel::Application
        };
        if bytes < LARGE_BYTES {
            return None;
        }
        if let Some(rate) = found(&format!("{other}-{direction}"), near) {
            return Some(rate);
        }
        let parameter = format!("{machine}/storage.{access}");
        let large = points(evidence, &parameter).into_iter().map(|(at, _)| at);
        let nearest = (large.filter(|at| *at >= LARGE_BYTES))
            .min_by(|a, b| (a / bytes).ln().abs().total_cmp(&(b / bytes).ln().abs()))?;
        Some(Self {
            parameter,
            bytes: nearest,
            closeness: near,
        })
    }

    fn value(&self, values: &Values<'_>) -> Result<f64, MissingParameter> {
        values.at(&self.parameter, self.bytes)
    }
}

fn unknown(what: &str) -> Answer {
    nothing(
        &format!("no published fact gives {what}, or comes near"),
        "measure it with fio on such a machine",
    )
}

/// Figures about storage.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let rest = fact.workload.strip_prefix("storage")?.trim();
    let (unit, metric) = (unit(figure)?, fact.metric.as_str());
    if metric.contains("ratio") {
        let (dividends, divisors) = pair(figure)?;
        let ([a], [b]) = (&dividends[..], &divisors[..]) else {
            return None;
        };
        let (a, b) = (*a, *b);
        (rest.is_empty() && metric.contains("throughput")).then_some(())?;
        return claimed(unit, move |library| ratios(library, a, b));
    }
    let (access, bytes, machine) = (access(rest)?, *sizes(rest).first()?, machine(figure)?);
    let latency = metric.contains("latency");
    if !latency && !metric.contains("throughput") {
        return None;
    }
    claimed(unit, move |library| {
        let evidence = library.evidence(&[machine]);
        let what = format!("{access} of {bytes} bytes on {machine}");
        let Some(rate) = Rate::of(&evidence, machine, access, bytes) else {
            return unknown(&what);
        };
        if !latency {
            return evidence.predict(rate.closeness, |v| rate.value(v));
        }
        if bytes < LARGE_BYTES {
            return unknown(&format!("the latency of one {what}"));
        }
        evidence.predict(EvidenceLevel::Application, |v| {
            Ok(bytes / rate.value(v)? * 1e9)
        })
    })
}

/// From the smallest to the largest ratio over all accesses that both were measured with.
fn ratios(library: &Library, a: &str, b: &str) -> Answer {
    let evidence = library.evidence(&[a, b]);
    let mut known = Vec::new();
    for access in ACCESSES {
        let (own, other) = (
            format!("{a}/storage.{access}"),
            format!("{b}/storage.{access}"),
        );
        for (bytes, _) in points(&evidence, &own) {
            if coverage(&evidence, &other, bytes) == Some(Coverage::Given) {
                known.push((own.clone(), other.clone(), bytes));
            }
        }
    }
    if known.is_empty() {
        return unknown(&format!("storage of {a} and {b}"));
    }
    let extreme = |pick: fn(f64, f64) -> f64| {
        evidence.predict(EvidenceLevel::Same, |v| {
            let ratio = |(own, other, bytes): &(String, String, f64)| {
                Ok(v.at(own, *bytes)? / v.at(other, *bytes)?)
            };
            let ratios: Vec<f64> = known.iter().map(ratio).collect::<Result<_, _>>()?;
            Ok(ratios.into_iter().reduce(pick).unwrap_or_default())
        })
    };
    between(extreme(f64::min), extreme(f64::max))
}
