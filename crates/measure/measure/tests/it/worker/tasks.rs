//! Tests of other kinds than jobs on a device, as the runner hands them over.

use crate::worker::inputs::{DataSet, refusal_of as refused, sample_of as sample, text, with};
use overside_device::{Provenance, Timing};
use overside_measure::{FailureKind, Sample, Status};
use serde_json::{Value, json};

/// A test of memory, with `changes` made to it.
fn memory(changes: Value) -> Value {
    let test = json!({
        "kind": "memory", "pattern": "chase", "buffer_size": 65536,
        "warmup_s": 0.0, "sample_s": 0.002, "timeout_s": 30.0, "seed": 7,
    });
    with(test, &changes)
}

#[test]
fn jobs_are_a_kind_too() {
    let data = DataSet::new(&text(1 << 16));
    let mut test = serde_json::to_value(data.test("copy")).unwrap();
    assert_eq!(sample(&test).status, Status::Ok);
    test["kind"] = "jobs".into();
    assert_eq!(sample(&test).status, Status::Ok);
    test["depth"] = 0.into();
    assert!(refused(&test).contains("depth is 0"));
}

#[test]
fn a_kind_that_there_is_not_is_refused() {
    for kind in [json!("teleport"), json!(7)] {
        let message = refused(&json!({"kind": kind}));
        assert!(message.contains("kind is"), "{message}");
        assert!(message.contains("jobs, hash, memory, dma, network"), "{message}");
    }
    assert!(refused(&memory(json!({"depth": 3}))).contains("unknown field `depth`"));
    assert!(refused(&json!([1])).contains("this is not a test"));
}

#[test]
fn every_pattern_of_memory_is_measured_and_verified() {
    let stream = |kernel: &str| json!({"pattern": "stream", "kernel": kernel});
    let access = |access: &str, order: &str| json!({"pattern": "access", "access": access, "order": order, "buffer_size": 1 << 14});
    let patterns = [
        (json!({}), "chase"),
        (stream("copy"), "copy"),
        (stream("scale"), "scale"),
        (stream("add"), "add"),
        (stream("triad"), "triad"),
        (access("read", "sequential"), "read-sequential"),
        (access("read", "random"), "read-random"),
        (access("write", "sequential"), "write-sequential"),
        (access("write", "random"), "write-random"),
    ];
    for (changes, name) in patterns {
        for threads in [1, 2] {
            let mut test = memory(changes.clone());
            test["threads"] = threads.into();
            let sample = sample(&test);
            assert_eq!(sample.status, Status::Ok, "{name}: {:?}", sample.error);
            assert_eq!(sample.applied.as_ref().unwrap().variant, name);
            assert_eq!(sample.provenance, Some(Provenance::Measured));
            assert_eq!(sample.timing, Some(Timing::Real));
            assert!(sample.check.as_ref().unwrap().buffers > 0);
            figures_agree(&sample, threads);
        }
    }
}

/// Asserts that the figures agree with each other.
fn figures_agree(sample: &Sample, threads: u64) {
    let work = sample.work.unwrap();
    let ns = sample.elapsed_ns.unwrap() as f64;
    assert!(ns >= 2e6 && work.jobs > 0);
    let close = |name: &str, expected: f64| {
        if let Some(told) = sample.metrics.get(name) {
            assert!((told / expected - 1.0).abs() < 1e-9, "{name}: {told}, {expected}");
        }
    };
    let access_ns = ns * threads as f64 / work.jobs as f64;
    close("read_latency", access_ns);
    close("access_time", access_ns);
    close("access_rate", work.jobs as f64 / ns * 1e3);
    close("bandwidth", work.bytes as f64 / ns * 1e3);
    if let (Some(mean), Some(best)) =
        (sample.metrics.get("bandwidth"), sample.metrics.get("best_bandwidth"))
    {
        assert!(*best >= mean * (1.0 - 1e-9), "{best} {mean}");
    }
    // Neither a loop that was left out nor one that did something else: a core reads in 0.02 ns to
    // 100 µs.
    assert!(access_ns >= 0.02, "{access_ns}");
    let spent_ns = sample.cpu.unwrap().host_s * 1e9 / work.jobs as f64;
    assert!((0.0..1e5).contains(&spent_ns) && spent_ns > 0.0, "{spent_ns}");
}

#[test]
fn the_same_seed_checks_the_same() {
    let test = memory(json!({"pattern": "chase"}));
    let check = |test: &Value| sample(test).check.unwrap().value;
    assert_eq!(check(&test), check(&test));
    assert_ne!(check(&test), check(&memory(json!({"seed": 8}))));
}

#[test]
fn counted_events_or_the_reason() {
    let sample = sample(&memory(json!({"events": true})));
    assert_eq!(sample.status, Status::Ok);
    let warned = sample.warnings.iter().find(|warning| warning.kind == "events");
    for event in ["cycles", "instructions", "l1d_misses", "l2_misses", "llc_misses", "dtlb_misses"]
    {
        let named = warned.is_some_and(|warning| warning.message.contains(event));
        assert!(sample.metrics.contains_key(event) != named, "{event}");
    }
    let both = ["cycles", "instructions"].map(|event| sample.metrics.contains_key(event));
    let per_cycle = sample.metrics.contains_key("instructions_per_cycle");
    assert_eq!(per_cycle, both == [true; 2]);
    assert!(warned.is_none_or(|warning| warning.remedy.contains("perf_event_paranoid")));
}

#[test]
fn huge_pages_are_there_or_the_test_is_skipped() {
    let sample = sample(&memory(json!({"pages": "huge", "buffer_size": 1 << 21})));
    match sample.status {
        Status::Ok => assert!(sample.applied.unwrap().library.contains("huge pages of")),
        _ => assert!(sample.reason.unwrap().contains("vm.nr_hugepages")),
    }
}

#[test]
fn bounds_of_memory_are_refused_by_name() {
    let random = json!({"pattern": "access", "order": "random", "buffer_size": 24000});
    for (changes, words) in [
        (json!({"buffer_size": 100}), "buffer_size is 100"),
        (json!({"buffer_size": 2_u64 << 30}), "buffer_size is"),
        (json!({"buffer_size": u64::MAX}), "buffer_size is"),
        (random, "a power of two"),
        (json!({"threads": 0}), "threads is 0"),
        (json!({"threads": 5000}), "threads is 5000"),
        (json!({"cores": []}), "the number of cores is 0"),
        (json!({"cores": [4096]}), "the highest core is 4096"),
        (json!({"sample_s": -1.0}), "sample_s is -1"),
        (json!({"kernel": "add"}), "kernel is given"),
        (json!({"order": "random"}), "order is given"),
    ] {
        let message = refused(&memory(changes));
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn what_the_machine_has_not_is_skipped_and_what_takes_too_long_fails() {
    let core = sample(&memory(json!({"cores": [1023]})));
    assert_eq!(core.status, Status::Skipped, "{:?}", core.error);
    assert!(core.reason.unwrap().contains("core 1023 cannot be used"));
    let much = sample(&memory(json!({"buffer_size": 1 << 30, "threads": 1024})));
    assert_eq!(much.status, Status::Skipped);
    assert!(much.reason.unwrap().contains("more than half"));
    let late = sample(&memory(json!({"sample_s": 60.0, "timeout_s": 0.05})));
    assert_eq!(late.status, Status::Failed);
    assert_eq!(late.error.unwrap().kind, FailureKind::Timeout);
}

/// A test of hash calls.
fn hash(operation: &str, calls: &str, buffer_size: u64) -> Value {
    json!({
        "kind": "hash", "operation": operation, "variant": "auto", "calls": calls,
        "buffer_size": buffer_size, "warmup_s": 0.0, "sample_s": 0.002, "timeout_s": 30.0,
    })
}

#[test]
fn every_hash_is_measured_as_calls_and_verified() {
    for algorithm in overside_ops::HashAlgorithm::ALL {
        let operation = format!("hash-{}", algorithm.name());
        for (calls, metric, unit) in
            [("chain", "call_latency", 1.0), ("row", "call_bandwidth", 1e3)]
        {
            for size in [16, 5000] {
                let sample = sample(&hash(&operation, calls, size));
                assert_eq!(sample.status, Status::Ok, "{operation}: {:?}", sample.error);
                let (work, ns) = (sample.work.unwrap(), sample.elapsed_ns.unwrap() as f64);
                assert_eq!(work.bytes, work.jobs * size);
                let expected = match calls {
                    "chain" => ns / work.jobs as f64,
                    _ => work.bytes as f64 * unit / ns,
                };
                let told = sample.metrics[metric];
                assert!((told / expected - 1.0).abs() < 1e-9, "{told} {expected}");
                // A call that the compiler left out takes no time at all.
                assert!(ns / work.jobs as f64 > 0.5, "{operation} {calls} {size}");
                // Never under the name of what is measured through a device.
                assert!(!sample.metrics.contains_key("throughput"));
                assert!(!sample.metrics.contains_key("latency_mean"));
            }
        }
    }
}

#[test]
fn bounds_of_hash_calls_are_refused_by_name() {
    assert!(refused(&hash("copy", "row", 16)).contains("operation is copy"));
    assert!(refused(&hash("hash-md5", "row", 0)).contains("buffer_size is 0"));
    assert!(refused(&hash("hash-md5", "column", 16)).contains("unknown variant `column`"));
    let mut test = hash("hash-md5", "row", 16);
    test["variant"] = "teleport".into();
    assert!(sample(&test).reason.unwrap().contains("teleport"));
}
