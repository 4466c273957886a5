//! Mistakes planted in tests of jobs: between the worker and a device that otherwise works.

use std::path::Path;

use overside_base::Random;
use overside_device::Operation;
use overside_placement::Policy;
use serde_json::json;

use super::faulty::{Fault, Times, faulty_device, software_worker, worker};
use super::{Mistake, Planted};
use crate::{Data, Sample, Test, Worker};

/// Buffers of a test, each unlike the others.
const BUFFERS: usize = 16;
const BUFFER_BYTES: usize = 16 << 10;
/// Jobs that go right before anything goes wrong: those that are verified before the clock starts.
const RIGHT: usize = BUFFERS + 4;
/// A sample with fewer jobs may have ended before anything went wrong.
const FEW: u64 = 4 * RIGHT as u64;
/// Number of times that such a sample is taken again, each time ten times as long.
const AGAIN: usize = 2;

/// Mistakes to plant, each with the operation and the device of its test, the fault that the device
/// injects into jobs (`None`: no fault in jobs), and the number of jobs affected.
const PLANTED: [(Mistake, &str, &str, Option<Fault>, Times); 7] = [
    (
        Mistake::ClockStoppedEarly,
        "compress-deflate",
        "cpu",
        Some(Fault::EarlyCompletion),
        Times::Always,
    ),
    (Mistake::LoopRemoved, "match-count", "cpu", Some(Fault::Hoisted), Times::Always),
    (Mistake::DirectionSwapped, "copy", "cpu", Some(Fault::SwappedDirection), Times::Always),
    (
        Mistake::FailuresCounted,
        "decompress-deflate",
        "cpu",
        Some(Fault::FailureAsDone),
        Times::Once,
    ),
    (
        Mistake::SamePartTwice,
        "compress-deflate",
        "emulated:bf2",
        Some(Fault::FirstSource),
        Times::Always,
    ),
    (Mistake::BitsForBytes, "copy", "cpu", None, Times::Always),
    (Mistake::SoftwareFallback, "compress-deflate", "emulated:bf2", None, Times::Always),
];

/// Plants each in turn. `scratch` is where the data are written.
pub(super) fn plant(scratch: &Path) -> std::io::Result<Vec<Planted>> {
    let path = scratch.join("audit.txt");
    std::fs::write(&path, text())?;
    let data = Data {
        name: "audit".into(),
        files: vec![path],
        sample_bytes: (BUFFERS * BUFFER_BYTES) as u64,
    };
    let planted = PLANTED.map(|(mistake, operation, device, fault, times)| {
        let mut test = test(operation, device, &data);
        if mistake == Mistake::SamePartTwice {
            test.placement = Policy::split(50.0).ok();
        }
        let honest = Worker::new().measure(&test);
        let sample = if mistake == Mistake::BitsForBytes {
            tampered(honest.clone()).settled()
        } else {
            plant_in(&mut test, fault, times)
        };
        let placement = (test.placement).map_or_else(String::new, |policy| format!(", {policy}"));
        let what = format!("{operation} on {device}{placement}");
        Planted::of(mistake, what, &honest, &sample)
    });
    Ok(planted.into())
}

fn test(operation: &str, device: &str, data: &Data) -> Test {
    let operation: Operation = operation.parse().expect("an operation's name");
    let patterns: &[&str] = match operation.family().has_patterns {
        true => &["7 of"],
        false => &[],
    };
    let test = json!({
        "device": device, "operation": operation, "patterns": patterns, "buffer_size": BUFFER_BYTES,
        "depth": 4, "completion": "event", "data": {"name": "", "files": [], "sample_bytes": 0},
        "warmup_s": 0.0, "sample_s": 0.02, "timeout_s": 20.0, "seed": 1,
    });
    let mut test: Test = serde_json::from_value(test).expect("a test");
    // Paths need not be text.
    test.data = data.clone();
    test
}

/// Takes the sample with the mistake; where the machine was too busy to get as far as that, again.
fn plant_in(test: &mut Test, fault: Option<Fault>, times: Times) -> Sample {
    let mut sample = faulty_worker(test, fault, times).measure(test);
    for _ in 0..AGAIN {
        if sample.work.is_none_or(|work| work.jobs >= FEW) {
            break;
        }
        test.sample_s *= 10.0;
        sample = faulty_worker(test, fault, times).measure(test);
    }
    sample
}

fn faulty_worker(test: &Test, fault: Option<Fault>, times: Times) -> Worker {
    match fault {
        None => software_worker(),
        Some(fault) if test.device == "cpu" => worker(fault, RIGHT, times),
        Some(fault) => faulty_device(fault, RIGHT, times),
    }
}

/// Eight times as fast.
fn tampered(mut sample: Sample) -> Sample {
    if let Some(throughput) = sample.metrics.get_mut("throughput") {
        *throughput *= 8.0;
    }
    sample
}

/// Lines that differ from buffer to buffer, in how often a word occurs, too.
fn text() -> Vec<u8> {
    let mut text = Vec::new();
    let mut random = Random::new(1);
    while text.len() < BUFFERS * BUFFER_BYTES {
        let buffer = (text.len() / BUFFER_BYTES) as u64;
        let (number, of) = (random.next_u64() >> 33, 8 + buffer);
        let line = format!("{} of {of}: {number:x} said three times is true\n", number % of);
        text.extend(line.as_bytes());
    }
    text.truncate(BUFFERS * BUFFER_BYTES);
    text
}
