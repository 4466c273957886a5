//! Faults that can be injected into a job.

use std::sync::Arc;

use overside_device::{Applied, Completion, JobError, Outcome, Output, Region, Source};

/// Faults of a job that have been observed in devices, drivers and harnesses.
/// [`crate::FaultInjection`] injects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A valid job is refused.
    Refusal,
    /// The context takes neither the job nor any job after it.
    BackPressure,
    /// The job continues beyond its deadline: it completes as late, without its destination, which is written
    /// to later.
    Stall,
    /// The job never completes.
    Silence,
    /// The device goes away.
    Loss,
    /// The job completes when nothing else is in flight.
    Reordering,
    /// The results and destinations of this job and the next one are exchanged.
    SwappedResults,
    /// The job fails.
    Failure,
    /// The job fails with [`JobError::Corrupt`], whatever its result is.
    FalseCorruption,
    /// The job completes as [`Outcome::Incompressible`], whatever its result is.
    FalseIncompressible,
    /// The job fails with [`JobError::OutputTooSmall`], whatever its result is.
    FalseTooSmall,
    /// A byte in the middle of its output is wrong.
    WrongByte,
    /// The value in the job's output is too high by one.
    WrongValue,
    /// The reported length of the job's output is one byte too short.
    FewerBytes,
    /// More bytes are reported as written than there is room for.
    BeyondDestination,
    /// The job completes before its output is in the destination, which is unchanged.
    EarlyCompletion,
    /// A failed job is reported as done, without having written anything.
    FailureAsDone,
    /// The job completes as if its bytes had been copied from the destination to the source. The
    /// destination is unchanged.
    SwappedDirection,
    /// The work is done once, for the context's first job, and its result given for this one.
    Hoisted,
    /// The first job's source is processed in place of its own.
    FirstSource,
    /// The job completes twice.
    Duplicate,
    /// The completion has a tag that no job was submitted with.
    UnknownTag,
    /// The completion comes without the job's destination.
    KeptDestination,
    /// Another device is reported as the one that ran it.
    OtherDevice,
    /// The completion is marked as later than the profile's time ([`overside_device::Stages::late`]).
    Late,
    /// The thread panics.
    Panic,
}

/// Number of a job among those of the device and of its context, from 0. A refused job counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobNumber {
    /// Among all jobs of the device.
    pub of_device: u64,
    /// Number of the job among those of its context.
    pub of_context: u64,
}

pub(crate) type Plan = dyn Fn(JobNumber) -> Option<Fault> + Send + Sync;

/// State of a job before it runs, kept for [`spoil`].
pub(crate) struct Before {
    /// Contents of the destination before the job ran; empty if the CPU cannot address it.
    pub(crate) destination: Vec<u8>,
}

/// Source and result of the context's first job, for [`Fault::FirstSource`] and [`Fault::Hoisted`].
pub(crate) struct First {
    pub(crate) source: Source,
    pub(crate) result: Option<(Outcome, Vec<u8>)>,
}

/// The destination's bytes, if it is there and the CPU can address it.
pub(crate) fn destination_bytes(completion: &mut Completion) -> Option<&mut [u8]> {
    completion.destination.as_mut()?.bytes_mut().ok()
}

/// Makes a correct completion wrong. Returns a second one for the same job, if the fault requires one.
pub(crate) fn spoil(
    fault: Fault,
    completion: &mut Completion,
    before: &Before,
    first: Option<&First>,
) -> Option<Completion> {
    let restore = |completion: &mut Completion| {
        if let Some(bytes) = destination_bytes(completion) {
            bytes.copy_from_slice(&before.destination);
        }
    };
    let done = match completion.result {
        Ok(Outcome::Done(output)) => output,
        Ok(Outcome::Incompressible) | Err(_) => Output::default(),
    };
    let claim = |output: Output| Ok(Outcome::Done(output));
    match fault {
        // These happen when jobs are submitted, or to when they complete.
        Fault::Refusal
        | Fault::BackPressure
        | Fault::Stall
        | Fault::Silence
        | Fault::Loss
        | Fault::Reordering
        | Fault::SwappedResults
        | Fault::FirstSource => {}
        Fault::Failure | Fault::FalseCorruption => {
            if let Some(bytes) = destination_bytes(completion) {
                bytes.fill(0xEE);
            }
            completion.result = Err(match fault {
                Fault::Failure => JobError::Failed("as injected".into()),
                _ => JobError::Corrupt("as injected".into()),
            });
        }
        Fault::FalseIncompressible => completion.result = Ok(Outcome::Incompressible),
        Fault::FalseTooSmall => {
            let capacity = before.destination.len();
            completion.result = Err(JobError::OutputTooSmall { capacity });
        }
        Fault::WrongByte => {
            if let Some(byte) =
                destination_bytes(completion).and_then(|bytes| bytes.get_mut(done.written / 2))
            {
                *byte ^= 1;
            }
        }
        Fault::WrongValue => {
            completion.result = claim(Output { value: done.value.map(|value| value + 1), ..done });
        }
        Fault::FewerBytes => {
            completion.result = claim(Output { written: done.written.saturating_sub(1), ..done });
        }
        Fault::BeyondDestination => {
            completion.result = claim(Output { written: before.destination.len() + 1, ..done });
        }
        Fault::EarlyCompletion => restore(completion),
        Fault::FailureAsDone => {
            restore(completion);
            completion.result = claim(Output::default());
        }
        Fault::SwappedDirection => {
            restore(completion);
            completion.result = claim(Output { written: completion.source.len(), ..done });
        }
        Fault::Hoisted => {
            if let Some((outcome, written)) = first.and_then(|first| first.result.as_ref())
                && let Some(bytes) = destination_bytes(completion)
            {
                let len = bytes.len().min(written.len());
                bytes[..len].copy_from_slice(&written[..len]);
                completion.result = Ok(*outcome);
            }
        }
        Fault::Duplicate => {
            return Some(Completion {
                tag: completion.tag,
                result: completion.result.clone(),
                source: completion.source.clone(),
                destination: Region::allocate(before.destination.len(), 1, None).ok(),
                stages: completion.stages,
                applied: Arc::clone(&completion.applied),
            });
        }
        Fault::UnknownTag => completion.tag = u64::MAX,
        Fault::KeptDestination => completion.destination = None,
        Fault::OtherDevice => {
            completion.applied = Arc::new(Applied {
                device: "elsewhere".into(),
                variant: "another".into(),
                ..(*completion.applied).clone()
            });
        }
        Fault::Late => completion.stages.late = true,
        Fault::Panic => panic!("as injected"),
    }
    None
}
