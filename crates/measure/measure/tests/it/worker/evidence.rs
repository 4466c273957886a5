//! A sample has the provenance and timing of its weakest participant, and the right ledgers of CPU time, for
//! every task and device.

use std::sync::Arc;

use overside_backends::{Options, open};
use overside_device::{Clock, Provenance, Timing};
use overside_measure::{Sample, Status, Worker};
use overside_probe::network::Role;
use overside_probe::{dma, network};
use serde_json::{Value, json};

use crate::worker::agents::{Agents, in_own_process};
use crate::worker::inputs::{DataSet, text};

/// Devices that took part in a test, by the names under which they are opened.
type Participants = Vec<String>;

/// Devices of every sort: this machine's cores, an emulated card, the same of an agent, and a
/// driver of DPDK's where DPDK is installed.
fn devices() -> Vec<String> {
    let all = [
        "cpu",
        "emulated:bf2",
        "dpu0/cpu",
        "dpu0/emulated:bf2",
        "dpdk:dma_skeleton",
        "dpdk:compress_isal",
    ];
    let there = |name: &&str| !name.starts_with("dpdk:") || opens(name);
    all.into_iter().filter(there).map(str::to_owned).collect()
}

fn opens(name: &str) -> bool {
    open(name, &Options::default()).is_ok()
}

fn with(mut test: Value, changes: Value) -> Value {
    let keys = changes.as_object().unwrap().clone();
    test.as_object_mut().unwrap().extend(keys);
    test
}

/// Tests of jobs on a device, alone and in every placement.
fn jobs(data: &DataSet, device: &str) -> Vec<(Value, Participants)> {
    let alone = || vec![device.to_owned()];
    let both = || vec!["cpu".to_owned(), device.to_owned()];
    let mut all = Vec::new();
    for operation in ["copy", "compress-deflate", "decompress-deflate", "match-count", "hash-xxh3"]
    {
        let mut test = data.test(operation);
        test.device = device.into();
        test.sample_s = 0.02;
        if operation == "match-count" {
            test.patterns = vec!["south".into()];
        }
        let test = serde_json::to_value(test).unwrap();
        all.push((test.clone(), alone()));
        all.push((with(test.clone(), json!({"setting": "reconfiguration"})), alone()));
        if device != "cpu" {
            all.push((with(test.clone(), json!({"placement": "device"})), alone()));
            all.push((with(test.clone(), json!({"placement": "split:50"})), both()));
            for timing in ["paced", "replay"] {
                all.push((with(test.clone(), json!({"timing": timing})), alone()));
            }
            all.extend(varied(&test, device));
        }
    }
    all
}

/// Whole files, lengths that vary, adaptive placement and several devices.
fn varied(test: &Value, device: &str) -> Vec<(Value, Participants)> {
    let both = || vec!["cpu".to_owned(), device.to_owned()];
    let mut all = vec![
        (with(test.clone(), json!({"sizes": "mixed"})), vec![device.to_owned()]),
        (with(test.clone(), json!({"placement": "adaptive"})), both()),
    ];
    // What is compressed has its lengths already.
    if test["operation"] != "decompress-deflate" {
        let changes = json!({"placement": "adaptive", "sizes": "adaptive", "buffer_size": 16384});
        all.push((with(test.clone(), changes), both()));
    }
    // Chunks run again because their results do not fit.
    if test["operation"] == "decompress-deflate" {
        let changes = json!({"placement": "split:50", "output_size": 1000});
        all.push((with(test.clone(), changes), both()));
    }
    for sizes in ["mixed", "own"] {
        let changes = json!({"placement": "split:50", "input": "files", "sizes": sizes});
        all.push((with(test.clone(), changes), both()));
    }
    // With another device, real or not, and each of them first.
    for other in ["emulated:bf3", "dpu0/cpu"] {
        for (first, last) in [(device, other), (other, device)] {
            let changes = json!({"device": format!("{first}+{last}"), "placement": "split:40+40"});
            let mut participants = both();
            participants.push(other.to_owned());
            all.push((with(test.clone(), changes), participants));
        }
    }
    all
}

/// Traffic, with and without jobs on a device beside it.
fn traffic(data: &DataSet, device: &str) -> Vec<(Value, Participants)> {
    let mut test = data.test(if device.contains("dma") { "copy" } else { "compress-deflate" });
    test.device = device.into();
    let mut beside = serde_json::to_value(test).unwrap();
    let keys = beside.as_object_mut().unwrap();
    for name in ["warmup_s", "sample_s", "timeout_s", "seed"] {
        keys.remove(name);
    }
    let base = times(json!({"kind": "network", "message_size": 4096, "slice_s": 0.01}), 0.1);
    let mut all = Vec::new();
    for pattern in ["stream", "round-trip"] {
        let test = with(base.clone(), json!({"pattern": pattern}));
        all.push((test.clone(), Vec::new()));
        let there = with(test.clone(), json!({"destination_node": "dpu0"}));
        all.push((there, Vec::new()));
        let changes = json!({"beside": beside});
        all.push((with(test.clone(), changes), vec![device.to_owned()]));
        if pattern == "stream" {
            // Paced, by either protocol, from here and from another node.
            for (protocol, source) in [("udp", None), ("tcp", Some("dpu0"))] {
                let paced = json!({
                    "protocol": protocol, "rate": 500.0, "source_node": source, "beside": beside,
                });
                all.push((with(test.clone(), paced), vec![device.to_owned()]));
            }
        }
        if device.starts_with("emulated:") || device.contains("dma") {
            let dma = json!({
                "kind": "dma", "device": device, "initiator": "host", "operation": "read",
                "completion": "poll", "buffer_size": 4096,
            });
            all.push((with(test, json!({"beside": dma})), vec![device.to_owned()]));
        }
    }
    all
}

/// Bytes over links and by devices that copy.
fn moves(device: &str) -> Vec<(Value, Participants)> {
    let test = times(
        json!({
            "kind": "dma", "initiator": "host", "operation": "read", "completion": "poll",
            "measure": "throughput", "buffer_size": 4096,
        }),
        0.01,
    );
    let mut over = vec!["shm", "dpu0/shm"];
    if !device.contains("cpu") && !device.contains('/') {
        over.push(device);
    }
    let participants = |name: &str| match name == device {
        true => vec![name.to_owned()],
        false => Vec::new(),
    };
    over.into_iter()
        .map(|name| {
            let test = with(test.clone(), json!({"device": name}));
            (test, participants(name))
        })
        .collect()
}

/// Tests that use only this machine's cores, with their participants.
fn here() -> Vec<(Value, Participants)> {
    let memory = json!({"kind": "memory", "pattern": "chase", "buffer_size": 65536});
    let hash = json!({
        "kind": "hash", "operation": "hash-xxh3", "variant": "auto", "calls": "row",
        "buffer_size": 64,
    });
    [memory, hash].map(|test| (times(test, 0.002), Vec::new())).into()
}

fn times(test: Value, sample_s: f64) -> Value {
    with(test, json!({"warmup_s": 0.0, "sample_s": sample_s, "timeout_s": 30.0, "seed": 7}))
}

/// Returns the weakest provenance and the weakest timing of the participants.
fn weakest(test: &Value, participants: &Participants) -> (Provenance, Timing) {
    let timing = test.get("timing").or_else(|| test.pointer("/beside/timing"));
    let timing = timing.and_then(|timing| serde_json::from_value(timing.clone()).unwrap());
    let device = test.get("device").or_else(|| test.pointer("/beside/device"));
    // A real device has no other clock, so emulated ones beside it have none.
    let emulated = (device.and_then(Value::as_str).unwrap_or_default())
        .split('+')
        .all(|name| name.starts_with("emulated:"));
    let options = Options {
        timing,
        clock: match timing.is_none() && emulated {
            true => Clock::simulated(),
            false => Clock::default(),
        },
        ..Options::default()
    };
    let weakest = (Provenance::Measured, Timing::Real);
    participants.iter().fold(weakest, |weakest, name| {
        let device = open(name, &options).unwrap();
        let info = device.info();
        (weakest.0.max(info.provenance), weakest.1.max(info.timing))
    })
}

/// Returns the devices that ran jobs. Adaptive placement with one device may give that device none;
/// only the CPU took part then.
fn took_part(sample: &Sample, participants: &Participants) -> Participants {
    let is_idle = sample.placement.as_ref().is_some_and(|record| {
        record.policy == "adaptive" && record.devices.iter().all(|device| device.jobs == 0)
    });
    match is_idle {
        true => vec!["cpu".to_owned()],
        false => participants.clone(),
    }
}

fn look_at(sample: &Sample, test: &Value, participants: &Participants) {
    let participants = &took_part(sample, participants);
    let (provenance, timing) = weakest(test, participants);
    assert_eq!(sample.provenance, Some(provenance), "{test}");
    assert_eq!(sample.timing, Some(timing), "{test}");
    let emulated = provenance == Provenance::Emulated;
    let cpu = sample.cpu.unwrap();
    // Over shared memory a thread stands for the DMA engine, at its own speed.
    let stands_in = test["kind"] == "dma" && cpu.emulator_s > 0.0;
    assert_eq!(cpu.emulator_s > 0.0, emulated || stands_in, "{cpu:?} {test}");
    let is_virtual = timing == Timing::Virtual;
    assert_eq!(sample.late.is_some(), emulated && !is_virtual, "{test}");
    // Host and emulator are not paid twice: no more than all cores for all of the time. An agent of
    // these tests is a part of this process, so what it burns is also the host's here.
    if is_virtual || participants.iter().any(|name| name.contains('/')) {
        return;
    }
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    let seconds = sample.elapsed_ns.unwrap() as f64 / 1e9;
    let spent = cpu.host_s + cpu.emulator_s;
    assert!(spent <= 1.1 * cores * seconds + 0.02, "{cpu:?} {seconds} {test}");
}

fn look_at_all(agents: &Agents) {
    let probes: [Arc<dyn overside_link::agent::Probe>; 2] = [
        Arc::new(network::remote::NetworkProbe { role: Role::Dpu }),
        Arc::new(dma::remote::DmaProbe),
    ];
    let offered = ["cpu".to_owned(), "emulated:bf2".to_owned()];
    let _dpu0 = agents.start_with("dpu0", true, probes.into(), &offered);
    let data = DataSet::new(&text(1 << 17));
    let mut worker = Worker::new();
    let mut measured = std::collections::BTreeMap::new();
    let mut all = here();
    for device in devices() {
        all.extend(jobs(&data, &device));
        all.extend(traffic(&data, &device));
        all.extend(moves(&device));
    }
    for (test, participants) in all {
        let answer = worker.measure_json(&test.to_string()).unwrap();
        let sample: Sample = serde_json::from_str(&answer).unwrap();
        if sample.status == Status::Skipped {
            continue;
        }
        assert_eq!(sample.status, Status::Ok, "{:?} {test}", sample.error);
        look_at(&sample, &test, &participants);
        let is_shared = test["device"].as_str().is_some_and(|name| name.contains('+'));
        let kind = match test["kind"].as_str().unwrap_or("jobs") {
            "jobs" if is_shared => "jobs of several devices",
            "jobs" if test["input"] == "files" => "jobs of files",
            "jobs" if test["sizes"] == "adaptive" => "jobs of adaptive lengths",
            "jobs" if test["output_size"].is_number() => "jobs whose buffers grow",
            kind => kind,
        };
        let kind = kind.to_owned();
        let emulated = sample.provenance == Some(Provenance::Emulated);
        *measured.entry((kind, emulated)).or_insert(0) += 1;
    }
    let placed = [
        "jobs of several devices",
        "jobs of files",
        "jobs of adaptive lengths",
        "jobs whose buffers grow",
    ];
    for kind in ["jobs", "network", "dma"].into_iter().chain(placed) {
        for emulated in [false, true] {
            let count = measured.get(&(kind.to_owned(), emulated));
            assert!(count.is_some(), "{kind} {emulated}: {measured:?}");
        }
    }
}

#[test]
fn a_sample_is_worth_what_the_weakest_of_its_participants_is() {
    let name = "worker::evidence::a_sample_is_worth_what_the_weakest_of_its_participants_is";
    in_own_process(name, look_at_all);
}
