//! Tests of kind `network` of which agents play one end or both.

use std::sync::Arc;
use std::time::Duration;

use overside_link::agent::Probe;
use overside_measure::{FailureKind, Sample, Status};
use overside_probe::network::Role;
use overside_probe::network::remote::NetworkProbe;
use serde_json::{Value, json};

use crate::worker::agents::in_own_process;
use crate::worker::inputs::{sample_of, sample_where, with};

fn network(changes: &Value) -> Value {
    let test = json!({
        "kind": "network", "pattern": "round-trip", "message_size": 64,
        "warmup_s": 0.01, "sample_s": 0.05, "timeout_s": 60.0, "seed": 7,
    });
    with(test, changes)
}

fn sample(changes: &Value) -> Sample {
    sample_of(&network(changes))
}

fn far(role: Role) -> Vec<Arc<dyn Probe>> {
    vec![Arc::new(NetworkProbe { role })]
}

#[test]
fn any_two_nodes_are_ends_of_a_test() {
    let name = "worker::network_nodes::any_two_nodes_are_ends_of_a_test";
    in_own_process(name, |agents| {
        let _dpu0 = agents.start("dpu0", true, far(Role::Dpu));
        let _dpu1 = agents.start("dpu1", false, far(Role::Dpu));
        for (source, destination) in [
            (None, Some("dpu0")),
            (Some("dpu0"), None),
            (Some("dpu0"), Some("dpu1")),
            (Some("dpu1"), Some("dpu1")),
        ] {
            for pattern in ["round-trip", "stream"] {
                let changes = json!({
                    "pattern": pattern, "source_node": source, "destination_node": destination,
                    "connections": 3, "threads": 2, "slice_s": 0.01,
                });
                let slices = |one: &Sample| one.series.as_ref().unwrap().end_s.len();
                let taken = sample_where(&network(&changes), |one| slices(one) >= 3);
                assert_eq!(taken.status, Status::Ok, "{:?} {changes}", taken.error);
                looked_at(&taken, source, destination, pattern);
            }
        }
    });
}

#[test]
fn jobs_run_beside_a_stream_from_another_node() {
    let name = "worker::network_nodes::jobs_run_beside_a_stream_from_another_node";
    in_own_process(name, |agents| {
        let _third = agents.start("third", true, far(Role::Dpu));
        let _dpu0 = agents.start("dpu0", true, far(Role::Dpu));
        for (destination, protocol) in [(None, "udp"), (Some("dpu0"), "tcp")] {
            let changes = json!({
                "pattern": "stream", "protocol": protocol, "rate": 2000.0, "sample_s": 0.3,
                "slice_s": 0.01, "source_node": "third", "destination_node": destination,
                "beside": {
                    "kind": "dma", "device": "shm", "initiator": "host", "operation": "write",
                    "completion": "event", "buffer_size": 4096,
                },
            });
            // The jobs began by this machine's clock, and the stream a moment after it was requested.
            let begins_in_time = |one: &Sample| {
                let [begin, _] = one.series.as_ref().unwrap().jobs_s.unwrap();
                begin > 0.0 && begin < 0.11 && one.metrics.contains_key("throughput_before")
            };
            let taken = sample_where(&network(&changes), begins_in_time);
            assert_eq!(taken.status, Status::Ok, "{:?}", taken.error);
            assert_eq!(taken.work.unwrap().jobs as f64 + taken.metrics["lost"], 600.0);
            let [begin, end] = taken.series.as_ref().unwrap().jobs_s.unwrap();
            assert!(end - begin >= 0.099, "{begin} to {end}");
            assert!(taken.metrics["throughput_before"] > 0.0);
        }
    });
}

fn looked_at(taken: &Sample, source: Option<&str>, destination: Option<&str>, pattern: &str) {
    let names = [source, destination].map(|node| node.unwrap_or("host"));
    let applied = taken.applied.as_ref().unwrap();
    assert_eq!(applied.device, names.join(" to "));
    let work = taken.work.unwrap();
    assert_eq!(work.bytes, work.jobs * 64);
    let metric = |name: &str| taken.metrics[name];
    let seconds = taken.elapsed_ns.unwrap() as f64 / 1e9;
    assert!(seconds >= 0.05, "{seconds}");
    assert!((metric("rate") * seconds / work.jobs as f64 - 1.0).abs() < 1e-6);
    let trips = pattern == "round-trip";
    assert_eq!(taken.histogram.is_some(), trips);
    if trips {
        assert!(metric("latency_min") <= metric("latency_p50"));
        assert!(metric("latency_p99") <= metric("latency_max"));
    }
    let series = taken.series.as_ref().unwrap();
    assert!(series.end_s.is_sorted());
    // Each end's time is on the ledger of who plays it.
    let cpu = taken.cpu.unwrap();
    let of = |metric: f64| metric / 100.0 * seconds;
    let (client, server) = (of(metric("client_cpu")), of(metric("server_cpu")));
    let mut ledgers = [0.0, 0.0];
    ledgers[usize::from(source.is_some())] += client;
    ledgers[usize::from(destination.is_some())] += server;
    assert!((cpu.host_s - ledgers[0]).abs() < 1e-6, "{cpu:?} {ledgers:?}");
    assert!((cpu.dpu_s - ledgers[1]).abs() < 1e-6, "{cpu:?} {ledgers:?}");
    let kinds: Vec<&str> = taken.warnings.iter().map(|one| one.kind.as_str()).collect();
    assert!(kinds.contains(&"one-machine"), "{kinds:?}");
}

#[test]
fn an_agent_of_a_host_is_on_the_hosts_ledger_where_it_runs() {
    let name = "worker::network_nodes::an_agent_of_a_host_is_on_the_hosts_ledger_where_it_runs";
    in_own_process(name, |agents| {
        let _other = agents.start("other", true, far(Role::Host));
        let taken = sample(&json!({"source_node": "other"}));
        let cpu = taken.cpu.unwrap();
        assert!(cpu.host_s > 0.0 && cpu.dpu_s == 0.0, "{cpu:?}");
    });
}

#[test]
fn an_agent_that_does_not_play_is_the_reason_why_a_test_is_skipped() {
    let name =
        "worker::network_nodes::an_agent_that_does_not_play_is_the_reason_why_a_test_is_skipped";
    in_own_process(name, |agents| {
        let _shy = agents.start("shy", true, Vec::new());
        agents.add("gone", "localhost:1", None);
        for (node, expected) in [
            ("shy", "--no-probes"),
            ("gone", "is `overside agent` running?"),
            ("shi", "did you mean \"shy\"?"),
            ("nobody", "overside agents add nobody HOST:PORT"),
        ] {
            for end in ["source_node", "destination_node"] {
                let skipped = sample(&json!({end: node}));
                assert_eq!(skipped.status, Status::Skipped, "{:?}", skipped.error);
                let reason = skipped.reason.unwrap();
                assert!(reason.contains(expected), "{reason}");
            }
        }
    });
}

#[test]
fn an_agent_that_dies_in_the_middle_is_a_failed_sample() {
    let name = "worker::network_nodes::an_agent_that_dies_in_the_middle_is_a_failed_sample";
    in_own_process(name, |agents| {
        for (end, pattern) in [("source_node", "stream"), ("destination_node", "round-trip")] {
            // On a busy machine it may be gone before the test has begun.
            let mut attempts = (0..10).map(|_| {
                let agent = agents.start("dpu0", true, far(Role::Dpu));
                let dies = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(400));
                    drop(agent);
                });
                let failed = sample(&json!({end: "dpu0", "pattern": pattern, "sample_s": 50.0}));
                dies.join().unwrap();
                failed
            });
            let failed = attempts.find(|failed| failed.status != Status::Skipped);
            let error = failed.and_then(|failed| failed.error).expect("a failure");
            assert_eq!(error.kind, FailureKind::Lost, "{error}");
        }
    });
}

#[test]
fn what_fails_at_an_agent_says_where() {
    let name = "worker::network_nodes::what_fails_at_an_agent_says_where";
    in_own_process(name, |agents| {
        let _dpu0 = agents.start("dpu0", true, far(Role::Dpu));
        let cores = json!({"destination_node": "dpu0", "server_cores": [1023]});
        let error = sample(&cores).error.unwrap();
        assert_eq!(error.kind, FailureKind::Job);
        assert!(error.message.contains("core 1023"), "{error}");
    });
}
