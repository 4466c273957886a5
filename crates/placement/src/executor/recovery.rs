//! What becomes of completions, and of what does not complete.
//!
//! | what the device did | its chunk | the device |
//! |---|---|---|
//! | failed at a job | again on the CPU | left alone after three in a row |
//! | called an input corrupt | again on the CPU, which decides | as above, if the CPU can read it |
//! | refused a job | again on the CPU | as above |
//! | completed a job late | again on the CPU | left alone for a while |
//! | answered something wrong, and its results are verified | again on the CPU | not used again |
//! | was lost, silent, or not to be believed | all of its chunks again on the CPU | dropped, and opened anew after a while |
//!
//! Without a CPU the error is the chunk's result.

use overside_device::{Completion, JobError, Lost, OpenError, Operation, Outcome, Refusal, Stages};
use overside_layers::is_silence;

use super::Executor;
use crate::lane::Lane;
use crate::report::EventKind;
use crate::verify::Answer;
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
                matches!(self.setup.operation.operation, Operation::Compress(_))
            }
            (Err(_), _) => true,
        };
        if !is_credible {
            self.misbehaved(
                target,
                "a result is not one of the operation, or lies elsewhere",
            );
            return false;
        }
        let has_fallback = target == Target::Device && self.lanes.has_fallback();
        match &completion.result {
            Err(
                error @ (JobError::Corrupt(_) | JobError::Failed(_) | JobError::DeadlineExceeded),
            ) if has_fallback => {
                let error = error.clone();
                self.run_again(completion, error);
            }
            // Whether that is so, the CPU finds out.
            Err(error @ JobError::OutputTooSmall { .. })
                if has_fallback && self.verifier.is_on() =>
            {
                let error = error.clone();
                self.run_again(completion, error);
            }
            _ if self.in_flight.remove_superseded(completion.tag, target) => {
                self.discard(target, completion);
            }
            _ => self.arrived(target, completion),
        }
        true
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
        // What the CPU has begun as well needs nobody to verify it.
        if self.in_flight.drop_from_device(place) {
            lane.tally.failed += 1;
            return;
        }
        let checksum = (self.in_flight.checksum(place))
            .map(|checksum| checksum.is_right(&destination[..output.written]));
        if !self.verifier.wants(checksum) {
            return self.finish(target, completion, destination);
        }
        if let Some(source) = self.in_flight.begin_verifying(place, &completion.source) {
            self.verifier.take(Answer {
                completion,
                output,
                destination,
                source,
            });
        }
    }

    /// Has the CPU look at what the device answered.
    pub(super) fn verify_answers(&mut self) {
        match self.verifier.drive() {
            Err(error) => self.failure = Some(error),
            Ok(comparisons) => {
                for (answer, result) in comparisons {
                    match result {
                        Ok(()) => {
                            self.finish(Target::Device, answer.completion, answer.destination);
                        }
                        Err(reason) => self.answered_wrong(&answer, &reason),
                    }
                }
            }
        }
    }

    /// A device of which one result is wrong is not used again. What else it answered is verified
    /// all the same.
    fn answered_wrong(&mut self, answer: &Answer, reason: &str) {
        let name = self.lanes.device_name().to_owned();
        let error = JobError::Failed(format!("a wrong result of {name}"));
        if let Some(lane) = self.lanes.get_mut(Target::Device) {
            lane.tally.failed += 1;
        }
        let place = answer.completion.tag;
        if self.lanes.has_fallback() {
            self.in_flight.retry(place, None, error.clone());
        } else {
            self.fail_chunk(place, Target::Device, error.clone());
        }
        let count = 1 + self.drop_device(&error);
        let consequence = self.consequence(count);
        let message = format!("{name} gave a wrong result: {reason}{consequence}");
        if self.lanes.breaker.is_given_up() {
            self.event(Target::Device, EventKind::WrongResult, message);
        } else {
            self.give_up(EventKind::WrongResult, message);
        }
        self.empty_device_queue(&error);
        let unverified = self.verifier.report().unverified;
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

    /// What is not back yet of results that came too late will not be looked at.
    pub(super) fn forget_superseded(&mut self) {
        let counts = self.in_flight.clear_superseded(None);
        for (target, count) in [Target::Cpu, Target::Device].into_iter().zip(counts) {
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
            (Target::Device, _) if is_done => self.device_succeeded(),
            (Target::Cpu, Some(JobError::Corrupt(reason))) if is_done => {
                self.falsely_corrupt(&reason);
            }
            _ => {}
        }
    }

    /// Has the CPU do what the device did not.
    fn run_again(&mut self, completion: Completion, error: JobError) {
        let place = completion.tag;
        let came_back = completion.destination.is_some();
        if let Some(lane) = self.lanes.get_mut(Target::Device) {
            lane.tally.failed += 1;
            if let Some(region) = completion.destination {
                lane.destinations.put(region);
            }
        }
        if !self.in_flight.drop_from_device(place) {
            let source = Some(completion.source);
            self.in_flight.retry(place, source, error.clone());
        }
        match error {
            // Who is right is not known before the CPU has seen it.
            JobError::Corrupt(_) | JobError::OutputTooSmall { .. } => {}
            JobError::Failed(reason) => {
                let name = self.lanes.device_name();
                let message = format!("{name} failed at a chunk ({reason})");
                self.record_failure(EventKind::Failed, message);
            }
            JobError::DeadlineExceeded => {
                let state = if came_back {
                    "was not begun"
                } else {
                    "did not end"
                };
                let message = format!("a job on {} {state} in time", self.lanes.device_name());
                self.pause_device(EventKind::Stalled, message, 1);
            }
        }
    }

    fn device_succeeded(&mut self) {
        let depth = self.lanes.get(Target::Device).map_or(1, Lane::depth);
        if self.lanes.breaker.record_success(depth) {
            let message = format!("{} works again", self.lanes.device_name());
            self.event(Target::Device, EventKind::Recovered, message);
        }
    }

    fn falsely_corrupt(&mut self, reason: &str) {
        let message = format!(
            "{} called an input corrupt ({reason}) that the cpu can read",
            self.lanes.device_name()
        );
        self.record_failure(EventKind::FalselyCorrupt, message);
    }

    /// The job at the front is not one that the target takes.
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
        self.back_to_queue(place, error);
        let message = format!("{} refused a chunk: {refusal}", self.lanes.device_name());
        self.record_failure(EventKind::Refused, message);
    }

    /// A target is gone, or keeps jobs beyond their time and says nothing.
    pub(super) fn lost(&mut self, target: Target, lost: &Lost) {
        if target == Target::Cpu {
            let (device, reason) = (lost.device.clone(), lost.reason.clone());
            self.failure = Some(Error::Lost { device, reason });
        } else if is_silence(lost) {
            let count = self.drop_device(&JobError::DeadlineExceeded);
            let message = format!("{} does not answer", lost.device);
            self.pause_device(EventKind::Stalled, message, count);
        } else {
            let count = self.drop_device(&JobError::Failed(lost.to_string()));
            self.pause_device(EventKind::Lost, lost.to_string(), count);
        }
    }

    fn misbehaved(&mut self, target: Target, what: &str) {
        if target == Target::Cpu {
            let device = self.lanes.get(target).map_or("", Lane::name).into();
            let reason = what.into();
            self.failure = Some(Error::Lost { device, reason });
            return;
        }
        let message = format!("{} cannot be believed: {what}", self.lanes.device_name());
        let count = self.drop_device(&JobError::Failed(message.clone()));
        self.pause_device(EventKind::Misbehaved, message, count);
    }

    /// The device cannot be opened. If it cannot do what is asked, that will not change.
    pub(super) fn cannot_open(&mut self, error: &OpenError) {
        if matches!(error, OpenError::Failed { .. } | OpenError::InFlight(_)) {
            self.pause_device(EventKind::NotOpened, error.to_string(), 0);
        } else {
            self.give_up(EventKind::Unsupported, error.to_string());
        }
        self.empty_device_queue(&JobError::Failed(error.to_string()));
    }

    /// Begins to use a device that was left alone. One that holds on to memory, or that is gone, is
    /// opened anew.
    pub(super) fn try_again(&mut self) {
        let device = self.lanes.get(Target::Device);
        if device.is_some_and(|lane| lane.quarantined() > 0) {
            self.drop_device(&JobError::DeadlineExceeded);
        }
        let depth = self.lanes.get(Target::Device).map_or(1, Lane::depth) as u64;
        if self.lanes.quarantined > ABANDONED_MAX * depth {
            let message = format!("{} failed too often", self.lanes.device_name());
            self.give_up(EventKind::GivenUp, message.clone());
            self.empty_device_queue(&JobError::Failed(message));
            return;
        }
        self.lanes.breaker.half_open();
    }

    /// Drops the device's context and has the CPU run what was in flight. Returns how many jobs
    /// those were.
    fn drop_device(&mut self, error: &JobError) -> usize {
        self.lanes.abandon_device();
        let places = self.in_flight.running_on(Target::Device);
        for place in &places {
            self.back_to_queue(*place, error.clone());
        }
        let superseded = self.in_flight.clear_superseded(Some(Target::Device));
        let failed = places.len() + superseded[Target::Device as usize];
        if let Some(lane) = self.lanes.get_mut(Target::Device) {
            lane.tally.failed += failed as u64;
        }
        failed
    }

    /// Has the CPU run a chunk that the device has; without a CPU, that is the end of it.
    fn back_to_queue(&mut self, place: u64, error: JobError) {
        if self.in_flight.drop_from_device(place) {
            return;
        }
        if self.lanes.has_fallback() {
            self.in_flight.retry(place, None, error);
        } else {
            self.fail_chunk(place, Target::Device, error);
        }
    }

    /// A job failed. The device may go on, unless it fails often.
    fn record_failure(&mut self, kind: EventKind, message: String) {
        if self.lanes.breaker.record_failure() {
            self.pause_device(kind, message, 1);
        } else {
            let consequence = self.consequence(1);
            self.event(Target::Device, kind, message + &consequence);
        }
    }

    /// Leaves the device alone for a while. What waits for it goes to the CPU.
    fn pause_device(&mut self, kind: EventKind, message: String, count: usize) {
        let consequence = self.consequence(count);
        if self.lanes.breaker.is_open() {
            // What was in flight when it failed comes back bit by bit.
            self.event(Target::Device, kind, message + &consequence);
            return;
        }
        let pause = self.lanes.breaker.open(self.setup.clock.now());
        let message = format!("{message}{consequence}; it is tried again after {pause:?}");
        self.event(Target::Device, kind, message);
        self.withdraw_offers();
        if self.lanes.has_fallback() {
            for place in self.in_flight.drain(Target::Device) {
                self.in_flight.put_back(place, Target::Cpu);
            }
        }
    }

    /// Takes back what is offered to the device and was not taken.
    fn withdraw_offers(&mut self) {
        while let Some(place) = (self.lanes.get_mut(Target::Device)).and_then(Lane::withdraw) {
            if !self.in_flight.drop_from_device(place) {
                self.in_flight.withdraw(place);
            }
        }
    }

    fn give_up(&mut self, kind: EventKind, message: String) {
        self.lanes.breaker.give_up();
        let message = format!("{message}; it is not tried again");
        self.event(Target::Device, kind, message);
    }

    /// The device cannot take what waits for it.
    pub(super) fn empty_device_queue(&mut self, error: &JobError) {
        for place in self.in_flight.drain(Target::Device) {
            self.back_to_queue(place, error.clone());
        }
    }

    /// What is done about so many chunks that the device did not do.
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
