//! Verification of devices' results: the CPU checks each result before it counts, on idle cores if
//! there are any.
//!
//! | operation | how its result is verified |
//! |---|---|
//! | compression | it is decompressed, and compared with the source |
//! | decompression of a chunk that has a checksum | by that |
//! | everything else | the work is done again, and the results compared |

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use overside_base::Random;
use overside_device::{
    Completion, Lost, OperationConfig, Outcome, Output, Slice, Source, SubmitError,
};

use crate::lane::Lane;
use crate::memory::{Buffer, Pool};
use crate::policy::TARGETS_MAX;
use crate::report::Verification;
use crate::{Error, SAMPLE_EVERY, Setup, Target, Verify};

/// A device's result that does not count yet.
pub(crate) struct Answer {
    /// Device that the result is from.
    pub(crate) target: Target,
    /// Completion without its destination.
    pub(crate) completion: Completion,
    pub(crate) output: Output,
    pub(crate) destination: Buffer,
    /// The chunk's own source.
    pub(crate) source: Source,
}

/// Answer that the CPU is verifying.
struct PendingAnswer {
    target: Target,
    completion: Completion,
    output: Output,
    /// The whole destination, and where it comes from.
    destination: Slice,
    pool: Arc<Pool>,
    source: Source,
}

/// A result, and the difference that was found, if any.
pub(crate) type Comparison = (Answer, Result<(), String>);

/// Verification history of one device's results.
#[derive(Clone, Copy, Default)]
struct Record {
    /// `true` if one result was verified and is right.
    was_right: bool,
    /// Number of results that were not verified.
    unverified: u64,
}

/// The part of an executor that verifies.
pub(crate) struct Verifier {
    /// `true` if the CPU verifies by the inverse operation.
    is_inverse: bool,
    /// `None`: nothing is verified. Opened for the first answer.
    lane: Option<Lane>,
    /// Answers in order.
    waiting: VecDeque<Answer>,
    pending: BTreeMap<u64, PendingAnswer>,
    random: Random,
    /// Records of the devices, by target.
    devices: [Record; TARGETS_MAX],
    report: Verification,
}

impl Verifier {
    /// Makes the verifier of the results of `setup`'s devices, if they must be verified.
    ///
    /// # Errors
    /// [`Error::NoTarget`], [`Error::Open`]: there is no CPU to verify them.
    pub(crate) fn new(setup: &Setup) -> Result<Self, Error> {
        let is_on = setup.verify != Verify::None && setup.policy.uses_device();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            lane: is_on.then(|| lane(setup)).transpose()?,
            is_inverse: setup.operation.operation.undone_by().is_some(),
            waiting: VecDeque::new(),
            pending: BTreeMap::new(),
            // A device that errs regularly is not to be in step with it.
            random: Random::new(now.map_or(0, |now| now.as_nanos() as u64)),
            devices: [Record::default(); TARGETS_MAX],
            report: Verification { verify: setup.verify, ..Verification::default() },
        })
    }

    /// Returns `true` if results are verified at all.
    pub(crate) fn is_on(&self) -> bool {
        self.lane.is_some()
    }

    /// Returns `true` if the CPU must verify a result of this target. `checksum` is `Some(true)` if
    /// the result has the expected checksum, and `None` if there is no checksum.
    pub(crate) fn wants(&mut self, target: Target, checksum: Option<bool>) -> bool {
        let device = &mut self.devices[target.index()];
        let is_wanted = match (self.report.verify, checksum) {
            (Verify::None, _) => false,
            (_, Some(true)) => {
                self.report.chunks += 1;
                return false;
            }
            // Whether the device errs or the checksum does, the CPU finds out.
            (_, Some(false)) | (Verify::All, None) => true,
            (Verify::Sampled, None) => !device.was_right || self.random.below(SAMPLE_EVERY) == 0,
        };
        match is_wanted {
            true => self.report.chunks += 1,
            false => {
                device.unverified += 1;
                self.report.unverified += 1;
            }
        }
        is_wanted
    }

    /// Returns how many results of a target were used without being verified.
    pub(crate) fn unverified(&self, target: Target) -> u64 {
        self.devices[target.index()].unverified
    }

    /// Queues an answer for verification.
    pub(crate) fn take(&mut self, answer: Answer) {
        self.waiting.push_back(answer);
    }

    /// Returns the CPU lane that verifies results; `None` if nothing is verified.
    pub(crate) fn lane(&self) -> Option<&Lane> {
        self.lane.as_ref()
    }

    pub(crate) fn lane_mut(&mut self) -> Option<&mut Lane> {
        self.lane.as_mut()
    }

    /// Returns the answers that the CPU has verified, and submits others to it.
    pub(crate) fn drive(&mut self) -> Result<Vec<Comparison>, Error> {
        let mut comparisons = Vec::new();
        self.collect(&mut comparisons)?;
        self.fill()?;
        if let Some(lane) = &mut self.lane {
            match lane.kick() {
                Ok(_) => {}
                Err(SubmitError::Lost(lost)) => return Err(gone(lost)),
                // What the CPU does not take is no answer to anything.
                Err(SubmitError::Refused { refusal, .. }) => {
                    let refused = lane.withdraw();
                    if let Some(pending) = refused.and_then(|place| self.pending.remove(&place)) {
                        comparisons.push((pending.into_answer()?, Err(refusal.to_string())));
                    }
                }
            }
        }
        for (answer, result) in &comparisons {
            self.report.wrong += u64::from(result.is_err());
            self.devices[answer.target.index()].was_right |= result.is_ok();
        }
        Ok(comparisons)
    }

    fn collect(&mut self, comparisons: &mut Vec<Comparison>) -> Result<(), Error> {
        let Some(lane) = &mut self.lane else {
            return Ok(());
        };
        let mut completions = Vec::new();
        let polled = lane.poll(&mut completions);
        for completion in completions {
            let Some(pending) = self.pending.remove(&completion.tag) else {
                continue;
            };
            let result = match &completion.result {
                Ok(Outcome::Done(output)) => {
                    let again = (completion.destination.as_deref())
                        .and_then(|bytes| bytes.get(..output.written))
                        .unwrap_or_default();
                    match self.is_inverse {
                        true => is_same(again, &pending.source),
                        false => pending.is_equal(output, again),
                    }
                }
                Ok(Outcome::Incompressible) => Err("the cpu finds nothing in it".into()),
                Err(error) => Err(error.to_string()),
            };
            if let Some(region) = completion.destination {
                lane.destinations.put(region);
            }
            // The last handle but the pending answer's own.
            drop(completion.source);
            comparisons.push((pending.into_answer()?, result));
        }
        polled.map_err(gone)
    }

    fn fill(&mut self) -> Result<(), Error> {
        let Some(lane) = &mut self.lane else {
            return Ok(());
        };
        while let Some(answer) = self.waiting.pop_front() {
            lane.open()?;
            if lane.load() >= lane.depth() {
                self.waiting.push_front(answer);
                break;
            }
            let place = answer.completion.tag;
            let Some(pending) = answer.into_pending() else {
                continue;
            };
            let source = match self.is_inverse {
                true => (pending.destination).slice(0..pending.output.written).into(),
                false => pending.source.clone(),
            };
            self.pending.insert(place, pending);
            lane.offer(place, source)?;
        }
        Ok(())
    }

    /// Tears the context down; it is set up again when it is next needed. Nothing is in it.
    pub(crate) fn reconfigure(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.reconfigure();
        }
    }

    /// Closes the context.
    pub(crate) fn close(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.close();
        }
    }

    /// Returns the counts of verified results so far, and the CPU time that verifying took.
    pub(crate) fn report(&self) -> Verification {
        let cpu_time = self.lane.as_ref().map(|lane| lane.report().cpu_time);
        Verification { cpu_time: cpu_time.unwrap_or_default(), ..self.report.clone() }
    }
}

impl Answer {
    /// `None`: it has no destination.
    fn into_pending(self) -> Option<PendingAnswer> {
        let (region, pool) = self.destination.into_parts()?;
        Some(PendingAnswer {
            target: self.target,
            completion: self.completion,
            output: self.output,
            destination: region.share(),
            pool,
            source: self.source,
        })
    }
}

impl PendingAnswer {
    fn into_answer(self) -> Result<Answer, Error> {
        let region = match self.destination.reclaim() {
            Ok(region) => region,
            // It is a part of memory that others have other parts of.
            Err(shared) => {
                let mut copy = self.pool.take()?;
                copy[..self.output.written].copy_from_slice(&shared[..self.output.written]);
                copy
            }
        };
        Ok(Answer {
            target: self.target,
            completion: self.completion,
            output: self.output,
            destination: Buffer::new(region, &self.pool),
            source: self.source,
        })
    }

    /// Compares the result with the CPU's for the same source.
    fn is_equal(&self, output: &Output, bytes: &[u8]) -> Result<(), String> {
        if self.output.value != output.value {
            return Err("the cpu counts something else".into());
        }
        match self.destination.get(..self.output.written) == Some(bytes) {
            true => Ok(()),
            false => Err("the cpu comes to something else".into()),
        }
    }
}

/// Makes the CPU lane that verifies results of `setup`'s operation: by undoing it, or by doing it again.
fn lane(setup: &Setup) -> Result<Lane, Error> {
    let mut own = Setup { window: Some(setup.cpu_depth), ..setup.clone() };
    if let Some(inverse) = setup.operation.operation.undone_by() {
        own.operation = OperationConfig::new(inverse);
        own.source_bytes = setup.destination_bytes;
        own.destination_bytes = setup.source_bytes;
    }
    let (policy, target) = (own.policy, Target::Cpu);
    let cpu = (own.cpu.as_ref()).ok_or(Error::NoTarget { policy, target })?;
    Ok(Lane::new(cpu, target, &own, false)?)
}

fn is_same(bytes: &[u8], source: &Source) -> Result<(), String> {
    let mut rest = bytes;
    for segment in source.segments() {
        let segment = segment.bytes().map_err(|error| error.to_string())?;
        match rest.strip_prefix(segment) {
            Some(behind) => rest = behind,
            None => return Err("restored it is something else".into()),
        }
    }
    match rest {
        [] => Ok(()),
        _ => Err("restored it is longer".into()),
    }
}

fn gone(lost: Lost) -> Error {
    let Lost { device, reason, .. } = lost;
    Error::Lost { device, reason }
}
