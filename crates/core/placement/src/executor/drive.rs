//! Keeps all targets busy: moves chunks from the queues into the contexts, and fetches completions.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use overside_device::{JobError, SubmitError, backoff};
use overside_ops::Direction;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::Executor;
use crate::in_flight::Queue;
use crate::lane::Lane;
use crate::policy::TARGETS_MAX;
use crate::report::EventKind;
use crate::{Error, Policy, Target};

/// Divisor of the pause between two polls of a device without events: an eighth of the time since its last
/// completion.
const PAUSE_PARTS: u32 = 8;
/// The pause between two offers to a device that takes nothing and has nothing.
const STUCK: Duration = Duration::from_millis(1);
/// The longest sleep while the device has work, or an eighth of a job's time limit if that is longer:
/// only a poll notices a silence that is too long.
const SILENCE_CHECK: Duration = Duration::from_millis(20);
/// Longer than any wait of a user, short enough for the system's clock.
const LONGEST: Duration = Duration::from_secs(1 << 30);

/// Returns `true` if `input` can be read without blocking: there are bytes, or it has ended.
pub(crate) fn is_readable(input: BorrowedFd<'_>) -> Result<bool, Error> {
    let mut set = [PollFd::new(&input, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut set, Some(&at_once)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(Error::Wait(error.to_string())),
    }
}

impl Executor {
    /// Puts a chunk that was pushed into the queue that it belongs to.
    pub(super) fn route(&mut self, place: u64, (source, destination): (usize, usize)) {
        let takes = |target| (self.lanes.get(target)).map(|lane| lane.takes(source, destination));
        let bytes = match self.setup.operation.operation.uncompressed_side() {
            Direction::Source => source,
            Direction::Destination => destination,
        };
        let wanted = self.scheduler.route(bytes);
        let cpu = takes(Target::Cpu);
        // What is for all is so only if all that are there can do it.
        let device = match wanted {
            Some(device @ Target::Device(_)) => takes(device),
            Some(Target::Cpu) => None,
            None => (self.lanes.devices().filter_map(takes)).reduce(|one, other| one && other),
        };
        let queue = match (wanted, cpu, device) {
            (Some(wanted @ Target::Device(_)), _, Some(true)) if self.is_wanted(wanted) => {
                Queue::Of(wanted)
            }
            (None, Some(true) | None, Some(true)) => {
                if let Some(adaptive) = self.scheduler.adaptive() {
                    adaptive.expect(source);
                }
                Queue::Shared
            }
            (_, Some(true), _) => {
                if device == Some(false) {
                    self.note_too_long(wanted);
                }
                Queue::Of(Target::Cpu)
            }
            (Some(wanted), None, Some(true)) => Queue::Of(wanted),
            _ => {
                let target = wanted.unwrap_or(Target::Cpu);
                let message =
                    format!("a chunk of {source} bytes is longer than the {target} takes");
                self.fail_chunk(place, target, JobError::Failed(message));
                return;
            }
        };
        self.in_flight.enqueue(place, queue);
    }

    /// Returns `true` if the device may get another chunk of a fixed split. Returns `false` while
    /// it rests after failures.
    fn is_wanted(&self, target: Target) -> bool {
        let Some(device) = self.lanes.get(target) else {
            return false;
        };
        if !self.lanes.has_fallback() {
            return true;
        }
        let breaker = self.lanes.breaker(target);
        let waiting = self.in_flight.waiting(target) + device.load();
        match breaker.retry_at() {
            Some(until) => waiting == 0 && self.setup.clock.now() >= until,
            None => breaker.limit(device.depth()) == device.depth() || waiting == 0,
        }
    }

    /// A chunk is longer than the device that it is for takes, or one of those.
    fn note_too_long(&mut self, wanted: Option<Target>) {
        let devices = self.lanes.devices();
        let devices = devices.filter(|device| wanted.is_none_or(|wanted| wanted == *device));
        let shortest = |target: &Target| {
            (self.lanes.get(*target)).map_or(u64::MAX, |lane| lane.config.max_source_bytes)
        };
        let Some(target) = devices.min_by_key(shortest) else {
            return;
        };
        let (name, most) = (self.lanes.name(target), shortest(&target));
        let message = format!("chunks beyond the {most} bytes that {name} takes run on the cpu");
        self.event(target, EventKind::TooLong, message);
    }

    /// Collects completions and submits chunks. Fails if the executor cannot continue. With `kick`, rings the
    /// doorbell now, without waiting for a full batch.
    pub(super) fn drive(&mut self, kick: bool) -> Result<(), Error> {
        for device in self.lanes.devices() {
            self.collect(device);
        }
        self.collect(Target::Cpu);
        self.verify_answers();
        if let Some(adaptive) = self.scheduler.adaptive() {
            let states = self.lanes.states();
            adaptive.end_epochs(&states);
        }
        self.size_chunks();
        self.pump(kick);
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Fills all targets, and submits chunks when it is due, or at once if `kick`.
    pub(super) fn pump(&mut self, kick: bool) {
        // Setting a device up again blocks, and the CPU works meanwhile on what it was given.
        if self.is_set_up_due() {
            let is_now = kick || self.in_flight.is_full();
            self.serve(Target::Cpu, is_now);
            if !is_now {
                return;
            }
        }
        // The devices first: what they fail at goes to the CPU in the same round.
        for device in self.lanes.devices() {
            self.serve(device, kick);
        }
        self.serve(Target::Cpu, kick);
    }

    fn serve(&mut self, target: Target, kick: bool) {
        self.fill(target);
        if target == Target::Cpu {
            self.run_silent_chunks_twice();
        }
        if (self.lanes.get(target)).is_some_and(|lane| kick || lane.is_kick_due()) {
            self.kick(target);
        }
    }

    /// Returns `true` if chunks of a fixed split wait for a device whose context must first be set
    /// up again.
    fn is_set_up_due(&self) -> bool {
        matches!(self.setup.policy, Policy::Split(_))
            && (self.lanes.devices()).any(|device| {
                self.in_flight.waiting(device) > 0
                    && (self.lanes.get(device)).is_some_and(|lane| !lane.is_open())
            })
    }

    /// Runs the chunks of a silent device on the idle CPU as well, beginning with the one that others wait
    /// for. The first result counts.
    fn run_silent_chunks_twice(&mut self) {
        if !self.scheduler.is_adaptive() {
            return;
        }
        while (self.lanes.get(Target::Cpu)).is_some_and(|cpu| cpu.load() < cpu.depth())
            && let Some((place, device)) =
                (self.in_flight).first_on(|device| self.lanes.is_silent(device))
            && self.open_for(Target::Cpu, place)
            && let Some(source) = self.in_flight.start_second(place)
            && let Some(cpu) = self.lanes.get_mut(Target::Cpu)
        {
            if let Err(error) = cpu.offer(place, source) {
                self.failure = Some(error.into());
                return;
            }
            let name = self.lanes.name(device);
            let message = format!("{name} is silent; the cpu goes on without it");
            self.event(device, EventKind::Stalled, message);
        }
    }

    fn fill(&mut self, target: Target) {
        if target.is_device() && self.lanes.breaker(target).is_given_up() {
            let message = "the device is not tried any more".into();
            self.empty_queue(target, &JobError::Failed(message));
            self.fail_shared();
        }
        loop {
            let Some(depth) = self.lanes.get(target).map(Lane::depth) else {
                return;
            };
            let limit = match target {
                Target::Cpu => depth,
                Target::Device(_) => self.device_limit(target, depth),
            };
            if self.lanes.get(target).is_none_or(|lane| lane.load() >= limit) {
                return;
            }
            let next = self.in_flight.take(target);
            let Some(place) = next.or_else(|| self.take_shared(target)) else {
                return;
            };
            if !self.open_for(target, place) {
                return;
            }
            self.offer(target, place);
        }
    }

    /// Fails the chunks that any target may take, if no target is left to run them.
    fn fail_shared(&mut self) {
        let is_given_up = |device| self.lanes.breaker(device).is_given_up();
        if self.lanes.has_fallback() || !self.lanes.devices().all(is_given_up) {
            return;
        }
        while let Some(place) = self.in_flight.take_shared() {
            let message = "no device is tried any more".into();
            self.fail_chunk(place, Target::Device(0), JobError::Failed(message));
        }
    }

    /// Returns the number of jobs that the device may have in flight. If its pause has ended and chunks wait
    /// for it, it is tried again first.
    fn device_limit(&mut self, device: Target, depth: usize) -> usize {
        let is_wanted = self.in_flight.waiting(device) > 0 || self.in_flight.has_shared();
        if let Some(until) = self.lanes.breaker(device).retry_at()
            && is_wanted
            && self.setup.clock.now() >= until
        {
            self.try_again(device);
        }
        self.lanes.breaker(device).limit(depth)
    }

    /// A chunk for a target out of the queue that all take from, if the target may have it.
    fn take_shared(&mut self, target: Target) -> Option<u64> {
        let bytes = self.in_flight.next_shared_bytes()?;
        if self.lanes.breaker(target).is_open() || self.lanes.is_silent(target) {
            return None;
        }
        let (states, waiting) = (self.lanes.states(), self.in_flight.shared_bytes());
        let (may_take, decisions) = self.scheduler.may_take(target, bytes, waiting, &states);
        if !decisions.is_empty() {
            decisions.into_iter().for_each(|decision| self.log.decision(decision));
            self.lanes.follow(&self.setup, self.scheduler.uses_device());
        }
        if !may_take {
            return None;
        }
        if let Some(adaptive) = self.scheduler.adaptive() {
            adaptive.took(target, bytes);
        }
        self.in_flight.take_shared()
    }

    /// Opens a closed target. If that fails, handles the chunk. Returns `true` if it is open.
    fn open_for(&mut self, target: Target, place: u64) -> bool {
        let Some(lane) = self.lanes.get_mut(target).filter(|lane| !lane.is_open()) else {
            return true;
        };
        let begin = self.setup.clock.now();
        let result = lane.open();
        if let Some(adaptive) = self.scheduler.adaptive() {
            adaptive.opened(target, self.setup.clock.since(begin));
        }
        let Err(error) = result else { return true };
        self.in_flight.put_back(place, target);
        match target {
            Target::Cpu => self.failure = Some(error.into()),
            Target::Device(_) => self.cannot_open(target, &error),
        }
        false
    }

    fn offer(&mut self, target: Target, place: u64) {
        let Some(lane) = self.lanes.get_mut(target) else {
            return;
        };
        let Some(source) = self.in_flight.start(place, target) else {
            return;
        };
        match lane.offer(place, source) {
            Ok(None) => {}
            Ok(Some(source)) => self.in_flight.keep(place, source),
            Err(error) => self.failure = Some(error.into()),
        }
    }

    /// Submits the chunks offered to a target.
    fn kick(&mut self, target: Target) {
        let idle_since = self.idle_since(target);
        loop {
            let Some(lane) = self.lanes.get_mut(target) else {
                return;
            };
            match lane.kick() {
                Ok(taken) => {
                    if let Some(adaptive) = self.scheduler.adaptive()
                        && taken > 0
                    {
                        adaptive.idled(target, |place| idle_since[place]);
                    }
                    return;
                }
                Err(SubmitError::Refused { refusal, .. }) => self.refused(target, &refusal),
                Err(SubmitError::Lost(lost)) => return self.lost(target, &lost),
            }
        }
    }

    /// Returns, for each target up to this one, the time since when it and the targets behind it have had
    /// nothing in flight, if that is so.
    fn idle_since(&self, target: Target) -> [Option<Instant>; TARGETS_MAX] {
        let mut all = [None; TARGETS_MAX];
        if !self.scheduler.is_adaptive() {
            return all;
        }
        for (place, since) in all.iter_mut().enumerate().take(target.index() + 1) {
            if self.lanes.iter_from(place).all(|lane| lane.running() == 0) {
                *since = match place {
                    0 => self.last_done,
                    _ => self.lanes.iter_from(place).filter_map(Lane::last_done).max(),
                };
            }
        }
        all
    }

    /// Takes a target's completions.
    fn collect(&mut self, target: Target) {
        let Some(lane) = self.lanes.get_mut(target) else {
            return;
        };
        let mut completions = std::mem::take(&mut self.completions);
        let polled = lane.poll(&mut completions);
        let mut is_credible = true;
        for completion in completions.drain(..) {
            is_credible = is_credible && self.completed(target, completion);
        }
        self.completions = completions;
        if let Err(lost) = polled {
            self.lost(target, &lost);
        }
    }

    /// Sleeps until something completes, a device is overdue or may be tried again, there is input if
    /// that is waited for as well, or for `timeout`.
    pub(super) fn sleep(
        &mut self,
        timeout: Duration,
        input: Option<BorrowedFd<'_>>,
    ) -> Result<(), Error> {
        let now = self.setup.clock.now();
        let mut timeout = timeout.min(LONGEST);
        if self.lanes.iter_from(1).any(|lane| lane.load() > 0) {
            timeout = timeout.min(SILENCE_CHECK.max(self.setup.job_timeout / 8));
        }
        if let Some(silent) = self.lanes.next_silent_at(now)
            && self.scheduler.is_adaptive()
        {
            timeout = timeout.min(silent - now);
        }
        for device in self.lanes.devices() {
            if let Some(until) = self.lanes.breaker(device).retry_at()
                && (self.in_flight.waiting(device) > 0 || self.in_flight.has_shared())
            {
                timeout = timeout.min(until.saturating_duration_since(now));
            }
        }
        if (self.lanes.iter().chain(self.verifier.lane())).any(Lane::is_stuck) {
            timeout = timeout.min(STUCK);
        }
        if self.setup.clock.is_virtual() {
            self.setup.clock.wait(now + timeout);
            return Ok(());
        }
        for lane in (self.lanes.iter_mut()).chain(self.verifier.lane_mut()) {
            if lane.running() == 0 {
                continue;
            }
            let silent = now.saturating_duration_since(lane.last_progress());
            let pause = backoff(silent, PAUSE_PARTS);
            let Some(context) = lane.context_mut() else {
                continue;
            };
            if context.event_fd().is_none() {
                timeout = timeout.min(pause);
            } else if context.arm().unwrap_or(true) {
                return Ok(());
            }
        }
        self.sleep_armed(timeout, input)
    }

    fn sleep_armed(&self, timeout: Duration, input: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        let descriptors: Vec<_> = (self.lanes.iter().chain(self.verifier.lane()))
            .filter(|lane| lane.running() > 0)
            .filter_map(|lane| lane.context()?.event_fd())
            .chain(input)
            .collect();
        if descriptors.is_empty() {
            std::thread::sleep(timeout);
            return Ok(());
        }
        let mut set: Vec<_> =
            (descriptors.iter()).map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
        match rustix::event::poll(&mut set, Some(&timeout)) {
            // A signal is the caller's to look after.
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Error::Wait(error.to_string())),
        }
    }
}
