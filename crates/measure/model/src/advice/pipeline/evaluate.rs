//! Cores, cards, network and money that a placement of the stages takes.

use std::collections::BTreeMap;

use overside_ops::{Lengths, Operation};

use super::capacity::{Demand, Limits, Offload, StageDemand};
use crate::advice::device::{insert, insert_number, insert_rate};
use crate::profile::Link;
use crate::{
    Answer, Evaluation, Evidence, EvidenceLevel, Interval, MissingParameter, Prices, Task, Unit,
    Values, Workload,
};

const RATE: &str = "rate";
const DRIVING: &str = "cores that drive a card";
const HOURS_A_YEAR: f64 = 365.25 * 24.0;

/// A workload with one device as parameters that formulas read.
pub(super) struct WorkloadModel<'a> {
    pub evidence: Evidence,
    pub stages: Vec<StageModel>,
    pub limits: Limits,
    workload: &'a Workload,
    /// The link to the cards and the one from them, where their rates are known.
    links: [Option<String>; 2],
}

/// Rates of one stage that are known, as input to [`WorkloadModel::stage`].
#[derive(Default)]
pub(super) struct StageRates {
    pub ratio: Option<Interval>,
    pub core: Option<Interval>,
    /// Library and level of that rate; empty where it is not named.
    pub library: String,
    pub device: Option<Answer>,
    /// Bytes a second that one core feeds to the device; `None` if that was not measured.
    pub fed: Option<Interval>,
    pub note: String,
    /// The card does it, but how fast is not known.
    pub is_rate_unknown: bool,
}

/// Parameters of one stage.
pub(super) struct StageModel {
    pub task: Task,
    keep: String,
    ratio: Option<String>,
    /// Name of the parameter for the rate of one core; `None` if that rate is not known.
    core: Option<String>,
    /// Name of the parameter for the rate of one card; `None` if the card cannot do the stage or
    /// the rate is not known.
    pub device: Option<String>,
    /// Name of the parameter for the rate at which one core feeds the device; `None` if that was
    /// not measured.
    fed: Option<String>,
}

/// Resources that a placement takes at the rate that is wanted.
pub(super) struct Loads {
    /// Cores of the host.
    pub cores: f64,
    /// Cores by stage.
    pub by_stage: Vec<f64>,
    /// Cards that are busy: of their busiest part.
    pub cards: f64,
    /// Cards that are there for that.
    pub whole_cards: f64,
    /// Bytes a second that enter each stage.
    pub enters: Vec<f64>,
    /// Share of each stage that the cards do.
    pub shares: Vec<f64>,
    /// Used share of the network; 1 is all of it.
    pub network: f64,
}

impl<'a> WorkloadModel<'a> {
    /// `threads`: of the host that was measured. `driving`: the share of a core that waiting for
    /// one card takes, and its facts.
    pub(super) fn new(
        workload: &'a Workload,
        threads: Option<u32>,
        driving: Interval,
        facts: &[&str],
    ) -> Self {
        let mut evidence = Evidence::new();
        insert_rate(&mut evidence, RATE, workload.rate_bytes_per_s);
        let facts = facts.iter().map(ToString::to_string).collect();
        insert(&mut evidence, DRIVING, driving, Unit::Count, facts);
        if let Some(network) = workload.network_bytes_per_s {
            insert_rate(&mut evidence, "network.rate", network);
        }
        let mut number = |name: &str, value: Option<Interval>| {
            if let Some(value) = value {
                insert_number(&mut evidence, name, value);
            }
        };
        if let Some(prices) = &workload.prices {
            number("prices.card", prices.card);
            number("prices.core_hour", prices.core_hour);
            number("prices.energy_kwh", prices.energy_kwh);
        }
        number("watts.card", workload.watts.card);
        number("watts.core", workload.watts.core);
        let limit = |there: Option<u32>| there.map_or(f64::INFINITY, f64::from);
        Self {
            evidence,
            stages: Vec::new(),
            limits: Limits {
                cores: limit(workload.cores.or(threads)),
                cards: limit(workload.cards),
            },
            workload,
            links: [None, None],
        }
    }

    /// The link that the stages on one card share.
    pub(super) fn link(&mut self, card: &str, link: &Link) {
        let ends = [("to_device", &link.to_device), ("from_device", &link.from_device)];
        for (slot, (end, rate)) in self.links.iter_mut().zip(ends) {
            *slot = rate.as_ref().map(|rate| {
                let name = format!("{card}/link.{end}");
                self.evidence.insert(&name, rate.clone());
                name
            });
        }
    }

    /// Adds the next stage, which passes on the fraction `keep` of its bytes.
    pub(super) fn stage(&mut self, keep: Interval, known: &StageRates) {
        let index = self.stages.len();
        let task = self.workload.stages[index].task;
        let named = |what: &str| format!("stage {}, {task}: {what}", index + 1);
        let keep_name = named("share kept");
        insert_number(&mut self.evidence, &keep_name, keep);
        let ratio = known.ratio.map(|ratio| {
            let name = named("ratio");
            insert_number(&mut self.evidence, &name, ratio);
            name
        });
        let mut rate = |what: &str, of: Option<Interval>| {
            let name = named(what);
            insert_rate(&mut self.evidence, &name, of?);
            Some(name)
        };
        let core = rate("one core", known.core);
        let fed = rate("one core that feeds the device", known.fed);
        let device = (known.device.as_ref().and_then(|answer| answer.as_ref().ok())).map(|rate| {
            let name = named("one card");
            let interval = rate.interval.scale(1.0 / Unit::MBPerS.in_base());
            let facts = rate.facts.clone();
            insert(&mut self.evidence, &name, interval, Unit::MBPerS, facts);
            name
        });
        self.stages.push(StageModel { task, keep: keep_name, ratio, core, device, fed });
    }

    /// Returns the resources that one byte a second takes, and how many bytes a second then enter
    /// each stage.
    fn demand(&self, v: &Values<'_>, on_device: &[bool]) -> Evaluation<(Demand, Vec<f64>)> {
        let mut flow = 1.0;
        let (mut enters, mut work) = (Vec::new(), Vec::new());
        let mut demand = Demand::default();
        let mut engines: BTreeMap<&str, f64> = BTreeMap::new();
        let mut links = [0.0; 2];
        for (stage, on_device) in self.stages.iter().zip(on_device) {
            let ratio = stage.ratio.as_ref().map_or(Ok(1.0), |name| v.get(name))?;
            enters.push(flow);
            let (plain, leaving) = match stage.task.operation().map(Operation::lengths) {
                Some(Lengths::Expands) => (flow / ratio, flow / ratio),
                Some(Lengths::Shrinks) => (flow, flow * ratio),
                Some(_) => (flow, flow),
                None => (0.0, flow),
            };
            if stage.task == Task::Send && self.workload.network_bytes_per_s.is_some() {
                demand.network += flow / v.get("network.rate")?;
            }
            if let (true, Some(device)) = (*on_device, &stage.device) {
                *engines.entry(engine(stage.task)).or_default() += plain / v.get(device)?;
                // Counts and bitmaps are too short to count.
                let returned = match stage.task.operation().map(Operation::lengths) {
                    Some(Lengths::Answers) => 0.0,
                    _ => leaving,
                };
                for ((link, load), bytes) in self.links.iter().zip(&mut links).zip([flow, returned])
                {
                    *load += link.as_ref().map_or(Ok(0.0), |name| Ok(bytes / v.get(name)?))?;
                }
            }
            work.push(plain);
            flow = leaving * v.get(&stage.keep)?;
        }
        // What feeding a device takes of the host's CPU was measured, or is bounded by polling.
        let mut waited_for = false;
        for ((stage, on_device), plain) in self.stages.iter().zip(on_device).zip(&work) {
            let cores = match &stage.core {
                Some(core) => Some(plain / v.get(core)?),
                None if stage.task == Task::Send => Some(0.0),
                None => None,
            };
            let offload = if *on_device && stage.device.is_some() {
                waited_for |= stage.fed.is_none();
                let fed = stage.fed.as_ref().map(|fed| v.get(fed)).transpose()?;
                let shared = [engines[engine(stage.task)], links[0], links[1]];
                Some(Offload {
                    cards: shared.into_iter().fold(0.0, f64::max),
                    cores: fed.map_or(0.0, |fed| plain / fed),
                })
            } else if cores.is_none() {
                return Err(unmeasured(stage));
            } else {
                None
            };
            demand.stages.push(StageDemand { cores, offload });
        }
        if waited_for {
            demand.driving = v.get(DRIVING)?;
        }
        Ok((demand, enters))
    }

    /// Computes the resources that a placement takes at the rate that is wanted.
    fn loads(&self, v: &Values<'_>, on_device: &[bool]) -> Evaluation<Loads> {
        let rate = v.get(RATE)?;
        let (demand, enters) = self.demand(v, on_device)?;
        let whole_cards = demand.count(rate, self.limits);
        // Where there are too few cards, the cores do the rest.
        let by_stage = (self.stages.iter().zip(&demand.stages))
            .map(|(stage, one)| one.busy(rate, whole_cards).ok_or_else(|| unmeasured(stage)))
            .collect::<Evaluation<Vec<f64>>>()?;
        Ok(Loads {
            cores: by_stage.iter().sum::<f64>() + demand.driving * whole_cards,
            by_stage,
            cards: (demand.cards() * rate).min(whole_cards),
            whole_cards,
            enters: enters.iter().map(|one| one * rate).collect(),
            shares: (demand.stages.iter()).map(|one| one.share(rate, whole_cards)).collect(),
            network: demand.network * rate,
        })
    }

    /// Predicts a formula over the resources that a placement takes.
    pub(super) fn predict(
        &self,
        on_device: &[bool],
        formula: impl Fn(&Loads, &Values<'_>) -> Evaluation,
    ) -> Answer {
        // What one core and one card do carry their own doubt; scaling them adds little.
        self.evidence.predict(EvidenceLevel::Same, |v| {
            let loads = self.loads(v, on_device)?;
            formula(&loads, v)
        })
    }

    /// Returns the maximum number of bytes per second of a placement within `limits`, for any demand;
    /// `None` if nothing limits it.
    pub(super) fn capacity(&self, on_device: &[bool], limits: Limits) -> Option<Answer> {
        let any = |is: &dyn Fn(&StageModel) -> bool| self.stages.iter().any(is);
        let network =
            self.workload.network_bytes_per_s.is_some() && any(&|one| one.task == Task::Send);
        let cores = limits.cores.is_finite() && any(&|one| one.task != Task::Send);
        let cards = limits.cards.is_finite()
            && (self.stages.iter().zip(on_device))
                .any(|(one, placed)| *placed && one.core.is_none());
        (network || cores || cards).then(|| {
            self.evidence
                .predict(EvidenceLevel::Same, |v| Ok(self.demand(v, on_device)?.0.capacity(limits)))
        })
    }

    /// Predicts the cost per hour of cards, cores and energy. A price that is not given counts as
    /// 0.
    pub(super) fn per_hour(&self, prices: &Prices, on_device: &[bool]) -> Answer {
        self.predict(on_device, |loads, v| {
            let get = |name: &str| if v.has(name) { v.get(name) } else { Ok(0.0) };
            let cards = loads.whole_cards;
            let owning = cards * get("prices.card")? / (prices.years * HOURS_A_YEAR);
            let watts = cards * get("watts.card")? + loads.cores * get("watts.core")?;
            let energy = watts / 1000.0 * get("prices.energy_kwh")?;
            Ok((owning + loads.cores * get("prices.core_hour")? + energy).max(1e-9))
        })
    }
}

fn unmeasured(stage: &StageModel) -> MissingParameter {
    MissingParameter::nothing(
        format!("what one core does of {} was not measured", stage.task),
        "run a box with that task on one thread here, and advise from its run",
    )
}

/// Operations that share a card's engine.
fn engine(task: Task) -> &'static str {
    let engine = task.operation().and_then(|one| one.family().engine);
    engine.unwrap_or("none")
}
