//! One sample of jobs on a device: verify everything once, warm up, run under the clock, close.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Clock, ContextConfig, Device};
use overside_model::Profile;
use overside_probe::closed_loop::{self, LoopParams, Timeouts, Until};
use overside_probe::{Failure, FailureKind};

use crate::context_queue::ContextQueue;
use crate::evidence::{Evidence, HostClock};
use crate::job_totals::mean_stages;
use crate::memory_budget::destinations_fit;
use crate::metrics::Metrics;
use crate::plan::{self, Plan, operations_max};
use crate::prediction::predict;
use crate::sample::{MeasuredWork, Sample, Warning, Work, nanoseconds};
use crate::shuffle::shuffled;
use crate::test::{CompletionMode, Setting, Test};
use crate::verify::{OutputChecker, ReferenceCache, TestBuffers};
use crate::warnings::{Late, SampleCounts, warnings};

/// Longest time to wait for a context to close.
const CLOSE_TIME: Duration = Duration::from_secs(10);

/// State of one sample.
pub(crate) struct ContextBench<'a> {
    pub test: &'a Test,
    pub device: Arc<dyn Device>,
    pub plan: Plan,
    pub buffers: TestBuffers,
    /// Profile of an emulated device; `None` for other devices.
    pub profile: Option<Arc<Profile>>,
    /// Clock of the submitting side's CPU time.
    pub cpu_clock: HostClock,
    /// Clock of the test: real or virtual time.
    pub clock: Clock,
    /// Time at which the sample fails if it is not finished.
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
        // The buffer that a job began with stays while it has a larger one.
        let kept = match plan.output_bytes < plan.destination_bytes {
            true => plan.output_bytes,
            false => 0,
        };
        destinations_fit(plan.destination_bytes + kept, plan.depth as u64)?;
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
            (context.map_err(|error| plan::not_opened(&error))?, self.clock.clone()),
            (&sources, shuffled(sources.len(), test.seed)),
            (plan.depth, plan.output_bytes, plan.destination_bytes),
            (
                test.operation,
                OutputChecker::new(name, &plan.operation, &self.buffers, cache, self.deadline),
            ),
        )?;
        let params = LoopParams {
            // More than half the depth at once would leave the device idle while a batch gathers.
            batch: test.batch.min(plan.depth.div_ceil(2)),
            event: plan.completion == CompletionMode::Event,
            deferred: false,
            operations_a_look: 1,
            latencies: true,
            timeouts: Timeouts::until(self.deadline),
            clock: self.clock.clone(),
            operations_max: operations_max(&self.clock, longest),
        };
        closed_loop::run(&mut queue, &params, Until::Count(sources.len() as u64))?;
        let check = queue.checker.summary()?;
        ready();
        queue.reconfigure = (test.setting == Setting::Reconfiguration).then_some(config);
        queue.keeps_length = test.sizes.vary();
        closed_loop::run(&mut queue, &params, Until::Passed(test.warmup()))?;
        queue.restart();
        let before = self.cpu_clock.read(queue.context.cpu_time());
        let pass = closed_loop::run(&mut queue, &params, Until::Passed(test.sample()))?;
        let after = self.cpu_clock.read(queue.context.cpu_time());
        queue.check_last_outputs()?;
        let cpu = after.since(&before);
        let (totals, varied) = (queue.totals, queue.checker.varied);
        // Of a job that has one try, and its set-up before it.
        let has_model =
            totals.grown == 0 && (test.setting == Setting::Static || queue.set_ups == totals.jobs);
        let mut lifecycle = queue.lifecycle;
        let closed = queue.context.close(Instant::now() + CLOSE_TIME);
        if test.setting == Setting::Static {
            lifecycle.add(&closed.lifecycle);
        }
        if !closed.completions.is_empty() {
            let message = format!(
                "{} completions came at closing for jobs that were not in flight",
                closed.completions.len()
            );
            return Err(Failure::new(FailureKind::Verification, message));
        }
        let evidence = Evidence::of_device(self.device.info())
            .with_late(totals.late, totals.completions())
            .and(Evidence::measured(cpu));
        let work = Work {
            jobs: totals.jobs,
            bytes: totals.bytes,
            compressed_bytes: test.operation.has_ratio().then_some(totals.compressed_bytes),
            doorbells: pass.doorbells,
        };
        let mut metrics = Metrics::of_work(&work, pass.elapsed(), cpu);
        metrics.put("engine_throughput", totals.engine_throughput().unwrap_or(f64::NAN));
        if let Some(latencies) = &pass.latencies {
            metrics.put_latencies(latencies);
        }
        if test.output_size.is_some() {
            metrics.put("grown", totals.grown as f64 / totals.jobs as f64);
        }
        let stages = mean_stages(&totals, &lifecycle);
        metrics.put_stages(stages.clone());
        let done = MeasuredWork {
            applied: totals.applied.as_deref().cloned(),
            work,
            elapsed_ns: nanoseconds(pass.elapsed()),
            check,
        };
        let mut sample = Sample::ok(evidence, done);
        sample.metrics = metrics.0;
        sample.stages = stages.map(|(name, ns)| (format!("{name}_ns"), ns)).collect();
        if let Some(profile) = self.profile.as_ref().filter(|_| has_model) {
            let (source_bytes, destination_bytes) = totals.mean_sizes();
            let work = overside_model::Work {
                patterns: plan.operation.patterns.clone(),
                setting: match test.setting {
                    Setting::Static => overside_model::Setting::Static,
                    Setting::Reconfiguration => overside_model::Setting::Reconfiguration,
                },
                ..overside_model::Work::new(test.operation, source_bytes, destination_bytes)
            };
            let depth = match test.setting {
                Setting::Static => plan.depth,
                Setting::Reconfiguration => 1,
            };
            let (model, each_ns) = predict(profile, work, depth)?;
            let is_alone = plan.depth == 1 && test.setting == Setting::Static;
            sample.bound(each_ns, totals.bytes as f64 / totals.jobs as f64, is_alone);
            sample.model = Some(model);
        }
        sample.histogram = (pass.latencies.as_ref()).map(|all| all.to_text());
        if !closed.abandoned.is_empty() {
            sample.warnings.push(Warning::new(
                "abandoned",
                format!("{} jobs were abandoned at closing", closed.abandoned.len()),
                "",
            ));
        }
        sample.warnings.extend(plan.warnings.iter().cloned());
        sample.warnings.extend(warnings(&SampleCounts {
            jobs: totals.jobs,
            incompressible: totals.incompressible,
            late: Late::Completions { late: totals.late, of: totals.completions() },
            varied,
        }));
        Ok(sample)
    }
}
