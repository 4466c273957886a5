//! Profiles made for tests, and a loop that runs jobs.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part")]

use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_device::{ContextConfig, Device, ExternalBytes, Job, Operation, OperationConfig};
use overside_model::Profile;
pub(crate) use overside_testkit::data::text;
pub(crate) use overside_testkit::{Timed, run};

pub(crate) const MODES: [Mode; 3] = [Mode::Functional, Mode::Paced, Mode::Replay];

/// A card that compresses DEFLATE, decompresses it and copies, all at one rate.
pub(crate) fn card(rate_mb_per_s: f64, reconfiguration_ms: f64) -> Profile {
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

pub(crate) fn operation(name: &str) -> Operation {
    name.parse().unwrap()
}

pub(crate) fn config(name: &str, depth: usize, longest: usize) -> ContextConfig {
    ContextConfig {
        operation: OperationConfig::new(operation(name)),
        depth,
        max_source_bytes: longest as u64,
        max_destination_bytes: longest as u64,
    }
}

pub(crate) fn job(device: &EmulatedDevice, tag: u64, source: Vec<u8>, capacity: usize) -> Job {
    Job {
        tag,
        source: device.register(ExternalBytes::new(source)).unwrap().into(),
        destination: device.alloc(capacity, 64).unwrap(),
        deadline: None,
    }
}
