//! Emulated cards as the second target: real results, in every mode.

use crate::common;

use std::sync::Arc;

use common::{cpu, run};
use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_device::{Device, Operation, OperationConfig, Provenance};
use overside_model::profile;
use overside_ops::prepare;
use overside_placement::{
    ChunkResult, DeviceSetup, Error, Event, EventKind, Executor, Policy, Report, Setup, Target,
};

const CHUNK: usize = 32 << 10;

fn card(name: &str, mode: Mode) -> Arc<dyn Device> {
    Arc::new(EmulatedDevice::new(profile(name).unwrap(), mode))
}

fn operation(name: &str) -> OperationConfig {
    OperationConfig::new(name.parse::<Operation>().unwrap())
}

fn setup(policy: Policy, device: Arc<dyn Device>, name: &str) -> Setup {
    Setup {
        cpu: Some(cpu()),
        devices: vec![DeviceSetup::new(device)],
        source_bytes: CHUNK,
        destination_bytes: CHUNK,
        ..Setup::new(operation(name), policy)
    }
}

/// Lines that compress well, each chunk its own.
fn text(chunks: usize) -> Vec<Vec<u8>> {
    (0..chunks)
        .map(|chunk| {
            let lines = (0..).map(|line| format!("{chunk}: line {line} of no importance at all\n"));
            lines.flat_map(String::into_bytes).take(CHUNK).collect()
        })
        .collect()
}

/// Runs the operation `name` on each input with the CPU library, and returns the outputs.
fn each(name: &str, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut kernel = prepare(&operation(name)).unwrap().kernel().unwrap();
    (inputs.iter())
        .map(|input| {
            let mut out = vec![0; CHUNK];
            let done = kernel.run(&[input], &mut out).unwrap();
            out.truncate(done.written);
            out
        })
        .collect()
}

fn outputs(pieces: &[ChunkResult]) -> Vec<Vec<u8>> {
    pieces.iter().map(|piece| piece.output().unwrap().to_vec()).collect()
}

/// Asserts that no chunk failed. On a busy machine the thread that stands for a card may not run for a while.
fn assert_undisturbed(report: &Report) {
    let is_wrong = |event: &&Event| event.kind != EventKind::Stalled;
    assert_eq!(report.events.iter().find(is_wrong), None);
}

#[test]
fn what_both_targets_compress_is_one_stream() {
    let plain = text(40);
    for mode in [Mode::Functional, Mode::Paced, Mode::Replay] {
        for policy in [Policy::Device, Policy::split(50.0).unwrap(), Policy::Adaptive] {
            let setup = setup(policy, card("bf2", mode), "compress-deflate");
            let (pieces, report) = run(setup, &plain);
            assert!(each("decompress-deflate", &outputs(&pieces)) == plain, "{mode:?} {policy}");
            assert_undisturbed(&report);
            assert_eq!(report.bounce_copies, 0);
            for piece in &pieces {
                let applied = piece.applied.as_ref().unwrap();
                let expected = match piece.target {
                    Target::Cpu => ("cpu", Provenance::Measured),
                    Target::Device(_) => ("emulated:bf2", Provenance::Emulated),
                };
                assert_eq!((applied.device.as_str(), applied.provenance), expected);
            }
        }
    }
}

#[test]
fn what_was_compressed_is_restored_by_both_targets() {
    let plain = text(40);
    for (format, name) in [("deflate", "bf2"), ("deflate", "bf3"), ("lz4-block", "bf3")] {
        let packed = each(&format!("compress-{format}"), &plain);
        for policy in [Policy::split(30.0).unwrap(), Policy::Adaptive] {
            let restore = format!("decompress-{format}");
            let setup = setup(policy, card(name, Mode::Replay), &restore);
            let (pieces, report) = run(setup, &packed);
            assert!(outputs(&pieces) == plain, "{format} {name} {policy}");
            assert_undisturbed(&report);
        }
    }
}

#[test]
fn each_target_is_on_its_own_ledger() {
    let setup =
        setup(Policy::split(50.0).unwrap(), card("bf2", Mode::Functional), "compress-deflate");
    let (_, report) = run(setup, &text(40));
    let (cpu, device) = (report.cpu.unwrap(), report.devices[0].clone());
    assert!(cpu.cpu_time.host_ns > 0 && cpu.cpu_time.emulator_ns == 0);
    assert!(device.cpu_time.emulator_ns > 0 && device.cpu_time.host_ns == 0);
    assert_eq!((cpu.chunks, device.chunks), (20, 20));
    assert_eq!((cpu.source_bytes, device.source_bytes), (20 * CHUNK as u64, 20 * CHUNK as u64));
    assert!(cpu.busy_ns > 0 && device.busy_ns > 0 && cpu.engine_ns > 0);
    assert!(report.elapsed_ns >= cpu.busy_ns.max(device.busy_ns));
}

#[test]
fn a_card_that_only_decompresses_is_no_target_for_compression() {
    let bf3 = || card("bf3", Mode::Replay);
    let split = setup(Policy::split(50.0).unwrap(), bf3(), "compress-deflate");
    assert!(matches!(Executor::open(split), Err(Error::Open(_))));
    let plain = text(10);
    let (pieces, report) = run(setup(Policy::Adaptive, bf3(), "compress-deflate"), &plain);
    assert!(each("decompress-deflate", &outputs(&pieces)) == plain);
    assert!(report.events[0].message.contains("everything runs on the cpu"));
}

#[test]
fn reconfiguration_takes_the_time_that_the_card_takes() {
    let device = card("bf2", Mode::Paced);
    let mut executor =
        Executor::open(setup(Policy::split(50.0).unwrap(), device, "compress-deflate")).unwrap();
    let plain = text(10);
    for _ in 0..2 {
        executor.reconfigure().unwrap();
        let pieces = common::run_on(&mut executor, &plain);
        assert!(each("decompress-deflate", &outputs(&pieces)) == plain);
    }
    let report = executor.close();
    let device = report.devices[0].clone();
    assert_eq!((device.setups, report.cpu.unwrap().setups), (3, 3));
    let operation = "compress-deflate".parse().unwrap();
    let bf2 = profile("bf2").unwrap();
    let typical = bf2.context_end(operation).unwrap().interval().typ;
    assert!(device.lifecycle.end_ns.unwrap() as f64 >= 2.0 * typical, "{device:?}");
}

#[test]
fn nothing_is_reconfigured_under_chunks() {
    let setup = setup(Policy::Cpu, card("bf2", Mode::Replay), "compress-deflate");
    let mut executor = Executor::open(setup).unwrap();
    executor.push(common::foreign(b"some text").into()).unwrap();
    assert_eq!(executor.reconfigure(), Err(Error::InFlight(1)));
}
