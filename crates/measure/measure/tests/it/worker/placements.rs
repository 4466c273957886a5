//! Samples of placements: their content, and invalid ones.

use crate::worker::inputs::{DataSet, measured, text};
use overside_device::{Provenance, Timing};
use overside_measure::audit::{Fault, Times, faulty_device};
use overside_measure::{FailureKind, Sample, Setting, Status, Test, Worker};
use overside_model::Initiator;
use overside_placement::Policy;

/// A test of `operation` on an emulated BlueField-2 beside this machine's cores.
fn placed(data: &DataSet, operation: &str, placement: &str) -> Test {
    Test {
        device: "emulated:bf2".into(),
        timing: None,
        placement: Some(placement.parse().unwrap()),
        sample_s: 0.03,
        ..data.test(operation)
    }
}

fn warned(sample: &Sample, kind: &str) -> bool {
    sample.warnings.iter().any(|warning| warning.kind == kind)
}

/// The figures follow from each other and from each target's work.
fn figures_agree(test: &Test, sample: &Sample) {
    let close = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs().max(other.abs());
    let metric = |name: &str| sample.metrics[name];
    let (work, placed) = (sample.work.unwrap(), sample.placement.as_ref().unwrap());
    let seconds = sample.elapsed_ns.unwrap() as f64 / 1e9;
    let targets: Vec<_> = (placed.cpu.iter())
        .map(|cpu| ("cpu".to_string(), cpu))
        .chain(placed.devices.iter().enumerate().map(|(index, device)| {
            let number = if index > 0 { (index + 1).to_string() } else { String::new() };
            (format!("device{number}"), device)
        }))
        .collect();
    let sum = |of: fn(&overside_measure::TargetRecord) -> u64| -> u64 {
        targets.iter().map(|(_, target)| of(target)).sum()
    };
    assert_eq!(work.jobs, sum(|target| target.jobs));
    assert_eq!(work.bytes, sum(|target| target.bytes));
    assert_eq!(work.bytes, work.jobs * test.buffer_size);
    assert!(close(metric("throughput"), work.bytes as f64 / 1e6 / seconds));
    let share = |bytes: u64| bytes as f64 / work.bytes as f64 * 100.0;
    let devices = placed.devices.iter().map(|target| target.bytes).sum();
    assert!(close(metric("device_share"), share(devices)));
    let host_s = sample.cpu.unwrap().host_s;
    assert!(close(metric("cpu_utilisation"), host_s / seconds * 100.0));
    for (name, target) in &targets {
        let own = sample.metrics.get(&format!("{name}_own_share"));
        assert_eq!(own.is_some(), placed.devices.len() > 1 && name != "cpu");
        assert!(own.is_none_or(|own| close(*own, share(target.bytes))));
        let ran = target.jobs > 0;
        let name = format!("{name}_target_throughput");
        // A target is at work no longer than the sample takes.
        let rate = sample.metrics.get(&name).copied();
        assert_eq!(rate.is_some(), ran, "{name}");
        let least = target.bytes as f64 / 1e6 / seconds;
        assert!(rate.is_none_or(|rate| rate >= least * 0.999), "{name}");
    }
}

#[test]
fn every_placement_of_every_operation_is_measured_and_verified() {
    let data = DataSet::new(&text(1 << 18));
    let mut worker = Worker::new();
    for operation in ["compress-deflate", "decompress-deflate", "match-count"] {
        let mut values = Vec::new();
        for placement in ["cpu", "device", "split:40", "adaptive"] {
            let mut test = placed(&data, operation, placement);
            if operation == "match-count" {
                test.patterns = vec!["Ramp to (.+)".into()];
            }
            let sample = measured(&mut worker, &test);
            figures_agree(&test, &sample);
            let placed = sample.placement.as_ref().unwrap();
            assert_eq!(placed.policy, placement);
            assert_eq!(placed.initiator, Initiator::Host);
            assert_eq!(placed.bounce_copies, 0, "{operation} {placement}");
            assert!(placed.events.is_empty(), "{:?}", placed.events);
            let on_device = placed.devices.first().map_or(0, |target| target.jobs);
            let provenance = match on_device {
                0 => Provenance::Measured,
                _ => Provenance::Emulated,
            };
            assert_eq!(sample.provenance, Some(provenance), "{operation} {placement}");
            assert_eq!(sample.timing, Some(Timing::Virtual), "one clock for all placements");
            assert_eq!(sample.metrics.contains_key("wall_throughput"), placement == "cpu");
            assert_eq!(sample.late, None);
            let share = sample.metrics["device_share"];
            match placement {
                "cpu" => assert_eq!(share, 0.0),
                "device" => assert_eq!(share, 100.0),
                "adaptive" => assert!(placed.decision.is_some() && placed.decisions > 0),
                _ => {
                    // Of what was pushed at any time it is off by at most half a chunk; the timed
                    // part begins and ends somewhere. Chunks are weighed by their sources.
                    let chunk = 100.0 / sample.work.unwrap().jobs as f64;
                    assert!((share - 40.0).abs() <= chunk + 0.5, "{share}");
                }
            }
            let check = sample.check.unwrap();
            assert_eq!(check.buffers, 16);
            values.push(check.value);
        }
        assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{values:?}");
    }
}

#[test]
fn several_devices_share_a_stream_with_the_cpu() {
    let data = DataSet::new(&text(1 << 18));
    let mut worker = Worker::new();
    for placement in ["device", "split:30+20", "split:90+10", "adaptive"] {
        let test = Test {
            device: "emulated:bf2+emulated:bf3".into(),
            ..placed(&data, "decompress-deflate", placement)
        };
        let sample = measured(&mut worker, &test);
        figures_agree(&test, &sample);
        let placed = sample.placement.as_ref().unwrap();
        assert_eq!((placed.policy.as_str(), placed.devices.len()), (placement, 2));
        assert!(placed.events.is_empty(), "{:?}", placed.events);
        assert_eq!(sample.timing, Some(Timing::Virtual));
        assert_eq!((sample.provenance, &sample.model), (Some(Provenance::Emulated), &None));
        for (target, name) in placed.devices.iter().zip(test.devices()) {
            let ran = target.applied.as_ref().map(|applied| applied.device.as_str());
            assert_eq!(ran, (target.jobs > 0).then_some(name));
        }
        if let Some(shares) = placement.strip_prefix("split:") {
            let chunk = 100.0 / sample.work.unwrap().jobs as f64;
            let asked = shares.split('+').map(|share| share.parse::<f64>().unwrap());
            for (name, asked) in ["device", "device2"].iter().zip(asked) {
                let share = sample.metrics[&format!("{name}_own_share")];
                assert!((share - asked).abs() <= 2.0 * chunk + 0.5, "{placement} {name}: {share}");
            }
        }
    }
    let refused = Test {
        device: "emulated:bf2+emulated:bf3".into(),
        ..placed(&data, "decompress-deflate", "split:50")
    };
    let sample = worker.measure(&refused);
    let reason = sample.error.map(|error| error.message).unwrap();
    assert!(reason.contains("split:50") && reason.contains("2 devices"), "{reason}");
}

#[test]
fn two_targets_of_this_machine_are_measured() {
    let data = DataSet::new(&text(1 << 18));
    let test = Test {
        device: "cpu".into(),
        timing: None,
        variant: "zlib".into(),
        cpu_variant: "libdeflate".into(),
        ..placed(&data, "compress-deflate", "split:50")
    };
    let sample = measured(&mut Worker::new(), &test);
    figures_agree(&test, &sample);
    assert_eq!(sample.provenance, Some(Provenance::Measured));
    assert_eq!((sample.late, &sample.model), (None, &None));
    let placed = sample.placement.unwrap();
    let variant =
        |target: &overside_measure::TargetRecord| target.applied.as_ref().unwrap().variant.clone();
    assert_eq!(variant(placed.cpu.as_ref().unwrap()), "libdeflate");
    assert_eq!(variant(&placed.devices[0]), "zlib");
    let method = sample.check.unwrap().method;
    assert!(method.contains(';'), "each target has its own verifier: {method}");
}

#[test]
fn reconfiguration_sets_both_targets_up_for_each_stream_and_counts_the_time() {
    let data = DataSet::new(&text(1 << 17));
    let mut worker = Worker::new();
    let mut test = placed(&data, "decompress-deflate", "split:50");
    let steady = measured(&mut worker, &test);
    let placed = steady.placement.as_ref().unwrap();
    assert_eq!(placed.devices[0].setups, 1);
    assert_eq!(placed.cpu.as_ref().unwrap().setups, 1);
    assert!(placed.streams > 1);

    test.setting = Setting::Reconfiguration;
    test.sample_s = 0.15;
    let anew = measured(&mut worker, &test);
    figures_agree(&test, &anew);
    let placed = anew.placement.as_ref().unwrap();
    assert!(placed.streams >= 1);
    assert_eq!(anew.work.unwrap().bytes, placed.streams * 65536);
    assert_eq!(placed.devices[0].setups, placed.streams);
    assert_eq!(placed.cpu.as_ref().unwrap().setups, placed.streams);
    // The profile's 13.5 ms, each time.
    let ended = anew.stages["device_end_total_ns"];
    assert!(ended >= 13.5e6 * placed.streams as f64, "{ended}");
    assert!(anew.elapsed_ns.unwrap() as f64 >= ended);
    assert!(anew.stages["cpu_init_total_ns"] > 0.0);
    assert!(anew.metrics["throughput"] < steady.metrics["throughput"]);

    // The CPU alone has no card to wait for, though in real time it may wait for its turn.
    test.placement = Some(Policy::Cpu);
    let is_faster = |_| {
        let alone = measured(&mut worker, &test);
        assert!(!alone.stages.contains_key("device_end_total_ns"));
        alone.metrics["throughput"] > anew.metrics["throughput"]
    };
    assert!((0..10).any(is_faster));
}

/// All of a card's cores and none of its engine: the engine's 13.5 ms of a context are not paid.
#[test]
fn a_device_without_a_share_costs_nothing() {
    let data = DataSet::new(&text(1 << 17));
    let mut worker = Worker::new();
    let mut times = |placement: &str| {
        let test = Test {
            device: "emulated:bf2-cores+emulated:bf2-soc".into(),
            setting: Setting::Reconfiguration,
            ..placed(&data, "compress-deflate", placement)
        };
        let sample = measured(&mut worker, &test);
        let placed = sample.placement.unwrap();
        let setups: Vec<bool> = placed.devices.iter().map(|device| device.setups > 0).collect();
        let each_ns = sample.elapsed_ns.unwrap() as f64 / placed.streams as f64;
        (setups, each_ns)
    };
    let (setups, idle_ns) = times("split:100+0");
    assert_eq!(setups, [true, false]);
    let (setups, both_ns) = times("split:90+10");
    assert_eq!(setups, [true, true]);
    assert!(idle_ns < 13.5e6 && both_ns >= 13.5e6, "{idle_ns} {both_ns}");
}

#[test]
fn stages_are_told_a_job_and_in_total() {
    let data = DataSet::new(&text(1 << 17));
    let test = placed(&data, "decompress-deflate", "split:50");
    let sample = measured(&mut Worker::new(), &test);
    let device = sample.placement.unwrap().devices.remove(0);
    for stage in ["queueing", "transfer", "engine"] {
        let total = sample.stages[&format!("device_{stage}_total_ns")];
        let mean = sample.stages[&format!("{stage}_ns")];
        assert!((total - mean * device.jobs as f64).abs() <= 1e-6 * total.max(1.0), "{stage}");
    }
    // The engine's own rate, beside what the submitter saw.
    let engine = device.bytes as f64 / sample.stages["device_engine_total_ns"] * 1e3;
    assert!((sample.metrics["engine_throughput"] / engine - 1.0).abs() < 1e-9);
}

#[test]
fn what_a_target_cannot_do_is_skipped_with_the_reason() {
    let data = DataSet::new(&text(1 << 16));
    let mut worker = Worker::new();
    let mut test = placed(&data, "compress-deflate", "split:10");
    test.device = "emulated:bf3".into();
    let sample = worker.measure(&test);
    assert_eq!(sample.status, Status::Skipped);
    assert!(sample.reason.unwrap().contains("emulated:bf3 cannot compress-deflate"));
    // Alone, the CPU can.
    test.placement = Some(Policy::Cpu);
    measured(&mut worker, &test);
    // The CPU target must support it as well.
    let mut test = placed(&data, "compress-deflate", "split:10");
    test.cpu_variant = "abacus".into();
    let sample = worker.measure(&test);
    assert_eq!(sample.status, Status::Skipped);
    assert!(sample.reason.unwrap().contains("abacus"));
}

#[test]
fn a_device_that_fails_in_a_split_is_told_of() {
    let data = DataSet::new(&text(1 << 17));
    for (fault, times) in [(Fault::Failure, Times::Once), (Fault::Loss, Times::Once)] {
        let mut test = placed(&data, "decompress-deflate", "split:50");
        // Long enough for the device to get there on a busy machine.
        test.sample_s = 0.3;
        // After the verification, in which each buffer runs once.
        let mut worker = faulty_device(fault, 20, times);
        let sample = measured(&mut worker, &test);
        figures_agree(&test, &sample);
        assert!(warned(&sample, "fallback"), "{fault:?}: {:?}", sample.warnings);
        let placed = sample.placement.unwrap();
        assert!(!placed.events.is_empty());
        assert!(placed.devices[0].failed > 0, "{fault:?}");
    }
}

#[test]
fn a_device_that_is_measured_alone_has_nobody_to_do_its_work() {
    let data = DataSet::new(&text(1 << 17));
    let test = placed(&data, "decompress-deflate", "device");
    let sample = faulty_device(Fault::Failure, 20, Times::Always).measure(&test);
    assert_eq!(sample.status, Status::Failed);
    assert_eq!(sample.error.unwrap().kind, FailureKind::Job);
    assert!(sample.metrics.is_empty());
}

#[test]
fn a_wrong_result_of_one_target_is_a_failed_sample() {
    let data = DataSet::new(&text(1 << 17));
    for (fault, operation) in [
        (Fault::WrongByte, "compress-deflate"),
        (Fault::FailureAsDone, "decompress-deflate"),
        (Fault::FewerBytes, "decompress-deflate"),
        (Fault::OtherDevice, "decompress-deflate"),
    ] {
        for placement in ["split:50", "device"] {
            let test = placed(&data, operation, placement);
            let sample = faulty_device(fault, 0, Times::Always).measure(&test);
            assert_eq!(sample.status, Status::Failed, "{fault:?} {placement}");
            assert_eq!(sample.error.unwrap().kind, FailureKind::Verification, "{fault:?}");
        }
    }
    // Also when it begins under the clock.
    let test = placed(&data, "decompress-deflate", "split:50");
    let sample = faulty_device(Fault::FailureAsDone, 20, Times::Always).measure(&test);
    assert_eq!(sample.status, Status::Failed);
}

#[test]
fn a_core_of_this_machine_is_not_one_of_the_cards() {
    let data = DataSet::new(&text(1 << 17));
    let mut worker = Worker::new();
    let mut test = placed(&data, "decompress-deflate", "split:50");
    test.device = "emulated:bf2-soc".into();
    let sample = measured(&mut worker, &test);
    assert!(warned(&sample, "stand-in"));
    assert_eq!(sample.placement.unwrap().initiator, Initiator::Soc);
    let missing = sample.model.unwrap().missing;
    assert!(missing.iter().any(|term| term.contains("link")), "{missing:?}");
    test.placement = Some(Policy::Device);
    assert!(!warned(&measured(&mut worker, &test), "stand-in"));
}

#[test]
fn a_placement_is_written_as_everywhere_else() {
    let data = DataSet::new(&text(1 << 16));
    let test = placed(&data, "copy", "split:12.5");
    let text = serde_json::to_string(&test).unwrap();
    assert!(text.contains(r#""placement":"split:12.5""#), "{text}");
    assert_eq!(Test::parse(&text).unwrap(), test);
    let wrong = text.replace("split:12.5", "split:101");
    let error = Test::parse(&wrong).unwrap_err().to_string();
    assert!(error.contains("percentage"), "{error}");
}
