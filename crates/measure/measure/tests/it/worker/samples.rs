//! Tests of a sample's contents, on this machine's cores.

use crate::worker::inputs::{DataSet, measured, text};
use overside_base::Random;
use overside_device::{Provenance, Timing};
use overside_measure::{
    CompletionMode, FailureKind, Sample, Setting, Status, Test, TestError, Worker, merge_histograms,
};
use overside_ops::Operation;

/// Function that puts something into a test that it should not have.
type Change = fn(&mut Test);

fn warned(sample: &Sample, kind: &str) -> bool {
    sample.warnings.iter().any(|warning| warning.kind == kind)
}

#[test]
fn every_operation_by_every_library_is_measured_and_verified() {
    let data = DataSet::new(&text(1 << 17));
    let mut worker = Worker::new();
    let mut tried = 0;
    for operation in Operation::all() {
        for variant in overside_ops::variants(operation) {
            let mut test = data.test(&operation.to_string());
            test.variant = variant.name.into();
            if matches!(operation, Operation::Match(_)) {
                test.patterns = vec!["Ramp to I-5 ".into(), "(.+) south".into()];
            }
            let sample = measured(&mut worker, &test);
            let applied = sample.applied.as_ref().unwrap();
            assert_eq!((applied.device.as_str(), applied.variant.as_str()), ("cpu", variant.name));
            assert_eq!(sample.provenance, Some(Provenance::Measured));
            assert_eq!(sample.timing, Some(Timing::Real));
            assert_eq!(sample.check.as_ref().unwrap().buffers, 16);
            assert_eq!((&sample.late, &sample.model), (&None, &None));
            figures_agree(&test, &sample);
            tried += 1;
        }
    }
    assert!(tried >= 30, "{tried}");
}

/// Asserts that the figures agree with each other.
fn figures_agree(test: &Test, sample: &Sample) {
    let metric = |name: &str| sample.metrics[name];
    let close = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs().max(other.abs());
    let work = sample.work.unwrap();
    let seconds = sample.elapsed_ns.unwrap() as f64 / 1e9;
    assert!(work.jobs > 0 && work.doorbells > 0 && work.doorbells <= work.jobs);
    assert_eq!(work.bytes, work.jobs * test.buffer_size);
    assert!(close(metric("throughput"), work.bytes as f64 / 1e6 / seconds));
    assert!(close(metric("rate"), work.jobs as f64 / seconds));
    assert!(seconds >= test.sample_s || work.jobs == 1);
    let order =
        ["min", "p50", "p90", "p99", "p999", "max"].map(|name| metric(&format!("latency_{name}")));
    assert!(order.is_sorted(), "{order:?}");
    assert!(metric("latency_max") <= seconds * 1e6);
    let compresses = matches!(test.operation, Operation::Compress(_) | Operation::Decompress(_));
    assert_eq!(work.compressed_bytes.is_some(), compresses);
    assert_eq!(sample.metrics.contains_key("ratio"), compresses);
    if compresses {
        assert!(metric("ratio") > 0.0 && metric("ratio") < 1.0, "{}", metric("ratio"));
        assert!(close(metric("compressed_throughput"), metric("throughput") * metric("ratio")));
    }
    let cpu = sample.cpu.unwrap();
    assert_eq!((cpu.dpu_s, cpu.emulator_s), (0.0, 0.0));
    assert!(close(metric("cpu_seconds"), cpu.host_s));
    let merged = merge_histograms(&[sample.histogram.as_ref().unwrap()]).unwrap();
    assert_eq!(merged.count, work.jobs);
}

#[test]
fn compressing_and_decompressing_the_same_data_give_the_same_check_value() {
    let data = DataSet::new(&text(1 << 17));
    let mut worker = Worker::new();
    let mut value =
        |operation: &str| measured(&mut worker, &data.test(operation)).check.unwrap().value;
    let one = value("compress-deflate");
    assert_eq!(one, value("decompress-lz4"));
    assert_eq!(one, value("copy"));
    let other = DataSet::new(&text(1 << 16));
    let sample = measured(&mut worker, &other.test("copy"));
    assert_ne!(one, sample.check.unwrap().value);
}

#[test]
fn depth_batch_threads_and_reaping_can_be_anything() {
    let data = DataSet::new(&text(1 << 16));
    let mut worker = Worker::new();
    for (depth, batch) in [(1, 1), (1, 4096), (2, 1), (16, 16), (64, 3), (500, 500)] {
        for completion in [CompletionMode::Event, CompletionMode::Poll] {
            for threads in [1, 2] {
                let test = Test { depth, batch, completion, threads, ..data.test("hash-xxh3") };
                let sample = measured(&mut worker, &test);
                let work = sample.work.unwrap();
                let least = work.jobs.div_ceil(batch.min(depth.div_ceil(2)) as u64);
                assert!(work.doorbells >= least, "{work:?} in {test:?}");
            }
        }
    }
}

#[test]
fn incompressible_data_counts_as_stored() {
    let noise = Random::new(1).bytes(1 << 16);
    let data = DataSet::new(&noise);
    let sample = measured(&mut Worker::new(), &data.test("compress-lz4-block"));
    assert!(warned(&sample, "incompressible"), "{:?}", sample.warnings);
    assert_eq!(sample.metrics["ratio"], 1.0);
    let work = sample.work.unwrap();
    assert_eq!(work.compressed_bytes, Some(work.bytes));
}

#[test]
fn matches_are_compared_with_what_shares_nothing_with_the_engine() {
    let data = DataSet::new(&text(1 << 17));
    let mut worker = Worker::new();
    for kind in ["match-search", "match-count", "match-bitmap"] {
        let mut values = Vec::new();
        for variant in overside_ops::variants(kind.parse().unwrap()) {
            let test = Test {
                variant: variant.name.into(),
                patterns: vec!["(?x) Ramp # to".into(), r"^\d+7\b.*(?i)SOUTH".into()],
                ..data.test(kind)
            };
            let check = measured(&mut worker, &test).check.unwrap();
            let method = &check.method;
            assert!(method.contains("record by record"), "{method}");
            let seconded = method.contains("and with that of");
            assert_eq!(seconded, variant.name == "regex", "{method}");
            values.push(check.value);
        }
        assert!(values.iter().all(|value| *value == values[0]));
    }
}

#[test]
fn an_engine_that_did_not_run_is_not_named() {
    let data = DataSet::new(&text(1 << 17));
    let mut worker = Worker::new();
    for device in ["cpu", "emulated:bf2"] {
        for (pattern, library) in [
            (".*", "no engine needed: every record matches"),
            (r"a\nb", "no engine needed: no record can match"),
        ] {
            let test = Test {
                device: device.into(),
                patterns: vec![pattern.into()],
                ..data.test("match-count")
            };
            let sample = measured(&mut worker, &test);
            assert_eq!(sample.applied.unwrap().library, library);
        }
    }
}

#[test]
fn what_the_device_cannot_do_is_skipped_with_its_reason() {
    let data = DataSet::new(&text(1 << 14));
    let mut worker = Worker::new();
    let changes: [(Change, &str); 3] = [
        (|test| test.variant = "lz4".into(), "there are: "),
        (|test| (test.variant, test.level) = ("isal".into(), Some(9)), "levels"),
        (|test| test.buffer_size = 1 << 20, "less than one buffer"),
    ];
    for (change, reason) in changes {
        let mut test = data.test("compress-deflate");
        change(&mut test);
        let sample = worker.measure(&test);
        assert_eq!(sample.status, Status::Skipped, "{:?}", sample.error);
        let said = sample.reason.unwrap();
        assert!(said.contains(reason), "{said}");
        assert!(sample.metrics.is_empty());
    }
}

#[test]
fn what_is_wrong_with_a_test_is_named() {
    use FailureKind::{Data, Internal, Job};
    let data = DataSet::new(&text(1 << 14));
    let mut worker = Worker::new();
    let changes: [(Change, FailureKind, &str); 6] = [
        (|test| test.patterns = vec!["(".into()], Job, "does not compile"),
        (|_| (), Job, "at least one pattern"),
        (|test| test.device = "cpus".into(), Job, "did you mean \"cpu\""),
        (|test| test.device = "bf2".into(), Job, "emulated:bf2"),
        (|test| test.depth = 0, Internal, "depth is 0"),
        (
            |test| {
                test.operation = Operation::Copy;
                test.data.files = vec!["/no/such/file".into()];
            },
            Data,
            "/no/such/file",
        ),
    ];
    for (change, kind, message) in changes {
        let mut test = data.test("match-count");
        change(&mut test);
        let error = worker.measure(&test).error.unwrap();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

#[test]
fn reconfiguration_runs_one_job_at_a_time_and_its_cost_counts() {
    let data = DataSet::new(&text(1 << 16));
    let mut worker = Worker::new();
    for device in ["cpu", "emulated:bf2"] {
        let test = Test {
            device: device.into(),
            setting: Setting::Reconfiguration,
            ..data.test("compress-deflate")
        };
        let sample = measured(&mut worker, &test);
        let work = sample.work.unwrap();
        assert_eq!(work.doorbells, work.jobs);
        // The latencies of jobs that follow each other add up to the elapsed time.
        let sum_us = sample.metrics["latency_mean"] * work.jobs as f64;
        assert!(sum_us <= sample.elapsed_ns.unwrap() as f64 / 1e3);
        if device != "cpu" {
            // The card's context takes long to end, and each job waits for that.
            assert!(sample.stages["end_ns"] > 1e6);
            assert!(sample.metrics["latency_min"] * 1e3 >= sample.stages["end_ns"] * 0.99);
            assert!(sample.model.as_ref().unwrap().typ_ns as f64 > 1e6);
        }
    }
}

#[test]
fn json_goes_in_and_out() {
    let data = DataSet::new(&text(1 << 14));
    let mut worker = Worker::new();
    let json = serde_json::json!({
        "device": "cpu", "timing": null, "operation": "copy", "variant": "auto", "level": null,
        "patterns": [], "buffer_size": 1024, "depth": 2, "batch": 1, "threads": 1, "cores": null,
        "setting": "static", "completion": "poll",
        "data": {"name": "made", "files": [data.file], "sample_bytes": 4096},
        "warmup_s": 0.0, "sample_s": 0.001, "timeout_s": 10, "seed": 7
    });
    let answer = worker.measure_json(&json.to_string()).unwrap();
    let sample: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(sample["status"], "ok");
    assert_eq!(sample["provenance"], "measured");
    assert_eq!(sample["timing"], "real");
    assert!(sample["metrics"]["throughput"].as_f64().unwrap() > 0.0);
    assert!(sample.get("error").is_none() && sample.get("late").is_none());

    let mut wrong = json.clone();
    wrong["bufer_size"] = 1.into();
    let error = worker.measure_json(&wrong.to_string()).unwrap_err();
    assert!(error.to_string().contains("bufer_size"), "{error}");
    for (key, value) in [("depth", 5000), ("buffer_size", 2_000_000_000), ("threads", 0)] {
        let mut wrong = json.clone();
        wrong[key] = value.into();
        let error = worker.measure_json(&wrong.to_string()).unwrap_err();
        assert!(matches!(&error, TestError::Bound(bound) if bound.field == key), "{error}");
    }
    assert!(worker.measure_json("{").is_err());
}

#[test]
fn each_timing_of_an_emulated_device_says_what_it_is() {
    let data = DataSet::new(&text(1 << 16));
    let mut worker = Worker::new();
    for (timing, said) in [
        (None, Timing::Virtual),
        (Some(Timing::Virtual), Timing::Virtual),
        (Some(Timing::Replay), Timing::Replay),
        (Some(Timing::Functional), Timing::Functional),
        (Some(Timing::Paced), Timing::Paced),
    ] {
        let test = Test {
            device: "emulated:bf2".into(),
            timing,
            sample_s: 0.02,
            ..data.test("decompress-deflate")
        };
        let sample = measured(&mut worker, &test);
        assert_eq!(sample.provenance, Some(Provenance::Emulated));
        assert_eq!(sample.timing, Some(said));
        assert_eq!(sample.late.is_some(), said != Timing::Virtual);
        let model = sample.model.as_ref().unwrap();
        assert!(model.low_ns > 0 && model.low_ns <= model.high_ns && !model.facts.is_empty());
        assert!(sample.cpu.unwrap().emulator_s > 0.0);
        if said != Timing::Functional {
            // A completion is never earlier than the model's typical time, so none is earlier
            // than its least.
            assert!(sample.metrics["latency_min"] * 1e3 >= model.low_ns as f64 * 0.9, "{sample:?}");
        }
    }
    let bf3 = Test { device: "emulated:bf3".into(), ..data.test("compress-deflate") };
    let sample = worker.measure(&bf3);
    assert_eq!(sample.status, Status::Skipped);
    assert!(sample.reason.unwrap().contains("cannot compress-deflate"));
}
