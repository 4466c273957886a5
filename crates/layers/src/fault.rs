//! What can go wrong with a job.

use std::sync::Arc;

use overside_device::{Applied, Completion, JobError, Outcome, Output, Region, Source};

/// What devices, drivers and harnesses have been seen to do wrong with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused, though it is in order.
    Refusal,
    /// Neither it nor any job after it is taken.
    BackPressure,
    /// It goes on beyond its deadline: it completes as late, without its destination, and that is
    /// written to from then on.
    Stall,
    /// Its completion never comes.
    Silence,
    /// The device goes away.
    Loss,
    /// It completes when nothing else is in flight.
    Reordering,
    /// Its result and the next job's are exchanged.
    SwappedResults,
    /// It fails.
    Failure,
    /// Its input is called corrupt.
    FalseCorruption,
    /// Its output is called incompressible.
    FalseIncompressible,
    /// Its output is said not to fit.
    FalseTooSmall,
    /// A byte in the middle of its output is wrong.
    WrongByte,
    /// Its answer is one too high.
    WrongValue,
    /// Its output is said to be shorter than it is.
    FewerBytes,
    /// More bytes are said to be written than there is room for.
    BeyondDestination,
    /// Its completion comes before its output.
    EarlyCompletion,
    /// It failed, and is said to be done without having written anything.
    FailureAsDone,
    /// Its bytes went from the destination to the source.
    SwappedDirection,
    /// The work is done once, for the context's first job, and its result given for this one.
    Hoisted,
    /// The first job's source is processed in place of its own.
    FirstSource,
    /// Its completion comes twice.
    Duplicate,
    /// Its completion is for a job that nobody submitted.
    UnknownTag,
    /// Its destination does not come back.
    KeptDestination,
    /// Another device is said to have run it.
    OtherDevice,
    /// Its completion is later than the profile says.
    Late,
    /// The thread panics.
    Panic,
}

/// What is kept of a job for going wrong later.
pub(crate) struct Before {
    /// What its destination held.
    pub(crate) destination: Vec<u8>,
}

/// What the context's first job came to.
pub(crate) struct First {
    pub(crate) source: Source,
    pub(crate) result: Option<(Outcome, Vec<u8>)>,
}

/// The destination's bytes, if it is there and the CPU can address it.
pub(crate) fn destination_bytes(completion: &mut Completion) -> Option<&mut [u8]> {
    completion.destination.as_mut()?.bytes_mut().ok()
}

/// Makes a completion that is in order wrong. Returns a second one for the same job, if there is
/// to be one.
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
            completion.result = claim(Output {
                value: done.value.map(|value| value + 1),
                ..done
            });
        }
        Fault::FewerBytes => {
            completion.result = claim(Output {
                written: done.written.saturating_sub(1),
                ..done
            });
        }
        Fault::BeyondDestination => {
            completion.result = claim(Output {
                written: before.destination.len() + 1,
                ..done
            });
        }
        Fault::EarlyCompletion => restore(completion),
        Fault::FailureAsDone => {
            restore(completion);
            completion.result = claim(Output::default());
        }
        Fault::SwappedDirection => {
            restore(completion);
            completion.result = claim(Output {
                written: completion.source.len(),
                ..done
            });
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
