//! One sample of a placement: plan both legs, verify every output of each, warm up, run the stream
//! under the clock, close.

mod stream;
mod tally;

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{CpuTime, Device, OperationConfig, Slice, Timing};
use overside_model::{Initiator, Profile};
use overside_placement::{ChunkResult, Executor, Policy, Report, Setup, Target, TargetReport};

use crate::evidence::{Evidence, HostClock, LateCount};
use crate::measuring::{self, NoSample, Plan};
use crate::recorder::nanoseconds;
use crate::sample::{Check, Done, Failure, Kind, Placed, PlacedLeg, Sample, Warning};
use crate::test::{Reaping, Setting, Test};
use crate::verify::{AnswerCache, Expected, Material, Verifier};
use stream::{Stream, lost, run};
use tally::{Lives, Tally};

/// Jobs in flight on the CPU's leg for each of its threads: one runs, one waits.
const CPU_JOBS_A_THREAD: usize = 2;
/// Events that a sample tells in words; the rest is counted.
const EVENTS_MAX: usize = 16;

/// A leg: a device, and what the test means on it.
pub(crate) struct Side {
    pub device: Arc<dyn Device>,
    pub plan: Plan,
}

/// Everything that one sample of a placement needs.
pub(crate) struct Placing<'a> {
    pub test: &'a Test,
    pub policy: Policy,
    /// There if the policy gives it chunks.
    pub cpu: Option<Side>,
    /// There if the policy gives it chunks.
    pub device: Option<Side>,
    pub material: Material,
    /// What an emulated device is made from.
    pub profile: Option<Arc<Profile>>,
    /// When the sample has failed.
    pub deadline: Instant,
}

/// What a leg's outputs were found to be.
pub(super) struct Checked {
    /// By buffer.
    expected: Vec<Expected>,
    verifier: Verifier,
    check: Check,
}

/// The test of one leg alone.
pub(crate) fn leg_test(test: &Test, leg: Target) -> Test {
    let alone = Test {
        setting: Setting::Static,
        completion: Reaping::Event,
        placement: None,
        ..test.clone()
    };
    match leg {
        Target::Cpu => Test {
            device: "cpu".into(),
            timing: None,
            variant: test.cpu_variant.clone(),
            depth: CPU_JOBS_A_THREAD * test.threads,
            ..alone
        },
        Target::Device => alone,
    }
}

impl Placing<'_> {
    /// Takes the sample.
    pub(crate) fn measure(self, answers: &mut AnswerCache) -> Result<Sample, NoSample> {
        self.fits()?;
        let mut stream = self.stream(answers)?;
        let mut unused = Tally::new(self.test.operation);
        self.pass(&mut stream, &mut unused, self.test.warmup())?;
        stream.check_kept()?;
        stream.varied = 0;
        let mut tally = Tally::new(self.test.operation);
        let before = stream.executor()?.report();
        let devices = self.sides().map(|side| side.device.info().name.as_str());
        let clock = HostClock::of_process(devices);
        let begun = clock.read(spent(&before));
        let (elapsed, streams) = self.pass(&mut stream, &mut tally, self.test.sample())?;
        let after = stream.executor()?.report();
        let cpu = clock.read(spent(&after)).since(&begun);
        stream.check_kept()?;
        let closed = stream.close();
        let lives = match self.test.setting {
            // One context each for the whole life of the stream, set up before the clock started.
            Setting::Static => Lives::of(&closed, &Report::default()),
            Setting::Reconfiguration => Lives::of(&after, &before),
        };
        tally.busy(&after, &before);
        let taken = Taken {
            tally,
            lives,
            elapsed,
            streams,
            cpu,
            report: after,
        };
        self.sample(taken, &stream)
    }

    /// Whether the buffers fit into both devices and into memory.
    fn fits(&self) -> Result<(), NoSample> {
        let longest = self.material.source.longest();
        for side in self.sides() {
            let max = side.plan.capability.max_source_bytes;
            if longest > max {
                let name = &side.device.info().name;
                let reason = format!("{name} takes sources of up to {max} bytes, not {longest}");
                return Err(NoSample::Skipped(reason));
            }
        }
        // The executor keeps as many buffers of either sort as there are chunks on their way.
        let jobs: usize = self.sides().map(|side| side.plan.depth).sum();
        let bytes = self.destination_bytes() + longest;
        measuring::destinations_fit(bytes, 2 * jobs as u64)
    }

    fn destination_bytes(&self) -> u64 {
        let each = self.sides().map(|side| side.plan.destination_bytes);
        each.min().unwrap_or(0)
    }

    fn sides(&self) -> impl Iterator<Item = &Side> {
        self.cpu.iter().chain(&self.device)
    }

    fn side(&self, leg: Target) -> Option<&Side> {
        match leg {
            Target::Cpu => self.cpu.as_ref(),
            Target::Device => self.device.as_ref(),
        }
    }

    /// What an executor is made of. A device that is measured alone has no CPU to do its work for
    /// it: what it fails at is a failed sample.
    fn setup(&self, policy: Policy) -> Setup {
        let operation = match self.sides().next() {
            Some(side) => side.plan.operation.clone(),
            None => OperationConfig::new(self.test.operation),
        };
        let mut setup = Setup::new(operation, policy);
        setup.source_bytes = self.material.source.longest() as usize;
        setup.destination_bytes = self.destination_bytes() as usize;
        [setup.cpu_depth, setup.device_depth] = self.depths();
        setup.job_timeout = self.deadline.saturating_duration_since(Instant::now());
        if let Some(side) = self.cpu.as_ref().filter(|_| policy.uses_cpu()) {
            setup.cpu = Some(Arc::clone(&side.device));
        }
        if let Some(side) = self.device.as_ref().filter(|_| policy.uses_device()) {
            setup.device = Some(Arc::clone(&side.device));
            setup.device_variant = side.plan.operation.variant.clone();
            setup.device_level = side.plan.operation.level;
        }
        setup
    }

    fn open(&self, policy: Policy) -> Result<Executor, NoSample> {
        Executor::open(self.setup(policy)).map_err(stream::not_opened)
    }

    /// The sources, in memory that every leg reaches.
    pub(super) fn sources(&self) -> Result<Vec<Slice>, Failure> {
        let side = self.device.as_ref().or(self.cpu.as_ref());
        let side = side.ok_or_else(|| Failure::new(Kind::Internal, "a placement without legs"))?;
        let memory = side.plan.capability.memory;
        self.material.source.sources(&*side.device, memory)
    }

    /// Verifies the outputs of every leg, and opens the stream.
    fn stream(&self, answers: &mut AnswerCache) -> Result<Stream, NoSample> {
        let sources = self.sources()?;
        let mut checked = [None, None];
        for leg in [Target::Cpu, Target::Device] {
            if self.side(leg).is_some() {
                checked[leg as usize] = Some(self.verify(leg, &sources, answers)?);
            }
        }
        let executor = self.open(self.policy)?;
        let order = measuring::order(sources.len(), self.test.seed);
        Ok(Stream::new(
            executor,
            sources,
            order,
            checked,
            self.names(),
            self.depths(),
            self.deadline,
        ))
    }

    fn names(&self) -> [String; 2] {
        [Target::Cpu, Target::Device].map(|leg| {
            let side = self.side(leg);
            side.map_or_else(String::new, |side| side.device.info().name.clone())
        })
    }

    /// Jobs in flight on each leg.
    fn depths(&self) -> [usize; 2] {
        [CPU_JOBS_A_THREAD * self.test.threads, self.test.depth]
    }

    /// Runs every distinct source once on one leg and looks at every byte. Not timed.
    fn verify(
        &self,
        leg: Target,
        sources: &[Slice],
        answers: &mut AnswerCache,
    ) -> Result<Checked, NoSample> {
        let mut executor = self.open(match leg {
            Target::Cpu => Policy::Cpu,
            Target::Device => Policy::Device,
        })?;
        let mut expected = Vec::with_capacity(sources.len());
        let mut verifier: Option<Verifier> = None;
        let mut all = (0_u64..).zip(sources);
        let next = || {
            all.next()
                .map(|(label, source)| stream::chunk(label, source))
        };
        let take = |piece: ChunkResult, _: bool| {
            let number = expected.len();
            let (outcome, applied) = stream::result(&piece, number)?;
            let verifier = match &mut verifier {
                Some(verifier) => verifier,
                // Who can verify depends on who computed, which is known only now.
                None => {
                    let side = self.side(leg).map(|side| &side.plan.operation);
                    let config = side.ok_or_else(|| Failure::new(Kind::Internal, "no such leg"))?;
                    let made = Verifier::new(config, &applied.variant, &self.material, answers)?;
                    verifier.insert(made)
                }
            };
            verifier.check(number, &outcome, &piece.destination)?;
            expected.push(Expected::new(outcome, &piece.destination));
            Ok(())
        };
        run(&mut executor, self.deadline, next, take)?;
        executor.close();
        match verifier {
            Some(verifier) if expected.len() == sources.len() => Ok(Checked {
                check: verifier.summary(&expected),
                expected,
                verifier,
            }),
            _ => Err(Failure::new(Kind::Verification, "not every buffer came back").into()),
        }
    }

    /// Runs the stream again and again for a while, in the test's setting. Returns the time and how
    /// often a stream began.
    fn pass(
        &self,
        stream: &mut Stream,
        tally: &mut Tally,
        limit: Duration,
    ) -> Result<(Duration, u64), NoSample> {
        let start = Instant::now();
        match self.test.setting {
            Setting::Static => {
                stream.run_for(limit, tally)?;
                let elapsed = start.elapsed();
                Ok((elapsed, stream.begun_since_renewal()))
            }
            Setting::Reconfiguration => {
                let mut streams = 0;
                while streams == 0 || start.elapsed() < limit {
                    self.renew(stream)?;
                    stream.run_once(tally)?;
                    streams += 1;
                }
                Ok((start.elapsed(), streams))
            }
        }
    }

    /// Tears both contexts and all buffers down and sets them up again.
    fn renew(&self, stream: &mut Stream) -> Result<(), NoSample> {
        stream.let_go();
        (stream.executor()?.reconfigure()).map_err(stream::not_opened)?;
        stream.renewed(self.sources()?);
        Ok(())
    }

    fn sample(&self, taken: Taken, stream: &Stream) -> Result<Sample, NoSample> {
        let Taken {
            tally,
            lives,
            elapsed,
            streams,
            cpu,
            report,
        } = taken;
        let ran = |leg: Target| (tally.leg(leg).jobs > 0).then(|| self.side(leg)).flatten();
        let mut evidence = Evidence::measured(cpu);
        for leg in [Target::Cpu, Target::Device] {
            let (Some(side), sums) = (ran(leg), tally.leg(leg)) else {
                continue;
            };
            let mut own = Evidence::of_device(side.device.info());
            if let Some(applied) = &sums.applied {
                own.provenance = own.provenance.max(applied.provenance);
            }
            own.late = (own.timing != Timing::Real).then_some(LateCount {
                late: sums.late,
                of: sums.jobs,
            });
            evidence = evidence.and(own);
        }
        let lead = match ran(Target::Device) {
            Some(_) => Target::Device,
            None => Target::Cpu,
        };
        let mut sample = Sample::ok(
            evidence,
            Done {
                applied: tally.leg(lead).applied.as_deref().cloned(),
                work: tally.work(),
                elapsed_ns: nanoseconds(elapsed),
                check: stream.check(),
            },
        );
        sample.metrics = tally.metrics(elapsed, cpu, lead, &lives);
        sample.stages = tally.stages(lead, &lives);
        if let (Some(profile), Target::Device) = (&self.profile, lead) {
            let (source_bytes, destination_bytes) = tally.mean_sizes(lead);
            let patterns = self.device.as_ref().map(|it| &it.plan.operation.patterns);
            sample.model = Some(measuring::model(
                profile,
                overside_model::Work {
                    operation: self.test.operation,
                    patterns: patterns.cloned().unwrap_or_default(),
                    source_bytes,
                    destination_bytes,
                    // What setting up costs is a stream's, not a job's.
                    setting: overside_model::Setting::Static,
                    ..overside_model::Work::new(self.test.operation, 0, 0)
                },
            )?);
        }
        sample.warnings = self.warnings(&tally, elapsed, &report, stream.varied);
        sample.placement = Some(self.placed(&tally, &lives, streams, &report));
        Ok(sample)
    }

    fn initiator(&self) -> Initiator {
        self.profile
            .as_ref()
            .map_or(Initiator::Host, |profile| profile.initiator)
    }

    fn placed(&self, tally: &Tally, lives: &Lives, streams: u64, report: &Report) -> Placed {
        let leg = |leg: Target| {
            let (sums, setups) = (tally.leg(leg), lives.setups(leg));
            self.side(leg).map(|_| PlacedLeg {
                applied: sums.applied.as_deref().cloned(),
                jobs: sums.jobs,
                bytes: sums.bytes,
                failed: report_leg(report, leg).map_or(0, |leg| leg.failed),
                late: sums.late,
                overdue_ns: sums.overdue_ns,
                setups,
            })
        };
        let decided = (report.decisions.iter().rev()).find(|decided| !decided.probe);
        Placed {
            policy: self.policy.to_string(),
            initiator: self.initiator(),
            streams,
            cpu: leg(Target::Cpu),
            device: leg(Target::Device),
            bounce_copies: report.bounce_copies,
            bounce_bytes: report.bounce_bytes,
            events: report
                .events
                .iter()
                .take(EVENTS_MAX)
                .map(ToString::to_string)
                .collect(),
            decision: decided.map(|decided| decided.reason.clone()),
            decisions: report.decisions.len() as u64 + report.decisions_left_out,
        }
    }

    fn warnings(
        &self,
        tally: &Tally,
        elapsed: Duration,
        report: &Report,
        varied: u64,
    ) -> Vec<Warning> {
        let mut all = tally.warnings(elapsed, varied);
        let mut warn = |kind: &str, message: String, remedy: &str| {
            all.push(Warning::new(kind, message, remedy));
        };
        for event in report.events.iter().take(EVENTS_MAX) {
            warn("fallback", event.to_string(), "");
        }
        let rest = report.events.len().saturating_sub(EVENTS_MAX) as u64 + report.events_left_out;
        if rest > 0 {
            warn("fallback", format!("and {rest} events more"), "");
        }
        if self.initiator() == Initiator::Soc && self.policy.uses_cpu() {
            warn(
                "stand-in",
                "the jobs are the card's own cores' to start, so the CPU leg would be those; this \
                 machine's core stands in for them, and its share is not representative"
                    .into(),
                "",
            );
        }
        if report.bounce_copies > 0 {
            warn(
                "bounce",
                format!(
                    "{} chunks were copied to memory that a leg reaches",
                    report.bounce_copies
                ),
                "",
            );
        }
        all
    }
}

/// What the timed part came to.
struct Taken {
    tally: Tally,
    lives: Lives,
    elapsed: Duration,
    streams: u64,
    cpu: CpuTime,
    /// Of the executor's whole life, up to the end of the timed part.
    report: Report,
}

fn report_leg(report: &Report, leg: Target) -> Option<&TargetReport> {
    match leg {
        Target::Cpu => report.cpu.as_ref(),
        Target::Device => report.device.as_ref(),
    }
}

/// CPU time of both legs' own threads.
fn spent(report: &Report) -> CpuTime {
    ([Target::Cpu, Target::Device].into_iter())
        .filter_map(|leg| report_leg(report, leg))
        .fold(CpuTime::default(), |sum, leg| sum.plus(leg.cpu_time))
}

/// An executor that ended while it was still needed.
pub(super) fn ended() -> Failure {
    lost("the executor is gone")
}
