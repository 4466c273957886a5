//! Tests of kind `network`, as the runner hands them over.

use crate::worker::inputs::{DataSet, refusal_of, sample_of as sample, sample_where, text, with};
use overside_device::{Provenance, Timing};
use overside_measure::{FailureKind, Sample, Status};
use serde_json::{Value, json};

fn refused(changes: Value) -> String {
    refusal_of(&network(changes))
}

/// A short test of round trips, with `changes` made to it.
fn network(changes: Value) -> Value {
    let test = json!({
        "kind": "network", "pattern": "round-trip", "message_size": 64,
        "warmup_s": 0.0, "sample_s": 0.02, "timeout_s": 30.0, "seed": 7,
    });
    with(test, &changes)
}

#[test]
fn the_processor_counts_messages_and_moves_or_there_is_a_reason() {
    let dma = json!({
        "kind": "dma", "device": "shm", "initiator": "host", "operation": "read",
        "completion": "poll", "measure": "throughput", "buffer_size": 4096, "events": true,
    });
    let taken = |changes: Value| {
        let sample = sample(&network(with(json!({"pattern": "stream"}), &changes)));
        assert_eq!(sample.status, Status::Ok, "{:?}", sample.error);
        sample
    };
    let sliced = json!({"events": true, "slice_s": 0.01, "sample_s": 0.1, "beside": dma});
    let sample = taken(sliced);
    for name in ["instructions", "job_instructions"] {
        let counted = sample.metrics.get(name).is_some_and(|count| *count > 1.0);
        let refused = (sample.warnings.iter())
            .any(|one| one.kind == "events" && one.message.contains("instructions"));
        assert!(counted != refused, "{name} {:?} {:?}", sample.metrics, sample.warnings);
    }
    let sample = taken(json!({}));
    assert!(!sample.metrics.contains_key("instructions"));
    assert!(sample.warnings.iter().all(|one| one.kind != "events"));
}

#[test]
fn round_trips_have_rates_latencies_and_both_ends_cpu_time() {
    let sample = sample(&network(json!({"connections": 3, "threads": 2, "depth": 4, "batch": 2})));
    assert_eq!(sample.status, Status::Ok, "{:?}", sample.error);
    assert_eq!(sample.provenance, Some(Provenance::Measured));
    assert_eq!(sample.timing, Some(Timing::Real));
    let applied = sample.applied.unwrap();
    assert_eq!((applied.device.as_str(), applied.variant.as_str()), ("host", "as-is"));
    let work = sample.work.unwrap();
    assert_eq!(work.bytes, work.jobs * 64);
    assert!(work.doorbells >= work.jobs / 2);
    let metric = |name: &str| sample.metrics[name];
    assert!(metric("latency_min") <= metric("latency_p50"));
    assert!(metric("latency_p50") <= metric("latency_max"));
    let seconds = sample.elapsed_ns.unwrap() as f64 / 1e9;
    assert!((metric("rate") * seconds / work.jobs as f64 - 1.0).abs() < 1e-6);
    assert!((metric("bit_rate") / metric("throughput") * 1e3 - 8.0).abs() < 1e-6);
    assert!(metric("connection_throughput_max") * 3.0 >= metric("throughput"));
    assert!(metric("client_cpu") > 0.0 && metric("server_cpu") > 0.0);
    assert!(!sample.metrics.contains_key("hop_cpu"));
    let cpu = sample.cpu.unwrap();
    let both = (metric("client_cpu") + metric("server_cpu")) / 100.0 * seconds;
    assert!((cpu.host_s / both - 1.0).abs() < 1e-6);
    assert!(sample.histogram.is_some() && sample.series.is_none());
}

fn slices(sample: &Sample) -> usize {
    sample.series.as_ref().unwrap().end_s.len()
}

#[test]
fn streams_have_no_latencies() {
    let changes = json!({"pattern": "stream", "message_size": 4096, "slice_s": 0.002});
    let sample = sample_where(&network(changes), |one| slices(one) >= 3);
    assert_eq!(sample.status, Status::Ok, "{:?}", sample.error);
    assert!(sample.metrics["throughput"] > 0.0);
    assert!(sample.histogram.is_none());
    assert!(!sample.metrics.keys().any(|name| name.starts_with("latency")));
    let series = sample.series.unwrap();
    assert!(series.end_s.is_sorted());
    assert_eq!(series.end_s.len(), series.throughput.len());
    assert!(series.latency_mean.is_none() && series.jobs_s.is_none());
}

#[test]
fn a_rate_is_kept() {
    let sample = sample(&network(json!({"rate": 1000.0, "sample_s": 0.1, "depth": 8})));
    assert_eq!(sample.work.unwrap().jobs, 100);
}

#[test]
fn a_stream_with_a_rate_tells_delays_and_what_was_lost() {
    for protocol in ["tcp", "udp"] {
        let one = sample(&network(json!({
            "pattern": "stream", "protocol": protocol, "message_size": 256, "rate": 1000.0,
            "connections": 2, "sample_s": 0.2, "warmup_s": 0.05, "slice_s": 0.01,
        })));
        assert_eq!(one.status, Status::Ok, "{:?}", one.error);
        assert_eq!(one.provenance, Some(Provenance::Measured));
        let library = &one.applied.as_ref().unwrap().library;
        assert!(library.starts_with(&protocol.to_uppercase()), "{library}");
        let metric = |name: &str| one.metrics[name];
        // The schedule has 200 messages: what did not come is lost, and nothing else.
        let work = one.work.unwrap();
        assert_eq!(work.jobs as f64 + metric("lost"), 200.0);
        assert!((metric("loss") - metric("lost") / 2.0).abs() < 1e-9);
        assert!(metric("delay_min") <= metric("delay_p50"));
        assert!(metric("delay_p999") <= metric("delay_max"));
        // Both ends read the same clock.
        assert!(metric("clock_drift").abs() <= metric("clock_drift_error"));
        assert!(metric("delay_error") > 0.0);
        assert!(!one.metrics.contains_key("latency_p50"));
        let series = one.series.unwrap();
        assert_eq!(series.lost.unwrap().len(), series.end_s.len());
        assert_eq!(series.latency_mean.unwrap().len(), series.end_s.len());
        assert!(series.phases.is_empty());
    }
}

/// A test that runs beside traffic, which has its times and its seed.
fn jobs(data: &DataSet, operation: &str, changes: Value) -> Value {
    let mut test = serde_json::to_value(data.test(operation)).unwrap();
    let keys = test.as_object_mut().unwrap();
    for name in ["warmup_s", "sample_s", "timeout_s", "seed"] {
        keys.remove(name);
    }
    keys.extend(changes.as_object().unwrap().clone());
    test
}

#[test]
fn jobs_run_in_the_middle_third_and_are_verified() {
    let data = DataSet::new(&text(1 << 20));
    let beside = jobs(&data, "copy", json!({}));
    let changes = json!({
        "pattern": "stream", "message_size": 16384, "sample_s": 0.3, "slice_s": 0.01, "beside": beside,
    });
    let one = sample_where(&network(changes.clone()), has_all_phases);
    assert_eq!(one.status, Status::Ok, "{:?}", one.error);
    let [begin, end] = one.series.as_ref().unwrap().jobs_s.unwrap();
    assert!(begin >= 0.09, "{begin}");
    assert!(end - begin >= 0.099, "{begin} to {end}");
    assert!(one.metrics["job_throughput"] > 0.0);
    assert!(one.metrics["job_throughput_alone"] > 0.0);
    assert!(one.metrics["throughput_before"] > 0.0);
    phases_follow_each_other(&one);
    assert!(one.warnings.iter().any(|warning| warning.kind == "not-a-card"));
    // Jobs that fail their verification, or that there are none of, leave no figures.
    let mut unknown = changes;
    unknown["beside"]["variant"] = "abacus".into();
    let skipped = sample(&network(unknown));
    assert_eq!(skipped.status, Status::Skipped);
    assert!(skipped.reason.unwrap().contains("the jobs beside"));
}

/// There was traffic before the jobs and beside them.
fn has_all_phases(one: &Sample) -> bool {
    let measured = ["throughput_before", "delay_before"];
    let phases = &one.series.as_ref().unwrap().phases;
    phases.len() >= 4 && measured.iter().any(|name| one.metrics.contains_key(*name))
}

/// Idle, the jobs alone, the traffic alone, both, and the traffic alone again, where it is not over.
fn phases_follow_each_other(one: &Sample) {
    let phases = &one.series.as_ref().unwrap().phases;
    let names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
    let all = ["idle", "alone", "before", "during", "after"];
    assert_eq!(names, all[..names.len()]);
    assert!(names.len() >= 4, "{names:?}");
    for (one, next) in phases.iter().zip(&phases[1..]) {
        assert!(one.begin_s <= one.end_s && one.end_s <= next.begin_s + 1e-6, "{phases:?}");
    }
    assert_eq!(phases[2].begin_s, 0.0);
}

#[test]
fn any_operation_runs_beside_a_stream_with_a_rate() {
    let data = DataSet::new(&text(1 << 20));
    let here = json!({"patterns": ["the"]});
    let dma = |operation: &str, device: &str| {
        json!({
            "kind": "dma", "device": device, "initiator": "host", "operation": operation,
            "completion": "poll", "measure": "throughput", "buffer_size": 65536, "depth": 4,
        })
    };
    for (beside, provenance) in [
        (jobs(&data, "decompress-deflate", json!({})), Provenance::Measured),
        (jobs(&data, "match-count", here), Provenance::Measured),
        (
            jobs(&data, "decompress-deflate", json!({"device": "emulated:bf2"})),
            Provenance::Emulated,
        ),
        (dma("read", "shm"), Provenance::Measured),
        (dma("write", "emulated:bf3"), Provenance::Emulated),
    ] {
        let test = network(json!({
            "pattern": "stream", "protocol": "udp", "message_size": 256, "rate": 2000.0,
            "sample_s": 0.3, "slice_s": 0.01, "beside": beside.clone(),
        }));
        let one = sample_where(&test, has_all_phases);
        assert_eq!(one.status, Status::Ok, "{:?} {beside}", one.error);
        assert_eq!(one.provenance, Some(provenance), "{beside}");
        assert_eq!(one.work.unwrap().jobs as f64 + one.metrics["lost"], 600.0);
        for name in ["job_throughput", "job_throughput_alone", "delay_before"] {
            assert!(one.metrics.contains_key(name), "{name} {beside}");
        }
        // An emulated card is as fast as its profile says, however busy its machine is.
        if provenance == Provenance::Emulated {
            assert_eq!((one.timing, one.late), (Some(Timing::Virtual), None), "{beside}");
            let ratio = one.metrics["job_throughput"] / one.metrics["job_throughput_alone"];
            assert!((ratio - 1.0).abs() < 0.05, "{ratio} {beside}");
        }
        phases_follow_each_other(&one);
        let [begin, end] = one.series.as_ref().unwrap().jobs_s.unwrap();
        assert!(begin >= 0.09 && end - begin >= 0.099, "{begin} to {end}");
    }
}

#[test]
fn jobs_that_outlast_the_traffic_are_told() {
    let data = DataSet::new(&text(1 << 20));
    // One job takes longer than all of the traffic.
    let long = json!({"level": 19, "buffer_size": 1 << 20, "depth": 1});
    let beside = jobs(&data, "compress-zstd", long);
    let test = network(json!({
        "pattern": "stream", "message_size": 16384, "sample_s": 0.1, "slice_s": 0.005,
        "beside": beside,
    }));
    let is_overrun = |one: &Sample| one.warnings.iter().any(|one| one.kind == "overrun");
    let one = sample_where(&test, |one| is_overrun(one) && has_all_phases(one));
    assert_eq!(one.status, Status::Ok, "{:?}", one.error);
    assert!(one.metrics.contains_key("throughput_before"));
    assert!(!one.metrics.contains_key("throughput_after"));
    let told = one.warnings.iter().find(|one| one.kind == "overrun");
    assert!(told.unwrap().message.contains("the jobs ran until"));
}

#[test]
fn what_contradicts_itself_or_is_out_of_bounds_is_refused() {
    for (changes, named) in [
        (json!({"message_size": 0}), "message_bytes is 0"),
        (json!({"threads": 2}), "threads is 2; it can be 1 to 1"),
        (json!({"depth": 5000}), "depth is 5000"),
        (json!({"rate": -1.0}), "rate_per_s is -1"),
        (json!({"protocol": "udp"}), "protocol udp is given"),
        (json!({"protocol": "udp", "pattern": "stream"}), "protocol udp is given"),
        (
            json!({"protocol": "udp", "pattern": "stream", "rate": 5.0, "message_size": 8}),
            "message_bytes is 8",
        ),
        (json!({"pattern": "stream", "rate": 1e7, "sample_s": 60.0}), "rate * sample_s"),
        (json!({"slice_s": 1e-9}), "sample_s / slice_s is"),
        (json!({"beside": {}}), "beside is given"),
        (json!({"cores": []}), "the number of cores is 0"),
        (json!({"buffer_size": 1}), "unknown field `buffer_size`"),
        (json!({"destination": "127.0.0.1:1"}), "unknown field `destination`"),
        (json!({"source_node": ""}), "a node's name is 0"),
        (
            json!({"source_node": "dpu0", "hop": {
                "client_namespace": "a", "server_namespace": "b", "server_address": "192.0.2.2",
                "description": "", "processes": [],
            }}),
            "hop is given",
        ),
        (json!({"slice_s": 0.01, "beside": {"seed": 1}}), "beside is with seed"),
        (json!({"slice_s": 0.01, "beside": {"device": "cpu"}}), "beside: missing field"),
        (
            json!({"slice_s": 0.01, "beside": {
                "kind": "memory", "pattern": "chase", "buffer_size": 65536,
            }}),
            "beside is of another kind",
        ),
    ] {
        let message = refused(changes);
        assert!(message.contains(named), "{message}");
    }
}

#[test]
fn namespaces_that_are_not_there_are_named() {
    let changes = json!({"hop": {
        "client_namespace": "/run/netns/overside-none", "server_namespace": "/run/netns/overside-none",
        "server_address": "192.0.2.2", "description": "nothing", "processes": [],
    }});
    let error = sample(&network(changes)).error.unwrap();
    assert_eq!(error.kind, FailureKind::Job);
    assert!(error.message.contains("overside-none"), "{error}");
}
