//! Helpers for the tests of the worker: data, tests to vary, and ways to run them.

use std::path::PathBuf;

use overside_measure::{CompletionMode, Data, Input, Sample, Setting, Sizes, Status, Test, Worker};
use serde_json::Value;
use tempfile::TempDir;

/// Log lines: compressible, with records that match and others that do not.
pub(super) fn text(bytes: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes + 100);
    let mut number = 0_u64;
    while all.len() < bytes {
        number += 1;
        let word = ["north", "south", "east"][(number % 3) as usize];
        let noise = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        all.extend_from_slice(
            format!("{number} Ramp to I-{} {word} {noise:x}\n", number % 97).as_bytes(),
        );
    }
    all.truncate(bytes);
    all
}

/// A data set of one file in a directory that goes when this goes.
pub(super) struct DataSet {
    dir: TempDir,
    pub file: PathBuf,
}

impl DataSet {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("data");
        std::fs::write(&file, bytes).unwrap();
        Self { dir, file }
    }

    /// A short test of `operation` on it.
    pub(super) fn test(&self, operation: &str) -> Test {
        assert!(self.dir.path().exists());
        Test {
            device: "cpu".into(),
            timing: None,
            operation: operation.parse().unwrap(),
            variant: "auto".into(),
            level: None,
            patterns: Vec::new(),
            buffer_size: 4096,
            depth: 8,
            batch: 4,
            threads: 1,
            cores: None,
            placement: None,
            cpu_variant: "auto".into(),
            output_size: None,
            sizes: Sizes::default(),
            input: Input::default(),
            setting: Setting::Static,
            completion: CompletionMode::Event,
            data: Data { name: "made".into(), files: vec![self.file.clone()], sample_bytes: 65536 },
            warmup_s: 0.001,
            sample_s: 0.005,
            timeout_s: 20.0,
            seed: 1,
        }
    }
}

/// A sample of a test as the runner hands it over.
pub(super) fn sample_of(test: &Value) -> Sample {
    let answer = Worker::new().measure_json(&test.to_string()).unwrap();
    serde_json::from_str(&answer).unwrap()
}

/// The first sample of a test of which this is so: a busy machine may keep a thread from its turn for
/// most of a short one.
pub(super) fn sample_where(test: &Value, is_so: impl Fn(&Sample) -> bool) -> Sample {
    let mut samples = (0..20).map(|_| sample_of(test));
    let found = samples.find(|sample| sample.status != Status::Ok || is_so(sample));
    found.unwrap_or_else(|| panic!("none is so: {test}"))
}

/// Returns the message with which a worker refuses an invalid test.
pub(super) fn refusal_of(test: &Value) -> String {
    let answer = Worker::new().measure_json(&test.to_string());
    answer.expect_err("it is no test").to_string()
}

/// Returns the test, or changes to one, with `changes` on top.
pub(super) fn with(mut test: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        test[name] = value.clone();
    }
    test
}

/// Measures and expects figures.
pub(super) fn measured(worker: &mut Worker, test: &Test) -> Sample {
    let sample = worker.measure(test);
    assert_eq!(sample.status, Status::Ok, "{test:?}: {:?} {:?}", sample.error, sample.reason);
    sample
}
