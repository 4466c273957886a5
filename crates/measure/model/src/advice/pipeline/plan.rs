//! Finds the best placement of a workload's stages.

use overside_ops::Operation;

use super::capacity::Limits;
use super::evaluate::{Loads, StageRates, WorkloadModel};
use super::{Bottleneck, Costs, Plan, StagePlan};
use crate::advice::device::Pair;
use crate::advice::question::{DeviceRate, MeasuredOperation, Question};
use crate::advice::{Comparison, completion};
use crate::outlook::longest;
use crate::profile::without_framing;
use crate::{
    Answer, Completion, CostError, Interval, NoPrediction, Prediction, Profile, Stage, Task,
    Verdict, Workload,
};

/// Maximum number of stages whose placement is chosen; the others stay on the CPU.
const CHOSEN_MAX: usize = 8;
/// The least of a core that waiting for a card takes: jobs of 8 MB on events
/// (`idio.dma.d3.ev8m`). The most is one that polls (`idio.dma.d3.poll`).
const DRIVING_LEAST: f64 = 0.015;
const DRIVING_FACTS: [&str; 2] = ["idio.dma.d3.ev8m", "idio.dma.d3.poll"];
/// The parameter of a profile with the power of the card.
const POWER: &str = "power.limit";

/// Device that is available beside the CPU.
pub(super) enum Candidate<'a> {
    Nothing,
    /// A device that was measured.
    Device(&'a str),
    /// A card that a profile describes.
    Profile(&'a Profile),
}

/// The best plan; `alone` is that on the CPU alone.
pub(super) fn best(
    question: &Question,
    workload: &Workload,
    with: &Candidate<'_>,
    alone: Option<&Plan>,
) -> Plan {
    let known: Vec<StageRates> = (workload.stages.iter())
        .map(|stage| stage_known(question, workload, stage, with))
        .collect();
    let polls = completion::published(workload.buffer_bytes).mode == Completion::Poll;
    let driving = Interval {
        low: DRIVING_LEAST,
        typ: if polls { 1.0 } else { DRIVING_LEAST.sqrt() },
        high: 1.0,
    };
    let mut shape = WorkloadModel::new(workload, question.host.threads, driving, &DRIVING_FACTS);
    if let Candidate::Profile(profile) = with {
        shape.link(&profile.name, &profile.link);
    }
    if let Candidate::Profile(profile) = with
        && workload.watts.card.is_none()
        && let Some(power) = profile.evidence().get(POWER)
    {
        shape.evidence.insert("watts.card", power.clone());
    }
    for (stage, known) in workload.stages.iter().zip(&known) {
        shape.stage(stage.keep, known);
    }
    let (on_device, carries) = choose(&shape, workload);
    let found = ChosenPlacement {
        workload,
        shape: &shape,
        known: &known,
        on_device: &on_device,
        carries,
        alone,
    };
    found.plan(with)
}

fn stage_known(
    question: &Question,
    workload: &Workload,
    stage: &Stage,
    with: &Candidate<'_>,
) -> StageRates {
    let Task::Run(operation) = stage.task else {
        return StageRates::default();
    };
    let alike = find(question, operation, &stage.patterns, None);
    let at_level = match stage.level {
        Some(_) => find(question, operation, &stage.patterns, stage.level),
        None => alike,
    };
    let found = at_level.or(alike);
    let codec = stage.task.operation().is_some_and(Operation::has_ratio);
    let measured_ratio = found.and_then(|one| one.ratio).map(Interval::exactly);
    let ratio = stage.ratio.or(measured_ratio).filter(|_| codec);
    let at = at_level.and_then(|one| one.cpu_at(workload.buffer_bytes));
    let core = (stage.core_bytes_per_s).or(at.and_then(|rate| rate.core_bytes_per_s));
    let library = at.filter(|_| stage.core_bytes_per_s.is_none());
    let device = match (with, ratio) {
        (Candidate::Nothing, _) => None,
        (Candidate::Device(name), _) => found
            .and_then(|one| nearest(one, name, workload.buffer_bytes))
            .map(|rate| Ok(Prediction::given(rate.bytes_per_s))),
        (Candidate::Profile(_), None) if codec => Some(Err(NoPrediction {
            why: format!("the ratio of {operation} is not known"),
            remedy: "give the stage its ratio, or measure it".into(),
        })),
        (Candidate::Profile(profile), ratio) => {
            let ratio = ratio.map_or(1.0, |ratio| ratio.typ);
            Some(card_rate(profile, operation, stage, ratio, workload.buffer_bytes))
        }
    };
    let fed = match with {
        Candidate::Device(name) => found
            .and_then(|one| nearest(one, name, workload.buffer_bytes))
            .and_then(|rate| rate.core_bytes_per_s),
        Candidate::Nothing | Candidate::Profile(_) => None,
    };
    let note = match &device {
        Some(Err(none)) => none.to_string(),
        _ => String::new(),
    };
    let cannot = matches!(with, Candidate::Profile(profile) if profile.able(operation).is_err());
    StageRates {
        ratio,
        core,
        library: library.map_or_else(String::new, |rate| rate.library.clone()),
        is_rate_unknown: matches!(device, Some(Err(_))) && !cannot,
        device,
        fed,
        note,
    }
}

/// Finds the measurements of an operation. For matching, those with these patterns, otherwise with
/// any. For a codec, those in this framing, otherwise in any; with a level, only those at it. `None`
/// if there are none.
fn find<'a>(
    question: &'a Question,
    operation: Operation,
    patterns: &[String],
    level: Option<u32>,
) -> Option<&'a MeasuredOperation> {
    let alike = |one: &&MeasuredOperation| match one.operation() {
        Ok(other) if operation.family().has_patterns => other.family().has_patterns,
        Ok(other) => without_framing(other) == without_framing(operation),
        Err(_) => false,
    };
    let is_at_level = |one: &&MeasuredOperation| level.is_none() || one.level == level;
    let all = || question.measured.iter().filter(alike).filter(is_at_level);
    let exact = |one: &&MeasuredOperation| {
        one.patterns == patterns && one.operation().is_ok_and(|known| known == operation)
    };
    all()
        .find(exact)
        .or_else(|| all().find(|one| one.patterns == patterns))
        .or_else(|| all().next())
}

/// Returns the measured rate of the device `name` alone, at the size nearest to `bytes`. `None` if
/// it was not measured in the static setting.
fn nearest<'a>(measured: &'a MeasuredOperation, name: &str, bytes: u64) -> Option<&'a DeviceRate> {
    let mine = (measured.devices.iter())
        .filter(|one| one.device == name && one.placement == "device" && one.setting == "static");
    mine.min_by_key(|one| one.bytes.abs_diff(bytes))
}

/// Predicts the rate of a card for buffers of the workload's size, or of the longest size that the
/// card takes if that is shorter.
fn card_rate(
    profile: &Profile,
    operation: Operation,
    stage: &Stage,
    ratio: f64,
    buffer_bytes: u64,
) -> Answer {
    let none = |error: CostError| NoPrediction {
        why: error.to_string(),
        remedy: "the stage stays on the CPU".into(),
    };
    let entry = profile.able(operation).map_err(none)?;
    let bytes = buffer_bytes.min(longest(entry, operation, ratio));
    Pair::modelled(profile, operation, &stage.patterns, ratio, bytes).map_err(none)?.alone()
}

/// Chooses the stages that the cards do. Also returns the most that any placement carries.
///
/// That is the cheapest placement, or the one with the fewest cores without prices, of those that
/// are sure to carry the rate; else of those that may; else the one that carries most.
fn choose(shape: &WorkloadModel<'_>, workload: &Workload) -> (Vec<bool>, Option<Answer>) {
    let able: Vec<usize> = (shape.stages.iter().enumerate())
        .filter(|(_, stage)| stage.device.is_some() && workload.cards != Some(0))
        .map(|(index, _)| index)
        .take(CHOSEN_MAX)
        .collect();
    let mut best = (vec![false; shape.stages.len()], (3, f64::INFINITY));
    let mut capacities = Vec::new();
    for mask in 0_u32..1 << able.len() {
        let mut on_device = vec![false; shape.stages.len()];
        for (bit, index) in able.iter().enumerate() {
            on_device[*index] = mask >> bit & 1 == 1;
        }
        let capacity = shape.capacity(&on_device, shape.limits);
        let rank = rank(shape, workload, &on_device, capacity.as_ref());
        if rank < best.1 {
            best = (on_device, rank);
        }
        capacities.push(capacity);
    }
    (best.0, most(capacities))
}

/// The largest of the placements' capacities, end by end: each end is one that a placement reaches.
fn most(capacities: Vec<Option<Answer>>) -> Option<Answer> {
    let mut most: Option<Answer> = None;
    for capacity in capacities {
        most = match (most, capacity?) {
            (None | Some(Err(_)), one) => Some(one),
            (Some(Ok(most)), Err(_)) => Some(Ok(most)),
            (Some(Ok(most)), Ok(one)) => {
                let interval = most.interval.with(one.interval, f64::max);
                let larger = if one.interval.typ > most.interval.typ { one } else { most };
                Some(Ok(Prediction { interval, ..larger }))
            }
        };
    }
    most
}

/// Order of placements, the least is best: certainty that it carries the rate, then resources.
fn rank(
    shape: &WorkloadModel<'_>,
    workload: &Workload,
    on_device: &[bool],
    capacity: Option<&Answer>,
) -> (u8, f64) {
    let typical = |answer: Answer| answer.map_or(f64::INFINITY, |one| one.interval.typ);
    let sure = match capacity {
        None => 0,
        Some(Err(_)) => return (3, f64::INFINITY),
        Some(Ok(carried)) => {
            let over = carried.interval.scale(1.0 / workload.rate_bytes_per_s.typ);
            match Verdict::of(over) {
                Verdict::Yes => 0,
                _ if over.typ >= 1.0 => 1,
                _ => return (2, 1.0 / over.typ),
            }
        }
    };
    // A card that does nothing is none.
    let idle = shape.predict(on_device, |loads, _| Ok(loads.whole_cards + 1.0));
    if on_device.contains(&true) && typical(idle) == 1.0 {
        return (3, f64::INFINITY);
    }
    let value = match &workload.prices {
        Some(prices) => shape.per_hour(prices, on_device),
        // A card is worth something even if nobody says what.
        None => shape.predict(on_device, |loads, _| Ok(loads.cores + 1e-3 * loads.cards + 1e-6)),
    };
    (sure, typical(value))
}

/// The chosen placement, and its inputs.
struct ChosenPlacement<'a> {
    workload: &'a Workload,
    shape: &'a WorkloadModel<'a>,
    known: &'a [StageRates],
    on_device: &'a [bool],
    /// Largest rate that any placement carries, in bytes a second; `None` if some placement has no
    /// limit.
    carries: Option<Answer>,
    alone: Option<&'a Plan>,
}

impl ChosenPlacement<'_> {
    fn plan(&self, with: &Candidate<'_>) -> Plan {
        let workload = self.workload;
        let wanted = workload.rate_bytes_per_s.typ;
        let cores = (self.shape.predict(self.on_device, |loads, _| Ok(loads.cores.max(1e-6))))
            .map_err(|none| self.explained(none));
        let cards = self.uses_cards().then(|| {
            let mut cards = (self.shape).predict(self.on_device, |loads, _| Ok(loads.cards))?;
            // There are no more, whatever the doubt about what one of them does.
            cards.interval.high = cards.interval.high.min(self.shape.limits.cards);
            Ok(cards)
        });
        let carries = (self.carries.clone()).map(|one| one.map_err(|none| self.explained(none)));
        let enough = match &carries {
            None if cores.is_ok() => Verdict::Yes,
            None | Some(Err(_)) => Verdict::CannotTell,
            Some(Ok(rate)) => Verdict::of(rate.interval.scale(1.0 / wanted)),
        };
        let (name, provenance, card) = match with {
            Candidate::Nothing => ("cpu".into(), "measured", String::new()),
            Candidate::Device(name) => ((*name).into(), "measured", String::new()),
            Candidate::Profile(profile) => (profile.name.clone(), "modelled", profile.card.clone()),
        };
        let fewer_cores = (self.alone.filter(|_| self.uses_cards()))
            .map(|alone| Comparison::modelled(&alone.cores, &cores));
        let costs = self.costs();
        let cheaper = costs.as_ref().and_then(|costs| costs.cheaper.as_ref());
        let better = (cheaper.or(fewer_cores.as_ref())).map(|one| one.verdict);
        let is_unknown = self.known.iter().any(|one| one.is_rate_unknown);
        let is_worth_it = match (with, better) {
            (Candidate::Nothing, _) => None,
            // What is sure to be too little is worth nothing, whatever it saves.
            _ if enough == Verdict::No && !is_unknown => Some(Verdict::No),
            (_, Some(Verdict::Yes)) => Some(enough),
            (_, Some(other)) => Some(other),
            _ if cores.is_err() || is_unknown => Some(Verdict::CannotTell),
            _ => Some(Verdict::No),
        };
        let whole = |load: Interval| [load.low, load.typ, load.high].map(|all| all.ceil() as u64);
        let whole_cards =
            cards.as_ref().and_then(|one| one.as_ref().ok()).map(|one| whole(one.interval));
        let whole_cards_carry = whole_cards.and_then(|[.., most]| {
            let limits = Limits { cards: most as f64, ..self.shape.limits };
            self.shape.capacity(self.on_device, limits)
        });
        Plan {
            name,
            provenance,
            card,
            stages: self.stages(),
            whole_cards,
            whole_cards_carry_bytes_per_s: whole_cards_carry,
            is_worth_it,
            fewer_cores,
            cores,
            cards,
            carries_bytes_per_s: carries,
            enough,
            bottleneck: self.bottleneck(),
            costs,
            missing: self.missing(),
        }
    }

    fn uses_cards(&self) -> bool {
        self.on_device.contains(&true)
    }

    /// A number of its resources; `None` if it cannot be predicted or is zero.
    fn number(&self, of: impl Fn(&Loads) -> f64) -> Option<Interval> {
        let found = self.shape.predict(self.on_device, |loads, _| Ok(of(loads)));
        found.ok().map(|one| one.interval)
    }

    /// Adds the stage whose rate on a core is missing.
    fn explained(&self, none: NoPrediction) -> NoPrediction {
        let stages = self.workload.stages.iter().zip(self.known).zip(self.on_device);
        let mut names: Vec<String> = stages
            .filter(|((stage, known), placed)| {
                stage.task != Task::Send && known.core.is_none() && !**placed
            })
            .map(|((stage, _), _)| stage.task.to_string())
            .collect();
        names.dedup();
        if names.is_empty() {
            return none;
        }
        let what = names.join(" and ");
        NoPrediction {
            why: format!("{what} was not measured on this host"),
            remedy: format!("run a box with {what}, or give the stage its core_rate"),
        }
    }

    fn stages(&self) -> Vec<StagePlan> {
        (self.workload.stages.iter().zip(self.known).enumerate())
            .map(|(index, (stage, known))| {
                let share = self.number(|loads| loads.shares[index]);
                let share = share.map_or(0.0, |share| share.typ);
                let placement = match stage.task {
                    Task::Send => "network".into(),
                    Task::Run(_) if !self.on_device[index] => "cpu".into(),
                    Task::Run(_) if share >= 0.995 => "device".into(),
                    Task::Run(_) => format!("split:{:.0}", share * 100.0),
                };
                StagePlan {
                    task: stage.task.to_string(),
                    placement,
                    enters_bytes_per_s: self.number(|loads| loads.enters[index]),
                    core_bytes_per_s: known.core,
                    device_bytes_per_s: known.device.clone().filter(Result::is_ok),
                    cores: self.number(|loads| loads.by_stage[index]),
                    library: known.library.clone(),
                    is_rate_unknown: known.is_rate_unknown,
                    note: known.note.clone(),
                }
            })
            .collect()
    }

    fn bottleneck(&self) -> Bottleneck {
        let workload = self.workload;
        let mut parts = Vec::new();
        let limits = self.shape.limits;
        if limits.cores.is_finite() {
            let used = self.number(|loads| loads.cores / limits.cores);
            parts.push(("cores".to_owned(), used));
        }
        if workload.network_bytes_per_s.is_some() {
            let used = self.number(|loads| loads.network);
            parts.push(("network".to_owned(), used));
        }
        if let Some(all) = workload.cards.filter(|all| *all > 0) {
            let used = self.number(|loads| loads.cards / f64::from(all));
            parts.push(("cards".to_owned(), used));
        }
        if parts.is_empty() {
            // Nothing is limited: what takes most of the cores, which more rate makes more of.
            for (index, stage) in workload.stages.iter().enumerate() {
                let used = self.number(|loads| loads.by_stage[index] / loads.cores);
                parts.push((format!("stage {}, {}", index + 1, stage.task), used));
            }
        }
        let typical = |one: &(String, Option<Interval>)| one.1.map_or(-1.0, |used| used.typ);
        let most = parts.into_iter().max_by(|a, b| typical(a).total_cmp(&typical(b)));
        match most {
            Some((what, Some(used))) => Bottleneck { what, used: Some(used) },
            _ => Bottleneck {
                what: if self.uses_cards() { "cards" } else { "not known" }.into(),
                used: None,
            },
        }
    }

    fn costs(&self) -> Option<Costs> {
        let workload = self.workload;
        let prices = workload.prices.as_ref()?;
        let per_hour =
            (self.shape.per_hour(prices, self.on_device)).map_err(|none| self.explained(none));
        let energy = prices.energy_kwh.is_some();
        let watts = self.shape.evidence.get("watts.card").is_some();
        let incomplete = [
            ("prices.card", self.uses_cards() && prices.card.is_none()),
            ("prices.core_hour", prices.core_hour.is_none()),
            ("watts.card", self.uses_cards() && energy && !watts),
            ("watts.core", energy && workload.watts.core.is_none()),
        ];
        let before = (self.alone.filter(|_| self.uses_cards())).and_then(|one| one.costs.as_ref());
        Some(Costs {
            currency: prices.currency.clone(),
            cheaper: before.map(|before| Comparison::modelled(&before.per_hour, &per_hour)),
            per_hour,
            incomplete: (incomplete.into_iter())
                .filter(|(_, lacking)| *lacking)
                .map(|(key, _)| key.into())
                .collect(),
        })
    }

    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let stages = &self.workload.stages;
        if stages.iter().any(|stage| stage.task == Task::Send) {
            missing.push("what sending costs the CPU: it counts as nothing".to_owned());
        }
        for (stage, known) in stages.iter().zip(self.known) {
            if stage.task.operation().is_some_and(Operation::has_ratio) && known.ratio.is_none() {
                missing.push(format!("the ratio of {}: 1 is taken", stage.task));
            }
        }
        if self.uses_cards() {
            missing.push(
                "whether stages on one card disturb each other: they are taken not to".into(),
            );
        }
        missing
    }
}
