//! What the timed part of a placement adds up to, by leg, and the figures made of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use overside_device::{Applied, CpuTime, Lifecycle, Operation, Outcome, Stages};
use overside_ops::Direction;
use overside_placement::{ChunkResult, Report, Target, TargetReport};

use super::report_leg;
use crate::recorder::{Counted, Late, Told, mismatch, nanoseconds, warnings};
use crate::sample::{Failure, Warning, Work};

/// Sums over the pieces of one leg.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) jobs: u64,
    /// Of the uncompressed side.
    pub(super) bytes: u64,
    /// Of the other side.
    compressed_bytes: u64,
    incompressible: u64,
    pub(super) late: u64,
    pub(super) overdue_ns: u64,
    pub(super) applied: Option<Arc<Applied>>,
    queueing: Told,
    transfer: Told,
    engine: Told,
    /// Bytes of the jobs whose engine time is known.
    engine_bytes: u64,
    /// Time with at least one job in flight.
    busy_ns: u64,
}

/// Times of the contexts' stages of life, by leg, and of making buffers.
pub(super) struct Lives {
    legs: [(Lifecycle, u64); 2],
    memory_ns: u64,
}

impl Lives {
    /// What happened between two reports.
    pub(super) fn of(after: &Report, before: &Report) -> Self {
        let leg = |leg| match (report_leg(after, leg), report_leg(before, leg)) {
            (Some(after), before) => passed(after, before),
            (None, _) => (Lifecycle::default(), 0),
        };
        Self {
            legs: [leg(Target::Cpu), leg(Target::Device)],
            memory_ns: after.memory_ns.saturating_sub(before.memory_ns),
        }
    }

    /// Contexts that were set up.
    pub(super) fn setups(&self, leg: Target) -> u64 {
        self.legs[leg as usize].1
    }

    /// Total times of a leg's stages, by name.
    fn totals(&self, leg: Target) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let (life, _) = self.legs[leg as usize];
        let all = [
            ("discovery", life.discovery_ns),
            ("init", life.init_ns),
            ("memory", life.memory_ns),
            ("end", life.end_ns),
        ];
        all.into_iter()
            .filter_map(|(name, ns)| Some((name, ns? as f64)))
    }
}

fn passed(after: &TargetReport, before: Option<&TargetReport>) -> (Lifecycle, u64) {
    let earlier = before.map(|leg| leg.lifecycle).unwrap_or_default();
    let since = |after: Option<u64>, before: Option<u64>| {
        after.map(|after| after.saturating_sub(before.unwrap_or(0)))
    };
    let life = Lifecycle {
        discovery_ns: since(after.lifecycle.discovery_ns, earlier.discovery_ns),
        init_ns: since(after.lifecycle.init_ns, earlier.init_ns),
        memory_ns: since(after.lifecycle.memory_ns, earlier.memory_ns),
        end_ns: since(after.lifecycle.end_ns, earlier.end_ns),
    };
    (life, after.setups - before.map_or(0, |leg| leg.setups))
}

/// Sums over the pieces of the timed part.
pub(super) struct Tally {
    operation: Operation,
    legs: [Sums; 2],
}

impl Tally {
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            operation,
            legs: Default::default(),
        }
    }

    pub(super) fn leg(&self, leg: Target) -> &Sums {
        &self.legs[leg as usize]
    }

    /// Adds a piece that was found to be right. `source_bytes` is the length of what was read.
    pub(super) fn add(
        &mut self,
        piece: &ChunkResult,
        outcome: &Outcome,
        source_bytes: u64,
    ) -> Result<(), Failure> {
        let side = self.operation.uncompressed_side();
        let sums = &mut self.legs[piece.target as usize];
        if let Some(applied) = &piece.applied {
            match &sums.applied {
                None => sums.applied = Some(Arc::clone(applied)),
                Some(first) if Arc::ptr_eq(first, applied) || first == applied => {}
                Some(first) => return Err(mismatch(first, applied)),
            }
        }
        let written = match outcome {
            Outcome::Done(output) => output.written as u64,
            Outcome::Incompressible => {
                sums.incompressible += 1;
                source_bytes
            }
        };
        let (bytes, other) = match side {
            Direction::Source => (source_bytes, written),
            Direction::Destination => (written, source_bytes),
        };
        let Stages {
            queueing_ns,
            transfer_ns,
            engine_ns,
            late,
            overdue_ns,
        } = piece.stages;
        sums.jobs += 1;
        sums.bytes += bytes;
        sums.compressed_bytes += other;
        sums.late += u64::from(late);
        sums.overdue_ns += overdue_ns;
        sums.queueing.add(queueing_ns);
        sums.transfer.add(transfer_ns);
        sums.engine.add(engine_ns);
        sums.engine_bytes += engine_ns.map_or(0, |_| bytes);
        Ok(())
    }

    /// Takes in how long each leg was at work.
    pub(super) fn busy(&mut self, after: &Report, before: &Report) {
        for leg in [Target::Cpu, Target::Device] {
            let busy = |report| report_leg(report, leg).map_or(0, |leg| leg.busy_ns);
            self.legs[leg as usize].busy_ns = busy(after).saturating_sub(busy(before));
        }
    }

    fn sum(&self, of: impl Fn(&Sums) -> u64) -> u64 {
        self.legs.iter().map(of).sum()
    }

    /// Mean bytes of a leg's sources and of its results.
    pub(super) fn mean_sizes(&self, leg: Target) -> (u64, u64) {
        let sums = self.leg(leg);
        let jobs = sums.jobs.max(1);
        let (bytes, other) = (sums.bytes / jobs, sums.compressed_bytes / jobs);
        match self.operation.uncompressed_side() {
            Direction::Source => (bytes, other),
            Direction::Destination => (other, bytes),
        }
    }

    fn has_compressed_side(&self) -> bool {
        matches!(
            self.operation,
            Operation::Compress(_) | Operation::Decompress(_)
        )
    }

    pub(super) fn work(&self) -> Work {
        Work {
            jobs: self.sum(|leg| leg.jobs),
            bytes: self.sum(|leg| leg.bytes),
            compressed_bytes: (self.has_compressed_side())
                .then(|| self.sum(|leg| leg.compressed_bytes)),
            doorbells: 0,
        }
    }

    /// Mean times of a leg's stages, a job or a context each.
    fn means(&self, leg: Target, lives: &Lives) -> Vec<(&'static str, f64)> {
        let sums = self.leg(leg);
        let jobs = [
            ("queueing", sums.queueing.mean_ns()),
            ("transfer", sums.transfer.mean_ns()),
            ("engine", sums.engine.mean_ns()),
        ];
        let setups = lives.setups(leg);
        let contexts = lives.totals(leg).filter(|_| setups > 0);
        (jobs.into_iter())
            .filter_map(|(name, ns)| Some((name, ns?)))
            .chain(contexts.map(|(name, ns)| (name, ns / setups as f64)))
            .collect()
    }

    /// Mean nanoseconds of the leading leg's stages, and both legs' totals.
    pub(super) fn stages(&self, lead: Target, lives: &Lives) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for (name, ns) in self.means(lead, lives) {
            all.insert(format!("{name}_ns"), ns);
        }
        for leg in [Target::Cpu, Target::Device] {
            let sums = self.leg(leg);
            if sums.jobs == 0 {
                continue;
            }
            let jobs = [
                ("queueing", sums.queueing.total_ns()),
                ("transfer", sums.transfer.total_ns()),
                ("engine", sums.engine.total_ns()),
                ("busy", Some(sums.busy_ns as f64)),
            ];
            let told = (jobs.into_iter()).filter_map(|(name, ns)| Some((name, ns?)));
            for (name, ns) in told.chain(lives.totals(leg)) {
                all.insert(format!("{leg}_{name}_total_ns"), ns);
            }
        }
        all.insert("buffers_total_ns".into(), lives.memory_ns as f64);
        all
    }

    /// The figures of docs/results.md. What cannot be computed is absent, never zero.
    pub(super) fn metrics(
        &self,
        elapsed: Duration,
        cpu: CpuTime,
        lead: Target,
        lives: &Lives,
    ) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            if value.is_finite() {
                all.insert(name.to_string(), value);
            }
        };
        let seconds = elapsed.as_secs_f64();
        let (jobs, bytes) = (self.sum(|leg| leg.jobs), self.sum(|leg| leg.bytes) as f64);
        put("throughput", bytes / 1e6 / seconds);
        put("rate", jobs as f64 / seconds);
        if self.has_compressed_side() {
            let compressed = self.sum(|leg| leg.compressed_bytes) as f64;
            put("compressed_throughput", compressed / 1e6 / seconds);
            put("ratio", compressed / bytes);
        }
        for (leg, name) in [(Target::Cpu, "cpu_leg"), (Target::Device, "device_leg")] {
            let sums = self.leg(leg);
            if sums.jobs > 0 && sums.busy_ns > 0 {
                let rate = sums.bytes as f64 / sums.busy_ns as f64 * 1e3;
                put(&format!("{name}_throughput"), rate);
            }
        }
        put(
            "device_share",
            self.leg(Target::Device).bytes as f64 / bytes * 100.0,
        );
        let engine = self.leg(lead);
        if let Some(rate) = engine.engine.rate(engine.engine_bytes) {
            put("engine_throughput", rate);
        }
        let host_s = cpu.host_ns as f64 / 1e9;
        put("cpu_seconds", host_s);
        put("cpu_cost", host_s / (bytes / 1e9));
        put("cpu_utilisation", host_s / seconds * 100.0);
        for (name, ns) in self.means(lead, lives) {
            put(&format!("stage_{name}"), ns / 1e3);
        }
        all
    }

    /// What a reader of the figures should know.
    pub(super) fn warnings(&self, elapsed: Duration, varied: u64) -> Vec<Warning> {
        warnings(&Counted {
            jobs: self.sum(|leg| leg.jobs),
            incompressible: self.sum(|leg| leg.incompressible),
            late: Late::Time {
                overdue_ns: self.leg(Target::Device).overdue_ns,
                elapsed_ns: nanoseconds(elapsed),
            },
            varied,
        })
    }
}
