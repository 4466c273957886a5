//! Claims on engines and codecs: their rates, what a context for each input costs, from which size
//! offload pays, and how engines and CPUs compare.

pub(in crate::claims) mod about;
mod accelerators;
mod matching;
mod orderings;
pub(in crate::claims) mod rates;

use about::{Amount, CARDS, Codec, Doer, HOSTS, Side, Way, is_ratio, unit_in_base};
use rates::{Reach, context_ns, evidence, middle, predict};

use crate::claims::Claim;
use crate::codec::{break_even_bytes, jobs};
use crate::corpus;
use crate::facts::Figure;
use crate::{Answer, EvidenceLevel, Library, MissingParameter, NoPrediction, Values};

pub(crate) use orderings::ordering;

const SCENARIO: &str = "codec";

fn claimed(figure: &Figure<'_>, predict: impl Fn(&Library) -> Answer + 'static) -> Option<Claim> {
    Some(Claim {
        scenario: SCENARIO,
        unit_in_base: unit_in_base(figure),
        predict: Box::new(predict),
    })
}

/// A claim whose formula finds out by itself how near the evidence is.
fn formula(
    figure: &Figure<'_>,
    formula: impl Fn(&Values<'_>, &Reach) -> Result<f64, MissingParameter> + 'static,
) -> Option<Claim> {
    claimed(figure, move |library| predict(&evidence(library), &formula))
}

/// Claims figures about engines and codecs.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let workload = figure.fact.workload.to_lowercase();
    if workload.starts_with("co-process") || workload.contains("arrow") {
        return None;
    }
    if workload.contains("regex") {
        return matching::claim(figure).or_else(|| accelerators::claim(figure));
    }
    if workload == "doca task" {
        return task(figure);
    }
    if workload == "doca_compress" || figure.fact.metric.contains("tasks for") {
        return limits(figure);
    }
    if figure.fact.device.to_lowercase().contains("accel") || workload.contains("accel") {
        return accelerators::claim(figure);
    }
    let codec = Codec::of(&workload)?;
    let way = Way::of(&workload)?;
    codec_figure(figure, codec, way)
}

fn codec_figure(figure: &Figure<'_>, codec: Codec, way: Way) -> Option<Claim> {
    let metric = figure.fact.metric.to_lowercase();
    let amount = Amount::of(figure);
    if metric.contains("reduction") && !metric.contains("time") {
        return reduction(figure, codec);
    }
    if metric.contains("cut-off") || metric.contains("parity") || metric.contains("break-even") {
        return break_even(figure, codec, way);
    }
    if metric.contains("won") || metric.contains("wins") {
        return wins(figure, codec, way);
    }
    // What the engine's format is compared with in words may be another codec's.
    if metric.contains(" vs ") || metric.contains("level") || figure.fact.workload.contains(',') {
        return None;
    }
    if is_ratio(figure) {
        return compared(figure, codec, way, amount);
    }
    if !metric.contains("throughput") && !metric.contains("mean") {
        return None;
    }
    let side = Side::of(figure.device(), None)?;
    let amount = amount.for_doers(&[&side]);
    formula(figure, move |values, reach| {
        if matches!(amount, Amount::At(_)) {
            reach.to(EvidenceLevel::Card);
        }
        rates::rate(values, reach, &side, of_side(codec, &side, way), amount)
    })
}

/// The codec as a side runs it: an engine knows formats, not libraries.
fn of_side(codec: Codec, side: &Side, way: Way) -> (Codec, Way) {
    match (codec, side.doer) {
        (Codec::Libdeflate, Doer::Engine | Doer::Offload) => (Codec::Deflate, way),
        _ => (codec, way),
    }
}

/// One side's rate over the other's; as a gain in per cent, what is more than 1.
fn compared(figure: &Figure<'_>, codec: Codec, way: Way, amount: Amount) -> Option<Claim> {
    let (left, right) = Side::ratio(figure.device())?;
    let metric = figure.fact.metric.to_lowercase();
    if metric.contains("most sizes") {
        return claimed(figure, |_| {
            Err(NoPrediction {
                why: "the figure does not say of which sizes".into(),
                remedy: "ask for a size, or measure both with `overside calibrate`".into(),
            })
        });
    }
    let amount = amount.for_doers(&[&left, &right]);
    let gain = figure.unit == "%";
    // `lz4 / BF-2 HW` sets a codec beside the engine's own, which is DEFLATE.
    let engine_codec = if metric.contains("deflate") {
        Codec::Deflate
    } else {
        codec
    };
    formula(figure, move |values, reach| {
        let of = |side: &Side| {
            let codec = if side.doer == Doer::Cpu {
                codec
            } else {
                engine_codec
            };
            rates::rate(values, reach, side, of_side(codec, side, way), amount)
        };
        let ratio = of(&left)? / of(&right)?;
        reach.to(EvidenceLevel::Card);
        Ok(if gain { ratio - 1.0 } else { ratio })
    })
}

/// The size from which an engine with a context for each input beats the CPUs: their rate on
/// large inputs counts.
fn break_even(figure: &Figure<'_>, codec: Codec, way: Way) -> Option<Claim> {
    let device = figure.device().to_owned();
    let (offload, cpu) = match device.split_once('=') {
        Some((left, right)) => (Side::of(left, None)?, Side::of(right, None)?),
        None => {
            let all = CARDS.into_iter().chain(HOSTS).collect();
            let cpu = Side {
                doer: Doer::Cpu,
                machines: all,
            };
            (Side::of(&device, Some(Doer::Offload))?, cpu)
        }
    };
    if offload.doer != Doer::Offload || cpu.doer != Doer::Cpu {
        return None;
    }
    formula(figure, move |values, reach| {
        reach.to(EvidenceLevel::Card);
        let large = Amount::AtLeast(about::SMALL_BYTES);
        let cpu = rates::rate(values, reach, &cpu, (codec, way), large)?;
        let mut sizes = Vec::new();
        for card in &offload.machines {
            let engine = rates::engine_rate(values, reach, card, (codec, way), Amount::Files);
            // A card without such an engine has no such size.
            let Ok(engine) = engine else { continue };
            let context = context_ns(values, reach, card)?;
            sizes.extend(break_even_bytes(context, engine, cpu));
        }
        if sizes.is_empty() {
            return Err(MissingParameter::nothing(
                "none of these engines is faster at any size",
                "ask for another card or operation",
            ));
        }
        Ok(middle(&sizes))
    })
}

/// Files of the corpus on which an engine with a context for each input beats the CPUs.
fn wins(figure: &Figure<'_>, codec: Codec, way: Way) -> Option<Claim> {
    let offload = Side::of(figure.device(), Some(Doer::Offload))?;
    let cpu = Side::of("CPUs", None)?;
    formula(figure, move |values, reach| {
        let cpu = rates::rate(values, reach, &cpu, (codec, way), Amount::Files)?;
        let mut won = 0.0;
        for file in &corpus::SILESIA {
            let bytes = rates::counted_bytes(file, codec, way);
            let rate = rates::rate(values, reach, &offload, (codec, way), Amount::At(bytes))?;
            if rate > cpu {
                won += 1.0;
            }
        }
        Ok(won)
    })
}

fn reduction(figure: &Figure<'_>, codec: Codec) -> Option<Claim> {
    formula(figure, move |values, reach| {
        let name = format!("{}/codec.{}.reduction", HOSTS[0], codec.name());
        if values.has(&name) {
            return values.get(&name);
        }
        reach.to(EvidenceLevel::Card);
        let left = |file: &corpus::File| match codec {
            Codec::Lz4 => file.lz4_bytes / file.bytes,
            _ => file.deflate_bytes / file.bytes,
        };
        Ok(1.0 - corpus::mean(left))
    })
}

/// Figures about the stages of a task, over all operations.
fn task(figure: &Figure<'_>) -> Option<Claim> {
    let metric = figure.fact.metric.to_lowercase();
    let side = Side::of(figure.device(), Some(Doer::Engine))?;
    if metric.contains("init") && metric.contains("share") {
        return formula(figure, move |values, _| {
            let mut shares = Vec::new();
            for card in &side.machines {
                shares.extend(values.get(&format!("{card}/codec.context.init.share")));
            }
            if shares.is_empty() {
                return Err(MissingParameter::parameter("codec.context.init.share"));
            }
            Ok(middle(&shares))
        });
    }
    if metric.contains("end time") && metric.contains("asic") {
        return formula(figure, move |values, reach| {
            let mut ratios = Vec::new();
            for card in &side.machines {
                ratios.push(context_over_engine(values, reach, card)?);
            }
            Ok(middle(&ratios))
        });
    }
    if metric.contains("throughput") && metric.contains("asic") {
        return formula(figure, move |values, reach| {
            let mut all = Vec::new();
            for card in &side.machines {
                all.push(rates::all_tasks_rate(values, reach, card)?);
            }
            Ok(middle(&all))
        });
    }
    if metric.contains("reconfiguration cost") {
        return formula(figure, move |values, reach| {
            context_ns(values, reach, side.machines[0])
        });
    }
    None
}

/// Time to end a context over the engine's time for the mean file.
fn context_over_engine(
    values: &Values<'_>,
    reach: &Reach,
    card: &str,
) -> Result<f64, MissingParameter> {
    reach.to(EvidenceLevel::Application);
    let context = context_ns(values, reach, card)?;
    let rate = rates::all_tasks_rate(values, reach, card)?;
    Ok(context / (corpus::mean(|file| file.bytes) / rate * 1e9))
}

/// The largest job, and how many jobs a file becomes.
fn limits(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let side = Side::of(figure.device(), Some(Doer::Engine))?;
    let [card] = side.machines[..] else {
        return None;
    };
    let largest = move |library: &Library, operation: &str| {
        let profile = library.profile(card)?;
        let mut operations = profile.operations.iter();
        let entry =
            operations.find(|entry| entry.does.iter().any(|one| one.contains(operation)))?;
        Some((
            entry.max_source_bytes() as f64,
            entry.max_source.facts.clone(),
        ))
    };
    let codec = Codec::of(&fact.workload);
    let operation = match codec {
        Some(Codec::Lz4) => "lz4",
        _ => "deflate",
    };
    let text = format!("{} {}", fact.metric, fact.conditions).to_lowercase();
    let count = if text.contains("tasks") {
        let named = corpus::SILESIA.iter().find(|file| text.contains(file.name));
        Some(
            named
                .map(|file| file.bytes)
                .or_else(|| about::bytes_in(&text))?,
        )
    } else if fact.metric.contains("max") {
        None
    } else {
        return None;
    };
    claimed(figure, move |library| {
        let (bytes, facts) = largest(library, operation).ok_or_else(|| NoPrediction {
            why: format!("{card} has no {operation} engine"),
            remedy: "ask for another card or codec".into(),
        })?;
        let value = count.map_or(bytes, |input| jobs(input, bytes));
        // It follows from the limit without any doubt.
        Ok(crate::Prediction {
            interval: crate::Interval::exactly(value),
            closeness: EvidenceLevel::Same,
            bottleneck: None,
            influences: Vec::new(),
            facts,
        })
    })
}
