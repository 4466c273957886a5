//! The mistakes that suites of this kind have been seen to make, planted in real tests on this
//! machine, to see that each is caught.
//!
//! Each mistake is planted between the worker and a device that otherwise works, after the outputs
//! have been verified, so that it begins under the clock. The same test is taken without it, too:
//! a harness that believes nothing would catch everything.

mod faulty;

use std::path::{Path, PathBuf};

use overside_device::Operation;
use overside_placement::Policy;
use serde::{Deserialize, Serialize};

pub use faulty::{Fault, Times, faulty_device, worker};

use crate::{Data, Reaping, Sample, Setting, Status, Test, Worker};

/// Buffers of a test, each unlike the others.
const BUFFERS: usize = 16;
const BUFFER_BYTES: usize = 16 << 10;
/// Jobs that go right before anything goes wrong: those that are verified before the clock starts.
const RIGHT: usize = BUFFERS + 4;

/// A mistake that published suites make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mistake {
    /// The clock stops before the completion was reaped.
    ClockStoppedEarly,
    /// The loop that should be measured is gone.
    LoopRemoved,
    /// The payload goes the other way than the name says.
    DirectionSwapped,
    /// Jobs that failed count as done.
    FailuresCounted,
    /// Both sides of a split work on the same part.
    SamePartTwice,
    /// Bits are told as bytes.
    BitsForBytes,
    /// Software runs under a device's name.
    SoftwareFallback,
}

/// What came of planting a mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planted {
    /// Which.
    pub mistake: Mistake,
    /// What it does, in words.
    pub about: String,
    /// The test that it was planted in: operation, device, placement.
    pub test: String,
    /// The test gives figures without the mistake.
    pub works_without: bool,
    /// With it, it gives none.
    pub caught: bool,
    /// What the harness said.
    pub said: String,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ClockStoppedEarly,
        Self::LoopRemoved,
        Self::DirectionSwapped,
        Self::FailuresCounted,
        Self::SamePartTwice,
        Self::BitsForBytes,
        Self::SoftwareFallback,
    ];

    /// What it does, in words.
    pub fn about(self) -> &'static str {
        match self {
            Self::ClockStoppedEarly => "jobs count as done before their results are there",
            Self::LoopRemoved => "the work is done once and its result given for all jobs",
            Self::DirectionSwapped => "bytes go from the destination to the source",
            Self::FailuresCounted => "one job of all fails and is told as done",
            Self::SamePartTwice => "both sides of a split work on the same part of the data",
            Self::BitsForBytes => "bits a second are told as bytes a second",
            Self::SoftwareFallback => "the CPU does the work under a device's name",
        }
    }

    /// The test that it is planted in, and what the device does wrong.
    fn plan(self, data: &Data) -> (Test, Fault, Times) {
        let (operation, device, placement, fault, times) = match self {
            Self::ClockStoppedEarly => {
                let fault = Fault::EarlyCompletion;
                ("compress-deflate", "cpu", None, fault, Times::Always)
            }
            Self::LoopRemoved => ("match-count", "cpu", None, Fault::Hoisted, Times::Always),
            Self::DirectionSwapped => {
                let fault = Fault::SwappedDirection;
                ("copy", "cpu", None, fault, Times::Always)
            }
            Self::FailuresCounted => {
                let fault = Fault::FailureAsDone;
                ("decompress-deflate", "cpu", None, fault, Times::Once)
            }
            Self::SamePartTwice => {
                let (half, fault) = (Some(Policy::Split(50.0)), Fault::FirstSource);
                (
                    "compress-deflate",
                    "emulated:bf2",
                    half,
                    fault,
                    Times::Always,
                )
            }
            Self::BitsForBytes => ("copy", "cpu", None, Fault::None, Times::Always),
            Self::SoftwareFallback => {
                let (device, fault) = ("emulated:bf2", Fault::Software);
                ("compress-deflate", device, None, fault, Times::Always)
            }
        };
        let operation: Operation = operation.parse().expect("an operation's name");
        let test = Test {
            device: device.into(),
            timing: None,
            operation,
            variant: "auto".into(),
            level: None,
            patterns: match operation {
                Operation::Match(_) => vec!["7 of".into()],
                _ => Vec::new(),
            },
            buffer_size: BUFFER_BYTES as u64,
            depth: 4,
            batch: 1,
            threads: 1,
            cores: None,
            placement,
            cpu_variant: "auto".into(),
            setting: Setting::Static,
            completion: Reaping::Event,
            data: data.clone(),
            warmup_s: 0.0,
            sample_s: 0.02,
            timeout_s: 20.0,
            seed: 1,
        };
        (test, fault, times)
    }

    /// Plants it and looks what comes of it.
    fn plant(self, data: &Data) -> Planted {
        let (test, fault, times) = self.plan(data);
        let honest = Worker::new().measure(&test);
        let sample = if self == Self::BitsForBytes {
            tampered(honest.clone()).settled()
        } else {
            faulty_device_or_cpu(&test, fault, times).measure(&test)
        };
        let placement = (test.placement).map_or_else(String::new, |policy| format!(", {policy}"));
        let works_without = honest.status == Status::Ok;
        let said = |sample: &Sample| {
            let error = sample.error.as_ref().map(|error| error.message.clone());
            error.or_else(|| sample.reason.clone()).unwrap_or_default()
        };
        Planted {
            mistake: self,
            about: self.about().into(),
            test: format!("{} on {}{placement}", test.operation, test.device),
            works_without,
            caught: sample.status == Status::Failed && sample.metrics.is_empty(),
            said: said(if works_without { &sample } else { &honest }),
        }
    }
}

fn faulty_device_or_cpu(test: &Test, fault: Fault, times: Times) -> Worker {
    // A software fallback is there from the beginning.
    let right = if fault == Fault::Software { 0 } else { RIGHT };
    if test.device == "cpu" {
        worker(fault, right, times)
    } else {
        faulty_device(fault, right, times)
    }
}

/// Eight times as fast.
fn tampered(mut sample: Sample) -> Sample {
    if let Some(throughput) = sample.metrics.get_mut("throughput") {
        *throughput *= 8.0;
    }
    sample
}

/// Plants every mistake in turn. Takes about a second. `scratch` is a directory in which a file of
/// 256 KiB is made.
///
/// # Errors
/// What the file system says of `scratch`.
pub fn audit(scratch: &Path) -> std::io::Result<Vec<Planted>> {
    let path: PathBuf = scratch.join("audit.txt");
    std::fs::write(&path, text())?;
    let data = Data {
        name: "audit".into(),
        files: vec![path],
        sample_bytes: (BUFFERS * BUFFER_BYTES) as u64,
    };
    Ok(Mistake::ALL.map(|mistake| mistake.plant(&data)).into())
}

/// Lines that differ from buffer to buffer, in how often a word occurs, too.
fn text() -> Vec<u8> {
    let mut text = Vec::new();
    let mut state = 1_u64;
    while text.len() < BUFFERS * BUFFER_BYTES {
        let buffer = (text.len() / BUFFER_BYTES) as u64;
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (number, of) = (state >> 33, 8 + buffer);
        let line = format!(
            "{} of {of}: {number:x} said three times is true\n",
            number % of
        );
        text.extend(line.as_bytes());
    }
    text.truncate(BUFFERS * BUFFER_BYTES);
    text
}
