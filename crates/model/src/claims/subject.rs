//! What a figure is about: machines, sizes and numbers of cores, as sources write them.

use std::collections::BTreeSet;

use crate::facts::Figure;
use crate::{
    Answer, EvidenceLevel, Interval, Library, NoPrediction, ParameterValue, Prediction, Unit,
};

use super::OrderingClaim;

/// Profiles that stand for the machines of a study, by the word that names each.
pub(crate) fn machines(paper: &str) -> &'static [(&'static str, &'static str)] {
    match paper.get(..3) {
        Some("000") => &[("bf2", "bf2"), ("bf3", "bf3")],
        Some("001") => &[
            ("octeon-tx2", "octeon"),
            ("bf2", "bf2"),
            ("bf3", "bf3"),
            ("host-dpbento", "host"),
        ],
        Some("002" | "003") => &[
            ("bf1", "bf1"),
            ("bf2-200g", "bf2"),
            ("bf3-8c", "bf3"),
            ("host-idio", "host"),
        ],
        _ => &[],
    }
}

/// The profiles of the machines that a text names, in its order. `DPUs` are all cards.
pub(crate) fn named(paper: &str, text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase().replace("bf-", "bf");
    let known = machines(paper);
    let mut found: Vec<(usize, &str)> = (known.iter())
        .filter_map(|(profile, word)| Some((text.find(word)?, *profile)))
        .collect();
    found.sort_unstable();
    if found.is_empty() && text.contains("dpu") {
        return (known.iter())
            .filter_map(|(profile, word)| (*word != "host").then_some(*profile))
            .collect();
    }
    found.into_iter().map(|(_, profile)| profile).collect()
}

/// The one machine that a figure was measured on.
pub(crate) fn machine(figure: &Figure<'_>) -> Option<&'static str> {
    match named(&figure.fact.paper, figure.device())[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// The machines that a ratio compares, the dividend's first. A key narrows a side down that the
/// fact leaves open, as in `DPU/host` with the key `BF-2`.
pub(crate) fn pair(figure: &Figure<'_>) -> Option<(Vec<&'static str>, Vec<&'static str>)> {
    let paper = &figure.fact.paper;
    let split = |text: &str| {
        let (a, b) = (["/", " over ", " vs "].iter()).find_map(|sign| text.split_once(sign))?;
        let (a, b) = (named(paper, a), named(paper, b));
        (!a.is_empty() && !b.is_empty()).then_some((a, b))
    };
    if let Some(pair) = figure.path.iter().find_map(|key| split(key)) {
        return Some(pair);
    }
    let (dividends, divisors) = split(&figure.fact.device)?;
    let own = figure.path.iter().find_map(|key| one(paper, key));
    Some(match own {
        Some(own) if dividends.contains(&own) => (vec![own], divisors),
        Some(own) if divisors.contains(&own) => (dividends, vec![own]),
        _ => (dividends, divisors),
    })
}

fn one(paper: &str, key: &str) -> Option<&'static str> {
    match named(paper, key)[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// One of a figure's units in base units.
pub(crate) fn unit(figure: &Figure<'_>) -> Option<f64> {
    if let Some(unit) = figure.known_unit() {
        return Some(unit.in_base());
    }
    Some(match figure.unit {
        "MTPS" | "MIPS" => Unit::MopsPerS.in_base(),
        "cores" | "threads" => 1.0,
        _ => return None,
    })
}

/// Sizes in a text, in bytes: `16 KB`, `4MB` and `64MiB` are powers of two, as the tools of these
/// studies mean them.
pub(crate) fn sizes(text: &str) -> Vec<f64> {
    numbers(text)
        .into_iter()
        .filter_map(|(number, rest)| {
            let unit: String = rest
                .trim_start()
                .chars()
                .take_while(char::is_ascii_alphanumeric)
                .collect();
            let factor = match unit.to_lowercase().as_str() {
                "b" | "bytes" | "byte" => 1.0,
                "k" | "kb" | "kib" => Unit::KiB.in_base(),
                "m" | "mb" | "mib" => Unit::MiB.in_base(),
                "g" | "gb" | "gib" => Unit::GiB.in_base(),
                _ => return None,
            };
            Some(number * factor)
        })
        .collect()
}

/// How many cores or threads a text speaks of.
pub(crate) fn cores(text: &str) -> Option<f64> {
    numbers(text).into_iter().find_map(|(number, rest)| {
        let rest = rest.trim_start().to_lowercase();
        ["core", "thread"]
            .iter()
            .any(|word| rest.starts_with(word))
            .then_some(number)
    })
}

/// The number of cores in a figure's keys, be it a key by itself or `host(32 cores)`.
pub(crate) fn cores_in_keys(figure: &Figure<'_>) -> Option<f64> {
    (figure.path.iter()).find_map(|key| key.parse().ok().or_else(|| cores(key)))
}

/// Numbers, each with the text after it; those inside a word, as in `BF-2`, are none.
fn numbers(text: &str) -> Vec<(f64, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let digits = rest
            .find(|at: char| !at.is_ascii_digit() && at != '.')
            .unwrap_or(rest.len());
        if first.is_ascii_digit() && digits > 0 {
            if !before.is_alphanumeric()
                && before != '-'
                && let Ok(number) = rest[..digits].parse()
            {
                found.push((number, &rest[digits..]));
            }
            before = '0';
            rest = &rest[digits..];
        } else {
            before = first;
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// A figure that nothing known supports.
pub(crate) fn nothing(why: &str, remedy: &str) -> Answer {
    Err(NoPrediction {
        why: why.into(),
        remedy: remedy.into(),
    })
}

/// One prediction for figures between two others, as for a range over several cases.
pub(crate) fn between(low: Answer, high: Answer) -> Answer {
    let (low, high) = (low?, high?);
    let facts: BTreeSet<String> = low.facts.into_iter().chain(high.facts).collect();
    let mut influences = low.influences;
    influences.extend(high.influences);
    influences.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    influences.dedup_by(|a, b| a.parameter == b.parameter);
    Ok(Prediction {
        interval: Interval {
            low: low.interval.typ.min(high.interval.typ),
            typ: (low.interval.typ * high.interval.typ).sqrt(),
            high: low.interval.typ.max(high.interval.typ),
        },
        closeness: low.closeness.max(high.closeness),
        bottleneck: None,
        influences,
        facts: facts.into_iter().collect(),
    })
}

/// A ratio that a profile gives as it is: between its ends if it is a range.
pub(crate) fn given(library: &Library, profile: &str, name: &str, x: f64) -> Answer {
    let evidence = library.evidence(&[profile]);
    let name = format!("{profile}/{name}");
    let known = evidence.get(&name).cloned();
    let answer = evidence.predict(EvidenceLevel::Same, |values| values.at(&name, x));
    match known {
        Some(ParameterValue::Quantity(range)) if range.low.is_some() && range.value.is_none() => {
            answer.map(|prediction| Prediction {
                interval: range.interval(),
                ..prediction
            })
        }
        _ => answer,
    }
}

/// How much a ratio is above one: its doubt is that of the ratio.
pub(crate) fn lead(ratio: Answer) -> Answer {
    shifted(ratio, |ratio| ratio - 1.0)
}

/// How much a ratio is below one: its doubt is that of the ratio.
pub(crate) fn loss(ratio: Answer) -> Answer {
    shifted(ratio, |ratio| 1.0 - ratio)
}

fn shifted(ratio: Answer, shift: fn(f64) -> f64) -> Answer {
    let prediction = ratio?;
    let ends = [prediction.interval.low, prediction.interval.high].map(shift);
    let typ = shift(prediction.interval.typ);
    if typ <= 0.0 {
        return nothing(
            "the two are about equal, or the other way round",
            "compare them by their ratio",
        );
    }
    Ok(Prediction {
        interval: Interval {
            // A figure of no more than nothing is none that can be compared.
            low: ends[0].min(ends[1]).max(typ * 1e-3),
            typ,
            high: ends[0].max(ends[1]),
        },
        ..prediction
    })
}

/// What everything is of itself, to compare ratios with.
pub(crate) fn itself(name: &str) -> (String, Answer) {
    let prediction = Prediction {
        interval: Interval::exactly(1.0),
        closeness: EvidenceLevel::Same,
        bottleneck: None,
        influences: Vec::new(),
        facts: Vec::new(),
    };
    (name.into(), Ok(prediction))
}

/// Whether each of these is larger than the next, by the typical predictions; `None` if one of
/// them has none.
pub(crate) fn descending(
    scenario: &'static str,
    sides: Vec<(String, Answer)>,
) -> Option<OrderingClaim> {
    let sides: Option<Vec<_>> = (sides.into_iter())
        .map(|(name, answer)| Some((name, answer.ok()?.interval)))
        .collect();
    let sides = sides?;
    Some(OrderingClaim::Claimed {
        scenario,
        holds: sides.windows(2).all(|two| two[0].1.typ > two[1].1.typ),
        sides,
    })
}

/// Several orderings that have to hold together.
pub(crate) fn together(parts: Vec<Option<OrderingClaim>>) -> Option<OrderingClaim> {
    let mut all: Option<OrderingClaim> = None;
    for part in parts {
        let OrderingClaim::Claimed {
            scenario,
            holds,
            sides,
        } = part?
        else {
            return None;
        };
        all = Some(match all {
            Some(OrderingClaim::Claimed {
                holds: before,
                sides: mut earlier,
                ..
            }) => {
                earlier.extend(sides);
                OrderingClaim::Claimed {
                    scenario,
                    holds: before && holds,
                    sides: earlier,
                }
            }
            _ => OrderingClaim::Claimed {
                scenario,
                holds,
                sides,
            },
        });
    }
    all
}
