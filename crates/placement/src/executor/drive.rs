//! Keeping both targets at work: chunks from the queues into the contexts, completions out of them.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use overside_device::{JobError, SubmitError};
use overside_ops::Direction;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::Executor;
use crate::in_flight::Queue;
use crate::lane::Lane;
use crate::report::EventKind;
use crate::{Error, Policy, Target};

/// The pause between two polls of a device that has no event.
const PAUSE: Duration = Duration::from_micros(20);
/// The pause between two offers to a device that takes nothing and has nothing.
const STUCK: Duration = Duration::from_millis(1);
/// The longest sleep while the device has something, beside an eighth of a job's time limit: whether
/// it has been silent for too long is seen when it is polled.
const SILENCE_CHECK: Duration = Duration::from_millis(20);
/// Longer than anybody waits, short enough for the system to say.
const LONGEST: Duration = Duration::from_secs(1 << 30);

/// Whether there is something to be read, or that there will be nothing more.
pub(super) fn is_readable(input: BorrowedFd<'_>) -> Result<bool, Error> {
    let mut set = [PollFd::new(&input, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
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
        let (cpu, device) = (takes(Target::Cpu), takes(Target::Device));
        let bytes = match self.setup.operation.operation.uncompressed_side() {
            Direction::Source => source,
            Direction::Destination => destination,
        };
        let wanted = match self.scheduler.route(bytes) {
            None if device != Some(true) => Some(Target::Cpu),
            wanted => wanted,
        };
        let queue = match (wanted, cpu, device) {
            (Some(Target::Device), _, Some(true)) if self.is_device_wanted() => {
                Queue::Of(Target::Device)
            }
            (None, Some(true), _) => {
                if let Some(adaptive) = self.scheduler.adaptive() {
                    adaptive.expect(source);
                }
                Queue::Shared
            }
            (_, Some(true), _) => {
                if device == Some(false) {
                    self.note_too_long();
                }
                Queue::Of(Target::Cpu)
            }
            (_, None, Some(true)) => Queue::Of(Target::Device),
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

    /// Whether the device may get another chunk of a fixed split, or is left alone for now.
    fn is_device_wanted(&self) -> bool {
        let Some(device) = self.lanes.get(Target::Device) else {
            return false;
        };
        if !self.lanes.has_fallback() {
            return true;
        }
        let breaker = &self.lanes.breaker;
        let waiting = self.in_flight.waiting(Target::Device) + device.load();
        match breaker.retry_at() {
            Some(until) => waiting == 0 && self.setup.clock.now() >= until,
            None => breaker.limit(device.depth()) == device.depth() || waiting == 0,
        }
    }

    fn note_too_long(&mut self) {
        let Some(device) = self.lanes.get(Target::Device) else {
            return;
        };
        let (name, most) = (device.name(), device.config.max_source_bytes);
        let message = format!("chunks beyond the {most} bytes that {name} takes run on the cpu");
        self.event(Target::Device, EventKind::TooLong, message);
    }

    /// Hands chunks over and collects completions; fails if the executor cannot go on. `kick`: at
    /// once, and not when enough have gathered.
    pub(super) fn drive(&mut self, kick: bool) -> Result<(), Error> {
        self.collect(Target::Device);
        self.collect(Target::Cpu);
        self.verify_answers();
        // One odd epoch, however long, does not make a device that comes back a slow one.
        if self.scheduler.is_adaptive() && !self.is_device_silent() {
            let (states, is_out) = (self.lanes.states(), self.lanes.breaker.is_open());
            if let Some(adaptive) = self.scheduler.adaptive() {
                adaptive.end_epoch(&states, is_out);
            }
        }
        self.pump(kick);
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Fills both targets, and hands over what is offered when it is due, or at once if `kick`.
    pub(super) fn pump(&mut self, kick: bool) {
        // Setting the device up again blocks, and the CPU works meanwhile on what it was given.
        if self.is_set_up_due() {
            let is_now = kick || self.in_flight.is_full();
            self.serve(Target::Cpu, is_now);
            if !is_now {
                return;
            }
        }
        // The device first: what it fails at goes to the CPU in the same round.
        for target in [Target::Device, Target::Cpu] {
            self.serve(target, kick);
        }
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

    /// Whether the device's part of a fixed split waits for its context to be set up again.
    fn is_set_up_due(&self) -> bool {
        matches!(self.setup.policy, Policy::Split(_))
            && self.in_flight.waiting(Target::Device) > 0
            && (self.lanes.get(Target::Device)).is_some_and(|lane| !lane.is_open())
    }

    /// Whether the device has been silent for longer than is to be expected, so that under adaptive
    /// placement the CPU goes on without it.
    fn is_device_silent(&self) -> bool {
        self.scheduler.is_adaptive()
            && (self.lanes.device_silent_at()).is_some_and(|at| self.setup.clock.now() >= at)
    }

    /// Has the CPU, which has nothing else to do, run what a silent device has as well, the chunk
    /// first that the others wait for. Whose result is there first counts.
    fn run_silent_chunks_twice(&mut self) {
        if !self.is_device_silent() {
            return;
        }
        while (self.lanes.get(Target::Cpu)).is_some_and(|cpu| cpu.load() < cpu.depth())
            && let Some(place) = self.in_flight.first_on_device()
            && self.open_for(Target::Cpu, place)
            && let Some(source) = self.in_flight.start_second(place)
            && let Some(cpu) = self.lanes.get_mut(Target::Cpu)
        {
            if let Err(error) = cpu.offer(place, source) {
                self.failure = Some(error.into());
                return;
            }
            let name = self.lanes.device_name();
            let message = format!("{name} is silent; the cpu goes on without it");
            self.event(Target::Device, EventKind::Stalled, message);
        }
    }

    fn fill(&mut self, target: Target) {
        if target == Target::Device && self.lanes.breaker.is_given_up() {
            let message = "the device is not tried any more".into();
            self.empty_device_queue(&JobError::Failed(message));
        }
        loop {
            let Some(depth) = self.lanes.get(target).map(Lane::depth) else {
                return;
            };
            let limit = match target {
                Target::Cpu => depth,
                Target::Device => self.device_limit(depth),
            };
            if self
                .lanes
                .get(target)
                .is_none_or(|lane| lane.load() >= limit)
            {
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

    /// How many jobs the device may have. Tries a device that was left alone for long enough.
    fn device_limit(&mut self, depth: usize) -> usize {
        let is_wanted = self.in_flight.waiting(Target::Device) > 0 || self.in_flight.has_shared();
        if let Some(until) = self.lanes.breaker.retry_at()
            && is_wanted
            && self.setup.clock.now() >= until
        {
            self.try_again();
        }
        self.lanes.breaker.limit(depth)
    }

    /// A chunk for a target out of the queue that both take from, if the target may have it.
    fn take_shared(&mut self, target: Target) -> Option<u64> {
        let bytes = self.in_flight.next_shared_bytes()?;
        if self.lanes.breaker.is_open() || self.is_device_silent() {
            if target == Target::Device {
                return None;
            }
        } else {
            let (states, waiting) = (self.lanes.states(), self.in_flight.shared_bytes());
            let (may_take, decision) = self.scheduler.may_take(target, bytes, waiting, &states);
            if let Some(decision) = decision {
                self.log.decision(decision);
                self.lanes.follow(&self.setup, self.scheduler.uses_device());
            }
            if !may_take {
                return None;
            }
        }
        if let Some(adaptive) = self.scheduler.adaptive() {
            adaptive.took(target, bytes);
        }
        self.in_flight.take_shared()
    }

    /// Opens a target if it is not. If it cannot be, what happens to the chunk is seen to.
    fn open_for(&mut self, target: Target, place: u64) -> bool {
        let Some(lane) = self.lanes.get_mut(target).filter(|lane| !lane.is_open()) else {
            return true;
        };
        let begin = self.setup.clock.now();
        let result = lane.open();
        if let (Target::Device, Some(adaptive)) = (target, self.scheduler.adaptive()) {
            adaptive.opened(self.setup.clock.since(begin));
        }
        let Err(error) = result else { return true };
        self.in_flight.put_back(place, target);
        match target {
            Target::Cpu => self.failure = Some(error.into()),
            Target::Device => self.cannot_open(&error),
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

    /// Hands over what is offered to a target.
    fn kick(&mut self, target: Target) {
        let is_idle = self.lanes.iter().all(|lane| lane.running() == 0);
        loop {
            let Some(lane) = self.lanes.get_mut(target) else {
                return;
            };
            match lane.kick() {
                Ok(taken) => {
                    let last = self.last_done.filter(|_| is_idle && taken > 0);
                    if let (Some(adaptive), Some(last)) = (self.scheduler.adaptive(), last) {
                        adaptive.idled(last);
                    }
                    return;
                }
                Err(SubmitError::Refused { refusal, .. }) => self.refused(target, &refusal),
                Err(SubmitError::Lost(lost)) => return self.lost(target, &lost),
            }
        }
    }

    /// Takes what has completed on a target.
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
        if (self.lanes.get(Target::Device)).is_some_and(|lane| lane.load() > 0) {
            timeout = timeout.min(SILENCE_CHECK.max(self.setup.job_timeout / 8));
        }
        if let Some(silent) = self.lanes.device_silent_at()
            && self.scheduler.is_adaptive()
            && silent > now
        {
            timeout = timeout.min(silent - now);
        }
        if let Some(until) = self.lanes.breaker.retry_at()
            && self.in_flight.waiting(Target::Device) > 0
        {
            timeout = timeout.min(until.saturating_duration_since(now));
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
            let Some(context) = lane.context_mut() else {
                continue;
            };
            if context.event_fd().is_none() {
                timeout = timeout.min(PAUSE);
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
        let mut set: Vec<_> = (descriptors.iter())
            .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        match rustix::event::poll(&mut set, Some(&timeout)) {
            // A signal is the caller's to look after.
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Error::Wait(error.to_string())),
        }
    }
}
