//! Tests of kind `dma`, as the runner hands them over.

use crate::worker::inputs::{refusal_of as refused, sample_of as sample, with};
use overside_device::{Provenance, Timing};
use overside_measure::{FailureKind, Sample, Status};
use serde_json::{Value, json};

/// A test over shared memory, with `changes` made to it.
fn dma(changes: Value) -> Value {
    let test = json!({
        "kind": "dma", "device": "shm", "initiator": "host", "operation": "write",
        "completion": "poll", "buffer_size": 64,
        "warmup_s": 0.0, "sample_s": 0.002, "timeout_s": 30.0, "seed": 7,
    });
    with(test, &changes)
}

/// Every primitive: its initiator, its operation, how its end is noticed, the timed quantity.
fn matrix() -> Vec<Value> {
    let mut all = Vec::new();
    for initiator in ["host", "dpu"] {
        for operation in ["read", "write", "send"] {
            for completion in ["poll", "event"] {
                for measure in ["latency", "throughput"] {
                    all.push(json!({
                        "initiator": initiator, "operation": operation,
                        "completion": completion, "measure": measure,
                    }));
                }
            }
        }
    }
    all
}

fn measured(changes: Value) -> Sample {
    let sample = sample(&dma(changes.clone()));
    assert_eq!(sample.status, Status::Ok, "{changes}: {:?} {:?}", sample.error, sample.reason);
    sample
}

#[test]
fn every_primitive_is_measured_and_verified() {
    for primitive in matrix() {
        for (device, variant) in [("shm", "engine"), ("shm", "caller")] {
            let sample = measured(with(
                primitive.clone(),
                &json!({"device": device, "variant": variant, "depth": 5, "batch": 2,
                        "buffers": "distinct"}),
            ));
            assert_eq!(sample.provenance, Some(Provenance::Measured));
            assert_eq!(sample.timing, Some(Timing::Real));
            let applied = sample.applied.as_ref().unwrap();
            assert_eq!(applied.device, device);
            assert_eq!(applied.variant, variant);
            assert!(sample.check.as_ref().unwrap().buffers >= 6, "{primitive}");
            figures_agree(&sample, 64, primitive["measure"] == "latency");
        }
    }
}

/// Asserts that the figures agree with each other.
fn figures_agree(sample: &Sample, size: u64, timed: bool) {
    let work = sample.work.unwrap();
    let ns = sample.elapsed_ns.unwrap() as f64;
    assert!(ns >= 2e6 && work.jobs > 0);
    assert_eq!(work.bytes, work.jobs * size);
    assert!((1..=work.jobs).contains(&work.doorbells));
    let metric = |name: &str| sample.metrics[name];
    let close =
        |told: f64, found: f64| assert!((told / found - 1.0).abs() < 1e-6, "{told} {found}");
    close(metric("rate"), work.jobs as f64 * 1e9 / ns);
    close(metric("throughput"), work.bytes as f64 * 1e3 / ns);
    assert_eq!(sample.histogram.is_some(), timed);
    assert_eq!(sample.metrics.contains_key("latency_p50"), timed);
    if timed {
        let merged = overside_measure::merge_histograms(&[sample.histogram.as_ref().unwrap()]);
        assert_eq!(merged.unwrap().count, work.jobs);
        assert!(metric("latency_min") > 0.0 && metric("latency_max") <= ns / 1e3);
        assert!(metric("latency_p50") <= metric("latency_p99"));
    }
    let cpu = sample.cpu.unwrap();
    assert!(cpu.host_s + cpu.dpu_s > 0.0);
    close(metric("cpu_seconds").max(1e-12), cpu.host_s.max(1e-12));
}

#[test]
fn a_thousand_reads_in_flight_share_places() {
    // 1 MiB each: four of them have each of the 256 places.
    for (device, completion) in
        [("shm", "poll"), ("shm", "none"), ("ucx", "poll"), ("emulated:bf2", "none")]
    {
        for operation in ["read", "write"] {
            let sample = sample(&dma(json!({
                "device": device, "operation": operation, "buffer_size": 1 << 20, "depth": 1024,
                "batch": 16, "measure": "throughput", "completion": completion, "sample_s": 0.05,
            })));
            if sample.status == Status::Skipped && device == "ucx" {
                continue;
            }
            assert_eq!(sample.status, Status::Ok, "{device}: {:?}", sample.error);
            let looked_at = sample.check.unwrap().buffers;
            assert!((257..=512).contains(&looked_at), "{device}: {looked_at}");
        }
    }
}

#[test]
fn the_initiators_core_is_on_its_own_ledger() {
    for (initiator, own, other) in [
        ("host", "host_utilisation", "dpu_utilisation"),
        ("dpu", "dpu_utilisation", "host_utilisation"),
    ] {
        // On a busy machine the time may be over before the initiator has had a turn.
        let is_on_its_own = |_| {
            let sample = measured(json!({"initiator": initiator, "variant": "caller",
                                         "sample_s": 0.02}));
            let (own, other) = (sample.metrics[own], sample.metrics[other]);
            assert!(own > 0.0, "{initiator}");
            assert_eq!(sample.metrics["initiator_utilisation"], own);
            assert_eq!(sample.metrics["engine_utilisation"], 0.0);
            other < own
        };
        assert!((0..10).any(is_on_its_own), "{initiator}");
    }
    let engine = measured(json!({"variant": "engine", "sample_s": 0.02}));
    assert!(engine.metrics["engine_utilisation"] > 0.0);
    let both = measured(json!({"operation": "send", "sample_s": 0.02}));
    assert!(both.metrics["host_utilisation"] > 0.0 && both.metrics["dpu_utilisation"] > 0.0);
}

#[test]
fn the_processor_counts_or_there_is_a_reason() {
    let counted = |sample: &Sample| sample.metrics.contains_key("instructions");
    let refused = |sample: &Sample| {
        let mut warnings = sample.warnings.iter();
        warnings.any(|one| one.kind == "events" && one.message.contains("instructions"))
    };
    for threads in [1, 2] {
        let sample = measured(json!({"events": true, "threads": threads}));
        assert!(counted(&sample) != refused(&sample));
        if counted(&sample) {
            assert!(sample.metrics["instructions"] > 10.0);
            assert!(sample.metrics["instructions_per_cycle"] > 0.0);
        }
    }
    let sample = measured(json!({}));
    assert!(!counted(&sample) && !refused(&sample));
}

#[test]
fn sizes_from_one_byte_to_megabytes() {
    for operation in ["read", "write", "send"] {
        for size in [1, 2, 63, 4096, 8 << 20] {
            let sample = measured(json!({"operation": operation, "buffer_size": size}));
            figures_agree(&sample, size, true);
        }
    }
}

#[test]
fn depth_batch_threads_and_inline() {
    for changes in [
        json!({"depth": 1024, "batch": 1024, "buffer_size": 8}),
        json!({"depth": 7, "batch": 3}),
        json!({"depth": 2, "batch": 1000}),
        json!({"threads": 3, "depth": 4, "buffers": "same"}),
        json!({"threads": 3, "depth": 4, "operation": "read", "buffers": "same"}),
        json!({"threads": 2, "operation": "send", "depth": 9, "batch": 4}),
        json!({"inline": true, "buffer_size": 64, "depth": 8, "batch": 8}),
        json!({"cores": [0], "threads": 2}),
    ] {
        for measure in ["latency", "throughput"] {
            let sample = measured(with(changes.clone(), &json!({"measure": measure})));
            let batch = changes["batch"].as_u64().unwrap_or(1);
            let work = sample.work.unwrap();
            // A batch that the depth limits is as long as the depth.
            let most = batch.min(changes["depth"].as_u64().unwrap_or(1));
            assert!(work.doorbells * most >= work.jobs, "{changes}: {work:?}");
        }
    }
}

#[test]
fn what_a_device_cannot_is_skipped_with_the_limit() {
    for (changes, words) in [
        (json!({"inline": true, "buffer_size": 4096}), "64 bytes inline"),
        (json!({"device": "ucx", "variant": "engine"}), "no variant \"engine\""),
        (json!({"device": "emulated:bf2", "variant": "tcp"}), "no variant \"tcp\""),
        (json!({"cores": [1023]}), "core 1023 cannot be used"),
        (json!({"engine_core": 1023}), "core 1023 cannot be used"),
        (json!({"operation": "send", "buffer_size": 1 << 30}), "max_message_bytes"),
        (
            json!({"device": "dpdk:dma_skeleton", "operation": "read", "buffer_size": 1 << 30,
                   "depth": 1024}),
            "more than half",
        ),
        (json!({"device": "emulated:bf2", "operation": "send"}), "emulates a DMA engine"),
        (json!({"device": "emulated:bf2", "measure": "latency"}), "dma.copy.latency.poll"),
        (json!({"device": "emulated:octeon-tx2", "measure": "throughput"}), "dma.polled.rate"),
    ] {
        let sample = sample(&dma(changes));
        assert_eq!(sample.status, Status::Skipped, "{words}: {:?}", sample.error);
        let reason = sample.reason.unwrap();
        assert!(reason.contains(words), "{reason}");
    }
}

#[test]
fn bounds_are_refused_by_name() {
    for (changes, words) in [
        (json!({"buffer_size": 0}), "buffer_size is 0"),
        (json!({"buffer_size": u64::MAX}), "buffer_size is"),
        (json!({"depth": 1025}), "depth is 1025"),
        (json!({"batch": 0}), "batch is 0"),
        (json!({"threads": 65}), "threads is 65"),
        (json!({"cores": []}), "the number of cores is 0"),
        (json!({"inline": true, "operation": "read"}), "inline is"),
        (json!({"variant": "fast"}), "variant is \"fast\""),
        (json!({"device": "bf2"}), "\"emulated:bf2\""),
        (json!({"device": "cable"}), "shm, ucx"),
        (json!({"device": "tcp"}), "\"ucx\" with variant \"tcp\""),
        (json!({"device": "dpu0/tcp"}), "\"dpu0/ucx\" with variant \"tcp\""),
        (json!({"initiator": "nobody"}), "unknown variant `nobody`"),
    ] {
        let message = refused(&dma(changes));
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn an_emulated_engine_takes_the_profiles_time_on_a_virtual_clock() {
    // The same with whatever the threads have in flight.
    // The peak was seen with two cores, and with four.
    for (threads, depth) in [(1, 8), (2, 4), (4, 64)] {
        for (card, peak, cores) in [("bf2", 13.0, 2.0), ("bf3", 48.0, 4.0)] {
            let gib_per_s = peak * (f64::from(threads) / cores).min(1.0);
            let size = 1 << 18;
            let sample = measured(json!({
                "device": format!("emulated:{card}"), "measure": "throughput",
                "operation": "read", "buffer_size": size, "depth": depth, "threads": threads,
                "sample_s": 0.01,
            }));
            assert_eq!(sample.timing, Some(Timing::Virtual));
            assert_eq!((sample.late, sample.provenance), (None, Some(Provenance::Emulated)));
            let found = sample.metrics["throughput"] / 1e3 / 1.0737418;
            assert!((found / gib_per_s - 1.0).abs() < 0.02, "{card} {threads}: {found}");
            assert!(sample.cpu.unwrap().emulator_s > 0.0);
        }
    }
}

#[test]
fn an_emulated_engine_takes_the_profiles_time() {
    let size = 1 << 20;
    let sample = measured(json!({
        "device": "emulated:bf2", "measure": "throughput", "operation": "read", "timing": "paced",
        "buffer_size": size, "depth": 8, "batch": 4, "sample_s": 0.05,
    }));
    assert_eq!(sample.provenance, Some(Provenance::Emulated));
    assert_eq!(sample.timing, Some(Timing::Paced));
    assert_eq!(sample.applied.as_ref().unwrap().device, "emulated:bf2");
    let model = sample.model.as_ref().unwrap();
    assert!(model.facts.iter().any(|fact| fact == "coproc.dma.bf2_host.peak"));
    assert!(!model.missing.is_empty());
    // 13 GiB/s, of which one core has half: a copy is never released before its time.
    let least_ns = sample.work.unwrap().jobs as f64 * f64::from(size) / (6.5 * 1.0737418);
    let elapsed_ns = sample.elapsed_ns.unwrap() as f64;
    assert!(elapsed_ns >= 0.999 * least_ns, "{elapsed_ns} < {least_ns}");
    assert!(sample.late.is_some());
    assert!(sample.warnings.iter().any(|one| one.kind == "lower-bound"));
}

#[test]
fn the_cards_of_the_dma_study_have_latencies_in_its_ratios() {
    let us = |card: &str, completion: &str, initiator: &str, size: u64| {
        let sample = measured(json!({
            "device": format!("emulated:{card}"), "measure": "latency", "operation": "read",
            "completion": completion, "initiator": initiator, "buffer_size": size, "depth": 1,
        }));
        assert_eq!(sample.timing, Some(Timing::Virtual));
        assert!(sample.warnings.iter().any(|one| one.kind == "lower-bound"), "{sample:?}");
        let (found, [low, high]) = (sample.metrics["latency_mean"], sample.bounds["latency_mean"]);
        assert!(low <= found && found <= high && low < high, "{low} {found} {high}");
        found
    };
    for (card, apart) in [("bf2-200g", 3.0), ("bf3-8c", 1.74)] {
        // A long read moves at the rate of the link, less what its packets cost.
        let long = 2_097_152.0 / us(card, "poll", "dpu", 2 << 20) / 1e3;
        assert!((4.0..15.75).contains(&long), "{card}: {long} GB/s");
        let of_event = |initiator| us(card, "event", initiator, 64);
        let found = of_event("dpu") / of_event("host");
        assert!((found / apart - 1.0).abs() < 0.05, "{card}: {found}");
        assert!(us(card, "poll", "host", 64) < of_event("host"), "{card}");
    }
    // BlueField-3 takes 21 to 39 % longer.
    let over = us("bf3-8c", "poll", "dpu", 1 << 20) / us("bf2-200g", "poll", "dpu", 1 << 20);
    assert!((1.15..1.45).contains(&over), "{over}");
}

#[test]
fn time_that_is_over_is_a_failed_sample() {
    let sample = sample(&dma(json!({"sample_s": 60.0, "timeout_s": 0.05})));
    assert_eq!(sample.status, Status::Failed);
    assert_eq!(sample.error.unwrap().kind, FailureKind::Timeout);
}

#[test]
fn ucx_is_measured_or_the_reason_is_told() {
    for operation in ["read", "write", "send"] {
        for completion in ["poll", "event"] {
            let sample = sample(&dma(json!({
                "device": "ucx", "operation": operation, "completion": completion, "depth": 4,
                "buffers": "distinct", "initiator": "dpu",
            })));
            if sample.status == Status::Skipped {
                let reason = sample.reason.unwrap();
                assert!(reason.contains("UCX") || reason.contains("completions"), "{reason}");
                continue;
            }
            assert_eq!(sample.status, Status::Ok, "{operation}: {:?}", sample.error);
            assert_eq!(sample.applied.as_ref().unwrap().device, "ucx");
            figures_agree(&sample, 64, true);
        }
    }
}

#[test]
fn a_device_that_copies_takes_the_same_loop() {
    for operation in ["read", "write"] {
        for measure in ["latency", "throughput"] {
            let sample = sample(&dma(json!({
                "device": "dpdk:dma_skeleton", "operation": operation, "measure": measure,
                "depth": 8, "batch": 4, "buffers": "distinct", "buffer_size": 4096,
            })));
            if sample.status == Status::Skipped {
                let reason = sample.reason.unwrap();
                assert!(reason.contains("not available"), "{reason}");
                continue;
            }
            assert_eq!(sample.status, Status::Ok, "{:?}", sample.error);
            assert_eq!(sample.applied.as_ref().unwrap().device, "dpdk:dma_skeleton");
            figures_agree(&sample, 4096, measure == "latency");
        }
    }
    let waits = sample(&dma(json!({"device": "dpdk:dma_skeleton", "completion": "event"})));
    assert_eq!(waits.status, Status::Skipped);
}
