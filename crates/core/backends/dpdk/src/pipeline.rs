//! The jobs of a context, from submission to completion.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use overside_device::threads::Limits;
use overside_device::{
    Applied, Completion, ContextConfig, Deadlines, Job, JobError, Lifecycle, Lost, OpenError,
    Operation, Outcome, Output, Stages, SubmitError,
};
use overside_ops::{Error, MatchKind};
use slab::Slab;

use crate::batch::{Batch, SCRATCH_BYTES};
use crate::engine::Behavior;
use crate::orphan::{Orphan, QueueShare, Slot};
use crate::probe::{TRAILER, TRAILER_BYTES};
use crate::queue::FinishedJob;
use crate::shim::Kind;
use crate::{DeviceState, outcome, rules, shim};

/// Number of source bytes after which a call of [`Pipeline::submit`] takes no more jobs for a
/// software driver, which computes before it returns.
const AT_ONCE_BYTES: usize = 128 << 10;

pub(crate) struct Pipeline {
    shared: Arc<DeviceState>,
    limits: Limits,
    operation: Operation,
    behavior: Behavior,
    applied: Arc<Applied>,
    /// Queues and memory; `None` only while this is dropped.
    work: Option<QueueShare>,
    /// Completions that the next poll returns.
    ready: VecDeque<Completion>,
    running: usize,
    quarantined: usize,
    deadlines: Deadlines,
    /// Places whose jobs are given to the device once more, without a trailer: it is not clear
    /// whether their destination was too short or their stream.
    again: Vec<u32>,
    lost: Option<String>,
    done: Vec<FinishedJob>,
    batch: Batch,
    elsewhere: Arc<AtomicUsize>,
}

impl Pipeline {
    /// Sets up queues and memory for the configuration.
    pub(crate) fn open(
        shared: &Arc<DeviceState>,
        config: ContextConfig,
        elsewhere: &Arc<AtomicUsize>,
    ) -> Result<(Self, Lifecycle), OpenError> {
        let name = &shared.info.name;
        let capability = shared.capabilities.check(name, &config)?;
        let operation = config.operation.operation;
        check_operation(shared, &config)?;
        let failed = |reason: String| OpenError::Failed { device: name.clone(), reason };
        let (environment, engine) = (&shared.environment, &shared.engine);
        let runtime = &environment.runtime;
        runtime.enter_thread();
        let behavior = (engine.behaviors.get(operation))
            .ok_or_else(|| OpenError::Unsupported { device: name.clone(), operation })?;
        let begin = Instant::now();
        let with_rules = engine.found.kind == Kind::Match;
        if with_rules {
            let rules = rules::find(&config.operation.patterns).map_err(failed)?;
            engine.use_rules(runtime, rules).map_err(failed)?;
        }
        let rules_ns = begin.elapsed().as_nanos() as u64;
        let made = Self::work(shared, &config, behavior, with_rules);
        if made.is_err() && with_rules {
            engine.leave_rules();
        }
        let work = made.map_err(failed)?;
        let lifecycle = Lifecycle {
            discovery_ns: Some((runtime.start + engine.discovery).as_nanos() as u64),
            init_ns: Some(rules_ns + work.resources.init.as_nanos() as u64),
            memory_ns: Some(work.resources.memory.as_nanos() as u64),
            end_ns: None,
        };
        let applied = Applied {
            library: format!("{} of {}", engine.driver(), environment.version()),
            ..Applied::nothing(&shared.info, &capability.variants[0])
        };
        let pipeline = Self {
            shared: Arc::clone(shared),
            limits: Limits::new(shared.id, capability, &config),
            operation: config.operation.operation,
            behavior,
            applied: Arc::new(applied),
            work: Some(work),
            ready: VecDeque::new(),
            running: 0,
            quarantined: 0,
            deadlines: Deadlines::default(),
            again: Vec::new(),
            lost: None,
            done: Vec::new(),
            batch: Batch::default(),
            elsewhere: Arc::clone(elsewhere),
        };
        Ok((pipeline, lifecycle))
    }

    fn work(
        shared: &Arc<DeviceState>,
        config: &ContextConfig,
        behavior: Behavior,
        with_rules: bool,
    ) -> Result<QueueShare, String> {
        let (runtime, engine) = (&shared.environment.runtime, &shared.engine);
        let trailer = if behavior.needs_trailer { TRAILER.len() } else { 0 };
        let segments = behavior.segments + trailer;
        let (operation, depth) = (&config.operation, config.depth);
        let resources =
            crate::resources::Resources::new(runtime, engine, operation, depth, segments)?;
        let owner = (shared.id, shared.info.name.as_str());
        let scratch = TRAILER_BYTES + SCRATCH_BYTES;
        let mut scratch = crate::memory::allocate(runtime, owner, scratch, 64)
            .map_err(|error| error.to_string())?;
        scratch[..TRAILER_BYTES].fill(0xFF);
        let queue = engine.queue();
        Ok(QueueShare {
            number: queue.enter(),
            queue,
            resources,
            slots: Slab::with_capacity(depth),
            scratch,
            engine: Arc::clone(engine),
            with_rules,
        })
    }

    /// Implements [`overside_device::Context::put_off`]: completions are found only by polling, so
    /// no job expires before `until`.
    pub(crate) fn put_off(&mut self, until: Instant) {
        for (_, slot) in self.work.iter_mut().flat_map(|work| &mut work.slots) {
            if let Some(deadline) = &mut slot.job.deadline {
                *deadline = until.max(*deadline);
            }
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.running + self.ready.len()
    }

    pub(crate) fn quarantined(&self) -> usize {
        self.quarantined
    }

    /// Tags of the jobs that the device has and that were not given up.
    pub(crate) fn tags(&self) -> Vec<u64> {
        let slots = self.work.iter().flat_map(|work| &work.slots);
        let running = slots.filter(|(_, slot)| !slot.is_quarantined);
        running.map(|(_, slot)| slot.job.tag).collect()
    }

    pub(crate) fn lost(&self, reason: &str) -> Lost {
        Lost { device: self.shared.info.name.clone(), reason: reason.into(), tags: self.tags() }
    }

    /// Implements [`overside_device::Context::submit`]: hands jobs to the device in batches.
    pub(crate) fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        if let Some(reason) = &self.lost {
            return Err(self.lost(reason).into());
        }
        let (mut taken, mut bytes) = (0, 0);
        while let Some(job) = jobs.front() {
            let refusal = self.limits.check(job).err();
            let depth = self.limits.depth;
            let busy = self.work.as_ref().map_or(0, |work| work.slots.len());
            let full = self.in_flight() >= depth || busy >= depth;
            let enough = self.at_once() && bytes >= AT_ONCE_BYTES;
            if refusal.is_none() && (full || enough) {
                break;
            }
            let local = match refusal {
                None => self.decided(job),
                Some(_) => None,
            };
            // What is behind is not taken before what is in front of it.
            if refusal.is_some() || local.is_some() || (self.at_once() && self.batch.bytes > 0) {
                let whole = self.flush(jobs, &mut taken);
                if !whole || jobs.is_empty() {
                    return self.answer(taken);
                }
            }
            match refusal {
                Some(_) if taken > 0 => return Ok(taken),
                Some(refusal) => {
                    let tag = jobs.front().map_or(0, |job| job.tag);
                    return Err(SubmitError::Refused { tag, refusal });
                }
                None => {}
            }
            let Some(job) = jobs.pop_front() else { break };
            taken += 1;
            bytes += job.source.len();
            match local {
                Some(result) => self.complete(job, result, None),
                None => self.stage(job),
            }
        }
        self.flush(jobs, &mut taken);
        self.answer(taken)
    }

    fn answer(&self, taken: usize) -> Result<usize, SubmitError> {
        match &self.lost {
            Some(reason) if taken == 0 => Err(self.lost(reason).into()),
            _ => Ok(taken),
        }
    }

    fn at_once(&self) -> bool {
        self.shared.engine.computes_at_once()
    }

    /// Returns the result of a job that can be decided without the device, such as one with an
    /// empty source or a missed deadline. `None`: the device has to run it.
    fn decided(&self, job: &Job) -> Option<Result<Outcome, JobError>> {
        if job.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Some(Err(JobError::DeadlineExceeded));
        }
        let (len, capacity) = (job.source.len(), job.destination.len());
        let nothing = |value| Some(Ok(Outcome::Done(Output { written: 0, value })));
        match self.operation {
            Operation::Compress(_) if len == 0 => Some(Ok(Outcome::Incompressible)),
            Operation::Compress(_) if capacity == 0 => {
                Some(Err(JobError::OutputTooSmall { capacity }))
            }
            Operation::Decompress(_) if len == 0 => {
                Some(Err(JobError::Corrupt(outcome::ENDS_EARLY.into())))
            }
            Operation::Copy if len > capacity => Some(Err(JobError::OutputTooSmall { capacity })),
            Operation::Copy if len == 0 => nothing(None),
            Operation::Match(MatchKind::Search) if len == 0 => nothing(None),
            Operation::Match(_) if len == 0 => nothing(Some(0)),
            _ => None,
        }
    }

    /// Puts a job into a place and into the batch.
    fn stage(&mut self, job: Job) {
        let Some(work) = &mut self.work else {
            unreachable!("what a context works with is there until it is dropped");
        };
        self.deadlines.add(job.deadline);
        self.batch.bytes += job.source.len();
        self.running += 1;
        let number = work.slots.insert(Slot {
            job,
            engine_ns: None,
            plain: !self.behavior.needs_trailer,
            is_quarantined: false,
        });
        self.batch.add(work, number as u32);
    }

    /// Submits the batch. Jobs that the device does not take return to the front of `jobs`. Returns
    /// `true` if the device took all.
    fn flush(&mut self, jobs: &mut VecDeque<Job>, taken: &mut usize) -> bool {
        let Some(work) = &mut self.work else {
            return false;
        };
        let begin = Instant::now();
        let put = self.batch.put(work);
        let accepted = put.unwrap_or_else(|reason| {
            self.lost = Some(reason);
            0
        });
        if self.shared.engine.computes_at_once() && accepted == 1 {
            let number = self.batch.numbers[0] as usize;
            work.slots[number].engine_ns = Some(begin.elapsed().as_nanos() as u64);
        }
        let whole = accepted == self.batch.numbers.len();
        for number in self.batch.numbers.drain(accepted..).rev() {
            jobs.push_front(work.slots.remove(number as usize).job);
            self.running -= 1;
            *taken -= 1;
        }
        self.batch.clear();
        whole
    }

    /// Implements [`overside_device::Context::poll`]: takes completions from the device and expires
    /// jobs that are past their deadlines.
    pub(crate) fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.reap();
        if self.deadlines.is_due() {
            self.expire();
        }
        let count = max.min(self.ready.len());
        out.extend(self.ready.drain(..count));
        match &self.lost {
            Some(reason) if count == 0 && max > 0 => Err(self.lost(reason)),
            _ => Ok(count),
        }
    }

    /// Takes the device's completions.
    pub(crate) fn reap(&mut self) {
        let Some(work) = &mut self.work else {
            return;
        };
        let mut all = std::mem::take(&mut self.done);
        if let Err(reason) = work.queue.take(work.number, &mut all) {
            self.lost = Some(reason);
        }
        for done in all.drain(..) {
            self.finish(&done);
        }
        self.done = all;
        self.look_again();
    }

    fn look_again(&mut self) {
        let (Some(work), false) = (&mut self.work, self.again.is_empty()) else {
            return;
        };
        for number in &self.again {
            self.batch.add(work, *number);
        }
        match self.batch.put(work) {
            Ok(accepted) => drop(self.again.drain(..accepted)),
            Err(reason) => self.lost = Some(reason),
        }
        self.batch.clear();
    }

    fn finish(&mut self, done: &FinishedJob) {
        let number = done.slot as usize;
        let Some(work) = &mut self.work else { return };
        let Some(slot) = work.slots.get_mut(number) else {
            return;
        };
        if !slot.is_quarantined && !slot.plain && done.status == shim::NO_SPACE {
            slot.plain = true;
            self.again.push(done.slot);
            return;
        }
        let mut slot = work.slots.remove(number);
        if slot.is_quarantined {
            self.quarantined -= 1;
            return;
        }
        self.running -= 1;
        let deadline = slot.job.deadline;
        let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let is_second = self.behavior.needs_trailer && slot.plain;
        let result = match is_late {
            true => Err(JobError::DeadlineExceeded),
            // There was no room for what the trailer made, and there is for the rest.
            false if is_second && done.status == shim::DONE => {
                Err(JobError::Corrupt(outcome::ENDS_EARLY.into()))
            }
            false => self.result(done, &mut slot.job),
        };
        self.complete(slot.job, result, slot.engine_ns);
    }

    fn result(&self, done: &FinishedJob, job: &mut Job) -> Result<Outcome, JobError> {
        let operation = self.operation;
        if let Operation::Match(kind) = operation {
            let source = job.source.segments().first().map_or(&[][..], |slice| slice);
            return outcome::matched(kind, done, source, &mut job.destination);
        }
        let (len, capacity) = (job.source.len(), job.destination.len());
        outcome::of(operation, self.behavior, done, len, capacity)
    }

    fn complete(&mut self, job: Job, result: Result<Outcome, JobError>, engine_ns: Option<u64>) {
        self.ready.push_back(Completion {
            tag: job.tag,
            result,
            source: job.source,
            destination: Some(job.destination),
            stages: Stages { engine_ns, ..Stages::default() },
            applied: Arc::clone(&self.applied),
        });
    }

    /// Abandons jobs past their deadline: a job's memory stays reserved until the device is done with it.
    fn expire(&mut self) {
        let Some(work) = &mut self.work else {
            return;
        };
        let now = self.deadlines.renew();
        for (number, slot) in &mut work.slots {
            let job = &slot.job;
            let Some(deadline) = job.deadline.filter(|_| !slot.is_quarantined) else {
                continue;
            };
            // What is to be given once more is not with the device; it is late when it comes back.
            if deadline > now || self.again.contains(&(number as u32)) {
                self.deadlines.add(Some(deadline));
                continue;
            }
            self.ready.push_back(Completion {
                tag: job.tag,
                result: Err(JobError::DeadlineExceeded),
                source: job.source.clone(),
                destination: None,
                stages: Stages::default(),
                applied: Arc::clone(&self.applied),
            });
            slot.is_quarantined = true;
            self.running -= 1;
            self.quarantined += 1;
        }
    }
}

impl Drop for Pipeline {
    /// Leaves the jobs that the device still has to the environment's own thread, which frees them
    /// when they are done.
    fn drop(&mut self) {
        self.reap();
        let Some(mut work) = self.work.take() else {
            return;
        };
        for number in self.again.drain(..) {
            work.slots.remove(number as usize);
        }
        if !work.slots.is_empty() {
            let orphan = Orphan::new(work, Arc::clone(&self.elsewhere));
            self.shared.environment.adopt(orphan);
        }
    }
}

/// Checks that the device can prepare the operation with the requested variant, level and patterns.
fn check_operation(shared: &DeviceState, config: &ContextConfig) -> Result<(), OpenError> {
    let asked = &config.operation;
    let own = shared.engine.driver();
    if asked.variant != "auto" && asked.variant != own {
        return Err(OpenError::Operation(Error::UnknownVariant {
            operation: asked.operation.to_string(),
            name: asked.variant.clone(),
            known: own.into(),
        }));
    }
    match (asked.operation, asked.level) {
        (Operation::Compress(_), Some(level)) if !(1..=9).contains(&level) => {
            Err(OpenError::Operation(Error::Level { variant: "DPDK", level, min: 1, max: 9 }))
        }
        (Operation::Match(_), _) => {
            // Whatever the engine compiled, the patterns are to mean the same as everywhere.
            let mut other = asked.clone();
            other.variant = "auto".into();
            overside_ops::prepare(&other).map(|_| ()).map_err(OpenError::Operation)
        }
        _ => Ok(()),
    }
}
