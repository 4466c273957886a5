//! Plants mistakes that such benchmark suites have been seen to make in real tests on this machine, to check
//! that each is caught.
//!
//! Each mistake is planted between the worker and a device or a link that otherwise works, after the outputs
//! have been verified, so that it begins under the clock. The same test also runs without it: a harness that
//! rejects everything would catch every mistake.

mod faulty;
mod faulty_link;
mod jobs;
mod moves;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use faulty::{Fault, Times, faulty_device, worker};
#[cfg(test)]
pub(crate) use faulty_link::{LinkFault, with_fault};
#[cfg(test)]
pub(crate) use moves::test as dma_test;

use crate::{Sample, Status};

/// A mistake that published suites make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mistake {
    /// The clock stops before the completion was reaped.
    ClockStoppedEarly,
    /// The measured loop is removed, as by a compiler.
    LoopRemoved,
    /// The payload goes the other way than the name of the operation.
    DirectionSwapped,
    /// Jobs that failed count as done.
    FailuresCounted,
    /// Both sides of a split work on the same part.
    SamePartTwice,
    /// Bits are reported as bytes.
    BitsForBytes,
    /// Software runs under a device's name.
    SoftwareFallback,
    /// Bytes that were never moved count as moved.
    NothingMoved,
    /// Only the beginning of a payload is moved.
    FirstByteOnly,
}

/// Result of planting one mistake in one test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planted {
    /// Mistake that was planted.
    pub mistake: Mistake,
    /// Description of the mistake's effect, for people.
    pub about: String,
    /// Test that it was planted in: operation, device, placement.
    pub test: String,
    /// The test gives figures without the mistake.
    pub works_without: bool,
    /// `true` if the test gives no figures with the mistake.
    pub caught: bool,
    /// Error message or skip reason that the harness gave; empty if it gave none.
    pub said: String,
}

impl Mistake {
    /// All mistakes.
    pub const ALL: [Self; 9] = [
        Self::ClockStoppedEarly,
        Self::LoopRemoved,
        Self::DirectionSwapped,
        Self::FailuresCounted,
        Self::SamePartTwice,
        Self::BitsForBytes,
        Self::SoftwareFallback,
        Self::NothingMoved,
        Self::FirstByteOnly,
    ];

    /// Returns a description of the mistake's effect, for people.
    pub fn about(self) -> &'static str {
        match self {
            Self::ClockStoppedEarly => "jobs count as done before their results are there",
            Self::LoopRemoved => "the work is done once and its result given for all jobs",
            Self::DirectionSwapped => "bytes go from the destination to the source",
            Self::FailuresCounted => "one job of all fails and is reported as done",
            Self::SamePartTwice => "both sides of a split work on the same part of the data",
            Self::BitsForBytes => "bits per second are reported as bytes per second",
            Self::SoftwareFallback => "the CPU does the work under a device's name",
            Self::NothingMoved => "transfers count as done and move nothing",
            Self::FirstByteOnly => "of each payload only the first byte is moved",
        }
    }
}

impl Planted {
    /// Compares two samples of `test`: `honest` without the mistake and `planted` with it.
    fn of(mistake: Mistake, test: String, honest: &Sample, planted: &Sample) -> Self {
        let works_without = honest.status == Status::Ok;
        let said = |sample: &Sample| {
            let error = sample.error.as_ref().map(|error| error.message.clone());
            error.or_else(|| sample.reason.clone()).unwrap_or_default()
        };
        Self {
            mistake,
            about: mistake.about().into(),
            test,
            works_without,
            caught: planted.status == Status::Failed && planted.metrics.is_empty(),
            said: said(if works_without { planted } else { honest }),
        }
    }
}

/// Plants every mistake in turn, some in several tests. Takes about a second. `scratch` is a
/// directory in which a file of 256 KiB is made.
///
/// # Errors
/// The file system's error about `scratch`.
pub fn audit(scratch: &Path) -> std::io::Result<Vec<Planted>> {
    let jobs = jobs::plant(scratch)?;
    Ok(jobs.into_iter().chain(moves::plant()).collect())
}
