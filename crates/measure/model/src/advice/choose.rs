//! Chooses placements from comparisons, size by size.

use std::collections::BTreeMap;

use overside_ops::Operation;

use super::device::{Pair, RATES_FROM_BYTES, kept, work};
use super::question::{CpuEvidence, CpuRate, DeviceRate, MeasuredOperation, Question};
use super::{Comparison, RangeAdvice, TargetAdvice, completion};
use crate::{
    Answer, BreakEven, Completion, Initiator, Interval, OutlookQuestion, Prediction, Profile,
    Setting, Verdict, outlook,
};

/// A gain that is too small to bother.
const WORTH_IT: f64 = 1.1;
/// A share is fixed only where the rates' ratio is known within this factor.
const FIXED_WITHIN: f64 = 1.5;
/// Fraction of the best throughput from which on another one counts as equally good.
const AS_GOOD: f64 = 0.95;
/// The longest chunk that is advised.
const CHUNK_BYTES_MAX: u64 = 64 << 20;

/// The advice for each device that was measured with this operation.
pub(super) fn measured(question: &Question, measured: &MeasuredOperation) -> Vec<TargetAdvice> {
    let mut by_device: BTreeMap<&str, Vec<&DeviceRate>> = BTreeMap::new();
    for rate in &measured.devices {
        by_device.entry(&rate.device).or_default().push(rate);
    }
    (by_device.into_iter())
        .map(|(device, rates)| one_measured(question, measured, device, &rates))
        .collect()
}

fn one_measured(
    question: &Question,
    measured: &MeasuredOperation,
    device: &str,
    rates: &[&DeviceRate],
) -> TargetAdvice {
    let fixed = |one: &&&DeviceRate| one.setting == "static";
    let mut alone: BTreeMap<u64, Vec<&DeviceRate>> = BTreeMap::new();
    for one in rates.iter().filter(fixed).filter(|one| one.placement == "device") {
        alone.entry(one.bytes).or_default().push(one);
    }
    let mut points = Vec::new();
    let mut waiting = None;
    if let Some(size) = question.buffer_bytes {
        // The nearest that was measured.
        let below = alone.keys().rev().find(|bytes| **bytes <= size);
        let nearest = below.or(alone.keys().next()).copied();
        alone.retain(|bytes, _| Some(*bytes) == nearest);
    }
    for (bytes, at) in &alone {
        waiting = completion::measured(at).or(waiting);
        let polls = |one: &DeviceRate| one.completion == "poll";
        let best = at.iter().max_by(|a, b| a.bytes_per_s.typ.total_cmp(&b.bytes_per_s.typ));
        let (Some(best), Some(cpu)) = (best, measured.cpu_at(*bytes)) else {
            continue;
        };
        let pair = Pair::measured(best.bytes_per_s, best.core_bytes_per_s)
            .with_cpu(cpu, beside(question, cpu, polls(best)));
        let split = (rates.iter())
            .filter(fixed)
            .filter(|one| one.bytes == *bytes && one.placement.starts_with("split:"))
            .max_by(|a, b| a.bytes_per_s.typ.total_cmp(&b.bytes_per_s.typ));
        let mut advice = advice(&pair, cpu, *bytes, polls(best));
        as_measured(&mut advice, best, cpu, split.copied());
        points.push(advice.resting_on(cpu));
    }
    let sizes: Vec<(u64, Verdict)> =
        (points.iter()).map(|point| (point.from_bytes, point.c1.verdict)).collect();
    TargetAdvice {
        name: device.into(),
        provenance: "measured",
        ranges: ranges(points),
        pays_from: pays_from(&sizes),
        keep_contexts: measured_contexts(rates),
        completion: waiting,
        ..TargetAdvice::default()
    }
}

/// Replaces comparisons that follow from rates by measured ones.
fn as_measured(
    advice: &mut RangeAdvice,
    device: &DeviceRate,
    cpu: &CpuRate,
    split: Option<&DeviceRate>,
) {
    let alone = device.bytes_per_s;
    advice.c1 = Comparison::measured(alone, cpu.bytes_per_s);
    let better = if alone.typ > cpu.bytes_per_s.typ { alone } else { cpu.bytes_per_s };
    advice.device_bytes_per_s = Ok(Prediction::given(alone));
    if let Some(split) = split {
        advice.c2 = Comparison::measured(split.bytes_per_s, better);
    }
    let (placement, rate) = match (split, advice.c2.verdict, advice.c1.verdict) {
        (Some(split), Verdict::Yes, _) => (split.placement.clone(), split.bytes_per_s),
        // Splits were not measured, and by the two rates one would be faster.
        (None, Verdict::Yes, _) => return,
        (_, _, Verdict::Yes) => ("device".into(), alone),
        (_, _, Verdict::No) => ("cpu".into(), cpu.bytes_per_s),
        (_, _, Verdict::CannotTell) => return,
    };
    advice.throughput_bytes_per_s = Ok(Prediction::given(rate));
    advice.gain = Comparison::measured(rate, cpu.bytes_per_s);
    advice.provenance = "measured";
    let driven = (split.filter(|split| split.placement == placement))
        .or_else(|| (placement == "device").then_some(device));
    advice.host_cpu_saved = (driven.and_then(|one| one.core_bytes_per_s).zip(cpu.core_bytes_per_s))
        .map(|(mine, alone)| Interval {
            low: 1.0 - alone.high / mine.low,
            typ: 1.0 - alone.typ / mine.typ,
            high: 1.0 - alone.low / mine.high,
        });
    advice.placement = placement;
}

/// Returns the size from which on the device was faster at every size.
fn pays_from(sizes: &[(u64, Verdict)]) -> Option<BreakEven> {
    let last = |is: &dyn Fn(Verdict) -> bool| sizes.iter().rposition(|one| is(one.1));
    let from = last(&|verdict| verdict != Verdict::Yes).map_or(0, |at| at + 1);
    let low_bytes = last(&|verdict| verdict == Verdict::No).map_or(0, |at| sizes[at].0);
    match sizes.get(from) {
        Some((high_bytes, _)) => Some(BreakEven::Range { low_bytes, high_bytes: *high_bytes }),
        None if sizes.iter().all(|(_, verdict)| *verdict == Verdict::No) => (!sizes.is_empty())
            .then(|| BreakEven::Never {
                reason: "the CPU was faster at every size that was measured".into(),
            }),
        None => Some(BreakEven::NotBelow {
            bytes: low_bytes,
            missing: vec!["longer buffers, or more rounds".into()],
        }),
    }
}

/// Contexts that are kept against those that are set up for each buffer, at the longest size that
/// was measured in both settings.
fn measured_contexts(rates: &[&DeviceRate]) -> Option<Comparison> {
    let at = |one: &DeviceRate, setting: &str| one.setting == setting && one.placement == "device";
    let anew =
        (rates.iter().filter(|one| at(one, "reconfiguration"))).max_by_key(|one| one.bytes)?;
    let kept = (rates.iter()).find(|one| at(one, "static") && one.bytes == anew.bytes)?;
    Some(Comparison::measured(kept.bytes_per_s, anew.bytes_per_s))
}

/// The advice for a card that a profile describes.
pub(super) fn modelled(
    question: &Question,
    measured: &MeasuredOperation,
    profile: &Profile,
) -> TargetAdvice {
    let mut target = TargetAdvice {
        name: profile.name.clone(),
        provenance: "modelled",
        card: [&profile.card, &profile.host_link, &profile.mode].map(String::as_str).join("; "),
        ..TargetAdvice::default()
    };
    if let Err(why) = fill(&mut target, question, measured, profile) {
        target.unsupported = Some(why);
        target.is_unpublished =
            (measured.operation()).is_ok_and(|operation| profile.is_unpublished(operation));
    }
    target
}

fn fill(
    target: &mut TargetAdvice,
    question: &Question,
    measured: &MeasuredOperation,
    profile: &Profile,
) -> Result<(), String> {
    let operation: Operation = measured.operation().map_err(|error| error.to_string())?;
    let ratio = match operation.has_ratio() {
        false => 1.0,
        true => (measured.ratio).ok_or("no prediction: the compression ratio was not measured")?,
    };
    let (lowest, highest) = (lowest(&measured.cpu), highest(&measured.cpu));
    let ask = |setting, rate| {
        let question = OutlookQuestion {
            operation,
            patterns: measured.patterns.clone(),
            setting,
            cpu_rate_bytes_per_s: rate,
            ratio,
        };
        outlook(profile, &question).map_err(|error| error.to_string())
    };
    let against_slow = ask(Setting::Static, lowest)?;
    let against_fast = ask(Setting::Static, highest)?;
    let longest = against_slow.max_buffer_bytes;
    let mut points = Vec::new();
    let sizes = (question.buffer_bytes).map_or_else(|| sizes(measured, longest), |one| vec![one]);
    for bytes in sizes {
        let Some(cpu) = measured.cpu_at(bytes) else {
            continue;
        };
        // Longer ones are cut into what it takes.
        let chunk_bytes = bytes.min(longest).min(CHUNK_BYTES_MAX);
        let pair = Pair::modelled(profile, operation, &measured.patterns, ratio, chunk_bytes)
            .map_err(|error| error.to_string())?;
        let waiting = completion::published(chunk_bytes);
        let polls = waiting.mode == Completion::Poll;
        let share = beside(question, cpu, polls);
        let pair = pair.with_cpu(cpu, share);
        let advice = RangeAdvice { chunk_bytes, ..advice(&pair, cpu, bytes, polls) };
        points.push(advice.resting_on(cpu));
    }
    let chunk_bytes = points.last().map_or(longest, |point| point.chunk_bytes);
    let typical = work(operation, &measured.patterns, ratio, chunk_bytes);
    target.ranges = ranges(points);
    target.keep_contexts = Some(Comparison::of(&kept(profile, &typical)));
    let chunk_bytes = target.ranges.last().map_or(chunk_bytes, |range| range.chunk_bytes);
    target.completion = Some(completion::published(chunk_bytes));
    target.pays_from = Some(BreakEven::between(&against_slow, &against_fast));
    let anew = (ask(Setting::Reconfiguration, lowest)?, ask(Setting::Reconfiguration, highest)?);
    target.pays_from_anew = Some(BreakEven::between(&anew.0, &anew.1));
    target.missing = against_slow.missing;
    if profile.initiator == Initiator::Soc {
        (target.missing)
            .push("what this host would do: these jobs are the card's own cores' to start".into());
    }
    Ok(())
}

/// Returns the sizes to compare: those that were measured, and those from which published rates hold.
fn sizes(measured: &MeasuredOperation, longest: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = measured.cpu.iter().map(|rate| rate.bytes).collect();
    let least = sizes.first().copied().unwrap_or(1);
    sizes.extend([RATES_FROM_BYTES, longest].into_iter().filter(|size| *size >= least));
    sizes.retain(|size| *size <= CHUNK_BYTES_MAX);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The share of the CPU's rate that is left while one of its threads polls: all of it where there
/// is a thread to spare.
fn beside(question: &Question, cpu: &CpuRate, polls: bool) -> f64 {
    let spare = question.host.threads.is_none_or(|all| cpu.threads < all);
    if spare || !polls || cpu.threads == 0 { 1.0 } else { 1.0 - 1.0 / f64::from(cpu.threads) }
}

/// The advice at one size, by the model.
fn advice(pair: &Pair, cpu: &CpuRate, bytes: u64, polls: bool) -> RangeAdvice {
    let alone = pair.alone();
    let (c1, c2) = (first(pair), Comparison::of(&pair.split_gain()));
    let fraction = pair.fraction();
    let gain = pair.gain();
    let placement = placement(pair, &c1, &c2, &gain, fraction);
    let cpu_only = Ok(Prediction::given(cpu.bytes_per_s));
    let (throughput, gain, provenance, share) = match placement.as_str() {
        "cpu" => {
            (cpu_only, Comparison::measured(cpu.bytes_per_s, cpu.bytes_per_s), "measured", 0.0)
        }
        "device" => (alone.clone(), c1.clone(), "modelled", 1.0),
        _ => {
            let share = fraction.map_or(0.0, |share| share.typ);
            (pair.together(), Comparison::of(&gain), "modelled", share)
        }
    };
    RangeAdvice {
        from_bytes: bytes,
        below_bytes: None,
        chunk_bytes: bytes,
        fraction,
        cpu_bytes_per_s: cpu.bytes_per_s,
        cpu_library: String::new(),
        cpu_evidence: CpuEvidence::default(),
        device_bytes_per_s: alone,
        device_at_most_bytes_per_s: pair.at_most(),
        throughput_bytes_per_s: throughput,
        provenance,
        gain,
        host_cpu_saved: saved(pair, share, polls),
        placement,
        c1,
        c2,
    }
}

/// C1; if the device's rate is only bounded, the bound may still decide.
fn first(pair: &Pair) -> Comparison {
    let answer = pair.speedup();
    let mut comparison = Comparison::of(&answer);
    if let (Err(_), Some(most)) = (&answer, pair.speedup_at_most())
        && most < 1.0
    {
        comparison.verdict = Verdict::No;
        comparison.why = format!("at most {most:.2} times as fast, whatever is not known");
    }
    comparison
}

fn placement(
    pair: &Pair,
    c1: &Comparison,
    c2: &Comparison,
    gain: &Answer,
    fraction: Option<Interval>,
) -> String {
    let gains = match gain {
        Ok(gain) => gain.interval.typ,
        Err(_) => 1.0 + pair.speedup_at_most().unwrap_or(f64::INFINITY),
    };
    match (c1.verdict, c2.verdict) {
        (Verdict::No, _) if gains < WORTH_IT => "cpu".into(),
        (Verdict::Yes, Verdict::No | Verdict::CannotTell) => "device".into(),
        (_, Verdict::Yes) => match fraction {
            Some(share) if odds(share.high) / odds(share.low) <= FIXED_WITHIN => {
                format!("split:{:.0}", share.typ * 100.0)
            }
            _ => "adaptive".into(),
        },
        (Verdict::No, Verdict::No) => "cpu".into(),
        _ => "adaptive".into(),
    }
}

fn odds(share: f64) -> f64 {
    share / (1.0 - share).max(1e-9)
}

impl RangeAdvice {
    /// Takes the provenance of the CPU's rate: beside one that was not measured nothing is called
    /// measured.
    fn resting_on(mut self, cpu: &CpuRate) -> Self {
        self.cpu_library.clone_from(&cpu.library);
        self.cpu_evidence = cpu.evidence;
        if cpu.evidence != CpuEvidence::Measured {
            self.provenance = "modelled";
            for one in [&mut self.gain, &mut self.c1, &mut self.c2] {
                one.provenance = "modelled";
            }
        }
        self
    }
}

/// Returns the share of the host's CPU time that is saved: at least while a core polls, at most
/// while it waits for events. `None` if the device gets no bytes or the CPU time is not known.
fn saved(pair: &Pair, share: f64, polls: bool) -> Option<Interval> {
    if share == 0.0 {
        return None;
    }
    let (busy, idle) = (pair.host_time(share, true)?, pair.host_time(share, false)?);
    Some(Interval {
        low: 1.0 - busy.high,
        typ: 1.0 - if polls { busy.typ } else { idle.typ },
        high: (1.0 - idle.low).min(1.0),
    })
}

fn lowest(rates: &[CpuRate]) -> f64 {
    (rates.iter()).fold(f64::INFINITY, |least, rate| least.min(rate.bytes_per_s.low))
}

fn highest(rates: &[CpuRate]) -> f64 {
    (rates.iter()).fold(0.0, |most, rate| most.max(rate.bytes_per_s.high))
}

/// Neighbouring sizes with the same answer in one range, whose figures are those of its longest.
fn ranges(points: Vec<RangeAdvice>) -> Vec<RangeAdvice> {
    let mut ranges: Vec<RangeAdvice> = Vec::new();
    let kind = |one: &RangeAdvice| {
        let place = one.placement.split(':').next().unwrap_or_default().to_owned();
        (place, one.c1.verdict, one.c2.verdict, one.device_bytes_per_s.is_ok())
    };
    // Where the device is not known, what suits the CPU.
    let rate = |one: &RangeAdvice| {
        let known = one.throughput_bytes_per_s.as_ref();
        known.map_or(one.cpu_bytes_per_s.typ, |known| known.interval.typ)
    };
    for mut next in points {
        let Some(last) = ranges.last_mut() else {
            ranges.push(next);
            continue;
        };
        if kind(last) == kind(&next) {
            next.from_bytes = last.from_bytes;
            // Shorter chunks that are as good are better: there are more of them to share.
            if rate(last) >= AS_GOOD * rate(&next) {
                next.chunk_bytes = last.chunk_bytes;
            }
            *last = next;
        } else {
            last.below_bytes = Some(next.from_bytes);
            ranges.push(next);
        }
    }
    ranges
}
