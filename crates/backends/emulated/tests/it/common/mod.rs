//! Profiles made for tests, and a loop that runs jobs.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_device::{
    Completion, Context, ContextConfig, Device, Foreign, Job, Operation, OperationConfig,
};
use overside_model::Profile;

pub const MODES: [Mode; 3] = [Mode::Functional, Mode::Paced, Mode::Replay];

/// A card that compresses DEFLATE, decompresses it and copies, all at one rate.
pub fn card(rate_mb_per_s: f64, reconfiguration_ms: f64) -> Profile {
    let text = format!(
        r#"
schema = "profile/1"
name = "made-up"
card = "made up"
host_link = "none"
mode = "none"
[sources]
a = "made up for tests"
[facts]
"a.a" = "made up"
[device]
facts = ["a.a"]
[reconfiguration]
value = {reconfiguration_ms:?}
unit = "ms"
facts = ["a.a"]
[[operations]]
does = ["copy", "compress-deflate", "decompress-deflate", "match-count"]
basis = "uncompressed"
[operations.max_source]
value = 16
unit = "MiB"
facts = ["a.a"]
[operations.rate]
value = {rate_mb_per_s:?}
unit = "MB/s"
facts = ["a.a"]
"#
    );
    Profile::parse("made-up", &text).unwrap()
}

pub fn operation(name: &str) -> Operation {
    name.parse().unwrap()
}

pub fn config(name: &str, depth: usize, longest: usize) -> ContextConfig {
    ContextConfig {
        operation: OperationConfig::new(operation(name)),
        depth,
        max_source_bytes: longest as u64,
        max_destination_bytes: longest as u64,
    }
}

/// Text that compresses, different for each seed.
pub fn text(seed: usize, len: usize) -> Vec<u8> {
    let words =
        (0..).map(|n: usize| format!("{} of {seed}; ", (n + seed).wrapping_mul(7919) % 997));
    words.flat_map(String::into_bytes).take(len).collect()
}

pub fn job(device: &EmulatedDevice, tag: u64, source: Vec<u8>, capacity: usize) -> Job {
    Job {
        tag,
        source: device.register(Foreign::new(source)).unwrap().into(),
        destination: device.alloc(capacity, 64).unwrap(),
        deadline: None,
    }
}

/// A completion and when it was seen.
pub struct Seen {
    pub completion: Completion,
    pub at: Instant,
}

/// Runs jobs to the end; when it began, and the completions in the order they came.
pub fn run(context: &mut dyn Context, jobs: Vec<Job>) -> (Instant, Vec<Seen>) {
    let (mut jobs, begin) = (VecDeque::from(jobs), Instant::now());
    let (mut seen, mut batch) = (Vec::new(), Vec::new());
    while !jobs.is_empty() || context.in_flight() > 0 {
        context.submit(&mut jobs).unwrap();
        context.poll(&mut batch, usize::MAX).unwrap();
        let at = Instant::now();
        seen.extend(batch.drain(..).map(|completion| Seen { completion, at }));
        if context.in_flight() > 0 {
            overside_device::wait(context, Duration::from_secs(1)).unwrap();
        }
    }
    (begin, seen)
}
