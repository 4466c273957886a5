//! The figures of a placement, of both legs and of each.

use std::collections::BTreeMap;
use std::time::Duration;

use overside_device::{CpuTime, Lifecycle, Operation, Timing};
use overside_placement::{Report, Target, TargetReport};
use overside_probe::Failure;

use super::{LEGS, PlacementBench, report_leg};
use crate::evidence::{Evidence, LateCount};
use crate::job_totals::{JobTotals, has_compressed_side};
use crate::lifecycle_times::LifecycleTimes;
use crate::prediction::predict;
use crate::sample::{Check, Done, Sample, Warning, Work, nanoseconds};
use crate::warnings::{Counted, Late, warnings};

/// What the timed part came to.
pub(super) struct Figures {
    pub operation: Operation,
    /// By leg.
    pub totals: [JobTotals; 2],
    /// By leg: the time with at least one job in flight.
    pub busy_ns: [u64; 2],
    pub times: LegTimes,
    pub elapsed: Duration,
    pub cpu: CpuTime,
    pub varied: u64,
}

/// Times of setting contexts up, by leg, and of making buffers.
pub(super) struct LegTimes {
    legs: [(LifecycleTimes, u64); 2],
    buffers_ns: u64,
}

impl LegTimes {
    /// What happened between two reports.
    pub(super) fn between(before: &Report, after: &Report) -> Self {
        let leg = |leg| match (report_leg(before, leg), report_leg(after, leg)) {
            (before, Some(after)) => since(before, after),
            (_, None) => (LifecycleTimes::default(), 0),
        };
        Self {
            legs: LEGS.map(leg),
            buffers_ns: after.memory_ns.saturating_sub(before.memory_ns),
        }
    }

    /// Contexts that were set up.
    pub(super) fn setups(&self, leg: Target) -> u64 {
        self.legs[leg as usize].1
    }
}

fn since(before: Option<&TargetReport>, after: &TargetReport) -> (LifecycleTimes, u64) {
    let earlier = before.map(|leg| leg.lifecycle).unwrap_or_default();
    let since = |after: Option<u64>, before: Option<u64>| {
        after.map(|after| after.saturating_sub(before.unwrap_or(0)))
    };
    let setups = after.setups - before.map_or(0, |leg| leg.setups);
    let mut times = LifecycleTimes::default();
    let total = Lifecycle {
        discovery_ns: since(after.lifecycle.discovery_ns, earlier.discovery_ns),
        init_ns: since(after.lifecycle.init_ns, earlier.init_ns),
        memory_ns: since(after.lifecycle.memory_ns, earlier.memory_ns),
        end_ns: since(after.lifecycle.end_ns, earlier.end_ns),
    };
    times.add_many(&total, setups);
    (times, setups)
}

impl Figures {
    pub(super) fn leg(&self, leg: Target) -> &JobTotals {
        &self.totals[leg as usize]
    }

    /// Whose stages and engine are the sample's.
    fn lead(&self) -> Target {
        match self.leg(Target::Device).jobs {
            0 => Target::Cpu,
            _ => Target::Device,
        }
    }

    fn sum(&self, of: impl Fn(&JobTotals) -> u64) -> u64 {
        self.totals.iter().map(of).sum()
    }

    fn work(&self) -> Work {
        Work {
            jobs: self.sum(|leg| leg.jobs),
            bytes: self.sum(|leg| leg.bytes),
            compressed_bytes: (has_compressed_side(self.operation))
                .then(|| self.sum(|leg| leg.compressed_bytes)),
            doorbells: 0,
        }
    }

    /// Mean times of the leading leg's stages, a job or a context each.
    fn means(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let lead = self.lead();
        let jobs = self.leg(lead).stages().into_iter();
        jobs.chain(self.times.legs[lead as usize].0.stages())
            .filter_map(|(name, times)| Some((name, times.mean_ns()?)))
    }

    /// Mean nanoseconds of the leading leg's stages, and both legs' totals.
    fn stages(&self) -> BTreeMap<String, f64> {
        let means = self.means().map(|(name, ns)| (format!("{name}_ns"), ns));
        let mut all: BTreeMap<String, f64> = means.collect();
        for leg in LEGS.into_iter().filter(|leg| self.leg(*leg).jobs > 0) {
            let times = &self.times.legs[leg as usize].0;
            for (name, times) in self.leg(leg).stages().into_iter().chain(times.stages()) {
                if let Some(ns) = times.total_ns() {
                    all.insert(format!("{leg}_{name}_total_ns"), ns);
                }
            }
            let busy_ns = self.busy_ns[leg as usize] as f64;
            all.insert(format!("{leg}_busy_total_ns"), busy_ns);
        }
        all.insert("buffers_total_ns".into(), self.times.buffers_ns as f64);
        all
    }

    /// The figures of docs/results.md. What cannot be computed is absent, never zero.
    fn metrics(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            if value.is_finite() {
                all.insert(name.to_string(), value);
            }
        };
        let seconds = self.elapsed.as_secs_f64();
        let (jobs, bytes) = (self.sum(|leg| leg.jobs), self.sum(|leg| leg.bytes) as f64);
        put("throughput", bytes / 1e6 / seconds);
        put("rate", jobs as f64 / seconds);
        if has_compressed_side(self.operation) {
            let compressed = self.sum(|leg| leg.compressed_bytes) as f64;
            put("compressed_throughput", compressed / 1e6 / seconds);
            put("ratio", compressed / bytes);
        }
        for (leg, name) in [(Target::Cpu, "cpu_leg"), (Target::Device, "device_leg")] {
            let (totals, busy_ns) = (self.leg(leg), self.busy_ns[leg as usize]);
            if totals.jobs > 0 && busy_ns > 0 {
                let rate = totals.bytes as f64 / busy_ns as f64 * 1e3;
                put(&format!("{name}_throughput"), rate);
            }
        }
        let device_bytes = self.leg(Target::Device).bytes as f64;
        put("device_share", device_bytes / bytes * 100.0);
        if let Some(rate) = self.leg(self.lead()).engine_throughput() {
            put("engine_throughput", rate);
        }
        let host_s = self.cpu.host_ns as f64 / 1e9;
        put("cpu_seconds", host_s);
        put("cpu_cost", host_s / (bytes / 1e9));
        put("cpu_utilisation", host_s / seconds * 100.0);
        for (name, ns) in self.means() {
            put(&format!("stage_{name}"), ns / 1e3);
        }
        all
    }

    /// What a reader of the figures should know.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        warnings(&Counted {
            jobs: self.sum(|leg| leg.jobs),
            incompressible: self.sum(|leg| leg.incompressible),
            late: Late::Time {
                overdue_ns: self.leg(Target::Device).overdue_ns,
                elapsed_ns: nanoseconds(self.elapsed),
            },
            varied: self.varied,
        })
    }
}

impl PlacementBench<'_> {
    pub(super) fn sample(
        &self,
        figures: &Figures,
        check: Check,
        streams: u64,
        report: &Report,
    ) -> Result<Sample, Failure> {
        let mut evidence = Evidence::measured(figures.cpu);
        for leg in LEGS {
            let totals = figures.leg(leg);
            let Some(side) = self.side(leg).filter(|_| totals.jobs > 0) else {
                continue;
            };
            let mut own = Evidence::of_device(side.device.info());
            if let Some(applied) = &totals.applied {
                own.provenance = own.provenance.max(applied.provenance);
            }
            own.late = (own.timing != Timing::Real).then_some(LateCount {
                late: totals.late,
                of: totals.jobs,
            });
            evidence = evidence.and(own);
        }
        let lead = figures.lead();
        let done = Done {
            applied: figures.leg(lead).applied.as_deref().cloned(),
            work: figures.work(),
            elapsed_ns: nanoseconds(figures.elapsed),
            check,
        };
        let mut sample = Sample::ok(evidence, done);
        sample.metrics = figures.metrics();
        sample.stages = figures.stages();
        if let (Some(profile), Target::Device) = (&self.profile, lead) {
            let (source_bytes, destination_bytes) = figures.leg(lead).mean_sizes();
            let patterns = self.device.as_ref().map(|it| &it.plan.operation.patterns);
            // What setting up costs is a stream's, not a job's.
            let work = overside_model::Work {
                patterns: patterns.cloned().unwrap_or_default(),
                ..overside_model::Work::new(self.test.operation, source_bytes, destination_bytes)
            };
            sample.model = Some(predict(profile, work)?);
        }
        sample.warnings = self.warnings(figures, report);
        sample.placement = Some(self.placed(figures, streams, report));
        Ok(sample)
    }
}
