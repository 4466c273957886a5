//! One sample: plan it, verify everything once, warm up, run under the clock, close.

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_base::Random;
use overside_device::{
    Applied, Capability, Context, ContextConfig, CpuTime, Device, OpenError, Operation,
    OperationConfig, Region, Slice, Timing,
};
use overside_model::Profile;
use overside_ops::{Error as OperationError, Format, HashAlgorithm, MatchKind};

use crate::data::bound;
use crate::driver::{Driver, Reaped, Setup, Spent, Until};
use crate::evidence::{Evidence, HostClock, LateCount};
use crate::recorder::{Lives, Recorder, nanoseconds};
use crate::sample::{Check, Done, Failure, Kind, Model, Sample, Warning};
use crate::test::{Reaping, Setting, Test};
use crate::verify::{AnswerCache, Expected, Material, Verifier};

/// How long a context may take to let go.
const CLOSE_TIME: Duration = Duration::from_secs(10);
/// Memory that is taken without asking whether there is enough.
const MEMORY_UNASKED_BYTES: u64 = 64 << 20;

/// Why there is no sample.
#[derive(Debug)]
pub(crate) enum NoSample {
    /// The device cannot do this.
    Skipped(String),
    /// Something went wrong.
    Failed(Failure),
}

impl From<Failure> for NoSample {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Whether a context was asked for what its device cannot do; else something went wrong.
pub(crate) fn is_beyond(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::Unsupported { .. }
            | OpenError::Limit { .. }
            | OpenError::Operation(
                OperationError::UnknownVariant { .. }
                    | OperationError::Level { .. }
                    | OperationError::NoLevels { .. },
            )
    )
}

/// What a test means on its device.
pub(crate) struct Plan {
    pub operation: OperationConfig,
    pub capability: Capability,
    /// Jobs in flight.
    pub depth: usize,
    pub destination_bytes: u64,
    pub reaping: Reaping,
    pub warnings: Vec<Warning>,
}

/// The format in which an operation's sources have to be compressed beforehand.
pub(crate) fn compressed_input(operation: Operation) -> Option<Format> {
    match operation {
        Operation::Decompress(format) => Some(format),
        _ => None,
    }
}

/// Finds out whether `device` can run the test, before any data is read.
pub(crate) fn plan(test: &Test, device: &dyn Device) -> Result<Plan, NoSample> {
    let name = &device.info().name;
    let skip = |reason: String| Err(NoSample::Skipped(reason));
    let Some(capability) = device.capabilities().get(test.operation) else {
        return skip(format!("{name} cannot {}", test.operation));
    };
    if test.variant != "auto" && !capability.variants.contains(&test.variant) {
        return skip(format!(
            "{name} has no variant {:?} of {}; there are: {}",
            test.variant,
            test.operation,
            capability.variants.join(", ")
        ));
    }
    let depth = match test.setting {
        Setting::Static => test.depth,
        Setting::Reconfiguration => 1,
    };
    if depth > capability.max_depth {
        let max = capability.max_depth;
        return skip(format!("{name} takes {max} jobs in flight, not {depth}"));
    }
    let size = test.buffer_size;
    // What a compressed source takes is known only once it is made.
    if compressed_input(test.operation).is_none() && size > capability.max_source_bytes {
        let max = capability.max_source_bytes;
        return skip(format!(
            "{name} takes sources of up to {max} bytes, not {size}"
        ));
    }
    let destination_bytes = match test.operation {
        Operation::Compress(_) => bound(size).min(capability.max_destination_bytes),
        Operation::Decompress(_) | Operation::Copy => size,
        Operation::Match(MatchKind::Bitmap) => size.div_ceil(8),
        Operation::Match(MatchKind::Search | MatchKind::Count) => 0,
        Operation::Hash(algorithm) => digest_bytes(algorithm),
    };
    if destination_bytes > capability.max_destination_bytes {
        let max = capability.max_destination_bytes;
        return skip(format!(
            "{name} takes destinations of up to {max} bytes, not {destination_bytes}"
        ));
    }
    let mut warnings = Vec::new();
    let mut reaping = test.completion;
    if reaping == Reaping::Event && !capability.event {
        reaping = Reaping::Poll;
        warnings.push(Warning::new(
            "polled",
            format!("{name} has no events: completions were polled for"),
            "set completion to poll",
        ));
    }
    let operation = OperationConfig {
        operation: test.operation,
        variant: test.variant.clone(),
        level: test
            .level
            .filter(|_| matches!(test.operation, Operation::Compress(_))),
        patterns: match test.operation {
            Operation::Match(_) => test.patterns.clone(),
            _ => Vec::new(),
        },
    };
    Ok(Plan {
        operation,
        capability: capability.clone(),
        depth,
        destination_bytes,
        reaping,
        warnings,
    })
}

fn digest_bytes(algorithm: HashAlgorithm) -> u64 {
    algorithm.digest_len() as u64
}

/// Everything that one sample needs.
pub(crate) struct Bench<'a> {
    pub test: &'a Test,
    pub device: Arc<dyn Device>,
    pub plan: Plan,
    pub material: Material,
    /// What an emulated device is made from.
    pub profile: Option<Arc<Profile>>,
    /// By which the submitting side's CPU time goes.
    pub clock: HostClock,
    /// When the sample has failed.
    pub deadline: Instant,
}

impl Bench<'_> {
    /// Takes the sample. `ready` is called when everything is verified.
    pub(crate) fn measure(
        self,
        answers: &mut AnswerCache,
        ready: impl FnOnce(),
    ) -> Result<Sample, NoSample> {
        self.fits()?;
        let sources = self
            .material
            .source
            .sources(&*self.device, self.plan.capability.memory)?;
        let config = ContextConfig {
            operation: self.plan.operation.clone(),
            depth: self.plan.depth,
            max_source_bytes: self.material.source.longest(),
            max_destination_bytes: self.plan.destination_bytes,
        };
        let context = self.open(&config)?;
        let mut driver = Driver::new(Setup {
            device: &*self.device,
            context,
            sources: &sources,
            order: order(sources.len(), self.test.seed),
            destination_bytes: self.plan.destination_bytes as usize,
            depth: self.plan.depth,
            batch: self.test.batch,
            reaping: self.plan.reaping,
            deadline: self.deadline,
        })?;
        let mut verified = self.verify(&mut driver, answers)?;
        ready();
        let mut timed = self.time(&mut driver, &config, &sources, &mut verified)?;
        self.finish(driver, &mut timed)?;
        self.sample(timed, verified)
    }

    /// Whether the buffers fit into the device and into memory.
    fn fits(&self) -> Result<(), NoSample> {
        let longest = self.material.source.longest();
        let max = self.plan.capability.max_source_bytes;
        if longest > max {
            let name = &self.device.info().name;
            let reason = format!("{name} takes sources of up to {max} bytes, not {longest}");
            return Err(NoSample::Skipped(reason));
        }
        destinations_fit(self.plan.destination_bytes, self.plan.depth as u64)
    }

    fn open(&self, config: &ContextConfig) -> Result<Box<dyn Context>, NoSample> {
        self.device
            .open(config.clone())
            .map_err(|error| match is_beyond(&error) {
                true => NoSample::Skipped(error.to_string()),
                false => NoSample::Failed(Failure::new(Kind::Job, error.to_string())),
            })
    }

    /// Runs every distinct source once and looks at every byte that comes back. Not timed.
    fn verify(
        &self,
        driver: &mut Driver<'_>,
        answers: &mut AnswerCache,
    ) -> Result<Verified, NoSample> {
        let count = self.material.source.count();
        let mut expected: Vec<Option<Expected>> = vec![None; count];
        let mut verifier: Option<Verifier> = None;
        let reap = |reaped: Reaped<'_>| {
            let applied = &reaped.completion.applied;
            self.ran_here(applied)?;
            let verifier = match &mut verifier {
                Some(verifier) => verifier,
                // Who can verify depends on who computed, which is known only now.
                None => verifier.insert(Verifier::new(
                    &self.plan.operation,
                    &applied.variant,
                    &self.material,
                    answers,
                )?),
            };
            verifier.check(reaped.input, &reaped.outcome, reaped.destination)?;
            expected[reaped.input] = Some(Expected::new(reaped.outcome, reaped.destination));
            if Instant::now() > self.deadline {
                let message = "verification was not done before the test's time was over";
                return Err(Failure::new(Kind::Timeout, message));
            }
            Ok(())
        };
        driver.run(Until::Count(count), |_, _| (), reap)?;
        let expected: Option<Vec<Expected>> = expected.into_iter().collect();
        match (verifier, expected) {
            (Some(verifier), Some(expected)) => {
                let check = verifier.summary(&expected);
                Ok(Verified {
                    expected,
                    verifier,
                    check,
                    varied: 0,
                })
            }
            _ => Err(Failure::new(Kind::Verification, "not every buffer came back").into()),
        }
    }

    /// What ran must be the device that was asked.
    fn ran_here(&self, applied: &Applied) -> Result<(), Failure> {
        let name = &self.device.info().name;
        if applied.device == *name {
            return Ok(());
        }
        let message = format!("{name} was asked, but {} ran the job", applied.device);
        Err(Failure::new(Kind::Verification, message))
    }

    /// Warms up, then runs under the clock. Every completion is looked at; the last outputs are
    /// compared in full when the clock has stopped.
    fn time(
        &self,
        driver: &mut Driver<'_>,
        config: &ContextConfig,
        sources: &[Slice],
        verified: &mut Verified,
    ) -> Result<Timed, NoSample> {
        let mut unused = Recorder::new(self.test.operation);
        self.pass(
            driver,
            config,
            sources,
            verified,
            &mut unused,
            self.test.warmup(),
        )?;
        let mut recorder = Recorder::new(self.test.operation);
        verified.varied = 0;
        let before = self.clock.read(driver.context.cpu_time());
        let spent = self.pass(
            driver,
            config,
            sources,
            verified,
            &mut recorder,
            self.test.sample(),
        )?;
        let after = self.clock.read(driver.context.cpu_time());
        for (input, outcome, destination) in driver.last_outputs() {
            if !verified.expected[input].is(outcome, destination) {
                verified.verifier.check(input, outcome, destination)?;
            }
        }
        Ok(Timed {
            recorder,
            spent,
            cpu: after.since(&before),
            warnings: Vec::new(),
        })
    }

    /// Runs jobs for a while, in the test's setting.
    fn pass(
        &self,
        driver: &mut Driver<'_>,
        config: &ContextConfig,
        sources: &[Slice],
        verified: &mut Verified,
        recorder: &mut Recorder,
        limit: Duration,
    ) -> Result<Spent, Failure> {
        let Verified {
            expected,
            verifier,
            varied,
            ..
        } = verified;
        let expected: &[Expected] = expected;
        let mut lives = Lives::default();
        let reap = |reaped: Reaped<'_>| {
            let source_bytes = sources[reaped.input].len();
            if !expected[reaped.input].looks_like(&reaped.outcome, reaped.destination) {
                expected[reaped.input].not_incompressible(&reaped.outcome, source_bytes)?;
                // Not what was seen before. That is wrong unless it stands the full test: some
                // compressors' outputs depend on what they did before.
                verifier.check(reaped.input, &reaped.outcome, reaped.destination)?;
                *varied += 1;
            }
            self.ran_here(&reaped.completion.applied)?;
            recorder.add(&reaped, source_bytes as u64)
        };
        let prepare = |input: usize, destination: &mut Region| {
            expected[input].spoil(destination);
        };
        let until = Until::Passed(limit);
        let spent = match self.test.setting {
            Setting::Static => driver.run(until, prepare, reap)?,
            Setting::Reconfiguration => {
                let set_up = |context: &dyn Context| lives.add(&context.lifecycle());
                driver.run_reconfiguring(until, config, prepare, reap, set_up)?
            }
        };
        recorder.lives = lives;
        Ok(spent)
    }

    /// Closes the context.
    fn finish(&self, driver: Driver<'_>, timed: &mut Timed) -> Result<(), NoSample> {
        let deadline = Instant::now() + CLOSE_TIME;
        let closed = driver.context.close(deadline);
        if self.test.setting == Setting::Static {
            timed.recorder.lives.add(&closed.lifecycle);
        }
        if !closed.completions.is_empty() {
            let message = format!(
                "{} completions came at closing for jobs that were not in flight",
                closed.completions.len()
            );
            return Err(Failure::new(Kind::Verification, message).into());
        }
        if !closed.abandoned.is_empty() {
            timed.warnings.push(Warning::new(
                "abandoned",
                format!("{} jobs were abandoned at closing", closed.abandoned.len()),
                "",
            ));
        }
        Ok(())
    }

    fn sample(&self, timed: Timed, verified: Verified) -> Result<Sample, NoSample> {
        let Timed {
            recorder,
            spent,
            cpu,
            mut warnings,
        } = timed;
        let info = self.device.info();
        let applied = recorder.applied.as_deref().cloned();
        warnings.extend(self.plan.warnings.iter().cloned());
        warnings.extend(recorder.warnings(verified.varied));
        let mut evidence = Evidence::of_device(info).and(Evidence::measured(cpu));
        evidence.late = (info.timing != Timing::Real).then_some(LateCount {
            late: recorder.late,
            of: recorder.jobs,
        });
        let mut sample = Sample::ok(
            evidence,
            Done {
                applied,
                work: recorder.work(spent),
                elapsed_ns: nanoseconds(spent.elapsed),
                check: verified.check,
            },
        );
        sample.metrics = recorder.metrics(spent, cpu);
        sample.stages = recorder.stages();
        if let Some(profile) = &self.profile {
            let (source_bytes, destination_bytes) = recorder.mean_sizes();
            sample.model = Some(model(
                profile,
                overside_model::Work {
                    operation: self.test.operation,
                    patterns: self.plan.operation.patterns.clone(),
                    source_bytes,
                    destination_bytes,
                    setting: match self.test.setting {
                        Setting::Static => overside_model::Setting::Static,
                        Setting::Reconfiguration => overside_model::Setting::Reconfiguration,
                    },
                    ..overside_model::Work::new(self.test.operation, 0, 0)
                },
            )?);
        }
        sample.histogram = Some(recorder.latencies.to_text());
        sample.warnings = warnings;
        Ok(sample)
    }
}

/// What a profile says about one job.
pub(crate) fn model(profile: &Profile, work: overside_model::Work) -> Result<Model, Failure> {
    let cost = overside_model::cost(profile, &work)
        .map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
    Ok(Model {
        low_ns: cost.low_ns,
        typ_ns: cost.typ_ns,
        high_ns: cost.high_ns,
        missing: cost.missing,
        facts: cost.facts,
    })
}

/// What verification found.
struct Verified {
    expected: Vec<Expected>,
    verifier: Verifier,
    check: Check,
    /// Outputs of a pass that were right though not the same as before.
    varied: u64,
}

/// What the timed part came to.
struct Timed {
    recorder: Recorder,
    spent: Spent,
    cpu: CpuTime,
    warnings: Vec<Warning>,
}

/// All of them, shuffled, so that a sample too short for all does not see only the beginning of
/// the data set.
pub(crate) fn order(count: usize, seed: u64) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count as u32).collect();
    Random::new(seed).shuffle(&mut all);
    all
}

/// Whether so many destinations fit into memory.
pub(crate) fn destinations_fit(bytes: u64, count: u64) -> Result<(), NoSample> {
    let what = format!("{count} destinations of {bytes} bytes");
    memory_fits(&what, bytes.saturating_mul(count))
}

/// Whether `what` of so many bytes fits into memory.
pub(crate) fn memory_fits(what: &str, needed: u64) -> Result<(), NoSample> {
    if needed <= MEMORY_UNASKED_BYTES {
        return Ok(());
    }
    match memory_available() {
        Some(available) if needed > available / 2 => Err(NoSample::Skipped(format!(
            "{what} ({needed} bytes) would take more than half of the {available} bytes of memory \
             that are free"
        ))),
        _ => Ok(()),
    }
}

/// Memory that can be had without swapping, in bytes; `None` where the system does not tell.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_buffer_once_and_depends_on_the_seed() {
        let mut one = order(1000, 7);
        assert_eq!(one, order(1000, 7));
        assert_ne!(one, order(1000, 8));
        one.sort_unstable();
        assert!(one.iter().copied().eq(0..1000));
        assert_eq!(order(1, 3), [0]);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        assert!(memory_available().is_none_or(|bytes| bytes > 1 << 20));
    }
}
