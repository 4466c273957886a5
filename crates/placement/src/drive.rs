//! Keeping both legs at work: chunks from the queues into the contexts, completions out of them.

use std::time::{Duration, Instant};

use overside_device::{JobError, SubmitError};
use overside_ops::Direction;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::lane::Lane;
use crate::report::EventKind;
use crate::window::State;
use crate::{Error, Executor, Leg, Policy};

/// The pause between two polls of a device that has no event.
const PAUSE: Duration = Duration::from_micros(20);
/// The pause between two offers to a device that takes nothing and has nothing.
const STUCK: Duration = Duration::from_millis(1);
/// Longer than anybody waits, short enough for the system to say.
const LONGEST: Duration = Duration::from_secs(1 << 30);

impl Executor {
    /// Puts a chunk that was pushed into the queue that it belongs to.
    pub(crate) fn route(&mut self, place: u64, (source, destination): (usize, usize)) {
        let takes = |leg| self.lane(leg).map(|lane| lane.takes(source, destination));
        let (cpu, device) = (takes(Leg::Cpu), takes(Leg::Device));
        let wanted = match self.setup.policy {
            Policy::Cpu => Some(Leg::Cpu),
            Policy::Device => Some(Leg::Device),
            Policy::Split(percent) => {
                let bytes = match self.setup.operation.operation.uncompressed_side() {
                    Direction::Source => source,
                    Direction::Destination => destination,
                };
                Some(self.diffusion.next(percent / 100.0, bytes))
            }
            Policy::Adaptive if device == Some(true) => None,
            Policy::Adaptive => Some(Leg::Cpu),
        };
        match (wanted, cpu, device) {
            (Some(Leg::Device), _, Some(true)) if self.is_device_wanted() => {
                self.queues.device.push_back(place);
            }
            (None, Some(true), _) => {
                self.queues.shared.push_back(place);
                self.queues.shared_bytes += source as u64;
                if let Some(pilot) = &mut self.pilot {
                    pilot.expect(source);
                }
            }
            (_, Some(true), _) => {
                if device == Some(false) {
                    self.note_too_long();
                }
                self.queues.cpu.push_back(place);
            }
            (_, None, Some(true)) => self.queues.device.push_back(place),
            _ => {
                let leg = wanted.unwrap_or(Leg::Cpu);
                let message = format!("a chunk of {source} bytes is longer than the {leg} takes");
                self.finish_without(place, leg, JobError::Failed(message));
            }
        }
    }

    /// Whether the device may get another chunk of a fixed split, or is resting.
    fn is_device_wanted(&self) -> bool {
        let (Some(device), health) = (self.lane(Leg::Device), &self.health) else {
            return false;
        };
        if self.lane(Leg::Cpu).is_none() {
            return true;
        }
        let waiting = self.queues.device.len() + device.load();
        match health.rests_until() {
            Some(until) => waiting == 0 && Instant::now() >= until,
            None => health.limit(device.depth()) == device.depth() || waiting == 0,
        }
    }

    fn note_too_long(&mut self) {
        let Some(device) = self.lane(Leg::Device) else {
            return;
        };
        let (name, most) = (device.name(), device.config.max_source_bytes);
        let message = format!("chunks beyond the {most} bytes that {name} takes run on the cpu");
        self.event(Leg::Device, EventKind::TooLong, message);
    }

    /// Hands chunks over and collects completions; fails if the executor cannot go on.
    pub(crate) fn drive(&mut self, ring: bool) -> Result<(), Error> {
        self.collect(Leg::Device);
        self.collect(Leg::Cpu);
        if self.pilot.is_some() {
            self.end_epoch();
        }
        let overdue = self.lane(Leg::Device).and_then(Lane::overdue_at);
        if overdue.is_some_and(|at| Instant::now() >= at) {
            self.stalled();
        }
        self.pump(ring);
        match &self.broken {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Fills both legs. Rings when it is due, or for everything if `ring`.
    pub(crate) fn pump(&mut self, ring: bool) {
        // The device first: what it fails at goes to the CPU in the same round.
        for leg in [Leg::Device, Leg::Cpu] {
            self.fill(leg);
            if leg == Leg::Cpu {
                self.overtake();
            }
            let Some(lane) = self.lane_mut(leg) else {
                continue;
            };
            if ring || lane.due() {
                self.ring(leg);
            }
        }
    }

    /// Whether the device has been silent for longer than is to be expected, so that under adaptive
    /// placement the CPU goes on without it.
    pub(crate) fn is_device_silent(&self) -> bool {
        let at = || self.lane(Leg::Device).and_then(Lane::silent_at);
        self.pilot.is_some() && at().is_some_and(|at| Instant::now() >= at)
    }

    /// Has the CPU, which has nothing else to do, run what a silent device has as well, the chunk
    /// first that the others wait for. Whose result is there first counts.
    fn overtake(&mut self) {
        if !self.is_device_silent() {
            return;
        }
        while self
            .lane(Leg::Cpu)
            .is_some_and(|cpu| cpu.load() < cpu.depth())
            && let Some(place) = self.window.first_on_device()
            && self.open_for(Leg::Cpu, place)
            && let Some(slot) = self.window.get_mut(place)
            && let State::On(_, Some(source)) = &slot.state
        {
            let source = source.clone();
            slot.state = State::Waiting(source.clone());
            self.offer(Leg::Cpu, place);
            if let Some(slot) = self.window.get_mut(place) {
                slot.state = State::Both(source);
            }
            let message = format!(
                "{} is silent; the cpu goes on without it",
                self.device_name()
            );
            self.event(Leg::Device, EventKind::Stalled, message);
        }
    }

    fn fill(&mut self, leg: Leg) {
        if leg == Leg::Device && self.health.is_given_up() {
            let message = "the device is not tried any more".into();
            self.empty_device_queue(&JobError::Failed(message));
        }
        loop {
            let Some(lane) = self.lane(leg) else { return };
            let limit = match leg {
                Leg::Cpu => lane.depth(),
                Leg::Device => self.device_limit(),
            };
            let Some(lane) = self.lane(leg) else { return };
            if lane.load() >= limit {
                return;
            }
            let Some(place) = self.next_for(leg) else {
                return;
            };
            if !self.open_for(leg, place) {
                return;
            }
            self.offer(leg, place);
        }
    }

    /// How many jobs the device may have. Tries a device that has rested long enough.
    fn device_limit(&mut self) -> usize {
        let waits = !self.queues.device.is_empty() || !self.queues.shared.is_empty();
        if let Some(until) = self.health.rests_until()
            && waits
            && Instant::now() >= until
        {
            self.try_again();
        }
        let depth = self.lane(Leg::Device).map_or(0, |lane| lane.depth());
        self.health.limit(depth)
    }

    /// The next chunk for a leg, out of its queue.
    fn next_for(&mut self, leg: Leg) -> Option<u64> {
        let queues = &mut self.queues;
        match leg {
            Leg::Cpu => (queues.again.pop_first())
                .or_else(|| queues.cpu.pop_front())
                .or_else(|| self.take_shared(leg)),
            Leg::Device => (queues.device.pop_front()).or_else(|| self.take_shared(leg)),
        }
    }

    /// Opens a leg if it is not. If it cannot be, what happens to the chunk is seen to.
    fn open_for(&mut self, leg: Leg, place: u64) -> bool {
        let Some(lane) = self.lane_mut(leg).filter(|lane| !lane.is_open()) else {
            return true;
        };
        let begin = Instant::now();
        let result = lane.open();
        if let (Leg::Device, Some(pilot)) = (leg, &mut self.pilot) {
            pilot.opened(begin.elapsed());
        }
        let Err(error) = result else { return true };
        match leg {
            Leg::Cpu => {
                self.queues.again.insert(place);
                self.broken = Some(error.into());
            }
            Leg::Device => {
                self.queues.device.push_front(place);
                self.cannot_open(&error);
            }
        }
        false
    }

    fn offer(&mut self, leg: Leg, place: u64) {
        let (Some(lane), Some(slot)) = (
            self.lanes[leg as usize].as_mut(),
            self.window.get_mut(place),
        ) else {
            return;
        };
        let State::Waiting(source) = std::mem::replace(&mut slot.state, State::On(leg, None))
        else {
            return;
        };
        match lane.offer(place, source) {
            Ok(offered) => {
                slot.attempts += 1;
                slot.state = State::On(leg, offered.kept);
                if let Some(bytes) = offered.copied {
                    self.bounce_copies += 1;
                    self.bounce_bytes += bytes as u64;
                }
            }
            Err(error) => self.broken = Some(error.into()),
        }
    }

    pub(crate) fn ring(&mut self, leg: Leg) {
        let idle = (self.lanes.iter().flatten()).all(|lane| lane.running() == 0);
        loop {
            let Some(lane) = self.lane_mut(leg) else {
                return;
            };
            match lane.ring() {
                Ok(taken) => {
                    let last = self.last_done.filter(|_| idle && taken > 0);
                    if let (Some(pilot), Some(last)) = (&mut self.pilot, last) {
                        pilot.idled(last);
                    }
                    return;
                }
                Err(SubmitError::Refused { refusal, .. }) => self.refused(leg, &refusal),
                Err(SubmitError::Lost(lost)) => return self.lost(leg, &lost),
            }
        }
    }

    /// Takes what has completed on a leg.
    fn collect(&mut self, leg: Leg) {
        let Some(lane) = self.lanes[leg as usize].as_mut() else {
            return;
        };
        let mut completions = std::mem::take(&mut self.completions);
        let polled = lane.poll(&mut completions);
        let mut sound = true;
        for completion in completions.drain(..) {
            sound = sound && self.completed(leg, completion);
        }
        self.completions = completions;
        if let Err(lost) = polled {
            self.lost(leg, &lost);
        }
    }

    /// Sleeps until something completes, a device is overdue or may be tried again, or for
    /// `timeout`.
    pub(crate) fn sleep(&mut self, timeout: Duration) -> Result<(), Error> {
        let now = Instant::now();
        let mut timeout = timeout.min(LONGEST);
        if let Some(overdue) = self.lane(Leg::Device).and_then(Lane::overdue_at) {
            timeout = timeout.min(overdue.saturating_duration_since(now));
        }
        if let Some(silent) = self.lane(Leg::Device).and_then(Lane::silent_at)
            && self.pilot.is_some()
            && silent > now
        {
            timeout = timeout.min(silent - now);
        }
        if let Some(until) = self.health.rests_until()
            && !self.queues.device.is_empty()
        {
            timeout = timeout.min(until.saturating_duration_since(now));
        }
        for lane in self.lanes.iter_mut().flatten() {
            if lane.is_stuck() {
                timeout = timeout.min(STUCK);
            }
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
        self.sleep_armed(timeout)
    }

    fn sleep_armed(&self, timeout: Duration) -> Result<(), Error> {
        let descriptors: Vec<_> = (self.lanes.iter().flatten())
            .filter(|lane| lane.running() > 0)
            .filter_map(|lane| lane.context()?.event_fd())
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
