//! One sample of a placement: plan all targets, verify every output of each, warm up, run the stream
//! under the clock, close.

mod figures;
mod queue;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Clock, CpuTime, Device, MemoryKind, OperationConfig, Slice};
use overside_model::{Initiator, Profile};
use overside_placement::{DeviceSetup, Executor, Policy, Report, Setup, Target, TargetReport};
use overside_probe::closed_loop::{self, LoopParams, Timeouts, Until};
use overside_probe::{Failure, FailureKind};

use crate::evidence::HostClock;
use crate::memory_budget::destinations_fit;
use crate::plan::{self, Plan, operations_max};
use crate::sample::{Check, PlacementRecord, Sample, TargetRecord, Warning};
use crate::shuffle::shuffled;
use crate::test::{CompletionMode, DEPTH_MAX, Input, Setting, Sizes, Test};
use crate::verify::{OutputChecker, ReferenceCache, TestBuffers};
use figures::{Figures, TargetTimes};
use queue::{Checkers, PlacementQueue};

/// Jobs in flight on the CPU's target for each of its threads: one runs, one waits.
const CPU_JOBS_A_THREAD: usize = 2;
/// Jobs in flight on the CPU's target for as long as the device's context is set up.
const CPU_JOBS_A_SET_UP: usize = 32;
/// Events that a sample describes; the rest is counted.
const EVENTS_MAX: usize = 16;
/// Parts of a warm-up in virtual time, each of which gives the cost of a job.
const WARM_UP_PARTS: u32 = 5;

/// A target: a device, and the test's plan for it.
pub(crate) struct Side {
    pub device: Arc<dyn Device>,
    pub plan: Plan,
}

/// State of one sample of a placement.
pub(crate) struct PlacementBench<'a> {
    pub test: &'a Test,
    pub policy: Policy,
    /// CPU side; `None` if the policy gives it no chunks.
    pub cpu: Option<Side>,
    /// Targets of the devices to which the policy gives chunks.
    pub devices: Vec<Side>,
    pub buffers: TestBuffers,
    /// Profile of the emulated device; `None` if the device is not emulated or there are several
    /// devices.
    pub profile: Option<Arc<Profile>>,
    /// Clock of the test: real or virtual time.
    pub clock: Clock,
    /// Time at which the sample fails if it is not finished.
    pub deadline: Instant,
}

/// The test of one target alone.
pub(crate) fn target_test(test: &Test, target: Target) -> Test {
    let alone = Test {
        setting: Setting::Static,
        completion: CompletionMode::Event,
        placement: None,
        ..test.clone()
    };
    match target {
        Target::Cpu => Test {
            device: "cpu".into(),
            timing: None,
            variant: test.cpu_variant.clone(),
            depth: cpu_depth(test),
            ..alone
        },
        Target::Device(device) => {
            Test { device: test.devices().nth(device).unwrap_or_default().into(), ..alone }
        }
    }
}

/// Durations of one pass.
struct Timed {
    elapsed: Duration,
    /// Number of times that the stream of all buffers was started.
    streams: u64,
    /// Times of the inputs.
    inputs: Vec<Duration>,
}

/// Buffers that follow each other without a set-up between them.
struct Stretch {
    input: usize,
    count: usize,
    /// Their length on the uncompressed side, where lengths vary: contexts are set up for it.
    bytes: Option<usize>,
}

/// Jobs in flight on the CPU's target.
fn cpu_depth(test: &Test) -> usize {
    let each = match (test.setting, test.placement) {
        (Setting::Reconfiguration, Some(Policy::Split(_))) => CPU_JOBS_A_SET_UP,
        _ => CPU_JOBS_A_THREAD,
    };
    (each * test.threads).min(DEPTH_MAX)
}

impl PlacementBench<'_> {
    /// Takes the sample.
    pub(crate) fn measure(self, cache: &RefCell<ReferenceCache>) -> Result<Sample, Failure> {
        self.clock.set_job_cost(Duration::ZERO);
        self.fits()?;
        let sources = self.sources()?;
        let checkers = self.verified(&sources, cache)?;
        let check = summary(&checkers)?;
        let executor = self.open(self.policy)?;
        let orders = self.orders();
        let operation = self.test.operation;
        let mut queue = PlacementQueue::new(
            executor,
            (sources, orders),
            checkers,
            self.depths(),
            operation,
            self.clock.clone(),
        );
        let job_cost = self.warm_up(&mut queue)?;
        queue.check_kept()?;
        queue.restart();
        let devices = self.sides().map(|side| side.device.info().name.as_str());
        let clock = HostClock::of_process(devices);
        let before = queue.executor.report();
        let begun = clock.read(cpu_time(&before));
        let timed = self.pass(&mut queue, self.test.sample())?;
        let after = queue.executor.report();
        let chunk_bytes =
            (self.test.sizes == Sizes::Adaptive).then(|| queue.executor.chunk_bytes() as u64);
        let cpu = clock.read(cpu_time(&after)).since(&begun);
        queue.check_kept()?;
        let varied = queue.varied();
        let (totals, closed) = queue.close();
        let times = match self.test.setting {
            // One context each for the whole life of the stream, set up before the clock started.
            Setting::Static => TargetTimes::between(self.targets(), &Report::default(), &closed),
            Setting::Reconfiguration => TargetTimes::between(self.targets(), &before, &after),
        };
        let figures = Figures {
            operation,
            totals,
            busy_ns: (self.targets())
                .map(|target| {
                    let busy =
                        |report| target_report(report, target).map_or(0, |target| target.busy_ns);
                    busy(&after).saturating_sub(busy(&before))
                })
                .collect(),
            times,
            elapsed: timed.elapsed,
            inputs: timed.inputs,
            cpu,
            varied,
            job_cost,
            chunk_bytes,
            grown: (self.test.output_size).map(|_| grown(&after) - grown(&before)),
        };
        self.sample(&figures, check, timed.streams, &after)
    }

    /// Checks that the buffers fit into all devices and into memory.
    fn fits(&self) -> Result<(), Failure> {
        let longest = self.buffers.source.longest();
        for side in self.sides() {
            let name = &side.device.info().name;
            if let Some(failure) = plan::too_long(name, &side.plan, longest) {
                return Err(failure);
            }
        }
        // The executor keeps as many buffers of either sort as there are chunks on their way; those
        // that have grown come on top.
        let jobs: usize = self.sides().map(|side| side.plan.depth).sum();
        let first = (self.test.output_size).map_or(0, |bytes| bytes.min(self.destination_bytes()));
        destinations_fit(self.destination_bytes() + first + longest, 2 * jobs as u64)
    }

    fn destination_bytes(&self) -> u64 {
        let each = self.sides().map(|side| side.plan.destination_bytes);
        each.min().unwrap_or(0)
    }

    fn sides(&self) -> impl Iterator<Item = &Side> {
        self.cpu.iter().chain(&self.devices)
    }

    /// The CPU, whether it takes part or not, and the devices.
    fn targets(&self) -> impl Iterator<Item = Target> + use<> {
        std::iter::once(Target::Cpu).chain((0..self.devices.len()).map(Target::Device))
    }

    fn side(&self, target: Target) -> Option<&Side> {
        match target {
            Target::Cpu => self.cpu.as_ref(),
            Target::Device(device) => self.devices.get(device),
        }
    }

    /// Returns the configuration of an executor. A device that is measured alone has no CPU as a
    /// fallback: if it fails a job, the sample fails.
    fn setup(&self, policy: Policy) -> Setup {
        let operation = match self.sides().next() {
            Some(side) => side.plan.operation.clone(),
            None => OperationConfig::new(self.test.operation),
        };
        self.setup_of(operation, policy, &self.devices)
    }

    fn setup_of(&self, operation: OperationConfig, policy: Policy, devices: &[Side]) -> Setup {
        let mut setup = Setup::new(operation, policy);
        setup.source_bytes = self.buffers.source.longest() as usize;
        setup.destination_bytes = self.destination_bytes() as usize;
        setup.first_destination_bytes =
            (self.test.output_size).map(|bytes| bytes.min(self.destination_bytes()) as usize);
        if self.test.sizes == Sizes::Adaptive {
            setup.first_chunk_bytes = Some(self.test.buffer_size as usize);
        }
        setup.cpu_depth = cpu_depth(self.test);
        setup.clock = self.clock.clone();
        setup.job_timeout = self.deadline.saturating_duration_since(Instant::now());
        if let Some(side) = self.cpu.as_ref().filter(|_| policy.uses_cpu()) {
            setup.cpu = Some(Arc::clone(&side.device));
        }
        if policy.uses_device() {
            let device = |side: &Side| DeviceSetup {
                device: Arc::clone(&side.device),
                variant: side.plan.operation.variant.clone(),
                level: side.plan.operation.level,
                depth: self.test.depth,
            };
            setup.devices = devices.iter().map(device).collect();
        }
        setup
    }

    fn open(&self, policy: Policy) -> Result<Executor, Failure> {
        Executor::open(self.setup(policy)).map_err(queue::not_opened)
    }

    /// One target of the placement, which does everything alone.
    fn open_alone(&self, target: Target, side: &Side) -> Result<Executor, Failure> {
        let operation = side.plan.operation.clone();
        let setup = match target {
            Target::Cpu => self.setup_of(operation, Policy::Cpu, &[]),
            Target::Device(_) => {
                self.setup_of(operation, Policy::Device, std::slice::from_ref(side))
            }
        };
        Executor::open(setup).map_err(queue::not_opened)
    }

    /// The sources, in memory that every target reaches.
    fn sources(&self) -> Result<Vec<Slice>, Failure> {
        let is_registered = |side: &&Side| side.plan.capability.memory != MemoryKind::Any;
        let side = (self.devices.iter().find(is_registered))
            .or_else(|| self.sides().last())
            .ok_or_else(|| Failure::new(FailureKind::Internal, "a placement without targets"))?;
        let memory = side.plan.capability.memory;
        self.buffers.source.sources(&*side.device, memory)
    }

    /// Jobs in flight on each target.
    fn depths(&self) -> Vec<usize> {
        let devices = self.devices.iter().map(|_| self.test.depth);
        std::iter::once(cpu_depth(self.test)).chain(devices).collect()
    }

    fn params(&self) -> LoopParams {
        LoopParams {
            batch: 1,
            event: true,
            deferred: false,
            operations_a_look: 1,
            // Results come in order, so a chunk's latency is mostly that of others.
            latencies: false,
            timeouts: Timeouts::until(self.deadline),
            clock: self.clock.clone(),
            operations_max: operations_max(
                &self.clock,
                match self.test.sizes {
                    Sizes::Adaptive => self.test.buffer_size,
                    _ => self.buffers.source.longest(),
                },
            ),
        }
    }

    /// The numbers of the buffers, of each length for itself if adaptive sizes have several, in the
    /// test's order. A file's buffers stay in its order.
    fn orders(&self) -> Vec<Vec<u32>> {
        let source = &self.buffers.source;
        if self.test.input == Input::Files {
            return vec![(0..source.count() as u32).collect()];
        }
        let mut first = 0;
        (source.inputs().iter())
            .map(|&count| {
                let order = shuffled(count, self.test.seed);
                let order = order.into_iter().map(|number| number + first).collect();
                first += count as u32;
                order
            })
            .collect()
    }

    /// The buffers of one round of the stream, parted where contexts have to be set up: for each
    /// input, and where lengths vary for each buffer that is not as long as the last.
    fn stretches(&self) -> Vec<Stretch> {
        let inputs = self.buffers.source.inputs().iter().enumerate();
        if !(self.test.setting == Setting::Reconfiguration && self.test.sizes.vary()) {
            let whole = |(input, &count)| Stretch { input, count, bytes: None };
            return inputs.map(whole).collect();
        }
        let mut numbers = self.orders().into_iter().flatten();
        let mut all: Vec<Stretch> = Vec::new();
        for (input, &count) in inputs {
            for number in numbers.by_ref().take(count) {
                let bytes = Some(self.buffers.original.get(number as usize).len());
                match all.last_mut() {
                    Some(last) if (last.input, last.bytes) == (input, bytes) => last.count += 1,
                    _ => all.push(Stretch { input, count: 1, bytes }),
                }
            }
        }
        all
    }

    /// Runs every distinct source once on each target alone and verifies every byte. Not timed.
    fn verified<'b>(
        &'b self,
        sources: &[Slice],
        cache: &'b RefCell<ReferenceCache>,
    ) -> Result<Checkers<'b>, Failure> {
        let mut checkers: Checkers<'b> = self.targets().map(|_| None).collect();
        for target in self.targets() {
            let Some(side) = self.side(target).filter(|_| self.policy.uses(target)) else {
                continue;
            };
            let (name, config) = (&side.device.info().name, &side.plan.operation);
            let checker = OutputChecker::new(name, config, &self.buffers, cache, self.deadline);
            // Alone, a device is the first.
            let place = usize::from(target != Target::Cpu);
            let mut own: Checkers<'b> = vec![None, None];
            own[place] = Some(checker);
            let orders = vec![(0..sources.len() as u32).collect()];
            let mut queue = PlacementQueue::new(
                self.open_alone(target, side)?,
                (sources.to_vec(), orders),
                own,
                vec![0, 0],
                self.test.operation,
                self.clock.clone(),
            );
            let all = Until::Count(sources.len() as u64);
            closed_loop::run(&mut queue, &self.params(), all)?;
            checkers[target.index()] = queue.into_checkers().swap_remove(place);
        }
        Ok(checkers)
    }

    /// Does the same work before the clock starts. In virtual time, the measured cost of a job for
    /// the submitter is its cost from then on; returns it: the least of several parts, because the
    /// first sets everything up, and other programs can only add to the others.
    fn warm_up(&self, queue: &mut PlacementQueue<'_>) -> Result<Option<Duration>, Failure> {
        if !self.clock.is_virtual() {
            self.pass(queue, self.test.warmup())?;
            return Ok(None);
        }
        let (begun, first, mut cost) = (self.clock.now(), queue.pushed(), Duration::MAX);
        while cost == Duration::MAX
            || (self.clock.since(begun) < self.test.warmup()
                && queue.pushed() - first < self.params().operations_max)
        {
            let (spent, pushed) = (self.clock.submitter_cpu_time(), queue.pushed());
            self.pass(queue, self.test.warmup() / WARM_UP_PARTS)?;
            let spent = self.clock.submitter_cpu_time().saturating_sub(spent);
            let jobs = u32::try_from(queue.pushed() - pushed).unwrap_or(u32::MAX);
            cost = cost.min(spent / jobs.max(1));
        }
        self.clock.set_job_cost(cost);
        Ok(Some(cost))
    }

    /// Runs the stream again and again for a while, in the test's setting.
    fn pass(&self, queue: &mut PlacementQueue<'_>, limit: Duration) -> Result<Timed, Failure> {
        let params = self.params();
        let mut timed = Timed {
            elapsed: Duration::ZERO,
            streams: 0,
            inputs: vec![Duration::ZERO; self.buffers.source.inputs().len()],
        };
        if (self.test.setting, self.test.input) == (Setting::Static, Input::Buffers) {
            let pass = closed_loop::run(queue, &params, Until::Passed(limit))?;
            timed.elapsed = pass.elapsed();
            timed.streams = pass.operations.div_ceil(queue.sources() as u64);
            return Ok(timed);
        }
        let stretches = self.stretches();
        let begun = self.clock.now();
        let (mut operations, mut set_up_for) = (0, None);
        while timed.streams == 0
            || (self.clock.since(begun) < limit && operations < params.operations_max)
        {
            for stretch in &stretches {
                let start = self.clock.now();
                let is_set_up = stretch.bytes.is_some() && stretch.bytes == set_up_for;
                if self.test.setting == Setting::Reconfiguration && !is_set_up {
                    set_up_for = stretch.bytes;
                    // Making buffers is a part of real time only: whose memory it is, no profile says.
                    self.clock.aside(|| self.set_up_again(queue)).0?;
                }
                let count = stretch.count as u64;
                closed_loop::run(queue, &params, Until::Count(count))?;
                let took = self.clock.since(start);
                timed.inputs[stretch.input] += took;
                timed.elapsed += took;
                operations += count;
            }
            timed.streams += 1;
        }
        Ok(timed)
    }

    /// Tears all contexts and buffers down and sets them up again.
    fn set_up_again(&self, queue: &mut PlacementQueue<'_>) -> Result<(), Failure> {
        queue.let_go();
        queue.executor.reconfigure().map_err(queue::not_opened)?;
        queue.renew(self.sources()?);
        Ok(())
    }

    fn initiator(&self) -> Initiator {
        self.profile.as_ref().map_or(Initiator::Host, |profile| profile.initiator)
    }

    fn placed(&self, figures: &Figures, streams: u64, report: &Report) -> PlacementRecord {
        let target = |target: Target| {
            let (totals, setups) = (figures.target(target), figures.times.setups(target));
            self.side(target).map(|_| TargetRecord {
                applied: totals.applied.as_deref().cloned(),
                jobs: totals.jobs,
                bytes: totals.bytes,
                failed: target_report(report, target).map_or(0, |target| target.failed),
                late: totals.late,
                overdue_ns: totals.overdue_ns,
                setups,
            })
        };
        let decided = (report.decisions.iter().rev())
            .find(|decided| !decided.probe && decided.chunk_bytes.is_none());
        PlacementRecord {
            policy: self.policy.to_string(),
            initiator: self.initiator(),
            streams,
            cpu: target(Target::Cpu),
            devices: self.targets().skip(1).filter_map(target).collect(),
            bounce_copies: report.bounce_copies,
            bounce_bytes: report.bounce_bytes,
            events: report.events.iter().take(EVENTS_MAX).map(ToString::to_string).collect(),
            chunk_bytes: figures.chunk_bytes,
            decision: decided.map(|decided| decided.reason.clone()),
            decisions: report.decisions.len() as u64 + report.decisions_left_out,
        }
    }

    fn warnings(&self, figures: &Figures, report: &Report) -> Vec<Warning> {
        let mut all = figures.warnings();
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
                "the jobs are the card's own cores' to start, so the CPU target would be those; this \
                 machine's core stands in for them, and its share is not representative"
                    .into(),
                "",
            );
        }
        if report.bounce_copies > 0 {
            warn(
                "bounce",
                format!(
                    "{} chunks were copied to memory that a target reaches",
                    report.bounce_copies
                ),
                "",
            );
        }
        all
    }
}

/// Returns how the outputs were verified; if the targets' methods differ, the result lists all of
/// them.
fn summary(checkers: &Checkers<'_>) -> Result<Check, Failure> {
    let mut checks = Vec::with_capacity(checkers.len());
    for checker in checkers.iter().flatten() {
        checks.push(checker.summary()?);
    }
    let first = checks.first().cloned();
    let mut check =
        first.ok_or_else(|| Failure::new(FailureKind::Internal, "a placement without targets"))?;
    for (index, other) in checks.iter().enumerate().skip(1) {
        if checks[..index].iter().all(|one| one.method != other.method) {
            check.method = format!("{}; {}", check.method, other.method);
        }
    }
    Ok(check)
}

fn target_report(report: &Report, target: Target) -> Option<&TargetReport> {
    match target {
        Target::Cpu => report.cpu.as_ref(),
        Target::Device(device) => report.devices.get(device),
    }
}

/// Jobs that were run again because their results did not fit.
fn grown(report: &Report) -> u64 {
    report.targets().map(|target| target.grown).sum()
}

/// CPU time of all targets' own threads.
fn cpu_time(report: &Report) -> CpuTime {
    (report.targets()).fold(CpuTime::default(), |sum, target| sum.plus(target.cpu_time))
}
