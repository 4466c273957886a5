//! What becomes of completions, and of what does not complete.

use std::time::Instant;

use overside_device::{Completion, JobError, Lost, OpenError, Outcome, Refusal, Stages};

use crate::lane::Lane;
use crate::report::EventKind;
use crate::window::State;
use crate::{Buffer, Error, Executor, Leg, Piece};

/// Destinations, as a multiple of the device's depth, that may be given up with contexts that went
/// wrong before the device is not tried again: the memory is lost for as long as its engines are.
const ABANDONED_MAX: u64 = 4;

impl Executor {
    /// Takes a completion. `false`: the device cannot be believed, and was dropped.
    pub(crate) fn completed(&mut self, leg: Leg, completion: Completion) -> bool {
        let is_overtaken = self.overtaken.contains(&(leg, completion.tag));
        let slot = self.window.get_mut(completion.tag);
        if !is_overtaken && !slot.is_some_and(|slot| slot.is_on(leg)) {
            self.misbehaved(leg, "a completion came for a job that it does not have");
            return false;
        }
        let credible = match (&completion.result, &completion.destination) {
            (Ok(Outcome::Done(output)), Some(region)) => output.written <= region.len(),
            (Ok(Outcome::Incompressible), _) => true,
            (Ok(Outcome::Done(_)), None) => false,
            (Err(_), _) => true,
        };
        if !credible {
            self.misbehaved(leg, "a result does not lie in its destination");
            return false;
        }
        let fallback = leg == Leg::Device && self.lane(Leg::Cpu).is_some();
        match &completion.result {
            Err(
                error @ (JobError::Corrupt(_) | JobError::Failed(_) | JobError::DeadlineExceeded),
            ) if fallback => {
                let error = error.clone();
                self.run_again(completion, error);
            }
            _ if is_overtaken => self.discard(leg, completion),
            _ => self.finish(leg, completion),
        }
        true
    }

    /// Forgets a result that came after the other leg's.
    fn discard(&mut self, leg: Leg, completion: Completion) {
        self.overtaken.remove(&(leg, completion.tag));
        let Some(lane) = self.lane_mut(leg) else {
            return;
        };
        lane.tally.failed += 1;
        if let Some(region) = completion.destination {
            lane.destinations.put(region);
        }
    }

    /// What is not back yet of results that came too late will not be looked at.
    pub(crate) fn forget_overtaken(&mut self) {
        for (leg, _) in std::mem::take(&mut self.overtaken) {
            if let Some(lane) = self.lane_mut(leg) {
                lane.tally.failed += 1;
            }
        }
    }

    /// The device is done with a chunk without a result. Whether that matters no more, because the
    /// CPU runs it as well, or did.
    fn is_overtaken(&mut self, place: u64) -> bool {
        if self.overtaken.remove(&(Leg::Device, place)) {
            return true;
        }
        let Some(slot) = self.window.get_mut(place) else {
            return false;
        };
        let State::Both(source) = &slot.state else {
            return false;
        };
        slot.state = State::On(Leg::Cpu, Some(source.clone()));
        true
    }

    /// Makes a piece of a completion.
    fn finish(&mut self, leg: Leg, completion: Completion) {
        let (Some(lane), Some(slot)) = (
            self.lanes[leg as usize].as_mut(),
            self.window.get_mut(completion.tag),
        ) else {
            return;
        };
        let kept = match std::mem::replace(&mut slot.state, State::On(leg, None)) {
            State::On(_, kept) => kept,
            State::Both(source) => {
                let other = match leg {
                    Leg::Cpu => Leg::Device,
                    Leg::Device => Leg::Cpu,
                };
                self.overtaken.insert((other, completion.tag));
                Some(source)
            }
            State::Waiting(_) | State::Done(_) => None,
        };
        let result = match completion.result {
            Ok(Outcome::Done(output)) if output.written > slot.destination_bytes => {
                let capacity = slot.destination_bytes;
                Err(JobError::OutputTooSmall { capacity })
            }
            result => result,
        };
        let written = match &result {
            Ok(Outcome::Done(output)) => Some(output.written),
            Ok(Outcome::Incompressible) | Err(_) => None,
        };
        let destination = match (completion.destination, written) {
            (Some(region), Some(_)) => Buffer::new(region, &lane.destinations),
            (Some(region), None) => {
                lane.destinations.put(region);
                Buffer::none()
            }
            (None, _) => Buffer::none(),
        };
        tally(lane, slot.source_bytes, written, &completion.stages);
        if lane.tally.applied.is_none() {
            lane.tally.applied = Some((*completion.applied).clone());
        }
        self.last_done = Some(lane.last_progress());
        let (succeeded, said) = (result.is_ok(), slot.said.take());
        slot.state = State::Done(Piece {
            label: slot.label,
            source: kept.unwrap_or(completion.source),
            result,
            destination,
            leg,
            applied: Some(completion.applied),
            stages: completion.stages,
            attempts: slot.attempts,
        });
        match (leg, said) {
            (Leg::Device, _) if succeeded => self.device_succeeded(),
            (Leg::Cpu, Some(JobError::Corrupt(reason))) if succeeded => {
                self.falsely_corrupt(&reason);
            }
            _ => {}
        }
    }

    /// Has the CPU do what the device did not.
    fn run_again(&mut self, completion: Completion, error: JobError) {
        let place = completion.tag;
        let Some(lane) = self.lanes[Leg::Device as usize].as_mut() else {
            return;
        };
        lane.tally.failed += 1;
        let came_back = completion.destination.is_some();
        if let Some(region) = completion.destination {
            lane.destinations.put(region);
        }
        if !self.is_overtaken(place)
            && let Some(slot) = self.window.get_mut(place)
        {
            let source = match std::mem::replace(&mut slot.state, State::On(Leg::Device, None)) {
                State::On(_, Some(kept)) => kept,
                _ => completion.source,
            };
            slot.state = State::Waiting(source);
            slot.said = Some(error.clone());
            self.queues.again.insert(place);
        }
        match error {
            // Who is right is not known before the CPU has seen it.
            JobError::Corrupt(_) | JobError::OutputTooSmall { .. } => {}
            JobError::Failed(reason) => {
                let message = format!("{} failed at a chunk ({reason})", self.device_name());
                self.strike(EventKind::Failed, message);
            }
            JobError::DeadlineExceeded => {
                let state = if came_back {
                    "was not begun"
                } else {
                    "did not end"
                };
                let message = format!("a job on {} {state} in time", self.device_name());
                self.rest(EventKind::Stalled, message, 1);
            }
        }
    }

    fn device_succeeded(&mut self) {
        let depth = self.lane(Leg::Device).map_or(1, Lane::depth);
        if self.health.succeeded(depth) {
            let message = format!("{} works again", self.device_name());
            self.event(Leg::Device, EventKind::Recovered, message);
        }
    }

    fn falsely_corrupt(&mut self, reason: &str) {
        let message = format!(
            "{} called an input corrupt ({reason}) that the cpu can read",
            self.device_name()
        );
        self.strike(EventKind::FalselyCorrupt, message);
    }

    /// The job at the front is not one that the leg takes.
    pub(crate) fn refused(&mut self, leg: Leg, refusal: &Refusal) {
        let Some(place) = self.lane_mut(leg).and_then(Lane::withdraw) else {
            return;
        };
        if leg == Leg::Device {
            if let Some(lane) = self.lane_mut(leg) {
                lane.tally.failed += 1;
            }
            self.back_to_queue(place, JobError::Failed(refusal.to_string()));
            let message = format!("{} refused a chunk: {refusal}", self.device_name());
            self.strike(EventKind::Refused, message);
        } else {
            self.finish_without(place, leg, JobError::Failed(refusal.to_string()));
        }
    }

    /// A leg is gone.
    pub(crate) fn lost(&mut self, leg: Leg, lost: &Lost) {
        if leg == Leg::Cpu {
            let (device, reason) = (lost.device.clone(), lost.reason.clone());
            self.broken = Some(Error::Lost { device, reason });
            return;
        }
        let count = self.drop_device(&JobError::Failed(lost.to_string()));
        self.rest(EventKind::Lost, lost.to_string(), count);
    }

    /// The device keeps jobs beyond their time and says nothing.
    pub(crate) fn stalled(&mut self) {
        let count = self.drop_device(&JobError::DeadlineExceeded);
        let message = format!("{} does not answer", self.device_name());
        self.rest(EventKind::Stalled, message, count);
    }

    fn misbehaved(&mut self, leg: Leg, what: &str) {
        if leg == Leg::Cpu {
            let device = self
                .lane(leg)
                .map_or_else(String::new, |lane| lane.name().into());
            let reason = what.into();
            self.broken = Some(Error::Lost { device, reason });
            return;
        }
        let message = format!("{} cannot be believed: {what}", self.device_name());
        let count = self.drop_device(&JobError::Failed(message.clone()));
        self.rest(EventKind::Misbehaved, message, count);
    }

    /// The device cannot be opened. If it cannot do what is asked, that will not change.
    pub(crate) fn cannot_open(&mut self, error: &OpenError) {
        if matches!(error, OpenError::Failed { .. } | OpenError::InFlight(_)) {
            self.rest(EventKind::NotOpened, error.to_string(), 0);
        } else {
            self.give_up(EventKind::Unsupported, error.to_string());
        }
        self.empty_device_queue(&JobError::Failed(error.to_string()));
    }

    /// Begins to use a device that has rested. One that holds on to memory, or that is gone, is
    /// opened anew.
    pub(crate) fn try_again(&mut self) {
        if self
            .lane(Leg::Device)
            .is_some_and(|lane| lane.quarantined() > 0)
        {
            self.drop_device(&JobError::DeadlineExceeded);
        }
        let depth = self.lane(Leg::Device).map_or(1, Lane::depth) as u64;
        if self.quarantined > ABANDONED_MAX * depth {
            let message = format!("{} failed too often", self.device_name());
            self.give_up(EventKind::GivenUp, message.clone());
            self.empty_device_queue(&JobError::Failed(message));
            return;
        }
        self.health.try_again();
    }

    /// Drops the device's context and has the CPU run what was in flight. Returns how many jobs
    /// those were.
    fn drop_device(&mut self, error: &JobError) -> usize {
        let Some(lane) = self.lane_mut(Leg::Device) else {
            return 0;
        };
        let quarantined = lane.quarantined() as u64;
        let running = lane.abandon();
        self.quarantined += quarantined + running as u64;
        let places = self.window.on(Leg::Device);
        for place in &places {
            self.back_to_queue(*place, error.clone());
        }
        let before = self.overtaken.len();
        self.overtaken.retain(|(leg, _)| *leg != Leg::Device);
        let failed = places.len() + before - self.overtaken.len();
        if let Some(lane) = self.lane_mut(Leg::Device) {
            lane.tally.failed += failed as u64;
        }
        failed
    }

    /// Has the CPU run a chunk that the device has; without a CPU, that is the end of it.
    fn back_to_queue(&mut self, place: u64, error: JobError) {
        if self.is_overtaken(place) {
            return;
        }
        if self.lane(Leg::Cpu).is_none() {
            self.finish_without(place, Leg::Device, error);
            return;
        }
        let Some(slot) = self.window.get_mut(place) else {
            return;
        };
        match std::mem::replace(&mut slot.state, State::On(Leg::Device, None)) {
            State::On(_, Some(source)) | State::Waiting(source) => {
                slot.state = State::Waiting(source);
                slot.said = Some(error);
                self.queues.again.insert(place);
            }
            other => slot.state = other,
        }
    }

    /// A job failed. The device may go on, unless it fails often.
    fn strike(&mut self, kind: EventKind, message: String) {
        if self.health.failed() {
            self.rest(kind, message, 1);
        } else {
            let done = self.done_about(1);
            self.event(Leg::Device, kind, message + &done);
        }
    }

    /// Lets the device rest. What waits for it goes to the CPU.
    fn rest(&mut self, kind: EventKind, message: String, count: usize) {
        if self.health.is_out() {
            // What was in flight when it failed comes back bit by bit.
            let done = self.done_about(count);
            self.event(Leg::Device, kind, message + &done);
            return;
        }
        let pause = self.health.rest(Instant::now());
        let done = self.done_about(count);
        let message = format!("{message}{done}; it is tried again after {pause:?}");
        self.event(Leg::Device, kind, message);
        self.withdraw_offers();
        if self.lane(Leg::Cpu).is_some() {
            self.queues.again.extend(self.queues.device.drain(..));
        }
    }

    /// Takes back what is offered to the device and was not taken.
    fn withdraw_offers(&mut self) {
        while let Some(place) = self.lane_mut(Leg::Device).and_then(Lane::withdraw) {
            if self.is_overtaken(place) {
                continue;
            }
            let Some(slot) = self.window.get_mut(place) else {
                continue;
            };
            match std::mem::replace(&mut slot.state, State::On(Leg::Device, None)) {
                State::On(_, Some(source)) => {
                    slot.state = State::Waiting(source);
                    slot.attempts -= 1;
                    self.queues.device.push_back(place);
                }
                other => slot.state = other,
            }
        }
    }

    fn give_up(&mut self, kind: EventKind, message: String) {
        self.health.give_up();
        let message = format!("{message}; it is not tried again");
        self.event(Leg::Device, kind, message);
    }

    /// The device cannot take what waits for it.
    pub(crate) fn empty_device_queue(&mut self, error: &JobError) {
        let places: Vec<u64> = self.queues.device.drain(..).collect();
        for place in places {
            self.back_to_queue(place, error.clone());
        }
    }

    fn done_about(&self, count: usize) -> String {
        match (self.lane(Leg::Cpu).is_some(), count) {
            (_, 0) => String::new(),
            (true, 1) => "; its chunk is run again on the cpu".into(),
            (true, count) => format!("; its {count} chunks are run again on the cpu"),
            (false, 1) => "; its chunk failed".into(),
            (false, count) => format!("; its {count} chunks failed"),
        }
    }

    pub(crate) fn device_name(&self) -> &str {
        self.lane(Leg::Device).map_or("the device", Lane::name)
    }
}

fn tally(lane: &mut Lane, source_bytes: usize, written: Option<usize>, stages: &Stages) {
    let tally = &mut lane.tally;
    tally.chunks += 1;
    tally.source_bytes += source_bytes as u64;
    tally.destination_bytes += written.unwrap_or(0) as u64;
    tally.queueing_ns += stages.queueing_ns.unwrap_or(0);
    tally.transfer_ns += stages.transfer_ns.unwrap_or(0);
    tally.engine_ns += stages.engine_ns.unwrap_or(0);
    tally.late += u64::from(stages.late);
    tally.overdue_ns += stages.overdue_ns;
}
