//! Times of a card's DMA engine, as far as they are published.

use overside_link::shm::{Path, Shape};
use overside_link::verbs::Side;
use overside_model::Completion;
use overside_model::dma::{self, Access, Primitive, Transfer};
use overside_model::{EvidenceLevel, Initiator, Interval, Library};

use super::parameters::{DmaCompletion, DmaMeasure, DmaOperation, DmaTest};
use crate::sample::{Model, Warning};
use overside_probe::{Failure, FailureKind};

/// An engine that a profile gives the times of.
pub(crate) struct Emulated {
    pub profile: String,
    pub shape: Shape,
    /// Bounds of the nanoseconds an operation with as many in flight as in the test; `None` if the latency of one
    /// is unknown.
    pub each_ns: Option<Interval>,
    pub model: Model,
    pub warnings: Vec<Warning>,
}

/// Looks up the times that a profile gives for the test's operation.
///
/// # Errors
/// Skipped where the profile lacks a parameter of the test; names it.
pub(crate) fn of(profile: &str, test: &DmaTest) -> Result<Emulated, Failure> {
    let skip = |reason: String| Err(Failure::unsupported(reason));
    if test.operation == DmaOperation::Send {
        return skip(format!("{} emulates a DMA engine, which reads and writes", test.device));
    }
    let internal = |error: String| Failure::new(FailureKind::Internal, error);
    let library = Library::installed().map_err(|error| internal(error.to_string()))?;
    if library.profile(profile).is_none() {
        return Err(Failure::new(FailureKind::Job, format!("there is no profile {profile:?}")));
    }
    let transfer = transfer(test);
    let engine = dma::engine(&library, profile, &transfer, test.threads as f64);
    let busy = match engine.busy_ns {
        Ok(busy) => busy,
        Err(why) => return skip(format!("{} cannot be emulated: {why}", test.device)),
    };
    let mut warnings = Vec::new();
    if busy.closeness == EvidenceLevel::Application {
        warnings.push(Warning::new(
            "lent",
            format!(
                "{profile} lacks a fact about its DMA engine; what another card behind another \
                 link was published to do stands in its place"
            ),
            "measure the card with `overside calibrate`",
        ));
    }
    let (mut missing, mut facts) = (Vec::new(), busy.facts.clone());
    let (mut latency, mut interval, mut each_ns) = (0.0, busy.interval, None);
    match engine.latency_ns {
        Ok(known) => {
            latency = (known.interval.typ - busy.interval.typ).max(0.0);
            interval = known.interval;
            let in_turn = interval.scale(1.0 / (test.depth * test.threads) as f64);
            each_ns = Some(in_turn.with(busy.interval, f64::max));
            facts.extend(known.facts);
            if engine.is_anchored {
                missing.push("the latency of one operation in absolute terms".to_owned());
                warnings.push(Warning::new(
                    "lower-bound",
                    format!(
                        "no absolute time of a DMA was published of {profile}: the published ratios \
                         count in the time that its link takes, which is the least"
                    ),
                    "measure the card with `overside calibrate`",
                ));
            }
        }
        Err(why) if test.measure == DmaMeasure::Latency => {
            return skip(format!("{} has no latency to emulate: {why}", test.device));
        }
        Err(why) => {
            missing.push(format!("the latency of one operation ({})", why.why));
            warnings.push(Warning::new(
                "lower-bound",
                format!(
                    "the latency of one operation counts as zero ({}): with few in flight the \
                     real card is slower",
                    why.why
                ),
                &why.remedy,
            ));
        }
    }
    facts.sort();
    facts.dedup();
    let path =
        Path { latency_ns: latency.round() as u64, busy_ns: busy.interval.typ.round() as u64 };
    Ok(Emulated {
        profile: profile.to_owned(),
        each_ns,
        shape: Shape { read: path, write: path, missing: missing.clone() },
        model: Model {
            low_ns: interval.low as u64,
            typ_ns: interval.typ as u64,
            high_ns: interval.high as u64,
            missing,
            facts,
        },
        warnings,
    })
}

fn transfer(test: &DmaTest) -> Transfer {
    Transfer {
        primitive: Primitive::Dma,
        initiator: match test.initiator {
            Side::Host => Initiator::Host,
            Side::Dpu => Initiator::Soc,
        },
        completion: match test.completion {
            DmaCompletion::Poll | DmaCompletion::None => Completion::Poll,
            DmaCompletion::Event => Completion::Event,
        },
        access: match test.operation {
            DmaOperation::Read => Access::Read,
            DmaOperation::Write | DmaOperation::Send => Access::Write,
        },
        bytes: test.buffer_size as f64,
    }
}
