//! The figures of a placement, of all targets and of each.

use std::collections::BTreeMap;
use std::time::Duration;

use overside_device::{CpuTime, Lifecycle, Operation};
use overside_model::Interval;
use overside_placement::{Policy, Report, Target, TargetReport};
use overside_probe::Failure;

use super::{PlacementBench, target_report};
use crate::evidence::Evidence;
use crate::job_totals::{JobTotals, mean_stages};
use crate::lifecycle_times::LifecycleTimes;
use crate::metrics::Metrics;
use crate::prediction::predict;
use crate::sample::{Check, MeasuredWork, Sample, Warning, Work, nanoseconds};
use crate::test::{Input, Setting};
use crate::warnings::{Late, SampleCounts, warnings};

/// Totals, times and counts of the timed part.
pub(super) struct Figures {
    pub operation: Operation,
    /// Totals of the targets.
    pub totals: Vec<JobTotals>,
    /// Times with at least one job in flight, of the targets.
    pub busy_ns: Vec<u64>,
    pub times: TargetTimes,
    pub elapsed: Duration,
    /// Times of the inputs, if each has a time of its own.
    pub inputs: Vec<Duration>,
    pub cpu: CpuTime,
    pub varied: u64,
    /// The submitter's CPU time for a job, where it is a part of the time: on a virtual clock.
    pub job_cost: Option<Duration>,
    /// Length of chunks in bytes at the end of the timed part; `None` if the length cannot change.
    pub chunk_bytes: Option<u64>,
    /// Jobs that were run again because their results did not fit, where buffers grow.
    pub grown: Option<u64>,
}

/// Times of setting contexts up, by target, and of making buffers.
pub(super) struct TargetTimes {
    targets: Vec<(LifecycleTimes, u64)>,
    buffers_ns: u64,
}

impl TargetTimes {
    /// Computes the times of setting contexts up, the number of set-ups and the time for buffers
    /// between two reports.
    pub(super) fn between(
        targets: impl Iterator<Item = Target>,
        before: &Report,
        after: &Report,
    ) -> Self {
        let target = |target| match (target_report(before, target), target_report(after, target)) {
            (before, Some(after)) => since(before, after),
            (_, None) => (LifecycleTimes::default(), 0),
        };
        Self {
            targets: targets.map(target).collect(),
            buffers_ns: after.memory_ns.saturating_sub(before.memory_ns),
        }
    }

    /// Contexts that were set up.
    pub(super) fn setups(&self, target: Target) -> u64 {
        self.targets[target.index()].1
    }
}

fn since(before: Option<&TargetReport>, after: &TargetReport) -> (LifecycleTimes, u64) {
    let earlier = before.map(|target| target.lifecycle).unwrap_or_default();
    let since = |after: Option<u64>, before: Option<u64>| {
        after.map(|after| after.saturating_sub(before.unwrap_or(0)))
    };
    let setups = after.setups - before.map_or(0, |target| target.setups);
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
    pub(super) fn target(&self, target: Target) -> &JobTotals {
        &self.totals[target.index()]
    }

    /// Returns the target whose stages and engine times are the sample's: the device with the most
    /// bytes, or the CPU if no device ran a job.
    fn lead(&self) -> Target {
        let devices = (0..self.totals.len() - 1).map(Target::Device);
        (devices.filter(|device| self.target(*device).jobs > 0))
            .max_by_key(|device| self.target(*device).bytes)
            .unwrap_or(Target::Cpu)
    }

    /// The CPU and the devices, whether they did anything or not.
    fn targets(&self) -> impl Iterator<Item = Target> + use<> {
        std::iter::once(Target::Cpu).chain((0..self.totals.len() - 1).map(Target::Device))
    }

    fn of_devices(&self, of: impl Fn(&JobTotals) -> u64) -> u64 {
        self.totals[1..].iter().map(of).sum()
    }

    fn sum(&self, of: impl Fn(&JobTotals) -> u64) -> u64 {
        self.totals.iter().map(of).sum()
    }

    fn work(&self) -> Work {
        Work {
            jobs: self.sum(|target| target.jobs),
            bytes: self.sum(|target| target.bytes),
            compressed_bytes: (self.operation.has_ratio())
                .then(|| self.sum(|target| target.compressed_bytes)),
            doorbells: 0,
        }
    }

    /// Mean times of the leading target's stages, a job or a context each.
    fn means(&self) -> impl Iterator<Item = (&'static str, f64)> + Clone {
        let lead = self.lead();
        let submit = self.job_cost.map(|cost| ("submit", cost.as_nanos() as f64));
        let stages = mean_stages(self.target(lead), &self.times.targets[lead.index()].0);
        stages.chain(submit)
    }

    /// Mean nanoseconds of the leading target's stages, and all targets' totals.
    fn stages(&self) -> BTreeMap<String, f64> {
        let means = self.means().map(|(name, ns)| (format!("{name}_ns"), ns));
        let mut all: BTreeMap<String, f64> = means.collect();
        let worked = |target: &Target| self.target(*target).jobs > 0;
        for target in self.targets().filter(worked) {
            let times = &self.times.targets[target.index()].0;
            for (name, times) in self.target(target).stages().into_iter().chain(times.stages()) {
                if let Some(ns) = times.total_ns() {
                    all.insert(format!("{target}_{name}_total_ns"), ns);
                }
            }
            let busy_ns = self.busy_ns[target.index()] as f64;
            all.insert(format!("{target}_busy_total_ns"), busy_ns);
        }
        all.insert("buffers_total_ns".into(), self.times.buffers_ns as f64);
        all
    }

    fn metrics(&self) -> BTreeMap<String, f64> {
        let work = self.work();
        let mut metrics = Metrics::of_work(&work, self.elapsed, self.cpu);
        for target in self.targets() {
            let (totals, busy_ns) = (self.target(target), self.busy_ns[target.index()]);
            if totals.jobs > 0 && busy_ns > 0 {
                let rate = totals.bytes as f64 / busy_ns as f64 * 1e3;
                metrics.put(format!("{target}_target_throughput"), rate);
            }
        }
        let share = |bytes: u64| bytes as f64 / work.bytes as f64 * 100.0;
        metrics.put("device_share", share(self.of_devices(|device| device.bytes)));
        if self.totals.len() > 2 {
            for target in self.targets().skip(1) {
                metrics.put(format!("{target}_own_share"), share(self.target(target).bytes));
            }
        }
        let engine = self.target(self.lead()).engine_throughput();
        metrics.put("engine_throughput", engine.unwrap_or(f64::NAN));
        if let Some(grown) = self.grown {
            metrics.put("grown", grown as f64 / work.jobs as f64);
        }
        let host_s = self.cpu.host_ns as f64 / 1e9;
        let utilisation = host_s / self.elapsed.as_secs_f64() * 100.0;
        metrics.put("cpu_utilisation", utilisation);
        metrics.put_stages(self.means());
        metrics.0
    }

    /// Lowest and highest throughput in MB/s if each job of a device took the ends of `each_ns` and not what is
    /// typical. Shares are fixed, so the time changes by as much as the longest of the targets works.
    fn bounds(&self, device: Target, each_ns: Interval) -> [f64; 2] {
        let own_ns = self.busy_ns[device.index()] as f64;
        let others = self.targets().filter(|target| *target != device);
        let others_ns = others.map(|target| self.busy_ns[target.index()]).max().unwrap_or(0) as f64;
        let besides_ns = nanoseconds(self.elapsed) as f64 - own_ns.max(others_ns);
        let with = |ns: f64| {
            self.work().bytes as f64 * 1e3 / (besides_ns + others_ns.max(own_ns * ns / each_ns.typ))
        };
        [with(each_ns.high), with(each_ns.low)]
    }

    /// Returns warnings for readers of the figures.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        warnings(&SampleCounts {
            jobs: self.sum(|target| target.jobs),
            incompressible: self.sum(|target| target.incompressible),
            late: Late::Time {
                overdue_ns: self.of_devices(|device| device.overdue_ns),
                elapsed_ns: nanoseconds(self.elapsed),
            },
            varied: self.varied,
        })
    }
}

impl PlacementBench<'_> {
    /// The arithmetic mean over the files of size over time, in MB/s of the uncompressed side.
    fn mean_of_files(&self, times: &[Duration], streams: u64) -> f64 {
        let original = &self.buffers.original;
        let mut lengths = original.iter().map(<[u8]>::len);
        let rates = original.inputs().iter().zip(times).map(|(&count, time)| {
            let bytes: usize = lengths.by_ref().take(count).sum();
            bytes as f64 * streams as f64 / 1e6 / time.as_secs_f64()
        });
        rates.sum::<f64>() / times.len() as f64
    }

    pub(super) fn sample(
        &self,
        figures: &Figures,
        check: Check,
        streams: u64,
        report: &Report,
    ) -> Result<Sample, Failure> {
        let mut evidence = Evidence::measured(figures.cpu);
        for target in self.targets() {
            let totals = figures.target(target);
            let Some(side) = self.side(target).filter(|_| totals.jobs > 0) else {
                continue;
            };
            let mut own = Evidence::of_device(side.device.info());
            if let Some(applied) = &totals.applied {
                own.provenance = own.provenance.max(applied.provenance);
            }
            evidence = evidence.and(own.with_late(totals.late, totals.jobs));
        }
        let lead = figures.lead();
        let done = MeasuredWork {
            applied: figures.target(lead).applied.as_deref().cloned(),
            work: figures.work(),
            elapsed_ns: nanoseconds(figures.elapsed),
            check,
        };
        let mut sample = Sample::ok(evidence, done);
        sample.metrics = figures.metrics();
        if self.test.input == Input::Files {
            let mean = self.mean_of_files(&figures.inputs, streams);
            sample.metrics.insert("file_throughput".into(), mean);
        }
        sample.stages = figures.stages();
        // The model is of jobs that have one try.
        if let (Some(profile), Target::Device(device), None | Some(0)) =
            (&self.profile, lead, figures.grown)
        {
            let (source_bytes, destination_bytes) = figures.target(lead).mean_sizes();
            let patterns = self.devices.get(device).map(|it| &it.plan.operation.patterns);
            // What setting up costs is a stream's, not a job's.
            let work = overside_model::Work {
                patterns: patterns.cloned().unwrap_or_default(),
                ..overside_model::Work::new(self.test.operation, source_bytes, destination_bytes)
            };
            let (mut model, each_ns) = predict(profile, work.clone(), self.test.depth)?;
            if self.test.setting == Setting::Static && self.policy != Policy::Adaptive {
                sample.bound_metric("throughput", figures.bounds(lead, each_ns));
            }
            if self.test.setting == Setting::Reconfiguration {
                // The time is that of a job; what it rests on includes setting the device up.
                let setting = overside_model::Setting::Reconfiguration;
                let anew = overside_model::Work { setting, ..work };
                let (with_set_up, _) = predict(profile, anew, 1)?;
                (model.missing, model.facts) = (with_set_up.missing, with_set_up.facts);
            }
            sample.model = Some(model);
        }
        sample.warnings = self.warnings(figures, report);
        sample.placement = Some(self.placed(figures, streams, report));
        Ok(sample)
    }
}
