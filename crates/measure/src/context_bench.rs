//! One sample of jobs on a device: verify everything once, warm up, run under the clock, close.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{ContextConfig, CpuTime, Device, Timing};
use overside_model::Profile;
use overside_probe::closed_loop::{self, LoopParams, Pass, Timeouts, Until};
use overside_probe::{Failure, FailureKind};

use crate::context_queue::ContextQueue;
use crate::evidence::{Evidence, HostClock, LateCount};
use crate::job_totals::{JobTotals, has_compressed_side};
use crate::lifecycle_times::LifecycleTimes;
use crate::memory_budget::destinations_fit;
use crate::plan::{self, Plan};
use crate::prediction::predict;
use crate::sample::{Check, Done, Sample, Warning, Work, nanoseconds};
use crate::shuffle::shuffled;
use crate::test::{Reaping, Setting, Test};
use crate::verify::{OutputChecker, ReferenceCache, TestBuffers};
use crate::warnings::{Counted, Late, warnings};

/// How long a context may take to let go.
const CLOSE_TIME: Duration = Duration::from_secs(10);

/// Everything that one sample needs.
pub(crate) struct ContextBench<'a> {
    pub test: &'a Test,
    pub device: Arc<dyn Device>,
    pub plan: Plan,
    pub buffers: TestBuffers,
    /// What an emulated device is made from.
    pub profile: Option<Arc<Profile>>,
    /// By which the submitting side's CPU time goes.
    pub clock: HostClock,
    /// When the sample has failed.
    pub deadline: Instant,
}

impl ContextBench<'_> {
    /// Takes the sample. `ready` is called when everything is verified.
    pub(crate) fn measure(
        self,
        cache: &RefCell<ReferenceCache>,
        ready: impl FnOnce(),
    ) -> Result<Sample, Failure> {
        let (test, plan) = (self.test, &self.plan);
        let name = &self.device.info().name;
        let longest = self.buffers.source.longest();
        if let Some(failure) = plan::too_long(name, plan, longest) {
            return Err(failure);
        }
        destinations_fit(plan.destination_bytes, plan.depth as u64)?;
        let memory = plan.capability.memory;
        let sources = self.buffers.source.sources(&*self.device, memory)?;
        let config = ContextConfig {
            operation: plan.operation.clone(),
            depth: plan.depth,
            max_source_bytes: longest,
            max_destination_bytes: plan.destination_bytes,
        };
        let context = self.device.open(config.clone());
        let mut queue = ContextQueue::new(
            &*self.device,
            context.map_err(|error| plan::not_opened(&error))?,
            (&sources, shuffled(sources.len(), test.seed)),
            (plan.depth, plan.destination_bytes),
            (
                test.operation,
                OutputChecker::new(name, &plan.operation, &self.buffers, cache, self.deadline),
            ),
        )?;
        let params = LoopParams {
            // More than half the depth at once would leave the device idle while a batch gathers.
            batch: test.batch.min(plan.depth.div_ceil(2)),
            event: plan.reaping == Reaping::Event,
            operations_a_look: 1,
            latencies: true,
            timeouts: Timeouts::until(self.deadline),
        };
        closed_loop::run(&mut queue, &params, Until::Count(sources.len() as u64))?;
        let check = queue.checker.summary()?;
        ready();
        queue.reconfigure = (test.setting == Setting::Reconfiguration).then_some(config);
        closed_loop::run(&mut queue, &params, Until::Passed(test.warmup()))?;
        queue.restart();
        let before = self.clock.read(queue.context.cpu_time());
        let pass = closed_loop::run(&mut queue, &params, Until::Passed(test.sample()))?;
        let after = self.clock.read(queue.context.cpu_time());
        queue.check_last_outputs()?;
        let figures = Figures {
            pass,
            cpu: after.since(&before),
            varied: queue.checker.varied,
            check,
            lifecycle: queue.lifecycle,
            totals: queue.totals,
            warnings: Vec::new(),
        };
        let closed = queue.context.close(Instant::now() + CLOSE_TIME);
        self.sample(self.closed(figures, &closed)?)
    }

    /// What closing the context adds.
    fn closed(
        &self,
        mut figures: Figures,
        closed: &overside_device::Closed,
    ) -> Result<Figures, Failure> {
        if self.test.setting == Setting::Static {
            figures.lifecycle.add(&closed.lifecycle);
        }
        if !closed.completions.is_empty() {
            let message = format!(
                "{} completions came at closing for jobs that were not in flight",
                closed.completions.len()
            );
            return Err(Failure::new(FailureKind::Verification, message));
        }
        if !closed.abandoned.is_empty() {
            figures.warnings.push(Warning::new(
                "abandoned",
                format!("{} jobs were abandoned at closing", closed.abandoned.len()),
                "",
            ));
        }
        Ok(figures)
    }

    fn sample(&self, figures: Figures) -> Result<Sample, Failure> {
        let (info, totals) = (self.device.info(), &figures.totals);
        let mut evidence = Evidence::of_device(info).and(Evidence::measured(figures.cpu));
        evidence.late = (info.timing != Timing::Real).then_some(LateCount {
            late: totals.late,
            of: totals.jobs,
        });
        let has_compressed_side = has_compressed_side(self.test.operation);
        let done = Done {
            applied: totals.applied.as_deref().cloned(),
            work: Work {
                jobs: totals.jobs,
                bytes: totals.bytes,
                compressed_bytes: has_compressed_side.then_some(totals.compressed_bytes),
                doorbells: figures.pass.doorbells,
            },
            elapsed_ns: nanoseconds(figures.pass.elapsed()),
            check: figures.check.clone(),
        };
        let mut sample = Sample::ok(evidence, done);
        sample.metrics = figures.metrics(has_compressed_side);
        sample.stages = figures
            .stages()
            .map(|(name, ns)| (format!("{name}_ns"), ns))
            .collect();
        if let Some(profile) = &self.profile {
            let (source_bytes, destination_bytes) = totals.mean_sizes();
            let work = overside_model::Work {
                patterns: self.plan.operation.patterns.clone(),
                setting: match self.test.setting {
                    Setting::Static => overside_model::Setting::Static,
                    Setting::Reconfiguration => overside_model::Setting::Reconfiguration,
                },
                ..overside_model::Work::new(self.test.operation, source_bytes, destination_bytes)
            };
            sample.model = Some(predict(profile, work)?);
        }
        sample.histogram = (figures.pass.latencies.as_ref()).map(|all| all.to_text());
        sample.warnings = figures.warnings;
        sample.warnings.extend(self.plan.warnings.iter().cloned());
        sample.warnings.extend(warnings(&Counted {
            jobs: totals.jobs,
            incompressible: totals.incompressible,
            late: Late::Completions {
                late: totals.late,
                of: totals.jobs,
            },
            varied: figures.varied,
        }));
        Ok(sample)
    }
}

/// What the timed part came to.
struct Figures {
    pass: Pass,
    cpu: CpuTime,
    totals: JobTotals,
    lifecycle: LifecycleTimes,
    check: Check,
    varied: u64,
    warnings: Vec<Warning>,
}

impl Figures {
    /// Mean times of the stages that the device tells of, by name.
    fn stages(&self) -> impl Iterator<Item = (&'static str, f64)> {
        (self.totals.stages().into_iter())
            .chain(self.lifecycle.stages())
            .filter_map(|(name, times)| Some((name, times.mean_ns()?)))
    }

    /// The figures of docs/results.md. What cannot be computed is absent, never zero.
    fn metrics(&self, has_compressed_side: bool) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            if value.is_finite() {
                all.insert(name.to_string(), value);
            }
        };
        let (totals, seconds) = (&self.totals, self.pass.elapsed().as_secs_f64());
        let (bytes, compressed) = (totals.bytes as f64, totals.compressed_bytes as f64);
        put("throughput", bytes / 1e6 / seconds);
        put("rate", totals.jobs as f64 / seconds);
        if has_compressed_side {
            put("compressed_throughput", compressed / 1e6 / seconds);
            put("ratio", compressed / bytes);
        }
        if let Some(rate) = totals.engine_throughput() {
            put("engine_throughput", rate);
        }
        if let Some(latencies) = &self.pass.latencies {
            latencies.metrics(&mut put);
        }
        let host_s = self.cpu.host_ns as f64 / 1e9;
        put("cpu_seconds", host_s);
        put("cpu_cost", host_s / (bytes / 1e9));
        for (name, ns) in self.stages() {
            put(&format!("stage_{name}"), ns / 1e3);
        }
        all
    }
}
