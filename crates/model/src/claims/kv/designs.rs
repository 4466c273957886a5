//! The designs of study 003.

use super::{About, Claim, Comparison, Measure, as_change, claimed, less, more};
use crate::kv::{self, Design, Setup, Testbed, YCSB};
use crate::{EvidenceLevel, MissingParameter, Outcome};

/// The designs that a text names, in its order.
fn named(text: &str) -> Vec<Design> {
    let mut found: Vec<(usize, Design)> = [
        ("cpu-only", Design::CpuOnly),
        ("dpu-only", Design::DpuOnly),
        ("kv-lat", Design::Latency),
        ("kv-sav", Design::Saving),
        ("dual", Design::Dual),
        ("shrd", Design::Sharded),
        ("over_cpu", Design::CpuOnly),
        ("over_dpu", Design::DpuOnly),
    ]
    .into_iter()
    .filter_map(|(name, design)| Some((text.find(name)?, design)))
    .collect();
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, design)| design).collect()
}

/// What is asked: of one design, or of one against another.
#[derive(Clone, Debug)]
struct Question {
    /// One design, or those of which the best is meant.
    subjects: Vec<Design>,
    baseline: Option<Design>,
    /// One mix, or all.
    gets: Vec<f64>,
    most: bool,
}

/// Designs that need clients connected to host and card at once.
fn needs_separated_host(design: Design) -> bool {
    matches!(design, Design::Dual | Design::Sharded)
}

impl Question {
    fn of(about: &About<'_>, card: &str) -> Option<Self> {
        let mut found = named(&about.keys);
        for design in named(&about.title) {
            if !found.contains(&design) {
                found.push(design);
            }
        }
        // `vs_CPU-only` in a key names the other side of a design in the title.
        let key_is_baseline = ["vs", "over"].iter().any(|word| about.keys.contains(word));
        if key_is_baseline && named(&about.keys).len() == 1 && found.len() > 1 {
            found.swap(0, 1);
        }
        let gets = about
            .gets()
            .map_or(YCSB.map(|(_, gets)| gets).to_vec(), |one| vec![one]);
        let best = about.title.contains("best");
        let most = about.is_most();
        if !best {
            let mut designs = found.into_iter();
            return Some(Self {
                subjects: vec![designs.next()?],
                baseline: designs.next(),
                gets,
                most,
            });
        }
        let latency = about.measure() == Some(Measure::Latency);
        let subjects: Vec<Design> = if latency {
            vec![Design::Latency, Design::Saving]
        } else {
            // The best that leaves host cores free; where the host cannot be an endpoint of its
            // own beside the card, the best there is.
            let separated = card == "bf2-200g";
            [Design::Dual, Design::Saving, Design::Latency]
                .into_iter()
                .filter(|one| separated || !needs_separated_host(*one))
                .collect()
        };
        let baseline = found.first().copied();
        Some(Self {
            subjects,
            baseline: baseline.or(Some(Design::CpuOnly)),
            gets,
            most: true,
        })
    }

    /// The largest over mixes and designs if the most is asked for, else the mean.
    fn over<F>(&self, bed: &Testbed<'_, '_>, figure: F) -> Result<Outcome, MissingParameter>
    where
        F: Fn(Design, f64) -> Result<Outcome, MissingParameter>,
    {
        let mut all = Vec::new();
        for gets in &self.gets {
            for design in &self.subjects {
                all.push(figure(*design, *gets)?);
            }
        }
        if all.len() > 1 {
            bed.weaken_evidence(EvidenceLevel::Card);
        }
        let mean = (all.iter().map(|one| one.value.ln()).sum::<f64>() / all.len() as f64).exp();
        let largest = all.into_iter().max_by(|a, b| a.value.total_cmp(&b.value));
        let largest = largest.ok_or_else(|| {
            MissingParameter::nothing("the figure names no mix", "name a mix of YCSB")
        })?;
        Ok(if self.most {
            largest
        } else {
            Outcome {
                value: mean,
                ..largest
            }
        })
    }
}

pub(super) fn claim(about: &About<'_>) -> Option<Claim> {
    if let Some(claim) = redis(about)
        .or_else(|| spare(about))
        .or_else(|| dma_size(about))
    {
        return Some(claim);
    }
    let measure = about.measure()?;
    let card = about.card().unwrap_or("bf2-200g");
    let question = Question::of(about, card);
    if measure == Measure::HostCores {
        return host_cores(about, question, card);
    }
    let question = question?;
    match (about.comparison(), about.in_base(measure)) {
        (_, Some(unit)) => Some(absolute(question, card, measure, unit, about)),
        (Some(comparison), None) => compared(question, card, measure, comparison, about),
        (None, None) => None,
    }
}

fn absolute(
    question: Question,
    card: &'static str,
    measure: Measure,
    unit: f64,
    about: &About<'_>,
) -> Claim {
    let one_core = about.says("1 host core");
    let saturation = about.title.contains("saturation") && one_core;
    claimed("kv", unit, move |library| {
        kv::answer(library, card, |bed| {
            question.over(bed, |design, gets| {
                let setup = Setup::new(design, gets);
                if saturation && design == Design::Saving {
                    return kv::saturation_per_s(bed, gets);
                }
                match measure {
                    Measure::Latency => kv::latency_ns(bed, &setup, question.most),
                    _ => kv::throughput_per_s(bed, &setup),
                }
            })
        })
    })
}

fn compared(
    question: Question,
    card: &'static str,
    measure: Measure,
    comparison: Comparison,
    about: &About<'_>,
) -> Option<Claim> {
    let baseline = question.baseline?;
    let latency = measure == Measure::Latency;
    let worse = about.title.contains("worse");
    // A latency that is reduced, and a throughput that is worse, are compared upside down.
    let reduced = about.metric_says("reduction") || about.keys.contains("latency_");
    let inverse = (latency && reduced) || (!latency && worse);
    let change = if inverse { less } else { more };
    let longest = question.most && latency;
    let percent = comparison == Comparison::Percent || about.title.contains("abstract") || {
        // `% / x` has ratios under the keys that say so.
        about.unit.contains('%') && !about.keys.contains("over")
    };
    let unit = if percent { 0.01 * about.sign() } else { 1.0 };
    Some(claimed("kv", unit, move |library| {
        let ratio = kv::answer(library, card, |bed| {
            question.over(bed, |design, gets| {
                let figure = |design| {
                    let setup = Setup::new(design, gets);
                    if latency {
                        kv::latency_ns(bed, &setup, longest)
                    } else {
                        kv::throughput_per_s(bed, &setup)
                    }
                };
                let (subject, base) = (figure(design)?, figure(baseline)?);
                let ratio = subject.value / base.value;
                Ok(Outcome {
                    value: if inverse && percent {
                        1.0 / ratio
                    } else {
                        ratio
                    },
                    ..subject
                })
            })
        })?;
        Ok(if percent {
            as_change(ratio, change)
        } else {
            ratio
        })
    }))
}

/// Host cores in use, or how many fewer or times more than another design uses.
fn host_cores(about: &About<'_>, question: Option<Question>, card: &'static str) -> Option<Claim> {
    // Dual engines are what is meant where no design is: they serve most with fewer cores.
    let subject = match &question {
        Some(one) if !about.title.contains("best") => *one.subjects.first()?,
        _ => Design::Dual,
    };
    let baseline = question.and_then(|one| one.baseline);
    let cores = |bed: &Testbed<'_, '_>, design| {
        if design == Design::Dual || design == Design::Saving {
            bed.weaken_evidence(EvidenceLevel::Card);
        }
        Ok::<_, MissingParameter>(kv::sides(bed, &Setup::new(design, 1.0))?.host_cores)
    };
    let saved = about.says("saved") || about.says("fewer") || about.sign() < 0.0;
    if saved && about.unit.contains('%') {
        let other = baseline.unwrap_or(Design::CpuOnly);
        return Some(claimed("kv", 0.01 * about.sign(), move |library| {
            let ratio = kv::answer(library, card, |bed| {
                Ok(cores(bed, other)? / cores(bed, subject)?)
            })?;
            Ok(as_change(ratio, less))
        }));
    }
    match (about.comparison(), baseline) {
        (Some(Comparison::Times), Some(other)) => Some(claimed("kv", 1.0, move |library| {
            kv::answer(library, card, |bed| {
                Ok(cores(bed, subject)? / cores(bed, other)?)
            })
        })),
        (None, None) => Some(claimed("kv", 1.0, move |library| {
            kv::answer(library, card, |bed| cores(bed, subject))
        })),
        _ => None,
    }
}

/// What another size of DMA changes on the card's side: `DMA 2 KB -> 4 KB`.
fn dma_size(about: &About<'_>) -> Option<Claim> {
    let metric = about.figure.fact.metric.to_lowercase();
    let sizes = &metric[metric.find("dma")? + 3..];
    let (from, to) = sizes.split_once("->")?;
    let bytes = |text: &str| -> Option<f64> {
        let mut words = text.split_whitespace();
        let number: f64 = words.next()?.parse().ok()?;
        // The study counts 1024 bytes a KB.
        let unit = match words.next()? {
            "b" => 1.0,
            "kb" | "kib" => 1024.0,
            "mb" | "mib" => 1_048_576.0,
            _ => return None,
        };
        (number > 0.0).then_some(number * unit)
    };
    let (from, to) = (bytes(from)?, bytes(to)?);
    if !about.keys.contains("dpu") || about.unit != "%" {
        return None;
    }
    let card = about.card()?;
    Some(claimed("kv", 0.01 * about.sign(), move |library| {
        let (from, to) = if from < to { (from, to) } else { (to, from) };
        let ratio = kv::answer(library, card, |bed| kv::dma_size_gain(bed, from, to))?;
        Ok(as_change(ratio, more))
    }))
}

/// Requests that the host's cores serve beside the card.
fn spare(about: &About<'_>) -> Option<Claim> {
    if !(about.says("spare host cores") && about.title.contains("dual")) {
        return None;
    }
    let card = about.card()?;
    let unit = about.in_base(Measure::Throughput)?;
    let gets = about.gets().unwrap_or(1.0);
    Some(claimed("kv", unit, move |library| {
        kv::answer(library, card, |bed| kv::spare_per_s(bed, gets))
    }))
}

/// The figure that stands beside another store.
fn redis(about: &About<'_>) -> Option<Claim> {
    if !about.title.contains("redis") {
        return None;
    }
    let mica = |bed: &Testbed<'_, '_>| {
        bed.host("cpu-only.rate").or_else(|_| {
            bed.weaken_evidence(EvidenceLevel::Card);
            Ok(kv::throughput_per_s(bed, &Setup::new(Design::CpuOnly, 1.0))?.value)
        })
    };
    let redis = |bed: &Testbed<'_, '_>| bed.host("redis.rate");
    let unit = about.in_base(Measure::Throughput);
    match (about.keys.as_str(), unit) {
        ("redis", Some(unit)) => Some(claimed("kv", unit, move |library| {
            kv::answer(library, "bf2-200g", redis)
        })),
        ("mica", Some(unit)) => Some(claimed("kv", unit, move |library| {
            kv::answer(library, "bf2-200g", mica)
        })),
        (_, None) if about.comparison() == Some(Comparison::Times) => {
            Some(claimed("kv", 1.0, move |library| {
                kv::answer(library, "bf2-200g", |bed| Ok(mica(bed)? / redis(bed)?))
            }))
        }
        _ => None,
    }
}
