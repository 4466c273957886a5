//! Arithmetic, strings, ciphers and hash functions on one core.

use crate::facts::{Figure, Ordering};
use crate::lookup::{Coverage, Ratio, coverage, mean, points};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Values};

use super::subject::{
    descending, given, itself, lead, loss, machine, machines, named, nothing, pair, sizes,
    together, unit,
};
use super::{Claim, OrderingClaim};

const SCENARIO: &str = "compute";
const OPERATIONS: [&str; 4] = ["add", "sub", "mul", "div"];
const STRINGS: [&str; 3] = ["strcmp", "strcat", "strxfrm"];
const HASHES: [&str; 4] = ["city64", "murmur2", "xxhash", "fnv"];

fn claimed(unit_in_base: f64, predict: impl Fn(&Library) -> Answer + 'static) -> Option<Claim> {
    Some(Claim {
        scenario: SCENARIO,
        unit_in_base,
        predict: Box::new(predict),
    })
}

/// Figures about one core at work on registers and small buffers.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    arithmetic(figure)
        .or_else(|| strings(figure))
        .or_else(|| hashes(figure))
        .or_else(|| programs(figure))
}

/// A data type, and one or two groups of operations: `int8 div vs mul`, `fp64 add,sub,mul`.
fn parse(workload: &str) -> Option<(String, Vec<&'static str>, Vec<&'static str>)> {
    let (kind, rest) = workload.split_once(' ')?;
    let typed = ["int", "uint", "fp"]
        .iter()
        .any(|name| (kind.strip_prefix(name)).is_some_and(|bits| bits.parse::<u16>().is_ok()));
    let listed = |text: &str| -> Option<Vec<&'static str>> {
        text.split([',', '/', ' '])
            .filter(|word| !word.is_empty())
            .map(|word| OPERATIONS.into_iter().find(|known| *known == word))
            .collect()
    };
    let (first, second) = rest.split_once(" vs ").unwrap_or((rest, ""));
    let (first, second) = (listed(first)?, listed(second)?);
    (typed && !first.is_empty()).then(|| (kind.into(), first, second))
}

/// The parameter that says, or nearly says, how fast one core does an operation.
#[derive(Clone, Debug)]
struct Rate {
    parameter: String,
    closeness: EvidenceLevel,
}

impl Rate {
    /// Additions and subtractions stand for each other. So do the widths up to 64 bits of one
    /// kind of number, but less well, and not at all where floating-point numbers are divided.
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
        let own = [
            (kind, operation, EvidenceLevel::Same),
            (kind, twin, EvidenceLevel::Card),
        ];
        let others =
            (widths.iter()).flat_map(|width| [(*width, operation, near), (*width, twin, near)]);
        (own.into_iter().chain(others)).find_map(|(kind, operation, closeness)| {
            let parameter = format!("{machine}/compute.{kind}.{operation}");
            evidence.get(&parameter)?;
            Some(Self {
                parameter,
                closeness,
            })
        })
    }

    fn value(&self, values: &Values<'_>) -> Result<f64, MissingParameter> {
        values.get(&self.parameter)
    }
}

fn unknown(what: &str) -> Answer {
    nothing(
        &format!("no published fact gives {what}, or comes near"),
        "measure it on one core of such a machine",
    )
}

fn rate(library: &Library, machine: &str, kind: &str, operation: &str) -> Answer {
    let evidence = library.evidence(&[machine]);
    match Rate::of(&evidence, machine, kind, operation) {
        Some(rate) => evidence.predict(rate.closeness, |v| rate.value(v)),
        None => unknown(&format!("{kind} {operation} of {machine}")),
    }
}

fn arithmetic(figure: &Figure<'_>) -> Option<Claim> {
    let (kind, first, second) = parse(&figure.fact.workload)?;
    let (metric, unit) = (figure.fact.metric.as_str(), unit(figure)?);
    if metric.contains("drop") {
        let ([to], [from], machine) = (&first[..], &second[..], machine(figure)?) else {
            return None;
        };
        let (to, from) = (*to, *from);
        return claimed(unit, move |library| {
            let evidence = library.evidence(&[machine]);
            let rate = |operation| Rate::of(&evidence, machine, &kind, operation);
            let (Some(to), Some(from)) = (rate(to), rate(from)) else {
                return unknown(&format!("{kind} operations of {machine}"));
            };
            let closeness = to.closeness.max(from.closeness);
            loss(evidence.predict(closeness, |v| Ok(to.value(v)? / from.value(v)?)))
        });
    }
    if !second.is_empty() || figure.fact.device.contains("best") {
        return None;
    }
    if metric.contains("ratio") || metric.contains("lead") {
        let (dividends, divisors) = pair(figure)?;
        let summary = match metric {
            _ if metric.contains("lead") => Summary::MeanLead,
            _ if metric.contains("max") || metric.contains("up to") => Summary::Largest,
            _ => Summary::Mean,
        };
        return claimed(unit, move |library| {
            compared(library, (&dividends, &divisors), &kind, &first, summary)
        });
    }
    let ([operation], true) = (&first[..], metric.contains("throughput")) else {
        return None;
    };
    let (operation, machine) = (*operation, machine(figure)?);
    claimed(unit, move |library| {
        rate(library, machine, &kind, operation)
    })
}

/// What one number says of several ratios.
#[derive(Clone, Copy)]
enum Summary {
    Mean,
    Largest,
    /// How much the arithmetic mean is above one.
    MeanLead,
}

fn compared(
    library: &Library,
    (dividends, divisors): (&[&str], &[&str]),
    kind: &str,
    operations: &[&str],
    summary: Summary,
) -> Answer {
    let evidence = library.evidence(&[dividends, divisors].concat());
    let mut ratios = Vec::new();
    for (a, b) in dividends
        .iter()
        .flat_map(|a| divisors.iter().map(move |b| (a, b)))
    {
        for operation in operations {
            let rate = |machine| Rate::of(&evidence, machine, kind, operation);
            ratios.extend(rate(a).zip(rate(b)));
        }
    }
    let closeness = ratios.iter().map(|(a, b)| a.closeness.max(b.closeness));
    let Some(closeness) = closeness.max() else {
        return unknown(&format!("{kind} operations of both"));
    };
    let ratio = evidence.predict(closeness, |v| {
        let ratio = |(a, b): &(Rate, Rate)| Ok(a.value(v)? / b.value(v)?);
        let ratios: Vec<f64> = ratios.iter().map(ratio).collect::<Result<_, _>>()?;
        Ok(match summary {
            Summary::Mean => mean(&ratios),
            Summary::Largest => ratios.iter().copied().fold(0.0, f64::max),
            Summary::MeanLead => ratios.iter().sum::<f64>() / ratios.len() as f64,
        })
    });
    match summary {
        Summary::MeanLead => lead(ratio),
        _ => ratio,
    }
}

/// Calls a second of a string function: the time grows with the length in a straight line through
/// the two published lengths that are nearest.
fn string_rate(library: &Library, machine: &str, function: &str, bytes: f64) -> Answer {
    let evidence = library.evidence(&[machine]);
    let name = format!("{machine}/string.{function}");
    if coverage(&evidence, &name, bytes) == Some(Coverage::Given) {
        return evidence.predict(EvidenceLevel::Same, |v| v.at(&name, bytes));
    }
    let mut ends: Vec<f64> = (points(&evidence, &name).iter())
        .map(|(at, _)| *at)
        .collect();
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

fn strings(figure: &Figure<'_>) -> Option<Claim> {
    let workload = &figure.fact.workload;
    let function = *STRINGS.iter().find(|name| workload.contains(**name))?;
    let unit = unit(figure)?;
    let bytes = sizes(workload).first().copied();
    if figure.fact.metric.contains("ratio") {
        let (dividends, divisors) = pair(figure)?;
        let ([a], [b]) = (&dividends[..], &divisors[..]) else {
            return None;
        };
        let (a, b) = (*a, *b);
        return claimed(unit, move |library| {
            let evidence = library.evidence(&[a, b]);
            let name = |machine: &str| format!("{machine}/string.{function}");
            let at: Vec<f64> = match bytes {
                Some(bytes) => vec![bytes],
                None => (points(&evidence, &name(b)).iter())
                    .map(|(at, _)| *at)
                    .collect(),
            };
            if at.is_empty() {
                return unknown(&format!("{function} of {b}"));
            }
            let all = at
                .iter()
                .flat_map(|at| [a, b].map(|one| coverage(&evidence, &name(one), *at)));
            let closeness = if all.into_iter().all(|one| one == Some(Coverage::Given)) {
                EvidenceLevel::Same
            } else {
                EvidenceLevel::Card
            };
            evidence.predict(closeness, |v| {
                let ratio = |at: &f64| Ok(v.at(&name(a), *at)? / v.at(&name(b), *at)?);
                Ok(mean(&at.iter().map(ratio).collect::<Result<Vec<_>, _>>()?))
            })
        });
    }
    let (bytes, machine) = (bytes?, machine(figure)?);
    claimed(unit, move |library| {
        string_rate(library, machine, function, bytes)
    })
}

/// The bandwidth of one hash function on two machines, or that of any.
fn hash_ratio(library: &Library, paper: &str, function: &str, (a, b): (&str, &str)) -> Answer {
    let machines = machines(paper);
    let names: Vec<&str> = machines.iter().map(|(name, _)| *name).collect();
    let evidence = library.evidence(&names);
    let own = format!("hash.{function}");
    let found = Ratio::find(&evidence, &[&own, "hash.any"], machines, (a, b), 1.0);
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

fn hashes(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let text = format!("{} {}", fact.workload, figure.path.join(" ")).to_lowercase();
    let function = HASHES.into_iter().find(|name| text.contains(name));
    if !(text.contains("hash") || function.is_some()) || fact.metric.contains("CPU share") {
        return None;
    }
    let (dividends, divisors) = pair(figure)?;
    let ([a], [b]) = (&dividends[..], &divisors[..]) else {
        return None;
    };
    let (a, b, unit) = (*a, *b, unit(figure)?);
    if fact.metric.contains("reduction") && text.contains("latency") {
        return claimed(unit, move |library| {
            given(library, a, "hash.any.latency-saved", 1.0)
        });
    }
    if !fact.metric.contains("ratio") || !text.contains("bandwidth") {
        return None;
    }
    let paper = fact.paper.clone();
    claimed(unit, move |library| match function {
        Some(function) => hash_ratio(library, &paper, function, (a, b)),
        None => given(library, a, "hash.any.over-bf1", 1.0),
    })
}

/// Programs whose figure is one number.
fn programs(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let unit = unit(figure)?;
    let workload = fact.workload.to_lowercase();
    let one_thread = figure.path.is_empty() || figure.path.iter().any(|key| key.starts_with("1T"));
    let name = match () {
        () if workload.starts_with("7-zip") && one_thread => "compute.7zip",
        () if workload.contains("aes-256-cbc") => "cipher.aes-256-cbc",
        () if workload == "single-thread" && fact.metric == "improvement" => {
            let (dividends, divisors) = pair(figure)?;
            let ["bf3"] = dividends[..] else { return None };
            let ["bf2"] = divisors[..] else { return None };
            return claimed(unit, |library| {
                given(library, "bf3", "compute.single-thread.gain", 1.0)
            });
        }
        () if workload == "single-thread" && fact.metric.contains("gap to x86") => {
            "compute.single-thread.gap-to-x86"
        }
        () => return None,
    };
    let machine = match machine(figure) {
        Some(machine) => machine,
        None => (figure.path.iter()).find_map(|key| named(&fact.paper, key).first().copied())?,
    };
    claimed(unit, move |library| given(library, machine, name, 1.0))
}

/// Orderings of arithmetic and hash functions.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    let (host, cards) = ("host-dpbento", ["octeon-tx2", "bf2", "bf3"]);
    let ahead = |kind: &str, operation: &str, a: &str, b: &str| {
        let side = |machine: &str| {
            let name = format!("{machine} {kind} {operation}");
            (name, rate(library, machine, kind, operation))
        };
        descending(SCENARIO, vec![side(a), side(b)])
    };
    match ordering.id.as_str() {
        "ord.B1" => {
            let mut parts = Vec::new();
            for operation in ["add", "sub", "mul"] {
                parts.push(ahead("fp64", operation, "bf3", host));
            }
            parts.push(ahead("fp64", "add", "bf2", host));
            parts.push(ahead("fp64", "sub", "bf2", host));
            parts.push(ahead("fp64", "mul", host, "bf2"));
            for card in cards {
                parts.push(ahead("fp64", "div", host, card));
                for kind in ["int8", "int128"] {
                    parts.extend(OPERATIONS.map(|operation| ahead(kind, operation, host, card)));
                }
            }
            together(parts)
        }
        "ord.A3" => {
            let paper = &ordering.paper;
            let host = "host-idio";
            let behind = |card: &str| {
                let ratio = hash_ratio(library, paper, "city64", (host, card));
                (format!("City64, host over {card}"), ratio)
            };
            let mut sides: Vec<_> = ["bf1", "bf2-200g", "bf3-8c"].map(behind).into();
            sides.push(itself("City64, host over itself"));
            descending(SCENARIO, sides)
        }
        _ => None,
    }
}
