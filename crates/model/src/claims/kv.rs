//! Claims on figures of key-value stores: designs (study 003), pairings and servers behind the
//! card (study 002).

mod designs;
mod onpath;
mod pairings;
mod shares;

use super::{Claim, OrderingClaim};
use crate::facts::{Figure, FigureValue, Ordering};
use crate::kv::{self, Design, Pairing, Setup, Submode, Testbed};
use crate::{Answer, Interval, Library, Prediction};

/// The claim on a figure of a key-value store.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let about = About::of(figure);
    if !about.is_store() {
        return None;
    }
    shares::claim(&about)
        .or_else(|| onpath::claim(&about))
        .or_else(|| designs::claim(&about))
        .or_else(|| pairings::claim(&about))
}

/// What a figure is about, in lower case.
struct About<'a> {
    figure: &'a Figure<'a>,
    /// Its keys, one after the other.
    keys: String,
    /// Its device, workload and metric.
    title: String,
    conditions: String,
    unit: String,
}

impl<'a> About<'a> {
    fn of(figure: &'a Figure<'a>) -> Self {
        let fact = figure.fact;
        Self {
            figure,
            keys: figure.path.join(" ").to_lowercase(),
            title: format!("{} {} {}", fact.device, fact.workload, fact.metric).to_lowercase(),
            conditions: fact.conditions.to_lowercase(),
            unit: figure.unit.to_lowercase(),
        }
    }

    fn is_store(&self) -> bool {
        let text = &self.title;
        let words = [
            "mica",
            "herd",
            "dpu-kv",
            "cpu-only",
            "dpu-only",
            "ycsb",
            "kv qp",
            "redis",
            "communication engine",
            "processing engine",
            "nic rx polling",
        ];
        words.iter().any(|word| text.contains(word))
    }

    /// Whether a word stands in the keys, device, workload, metric or conditions.
    fn says(&self, word: &str) -> bool {
        [&self.keys, &self.title, &self.conditions]
            .iter()
            .any(|text| text.contains(word))
    }

    /// Whether the largest of several is meant.
    fn is_most(&self) -> bool {
        ["up to", "max", "best", "at most"]
            .iter()
            .any(|word| self.title.contains(word))
    }

    /// The profile of the card that it is about: as the keys have it, else the device.
    fn card(&self) -> Option<&'static str> {
        let in_text = |text: &str| {
            let text = text.replace(['-', '_'], "");
            let has = |name: &str| text.contains(name);
            let both = has("bf2/3") || has("bf1/2") || (has("bf2") && has("bf3"));
            match (both, has("bf3"), has("bf2"), has("bf1")) {
                (true, ..) => None,
                (_, true, false, _) => Some("bf3-8c"),
                (_, false, true, _) => Some("bf2-200g"),
                (_, false, false, true) => Some("bf1"),
                _ => None,
            }
        };
        in_text(&self.keys)
            .or_else(|| in_text(&self.figure.fact.device))
            .or_else(|| in_text(&self.title))
            .or_else(|| in_text(&self.conditions))
    }

    /// The share of GETs, where a mix is named.
    fn gets(&self) -> Option<f64> {
        self.mix().map(kv::gets_of).or_else(|| {
            let texts = [&self.keys, &self.title, &self.conditions];
            texts.into_iter().find_map(|text| {
                let plain = text.replace([' ', '%', '-'], "");
                let before = &plain[..plain.find("get")?];
                let digits = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
                let percent: f64 = before[digits..].parse().ok()?;
                (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
            })
        })
    }

    /// The mix of YCSB, where one is named.
    fn mix(&self) -> Option<char> {
        let letter = |word: &str| {
            let mut letters = word.chars();
            match (letters.next(), letters.next()) {
                (Some(one @ 'a'..='c'), None) => Some(one),
                _ => None,
            }
        };
        let in_keys = self.keys.split(' ').find_map(letter);
        in_keys.or_else(|| {
            [&self.keys, &self.title, &self.conditions]
                .into_iter()
                .find_map(|text| {
                    let after = &text[text.find("ycsb")? + 4..];
                    let word = after.split([' ', ',', ';']).find(|word| !word.is_empty())?;
                    letter(word.trim_start_matches('-'))
                })
        })
    }

    /// Whether the figure is a throughput, or a latency; of two that the metric names the keys
    /// decide.
    fn measure(&self) -> Option<Measure> {
        let keys = &self.keys;
        let key = |words: &[&str]| words.iter().any(|word| keys.contains(word));
        if key(&["cores"]) {
            return Some(Measure::HostCores);
        }
        if key(&["mops", "ops", "thr", "peak"]) {
            return Some(Measure::Throughput);
        }
        if key(&["us", "lat"]) && !key(&["dual", "status"]) {
            return Some(Measure::Latency);
        }
        let metric = self.figure.fact.metric.to_lowercase();
        let named = |words: &[&str]| words.iter().any(|word| metric.contains(word));
        let rate = named(&["throughput", "ops", "requests", "saturation"]);
        match (rate, named(&["latency"])) {
            (true, false) => Some(Measure::Throughput),
            (false, true) => Some(Measure::Latency),
            _ if named(&["host cores", "cpu cores"]) => Some(Measure::HostCores),
            _ => match self.unit.as_str() {
                "mops" | "mops/s" | "ops/s" => Some(Measure::Throughput),
                "us" | "ms" | "ns" => Some(Measure::Latency),
                _ => None,
            },
        }
    }

    /// The figure's unit in requests a second, or nanoseconds.
    fn in_base(&self, measure: Measure) -> Option<f64> {
        let has = |name: &str| self.unit.split(['/', ' ']).any(|part| part == name);
        match measure {
            Measure::Throughput if has("mops") => Some(1e6),
            Measure::Throughput if has("kops") => Some(1e3),
            Measure::Throughput if has("ops") => Some(1.0),
            Measure::Latency if has("us") => Some(1e3),
            Measure::Latency if has("ms") => Some(1e6),
            Measure::Latency if has("ns") => Some(1.0),
            _ => None,
        }
    }

    /// How it compares two things, where it does.
    fn comparison(&self) -> Option<Comparison> {
        let percent = self.unit.contains('%') && !self.unit.contains('x');
        let percent_here = percent
            || self.keys.contains("pct")
            || self.keys.contains("%")
            || (self.unit.contains('%')
                && self.metric_says("reduction")
                && self.keys.contains("lat"));
        if !percent_here {
            return (self.unit.contains('x')).then_some(Comparison::Times);
        }
        Some(Comparison::Percent)
    }

    fn metric_says(&self, word: &str) -> bool {
        self.figure.fact.metric.to_lowercase().contains(word)
    }

    /// -1 where a reduction is printed as a negative number.
    fn sign(&self) -> f64 {
        let negative = match &self.figure.value {
            FigureValue::Number(one) => *one < 0.0,
            FigureValue::Range(low, high) => low + high < 0.0,
            _ => false,
        };
        if negative { -1.0 } else { 1.0 }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Throughput,
    Latency,
    HostCores,
}

/// How two things are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Times,
    Percent,
}

/// A claim of the key-value scenarios.
fn claimed(
    scenario: &'static str,
    unit_in_base: f64,
    predict: impl Fn(&Library) -> Answer + 'static,
) -> Claim {
    Claim {
        scenario,
        unit_in_base,
        predict: Box::new(predict),
    }
}

/// By how much one thing is larger or smaller than another, from the larger over the smaller.
///
/// The doubt is about the ratio: a small difference of two sides is less certain than either.
fn as_change(ratio: Prediction, change: fn(f64) -> f64) -> Prediction {
    let interval = ratio.interval;
    let (low, typ, high) = (
        change(interval.low),
        change(interval.typ),
        change(interval.high),
    );
    let (low, high) = (low.min(high), low.max(high));
    Prediction {
        // Where there may be no difference at all, or one the other way, the interval starts at
        // a hundredth of the typical one: shares are compared as positive numbers.
        interval: Interval {
            low: low.max(typ / 100.0),
            typ,
            high,
        },
        ..ratio
    }
}

/// `1 - 1 / ratio`: by how much less the smaller is.
fn less(ratio: f64) -> f64 {
    1.0 - 1.0 / ratio
}

/// `ratio - 1`: by how much more the larger is.
fn more(ratio: f64) -> f64 {
    ratio - 1.0
}

/// Whether typical predictions stand in an ordering's order.
type Rule = dyn Fn(&[f64]) -> bool;

/// The claim on an ordering of key-value stores.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    let design = |design| {
        let formula =
            move |bed: &Testbed<'_, '_>| kv::throughput_per_s(bed, &Setup::new(design, 1.0));
        (
            format!("thr({})", design.name()),
            kv::answer(library, "bf2-200g", formula),
        )
    };
    let pairing = |store, pairing: Pairing, card: &str| {
        let formula =
            move |bed: &Testbed<'_, '_>| kv::relative_rate(bed, store, pairing, 1.0, true);
        let name = format!(
            "thr({}, {}, {card})",
            pairing.name(),
            kv::Application::name(store)
        );
        (name, kv::answer(library, card, formula))
    };
    let submode = |submode: Submode, card: &str| {
        let formula = move |bed: &Testbed<'_, '_>| kv::submode_rate_per_s(bed, submode);
        (
            format!("thr({}, {card})", submode.name()),
            kv::answer(library, card, formula),
        )
    };
    use kv::Application::{Herd, Mica};
    let (sides, rule): (Vec<_>, &Rule) = match ordering.id.as_str() {
        "ord.A1" => (
            vec![
                pairing(Mica, Pairing::ChSd, "bf3-8c"),
                pairing(Mica, Pairing::ChSh, "bf3-8c"),
                pairing(Mica, Pairing::ChSh, "bf2-200g"),
                pairing(Mica, Pairing::ChSd, "bf2-200g"),
                pairing(Mica, Pairing::CdSd, "bf2-200g"),
                pairing(Herd, Pairing::ChSh, "bf2-200g"),
                pairing(Herd, Pairing::CdSd, "bf2-200g"),
            ],
            &|v| v[0] > v[1] && v[2] > v[3] && v[2] > v[4] && v[5] > v[6],
        ),
        "ord.A2" => (
            vec![
                pairing(Mica, Pairing::CdSd, "bf2-200g"),
                pairing(Mica, Pairing::CdSh, "bf2-200g"),
                pairing(Herd, Pairing::CdSd, "bf2-200g"),
                pairing(Herd, Pairing::CdSh, "bf2-200g"),
            ],
            &|v| alike(v[0], v[1]) && alike(v[2], v[3]),
        ),
        "ord.A4" => (
            ["bf2-200g", "bf3-8c"]
                .into_iter()
                .flat_map(|card| Submode::ALL.into_iter().rev().map(move |one| (one, card)))
                .map(|(one, card)| submode(one, card))
                .collect(),
            &|v| v[0] > v[1] && v[1] > v[2] && v[3] > v[4] && v[4] > v[5],
        ),
        "ord.K2" => (
            vec![
                design(Design::Sharded),
                design(Design::Dual),
                design(Design::CpuOnly),
                design(Design::Latency),
                design(Design::Saving),
                design(Design::DpuOnly),
            ],
            &|v| {
                let near = alike(v[1], v[2]) && alike(v[3], v[4]);
                near && v[0] > v[1] && v[0] > v[2] && v[2].min(v[1]) > v[3] && v[4] > v[5]
            },
        ),
        _ => return None,
    };
    Some(claimed_ordering(sides, rule))
}

/// What a study calls `~`: within a seventh.
fn alike(a: f64, b: f64) -> bool {
    (a / b).ln().abs() < 1.15f64.ln()
}

fn claimed_ordering(sides: Vec<(String, Answer)>, rule: &dyn Fn(&[f64]) -> bool) -> OrderingClaim {
    let mut known = Vec::new();
    for (name, answer) in sides {
        match answer {
            Ok(prediction) => known.push((name, prediction.interval)),
            Err(missing) => {
                return OrderingClaim::NotModelled {
                    reason: missing.to_string(),
                };
            }
        }
    }
    let typical: Vec<f64> = known.iter().map(|(_, interval)| interval.typ).collect();
    OrderingClaim::Claimed {
        scenario: "kv",
        holds: rule(&typical),
        sides: known,
    }
}
