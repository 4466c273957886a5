//! Handling of completions, and of jobs that do not complete.
//!
//! | event | its chunk | the device |
//! |---|---|---|
//! | a job failed | again on the CPU | not used for a while after three consecutive ones |
//! | an input was reported as corrupt | again on the CPU, which decides | as above, if the CPU can read it |
//! | a job was refused | again on the CPU | as above |
//! | a job completed late | again on the CPU | not used for a while |
//! | verification found a wrong result | again on the CPU | not used again |
//! | the device is lost, silent, or reports something impossible | all of its chunks again on the CPU | dropped, and reopened after a while |
//!
//! Without a CPU the error is the chunk's result.

use overside_device::{Completion, JobError, Lost, OpenError, Outcome, Refusal, Stages};
use overside_layers::is_silence;
use overside_ops::Lengths;

use super::Executor;
use crate::lane::Lane;
use crate::report::EventKind;
use crate::verifier::Answer;
use crate::{Buffer, ChunkResult, Error, Target};

/// Destinations, as a multiple of the device's depth, that may be given up with contexts that went
/// wrong before the device is not tried again: the memory is lost for as long as its engines are.
const ABANDONED_MAX: u64 = 4;

impl Executor {
    /// Takes a completion. `false`: the device cannot be believed, and was dropped.
    pub(super) fn completed(&mut self, target: Target, completion: Completion) -> bool {
        if !self.in_flight.is_running(completion.tag, target) {
            self.misbehaved(target, "a completion came for a job that it does not have");
            return false;
        }
        let is_credible = match (&completion.result, &completion.destination) {
            (Ok(Outcome::Done(output)), Some(region)) => output.written <= region.len(),
            (Ok(Outcome::Done(_)), None) => false,
            (Ok(Outcome::Incompressible), _) => {
                self.setup.operation.operation.lengths() == Lengths::Shrinks
            }
            (Err(_), _) => true,
        };
        if !is_credible {
            self.misbehaved(target, "a result is not one of the operation, or lies elsewhere");
            return false;
        }
        let has_fallback = target.is_device() && self.lanes.has_fallback();
        let grows = (self.lanes.get(target)).is_some_and(|lane| lane.grows(&completion.result));
        match &completion.result {
            Err(error) if has_fallback && !grows && self.is_doubtful(error) => {
                let error = error.clone();
                self.run_again(target, completion, error);
            }
            _ if self.in_flight.remove_superseded(completion.tag, target) => {
                self.discard(target, completion);
            }
            _ if grows => {
                let grown = (self.lanes.get_mut(target)).map(|lane| lane.grow(completion));
                if let Some(Err(error)) = grown {
                    self.failure = Some(error.into());
                }
            }
            _ => self.arrived(target, completion),
        }
        true
    }

    /// Returns `true` if the CPU must run the chunk again to find out if it can do the job that the
    /// device failed at.
    fn is_doubtful(&self, error: &JobError) -> bool {
        match error {
            JobError::Corrupt(_) | JobError::Failed(_) | JobError::DeadlineExceeded => true,
            JobError::OutputTooSmall { .. } => self.verifier.is_on(),
        }
    }

    /// Takes a result, which counts unless it is verified first.
    fn arrived(&mut self, target: Target, mut completion: Completion) {
        let Some(lane) = self.lanes.get_mut(target) else {
            return;
        };
        let mut destination = Buffer::none();
        match (completion.destination.take(), &completion.result) {
            (Some(region), Ok(Outcome::Done(output))) => {
                match lane.result(region, output.written) {
                    Ok(buffer) => destination = buffer,
                    Err(error) => completion.result = Err(JobError::Failed(error.to_string())),
                }
            }
            (Some(region), _) => lane.destinations.put(region),
            (None, _) => {}
        }
        let Ok(Outcome::Done(output)) = completion.result else {
            return self.finish(target, completion, destination);
        };
        if target == Target::Cpu || !self.verifier.is_on() {
            return self.finish(target, completion, destination);
        }
        let place = completion.tag;
        // A chunk that the CPU has started as well needs no verification.
        if self.in_flight.drop_from(place, target) {
            lane.tally.failed += 1;
            return;
        }
        let checksum = (self.in_flight.checksum(place))
            .map(|checksum| checksum.is_right(&destination[..output.written]));
        if !self.verifier.wants(target, checksum) {
            return self.finish(target, completion, destination);
        }
        if let Some(source) = self.in_flight.begin_verifying(place, &completion.source) {
            self.verifier.take(Answer { target, completion, output, destination, source });
        }
    }

    /// Verifies results of devices on the CPU.
    pub(super) fn verify_answers(&mut self) {
        match self.verifier.drive() {
            Err(error) => self.failure = Some(error),
            Ok(comparisons) => {
                for (answer, result) in comparisons {
                    match result {
                        Ok(()) => {
                            self.finish(answer.target, answer.completion, answer.destination);
                        }
                        Err(reason) => self.answered_wrong(&answer, &reason),
                    }
                }
            }
        }
    }

    /// Stops using a device that returned a wrong result. Its other results are verified as well.
    fn answered_wrong(&mut self, answer: &Answer, reason: &str) {
        let device = answer.target;
        let name = self.lanes.name(device).to_owned();
        let error = JobError::Failed(format!("a wrong result of {name}"));
        if let Some(lane) = self.lanes.get_mut(device) {
            lane.tally.failed += 1;
        }
        let place = answer.completion.tag;
        if self.lanes.has_fallback() {
            self.in_flight.retry(place, device, None, error.clone());
        } else {
            self.fail_chunk(place, device, error.clone());
        }
        let count = 1 + self.drop_device(device, &error);
        let consequence = self.consequence(count);
        let message = format!("{name} gave a wrong result: {reason}{consequence}");
        if self.lanes.breaker(device).is_given_up() {
            self.event(device, EventKind::WrongResult, message);
        } else {
            self.give_up(device, EventKind::WrongResult, message);
        }
        self.empty_queue(device, &error);
        let unverified = self.verifier.unverified(device);
        if unverified > 0 {
            let device = name;
            self.failure = Some(Error::UnverifiedResults { device, unverified });
        }
    }

    /// Forgets a result that came after the other target's.
    fn discard(&mut self, target: Target, completion: Completion) {
        let Some(lane) = self.lanes.get_mut(target) else {
            return;
        };
        lane.tally.failed += 1;
        if let Some(region) = completion.destination {
            lane.destinations.put(region);
        }
    }

    /// Forgets the superseded jobs that have not come back yet, and counts them as failed. Their
    /// results will be ignored.
    pub(super) fn forget_superseded(&mut self) {
        for target in std::iter::once(Target::Cpu).chain(self.lanes.devices()) {
            let count = self.in_flight.clear_superseded(target);
            if let Some(lane) = self.lanes.get_mut(target) {
                lane.tally.failed += count as u64;
            }
        }
    }

    /// Makes a chunk's result of a completion.
    fn finish(&mut self, target: Target, completion: Completion, destination: Buffer) {
        let Some(lane) = self.lanes.get_mut(target) else {
            return;
        };
        let verified = self.verifier.lane().map(Lane::last_progress);
        self.last_done = verified.max(Some(lane.last_progress()));
        let (mut is_done, mut device_error) = (false, None);
        let place = completion.tag;
        self.in_flight.finish(place, target, |chunk, kept| {
            let (result, written) = match completion.result {
                Ok(Outcome::Done(output)) if output.written > chunk.destination_bytes => {
                    let capacity = chunk.destination_bytes;
                    (Err(JobError::OutputTooSmall { capacity }), None)
                }
                Ok(Outcome::Done(output)) => (completion.result, Some(output.written)),
                result => (result, None),
            };
            tally(lane, chunk.source_bytes, written, &completion.stages);
            if lane.tally.applied.is_none() {
                lane.tally.applied = Some((*completion.applied).clone());
            }
            (is_done, device_error) = (result.is_ok(), chunk.device_error.take());
            ChunkResult {
                label: chunk.label,
                source: kept.unwrap_or(completion.source),
                result,
                destination,
                target,
                applied: Some(completion.applied),
                stages: completion.stages,
                attempts: chunk.attempts,
            }
        });
        match (target, device_error) {
            (Target::Device(_), _) if is_done => self.device_succeeded(target),
            (Target::Cpu, Some((device, JobError::Corrupt(reason)))) if is_done => {
                self.falsely_corrupt(device, &reason);
            }
            _ => {}
        }
    }

    /// Runs a chunk that failed on a device on the CPU.
    fn run_again(&mut self, device: Target, completion: Completion, error: JobError) {
        let place = completion.tag;
        let came_back = completion.destination.is_some();
        if let Some(lane) = self.lanes.get_mut(device) {
            lane.tally.failed += 1;
            if let Some(region) = completion.destination {
                lane.destinations.put(region);
            }
        }
        if !self.in_flight.drop_from(place, device) {
            let source = Some(completion.source);
            self.in_flight.retry(place, device, source, error.clone());
        }
        match error {
            // Who is right is not known before the CPU has seen it.
            JobError::Corrupt(_) | JobError::OutputTooSmall { .. } => {}
            JobError::Failed(reason) => {
                let name = self.lanes.name(device);
                let message = format!("{name} failed at a chunk ({reason})");
                self.record_failure(device, EventKind::Failed, message);
            }
            JobError::DeadlineExceeded => {
                let state = if came_back { "was not begun" } else { "did not end" };
                let message = format!("a job on {} {state} in time", self.lanes.name(device));
                self.pause(device, EventKind::Stalled, message, 1);
            }
        }
    }

    fn device_succeeded(&mut self, device: Target) {
        let depth = self.lanes.get(device).map_or(1, Lane::depth);
        if self.lanes.breaker_mut(device).record_success(depth) {
            let message = format!("{} works again", self.lanes.name(device));
            self.event(device, EventKind::Recovered, message);
        }
    }

    fn falsely_corrupt(&mut self, device: Target, reason: &str) {
        let message = format!(
            "{} called an input corrupt ({reason}) that the cpu can read",
            self.lanes.name(device)
        );
        self.record_failure(device, EventKind::FalselyCorrupt, message);
    }

    /// Handles a job at the front that the target does not take.
    pub(super) fn refused(&mut self, target: Target, refusal: &Refusal) {
        let Some(lane) = self.lanes.get_mut(target) else {
            return;
        };
        let Some(place) = lane.withdraw() else {
            return;
        };
        let error = JobError::Failed(refusal.to_string());
        if target == Target::Cpu {
            self.fail_chunk(place, target, error);
            return;
        }
        lane.tally.failed += 1;
        self.back_to_queue(target, place, error);
        let message = format!("{} refused a chunk: {refusal}", self.lanes.name(target));
        self.record_failure(target, EventKind::Refused, message);
    }

    /// Handles a lost target, or one that keeps jobs beyond their deadlines without an answer.
    pub(super) fn lost(&mut self, target: Target, lost: &Lost) {
        if target == Target::Cpu {
            let (device, reason) = (lost.device.clone(), lost.reason.clone());
            self.failure = Some(Error::Lost { device, reason });
        } else if is_silence(lost) {
            let count = self.drop_device(target, &JobError::DeadlineExceeded);
            let message = format!("{} does not answer", lost.device);
            self.pause(target, EventKind::Stalled, message, count);
        } else {
            let count = self.drop_device(target, &JobError::Failed(lost.to_string()));
            self.pause(target, EventKind::Lost, lost.to_string(), count);
        }
    }

    fn misbehaved(&mut self, target: Target, what: &str) {
        if target == Target::Cpu {
            let device = self.lanes.get(target).map_or("", Lane::name).into();
            let reason = what.into();
            self.failure = Some(Error::Lost { device, reason });
            return;
        }
        let message = format!("{} cannot be believed: {what}", self.lanes.name(target));
        let count = self.drop_device(target, &JobError::Failed(message.clone()));
        self.pause(target, EventKind::Misbehaved, message, count);
    }

    /// Handles a device that cannot be opened. If it does not support the operation, it is not tried again.
    pub(super) fn cannot_open(&mut self, device: Target, error: &OpenError) {
        if matches!(error, OpenError::Failed { .. } | OpenError::InFlight(_)) {
            self.pause(device, EventKind::NotOpened, error.to_string(), 0);
        } else {
            self.give_up(device, EventKind::Unsupported, error.to_string());
        }
        self.empty_queue(device, &JobError::Failed(error.to_string()));
    }

    /// Starts using a device that was not used for a while. A device that keeps memory, or is lost, is
    /// reopened.
    pub(super) fn try_again(&mut self, device: Target) {
        let lane = self.lanes.get(device);
        if lane.is_some_and(|lane| lane.quarantined() > 0) {
            self.drop_device(device, &JobError::DeadlineExceeded);
        }
        let depth = self.lanes.get(device).map_or(1, Lane::depth) as u64;
        if self.lanes.quarantined_of(device) > ABANDONED_MAX * depth {
            let message = format!("{} failed too often", self.lanes.name(device));
            self.give_up(device, EventKind::GivenUp, message.clone());
            self.empty_queue(device, &JobError::Failed(message));
            return;
        }
        self.lanes.breaker_mut(device).half_open();
    }

    /// Drops a device's context and has the CPU run the chunks in flight. Returns how many jobs
    /// those were.
    fn drop_device(&mut self, device: Target, error: &JobError) -> usize {
        self.lanes.abandon(device);
        let places = self.in_flight.running_on(device);
        for place in &places {
            self.back_to_queue(device, *place, error.clone());
        }
        let failed = places.len() + self.in_flight.clear_superseded(device);
        if let Some(lane) = self.lanes.get_mut(device) {
            lane.tally.failed += failed as u64;
        }
        failed
    }

    /// Queues a chunk of a device for the CPU; without a CPU the chunk fails.
    fn back_to_queue(&mut self, device: Target, place: u64, error: JobError) {
        if self.in_flight.drop_from(place, device) {
            return;
        }
        if self.lanes.has_fallback() {
            self.in_flight.retry(place, device, None, error);
        } else {
            self.fail_chunk(place, device, error);
        }
    }

    /// Records a failed job. The device stays in use, unless it fails often.
    fn record_failure(&mut self, device: Target, kind: EventKind, message: String) {
        if self.lanes.breaker_mut(device).record_failure() {
            self.pause(device, kind, message, 1);
        } else {
            let consequence = self.consequence(1);
            self.event(device, kind, message + &consequence);
        }
    }

    /// Stops using a device for a while. Chunks that wait for it go to the CPU.
    fn pause(&mut self, device: Target, kind: EventKind, message: String, count: usize) {
        let consequence = self.consequence(count);
        if self.lanes.breaker(device).is_open() {
            // What was in flight when it failed comes back bit by bit.
            self.event(device, kind, message + &consequence);
            return;
        }
        let pause = self.lanes.breaker_mut(device).open(self.setup.clock.now());
        let message = format!("{message}{consequence}; it is tried again after {pause:?}");
        self.event(device, kind, message);
        self.withdraw_offers(device);
        if self.lanes.has_fallback() {
            for place in self.in_flight.drain(device) {
                self.in_flight.put_back(place, Target::Cpu);
            }
        }
    }

    /// Takes back the chunks offered to a device that it has not taken.
    fn withdraw_offers(&mut self, device: Target) {
        while let Some(place) = self.lanes.get_mut(device).and_then(Lane::withdraw) {
            if !self.in_flight.drop_from(place, device) {
                self.in_flight.withdraw(place, device);
            }
        }
    }

    fn give_up(&mut self, device: Target, kind: EventKind, message: String) {
        self.lanes.breaker_mut(device).give_up();
        let message = format!("{message}; it is not tried again");
        self.event(device, kind, message);
    }

    /// Handles chunks that wait for a device that cannot take them.
    pub(super) fn empty_queue(&mut self, device: Target, error: &JobError) {
        for place in self.in_flight.drain(device) {
            self.back_to_queue(device, place, error.clone());
        }
    }

    /// Returns the end of an event's message: the consequence for `count` chunks that a device did
    /// not complete.
    fn consequence(&self, count: usize) -> String {
        match (self.lanes.has_fallback(), count) {
            (_, 0) => String::new(),
            (true, 1) => "; its chunk is run again on the cpu".into(),
            (true, count) => format!("; its {count} chunks are run again on the cpu"),
            (false, 1) => "; its chunk failed".into(),
            (false, count) => format!("; its {count} chunks failed"),
        }
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
