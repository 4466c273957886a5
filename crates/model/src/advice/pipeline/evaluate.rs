//! How much of everything a placement of the stages takes.

use std::collections::BTreeMap;

use overside_ops::Operation;

use crate::advice::device::{insert, insert_number, insert_rate};
use crate::{Answer, Closeness, Evidence, Interval, Prices, Task, Unit, Unknown, Values, Workload};

const RATE: &str = "rate";
const DRIVING: &str = "cores that drive a card";
const HOURS_A_YEAR: f64 = 365.25 * 24.0;

/// A workload with one device as parameters that formulas read.
pub(super) struct Shape<'a> {
    pub evidence: Evidence,
    pub stages: Vec<StageShape>,
    workload: &'a Workload,
}

/// One stage's parameters by what they stand for.
pub(super) struct StageShape {
    pub task: Task,
    keep: String,
    ratio: Option<String>,
    /// What one core does; `None` if that is not known.
    core: Option<String>,
    /// What one card does; `None` if it does not do it or that is not known.
    pub device: Option<String>,
    /// What one core feeds to the device, where that was measured.
    fed: Option<String>,
}

/// What a placement takes.
pub(super) struct Loads {
    /// Cores of the host.
    pub cores: f64,
    /// Cores by stage.
    pub by_stage: Vec<f64>,
    /// Cards: of their busiest part.
    pub cards: f64,
    /// Bytes a second that enter each stage.
    pub enters: Vec<f64>,
    /// Share of each stage that the cards do.
    pub shares: Vec<f64>,
    /// The network's use, 1 is all of it.
    pub network: Option<f64>,
}

impl<'a> Shape<'a> {
    /// `driving`: the share of a core that waiting for one card takes, and the facts that say so.
    pub(super) fn new(workload: &'a Workload, driving: Interval, facts: &[&str]) -> Self {
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
        Self {
            evidence,
            stages: Vec::new(),
            workload,
        }
    }

    /// Adds the next stage: what of it goes on, its ratio, what one core does, what one card, and
    /// what one core feeds to that.
    pub(super) fn stage(
        &mut self,
        keep: Interval,
        ratio: Option<Interval>,
        core: Option<Interval>,
        device: Option<&Answer>,
        fed: Option<Interval>,
    ) {
        let index = self.stages.len();
        let task = self.workload.stages[index].task;
        let named = |what: &str| format!("stage {}, {task}: {what}", index + 1);
        let keep_name = named("share kept");
        insert_number(&mut self.evidence, &keep_name, keep);
        let ratio = ratio.map(|ratio| {
            let name = named("ratio");
            insert_number(&mut self.evidence, &name, ratio);
            name
        });
        let mut rate = |what: &str, of: Option<Interval>| {
            let name = named(what);
            insert_rate(&mut self.evidence, &name, of?);
            Some(name)
        };
        let core = rate("one core", core);
        let fed = rate("one core that feeds the device", fed);
        let device = (device.and_then(|answer| answer.as_ref().ok())).map(|rate| {
            let name = named("one card");
            let interval = rate.interval.scale(1.0 / Unit::MBPerS.in_base());
            let facts = rate.facts.clone();
            insert(&mut self.evidence, &name, interval, Unit::MBPerS, facts);
            name
        });
        self.stages.push(StageShape {
            task,
            keep: keep_name,
            ratio,
            core,
            device,
            fed,
        });
    }

    /// What a placement takes.
    fn loads(&self, v: &Values<'_>, on_device: &[bool]) -> Result<Loads, Unknown> {
        let mut flow = v.get(RATE)?;
        let (mut enters, mut work) = (Vec::new(), Vec::new());
        let mut network = None;
        let mut engines: BTreeMap<&str, f64> = BTreeMap::new();
        for (stage, on_device) in self.stages.iter().zip(on_device) {
            let ratio = stage.ratio.as_ref().map_or(Ok(1.0), |name| v.get(name))?;
            enters.push(flow);
            let (plain, leaving) = match stage.task {
                Task::Run(Operation::Decompress(_)) => (flow / ratio, flow / ratio),
                Task::Run(Operation::Compress(_)) => (flow, flow * ratio),
                Task::Run(_) => (flow, flow),
                Task::Send => (0.0, flow),
            };
            if stage.task == Task::Send && self.workload.network_bytes_per_s.is_some() {
                let used = flow / v.get("network.rate")?;
                network = Some(network.map_or(used, |more: f64| more + used));
            }
            if let (true, Some(device)) = (*on_device, &stage.device) {
                *engines.entry(engine(stage.task)).or_default() += plain / v.get(device)?;
            }
            work.push(plain);
            flow = leaving * v.get(&stage.keep)?;
        }
        let there = self.workload.cards.map_or(f64::INFINITY, f64::from);
        let used = engines.values().copied().fold(0.0, f64::max).min(there);
        let (mut by_stage, mut shares) = (Vec::new(), Vec::new());
        // What feeding a device takes of the host's CPU was measured, or is bounded by polling.
        let mut waited_for = false;
        for ((stage, on_device), plain) in self.stages.iter().zip(on_device).zip(&work) {
            // Where there are too few cards, the cores do the rest.
            let share = match engines.get(engine(stage.task)) {
                Some(load) if *on_device && stage.device.is_some() => (there / load).min(1.0),
                _ => 0.0,
            };
            let (left, given) = (plain * (1.0 - share), plain * share);
            let mut cores = 0.0;
            if left > 0.0 {
                cores += left / self.core(v, stage)?;
            }
            match &stage.fed {
                Some(fed) if given > 0.0 => cores += given / v.get(fed)?,
                _ => waited_for |= given > 0.0,
            }
            by_stage.push(cores);
            shares.push(share);
        }
        let driving = if waited_for {
            v.get(DRIVING)? * used.ceil()
        } else {
            0.0
        };
        Ok(Loads {
            cores: by_stage.iter().sum::<f64>() + driving,
            by_stage,
            cards: used,
            enters,
            shares,
            network,
        })
    }

    fn core(&self, v: &Values<'_>, stage: &StageShape) -> Result<f64, Unknown> {
        match &stage.core {
            Some(core) => v.get(core),
            None => Err(Unknown::nothing(
                format!("what one core does of {} was not measured", stage.task),
                "run a box with that task on one thread here, and advise from its run",
            )),
        }
    }

    /// Of a formula over what a placement takes.
    pub(super) fn predict(
        &self,
        on_device: &[bool],
        formula: impl Fn(&Loads, &Values<'_>) -> Result<f64, Unknown>,
    ) -> Answer {
        // What one core and one card do carry their own doubt; scaling them adds little.
        self.evidence.predict(Closeness::Same, |v| {
            let loads = self.loads(v, on_device)?;
            formula(&loads, v)
        })
    }

    /// The rate that is carried over the rate that is wanted; `None` where nothing is limited.
    pub(super) fn carried(&self, on_device: &[bool]) -> Option<Answer> {
        let limited = self.workload.cores.is_some() || self.workload.network_bytes_per_s.is_some();
        limited.then(|| {
            self.predict(on_device, |loads, _| {
                let cores = (self.workload.cores).map_or(0.0, |all| loads.cores / f64::from(all));
                let used = cores.max(loads.network.unwrap_or(0.0));
                Ok(1.0 / used.max(1e-9))
            })
        })
    }

    /// What it costs an hour.
    pub(super) fn per_hour(&self, prices: &Prices, on_device: &[bool]) -> Answer {
        self.predict(on_device, |loads, v| {
            let get = |name: &str| if v.has(name) { v.get(name) } else { Ok(0.0) };
            let cards = loads.cards.ceil();
            let owning = cards * get("prices.card")? / (prices.years * HOURS_A_YEAR);
            let watts = cards * get("watts.card")? + loads.cores * get("watts.core")?;
            let energy = watts / 1000.0 * get("prices.energy_kwh")?;
            Ok((owning + loads.cores * get("prices.core_hour")? + energy).max(1e-9))
        })
    }
}

/// Operations that share a card's engine.
fn engine(task: Task) -> &'static str {
    match task {
        Task::Run(Operation::Compress(_) | Operation::Decompress(_)) => "compression",
        Task::Run(Operation::Match(_)) => "matching",
        Task::Run(_) | Task::Send => "none",
    }
}
