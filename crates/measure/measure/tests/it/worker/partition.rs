//! Tests of kind `partition`: their requests to the command, and the samples of its answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::worker::inputs::{refusal_of as refused, sample_of as sample, with};
use overside_device::{Provenance, Timing};
use overside_measure::{FailureKind, Status};
use serde_json::{Value, json};

/// Makes a test with a program of this text.
fn test(script: &str, changes: Value) -> (tempfile::TempDir, Value) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("overside");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let test = json!({
        "kind": "partition", "program": program, "data": {"name": "made", "files": ["/a table"]},
        "algorithm": "filters", "method": "bits", "partitions": 8, "key": "--a b",
        "compression": "outer-lz4", "device": "emulated:bf2", "threads": 3, "passes": 2,
        "warmup_s": 0.0, "sample_s": 0.1, "timeout_s": 30.0, "seed": 7,
    });
    (directory, with(test, &changes))
}

/// Returns the command's output for two passes.
fn printed() -> Value {
    let pass = |unpack_ns: u64| {
        json!({
            "elapsed_ns": unpack_ns + 30, "cpu": {"host_ns": 50, "dpu_ns": 0, "emulator_ns": 5},
            "device": {"jobs": 7, "cpu_jobs": 0, "failed": 0, "late": 1},
            "check": {"method": "again", "value": "00ff", "parts": 9},
            "unpack": {"wall_ns": unpack_ns, "cpu_ns": 1, "bytes_out": 1000},
            "partition": {"wall_ns": 10}, "repack": {"wall_ns": 20},
        })
    };
    json!({
        "schema": "flow-bench/1", "version": "9", "algorithm": "filters", "partitioned": true,
        "imbalance": 1.5, "threads": 3, "table_bytes": 1000, "packed_bytes": 400,
        "parts": [{"rows": 1, "bytes": 100}, {"rows": 2, "bytes": 150}],
        "device": {"name": "emulated:bf2", "driver": "d", "provenance": "emulated",
                   "timing": "replay", "applied": null},
        "passes": [pass(70), pass(170)],
    })
}

#[test]
fn the_command_is_asked_for_what_the_test_says_and_answers_with_its_figures() {
    let script = format!("printf '%s\\n' \"$@\" > \"$0.words\"; echo '{}'", printed());
    let (directory, test) = test(&script, json!({}));
    let sample = sample(&test);
    assert_eq!(sample.status, Status::Ok, "{:?}", sample.error);
    let words = fs::read_to_string(directory.path().join("overside.words")).unwrap();
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(
        words,
        [
            "flow",
            "bench",
            "--json",
            "--passes=2",
            "--threads=3",
            "--algorithm=filters",
            "--key=--a b",
            "--bits=3",
            "--outer=lz4",
            "--device=emulated:bf2",
            "--placement=device",
            "--",
            "/a table",
        ]
    );
    assert_eq!(sample.provenance, Some(Provenance::Emulated));
    assert_eq!(sample.timing, Some(Timing::Replay));
    assert_eq!((sample.late, sample.late_of), (Some(2), Some(14)));
    assert_eq!(sample.elapsed_ns, Some(300));
    let work = sample.work.unwrap();
    assert_eq!((work.jobs, work.bytes), (2, 2000));
    let metric = |name: &str| sample.metrics[name];
    assert!((metric("throughput") - 1000.0 * 1e3 / 150.0).abs() < 1e-6);
    assert!((metric("unpack_time") - 120e-6).abs() < 1e-12);
    assert!((metric("ratio") - 0.25).abs() < 1e-12 && metric("imbalance") == 1.5);
    assert!((metric("cpu_cost") - 0.05).abs() < 1e-12);
    assert_eq!(sample.check.unwrap().buffers, 18);
}

#[test]
fn what_the_command_ends_with_is_the_samples_status_with_its_words() {
    for (script, status, kind, words) in [
        ("echo 'overside flow bench: none' >&2; exit 3", Status::Skipped, None, "none"),
        ("echo wrong >&2; exit 101", Status::Failed, Some(FailureKind::Verification), "wrong"),
        ("exit 100", Status::Failed, Some(FailureKind::Job), "it says nothing"),
        ("echo figures", Status::Failed, Some(FailureKind::Internal), "what it prints"),
    ] {
        let (_directory, test) = test(script, json!({}));
        let sample = sample(&test);
        assert_eq!(sample.status, status, "{script}");
        let error = sample.error.as_ref();
        assert_eq!(error.map(|error| error.kind), kind, "{script}");
        let told = error.map(|error| error.message.clone());
        let told = told.or(sample.reason).unwrap();
        assert!(told.contains(words), "{script}: {told}");
    }
    let (_directory, slow) = test("exec sleep 60", json!({"timeout_s": 0.1}));
    let error = sample(&slow).error.unwrap();
    assert_eq!(error.kind, FailureKind::Timeout);
}

#[test]
fn bounds_are_refused_by_name() {
    for (changes, words) in [
        (json!({"threads": 0}), "threads is 0"),
        (json!({"passes": 1001}), "passes is 1001"),
        (json!({"partitions": 1}), "partitions is 1"),
        (json!({"partitions": 6}), "a power of two"),
        (json!({"algorithm": "--help"}), "one-pass, filters, none"),
        (json!({"method": "ranges"}), "bits, hash"),
        (json!({"compression": "brotli"}), "outer-deflate"),
    ] {
        let message = refused(&test("exit 0", changes).1);
        assert!(message.contains(words), "{message}");
    }
}
