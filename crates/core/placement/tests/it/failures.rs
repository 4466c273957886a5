//! Tests that the output is complete and correct for any failure of the device, and that the report contains
//! the failures.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use common::rigged::{Fault, LIES, Rig, Rigged};
use common::{assert_copied, copying, cpu, run, run_on, stream};
use overside_device::{Clock, JobError, MemoryKind, OpenError, Operation, OperationConfig};
use overside_placement::{
    DeviceSetup, Error, Event, EventKind, Executor, Policy, Report, Retry, Setup, Shares, Target,
    Verify,
};
use proptest::prelude::*;

const SOON: Retry = Retry { first: Duration::from_millis(2), longest: Duration::from_millis(20) };

/// The device and a CPU on its clock.
fn setup(policy: Policy, device: &Arc<Rigged>) -> Setup {
    let clock = device.0.clock();
    Setup {
        cpu: Some(Rig::default().on(clock).device() as _),
        clock: clock.clone(),
        devices: vec![DeviceSetup::new(Arc::clone(device) as _)],
        job_timeout: Duration::from_millis(30),
        retry: SOON,
        ..copying(policy)
    }
}

/// Runs equal chunks and checks all results.
fn survives(policy: Policy, device: &Arc<Rigged>, count: usize) -> Report {
    let chunks = stream(&vec![700; count]);
    let (pieces, report) = run(setup(policy, device), &chunks);
    assert_copied(&pieces, &chunks);
    let of = |target| pieces.iter().filter(|piece| piece.target == target).count() as u64;
    assert_eq!(report.cpu.as_ref().unwrap().chunks, of(Target::Cpu));
    assert_eq!(report.devices[0].chunks, of(Target::Device(0)));
    report
}

fn kinds(report: &Report) -> Vec<EventKind> {
    report.events.iter().map(|event| event.kind).collect()
}

#[test]
fn jobs_that_fail_now_and_then_are_run_again_on_the_cpu() {
    let device = Rig::acting(|nth| (nth % 10 == 9).then_some(Fault::Failure)).device();
    let report = survives(Policy::Device, &device, 100);
    assert_eq!((report.cpu.unwrap().chunks, report.devices[0].chunks), (10, 90));
    let event = &report.events[0];
    assert_eq!((event.kind, event.times), (EventKind::Failed, 10));
    assert!(
        event.message.contains("as injected") && event.message.contains("run again"),
        "{event}"
    );
}

#[test]
fn a_device_that_fails_again_and_again_rests_and_is_tried_again() {
    let device = Rig::acting(|nth| (nth < 20).then_some(Fault::Failure)).device();
    let mut executor = Executor::open(setup(Policy::Device, &device)).unwrap();
    let chunks = stream(&[700; 50]);
    let mut rounds = 0;
    while !kinds(&executor.report()).contains(&EventKind::Recovered) {
        assert_copied(&run_on(&mut executor, &chunks), &chunks);
        device.0.clock().sleep(Duration::from_millis(2));
        rounds += 1;
        assert!(rounds < 1000, "{:?}", executor.report());
    }
    let before = executor.report().devices[0].chunks;
    assert_copied(&run_on(&mut executor, &chunks), &chunks);
    let report = executor.close();
    assert!(report.devices[0].chunks >= before + 49, "it has all again");
    let rested = |event: &Event| event.message.contains("tried again after");
    assert!(report.events.iter().any(rested), "{:?}", report.events);
}

#[test]
fn a_stalled_job_leaves_its_destination_in_quarantine_and_nobody_sees_it() {
    let device = Rig::acting(|nth| (nth == 7).then_some(Fault::Stall)).device();
    let report = survives(Policy::Device, &device, 60);
    assert!(kinds(&report).contains(&EventKind::Stalled), "{:?}", report.events);
    assert_eq!(report.quarantined, 1);
}

#[test]
fn a_device_whose_places_are_all_in_quarantine_holds_nothing_up() {
    for depth in [1, 2, 3] {
        let device = Rig::acting(|nth| (nth < 3).then_some(Fault::Stall)).device();
        let narrow = Setup {
            devices: vec![DeviceSetup { depth, ..DeviceSetup::new(Arc::clone(&device) as _) }],
            ..setup(Policy::split(90.0).unwrap(), &device)
        };
        let chunks = stream(&[700; 60]);
        let (pieces, report) = run(narrow, &chunks);
        assert_copied(&pieces, &chunks);
        assert_eq!(kinds(&report)[0], EventKind::Stalled);
    }
}

#[test]
fn a_device_that_forgets_a_job_is_found_out() {
    let device = Rig::acting(|nth| (nth == 7).then_some(Fault::Silence)).device();
    let report = survives(Policy::split(80.0).unwrap(), &device, 60);
    assert_eq!(kinds(&report)[0], EventKind::Stalled);
    assert!(report.quarantined >= 1);
}

#[test]
fn a_device_that_vanishes_in_the_middle_is_opened_again() {
    let device = Rig::acting(|nth| (nth == 20).then_some(Fault::Loss)).device();
    let mut executor = Executor::open(setup(Policy::split(50.0).unwrap(), &device)).unwrap();
    let chunks = stream(&[700; 60]);
    assert_copied(&run_on(&mut executor, &chunks), &chunks);
    device.0.clock().sleep(SOON.first);
    assert_copied(&run_on(&mut executor, &chunks), &chunks);
    let report = executor.close();
    assert_eq!(device.0.openings(), 2);
    assert_eq!(kinds(&report), [EventKind::Lost, EventKind::Recovered]);
    assert!(report.events[0].message.contains("as injected"));
}

#[test]
fn a_device_that_is_wrong_about_its_jobs_is_dropped() {
    for act in [Some(Fault::Duplicate), Some(Fault::UnknownTag), Some(Fault::BeyondDestination)] {
        let device = Rig::acting(move |nth| if nth == 9 { act } else { None }).device();
        let report = survives(Policy::Device, &device, 60);
        assert_eq!(kinds(&report)[0], EventKind::Misbehaved, "{act:?}");
    }
}

#[test]
fn what_is_called_corrupt_is_seen_by_the_cpu_too() {
    let device = Rig::acting(|nth| (nth == 3).then_some(Fault::FalseCorruption)).device();
    let report = survives(Policy::Device, &device, 20);
    assert_eq!(kinds(&report), [EventKind::FalselyCorrupt]);
}

#[test]
fn corrupt_input_is_a_result_and_no_fault_of_the_device() {
    let device = Rig::default().device();
    let inflate = OperationConfig::new("decompress-deflate".parse::<Operation>().unwrap());
    let setup = Setup { operation: inflate, ..setup(Policy::Device, &device) };
    let (pieces, report) = run(setup, &vec![vec![0xFF; 100]; 5]);
    for piece in &pieces {
        assert!(matches!(piece.result, Err(JobError::Corrupt(_))), "{piece:?}");
        assert_eq!((piece.target, piece.attempts), (Target::Cpu, 2));
        assert!(piece.output().is_none());
    }
    assert_eq!(report.events, []);
}

#[test]
fn refused_chunks_run_on_the_cpu() {
    let device = Rig::acting(|nth| (nth % 7 == 3).then_some(Fault::Refusal)).device();
    let report = survives(Policy::Device, &device, 40);
    assert!(kinds(&report).contains(&EventKind::Refused));
    assert!(report.cpu.unwrap().chunks >= 5);
}

#[test]
fn a_device_that_cannot_be_opened_again_is_tried_with_pauses() {
    let rig = Rig {
        opens: Box::new(|nth| nth != 1 && nth != 2),
        ..Rig::acting(|nth| (nth == 5).then_some(Fault::Loss))
    };
    let device = rig.device();
    let mut executor = Executor::open(setup(Policy::Device, &device)).unwrap();
    let chunks = stream(&[700; 10]);
    let mut rounds = 0;
    while device.0.openings() < 4 {
        assert_copied(&run_on(&mut executor, &chunks), &chunks);
        device.0.clock().sleep(Duration::from_millis(1));
        rounds += 1;
        assert!(rounds < 1000, "{:?}", executor.report());
    }
    assert_copied(&run_on(&mut executor, &chunks), &chunks);
    let kinds = kinds(&executor.close());
    use EventKind::{Lost, NotOpened, Recovered};
    assert_eq!(kinds, [Lost, NotOpened, NotOpened, Recovered]);
}

#[test]
fn a_device_that_goes_on_losing_memory_is_given_up() {
    let device = Rig::acting(|_| Some(Fault::Silence)).device();
    let quick = Setup { job_timeout: Duration::from_millis(1), ..setup(Policy::Device, &device) };
    let mut executor = Executor::open(quick).unwrap();
    let chunks = stream(&[700; 10]);
    let mut rounds = 0;
    while !kinds(&executor.report()).contains(&EventKind::GivenUp) {
        assert_copied(&run_on(&mut executor, &chunks), &chunks);
        device.0.clock().sleep(Duration::from_millis(1));
        rounds += 1;
        assert!(rounds < 10_000, "{:?}", executor.report());
    }
    let (openings, jobs) = (device.0.openings(), device.0.jobs());
    device.0.clock().sleep(2 * SOON.longest);
    assert_copied(&run_on(&mut executor, &chunks), &chunks);
    assert_eq!((device.0.openings(), device.0.jobs()), (openings, jobs));
}

#[test]
fn without_a_cpu_the_error_is_the_result() {
    for (act, expected) in [
        (Some(Fault::Failure), JobError::Failed("as injected".into())),
        (Some(Fault::Stall), JobError::DeadlineExceeded),
        (Some(Fault::Silence), JobError::DeadlineExceeded),
        (Some(Fault::FalseCorruption), JobError::Corrupt("as injected".into())),
    ] {
        let device = Rig::acting(move |nth| if nth == 4 { act } else { None }).device();
        let alone = Setup { cpu: None, ..setup(Policy::Device, &device) };
        let chunks = stream(&[700; 30]);
        let (pieces, _) = run(alone, &chunks);
        assert_eq!(pieces[4].result, Err(expected), "{act:?}");
        assert_eq!(pieces[4].source.len(), 700);
        assert_copied(&pieces[..4], &chunks[..4]);
    }
}

#[test]
fn without_a_cpu_a_device_that_is_gone_ends_its_chunks_and_nothing_hangs() {
    let rig = Rig {
        opens: Box::new(|nth| nth == 0),
        ..Rig::acting(|nth| (nth == 4).then_some(Fault::Loss))
    };
    let device = rig.device();
    let alone = Setup { cpu: None, ..setup(Policy::Device, &device) };
    let (pieces, _) = run(alone, &stream(&[700; 100]));
    assert!(pieces[50..].iter().all(|piece| piece.result.is_err()));
}

#[test]
fn a_device_without_the_operation_is_an_error_unless_the_placement_is_adaptive() {
    let device = Rig::default().device();
    let operation: Operation = "hash-sha256".parse().unwrap();
    let hashing = |policy| Setup {
        cpu: Some(cpu()),
        operation: OperationConfig::new(operation),
        ..setup(policy, &device)
    };
    for policy in [Policy::Device, Policy::split(1.0).unwrap()] {
        let error = Executor::open(hashing(policy)).err().unwrap();
        let unsupported = OpenError::Unsupported { device: "rigged".into(), operation };
        assert_eq!(error, Error::Open(unsupported));
    }
    let (pieces, report) = run(hashing(Policy::Adaptive), &stream(&[700; 10]));
    assert!(pieces.iter().all(|piece| piece.output().is_some_and(|digest| digest.len() == 32)));
    assert_eq!(kinds(&report), [EventKind::Unsupported]);
}

#[test]
fn a_policy_needs_its_targets() {
    let none = Setup { cpu: None, ..copying(Policy::Cpu) };
    let error = Executor::open(none.clone()).err().unwrap();
    assert_eq!(error, Error::NoTarget { policy: Policy::Cpu, target: Target::Cpu });
    for policy in [Policy::Device, Policy::split(50.0).unwrap(), Policy::Adaptive] {
        let setup = Setup { policy, cpu: Some(cpu()), ..none.clone() };
        let error = Executor::open(setup).err().unwrap();
        assert_eq!(error, Error::NoTarget { policy, target: Target::Device(0) });
    }
    let with = |count| Setup {
        devices: vec![DeviceSetup::new(Rig::default().device()); count],
        policy: "split:40+20".parse().unwrap(),
        cpu: Some(cpu()),
        ..none.clone()
    };
    let refused = |count| Executor::open(with(count)).err().map(|error| error.to_string());
    let said = refused(1).unwrap();
    assert!(said.contains("split:40+20") && said.contains("1 devices"), "{said}");
    assert_eq!(refused(2), None);
    assert!(matches!(Executor::open(with(5)), Err(Error::TooManyDevices(5))));
}

#[test]
fn a_device_that_has_no_place_for_anything_is_found_out() {
    for policy in [Policy::Device, Policy::split(50.0).unwrap()] {
        let rig = Rig::acting(|nth| if nth < 9 { None } else { Some(Fault::BackPressure) });
        let report = survives(policy, &rig.device(), 60);
        assert_eq!(kinds(&report)[0], EventKind::Stalled, "{:?}", report.events);
        assert_eq!(report.quarantined, 0);
    }
}

#[test]
fn settings_without_measure_are_taken_for_the_nearest_that_can_be() {
    for (depth, window, time) in [(0, Some(0), Duration::ZERO), (usize::MAX, None, Duration::MAX)] {
        for policy in [Policy::Device, Policy::split(50.0).unwrap(), Policy::Adaptive] {
            let rig = Rig {
                memory: MemoryKind::Registered,
                ..Rig::acting(|nth| (nth == 3).then_some(Fault::Loss))
            };
            let rig = rig.on(&Clock::default());
            let extreme = Setup {
                cpu_depth: depth,
                devices: vec![DeviceSetup { depth, ..DeviceSetup::new(rig.device()) }],
                window,
                job_timeout: time,
                retry: Retry { first: time, longest: time },
                ..copying(policy)
            };
            let chunks = stream(&[700; 60]);
            let (pieces, _) = run(extreme, &chunks);
            assert_copied(&pieces, &chunks);
        }
    }
}

#[test]
fn buffers_of_no_length_hold_empty_chunks_and_those_beyond_all_memory_are_an_error() {
    for policy in [Policy::Device, Policy::split(50.0).unwrap(), Policy::Adaptive] {
        let device = Rig::default().device();
        let sized = |bytes| Setup {
            source_bytes: bytes,
            destination_bytes: bytes,
            ..setup(policy, &device)
        };
        let chunks = stream(&[0; 20]);
        let (pieces, _) = run(sized(0), &chunks);
        assert_copied(&pieces, &chunks);
        let error = Executor::open(sized(usize::MAX)).err();
        assert!(matches!(error, Some(Error::Open(_))), "{error:?}");
    }
}

fn acts() -> impl Strategy<Value = Vec<Option<Fault>>> {
    let act = prop_oneof![
        20 => Just(None),
        3 => Just(Some(Fault::Reordering)),
        1 => Just(Some(Fault::Failure)),
        1 => Just(Some(Fault::FalseCorruption)),
        1 => Just(Some(Fault::Stall)),
        1 => Just(Some(Fault::Silence)),
        1 => Just(Some(Fault::Loss)),
        1 => Just(Some(Fault::Duplicate)),
        1 => Just(Some(Fault::UnknownTag)),
        1 => Just(Some(Fault::BeyondDestination)),
        1 => Just(Some(Fault::Refusal)),
        1 => prop::sample::select(&LIES[..]).prop_map(Some),
    ];
    prop::collection::vec(act, 1..100)
}

/// Placements for `devices` devices.
fn policies(devices: usize) -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Device),
        prop::collection::vec(0.0..=1.0, devices + 1).prop_map(|parts: Vec<f64>| {
            let total = parts.iter().sum::<f64>().max(1e-9);
            let percent: Vec<f64> = parts[1..].iter().map(|part| 100.0 * part / total).collect();
            Policy::Split(Shares::new(&percent).unwrap())
        }),
        Just(Policy::Adaptive),
    ]
}

/// A placement, and the faults of each of its devices.
fn setups() -> impl Strategy<Value = (Policy, Vec<Vec<Option<Fault>>>)> {
    (1..=3_usize)
        .prop_flat_map(|devices| (policies(devices), prop::collection::vec(acts(), devices)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// One after the other or all at once: the output is complete and in order.
    #[test]
    fn the_output_is_the_same_whatever_goes_wrong(
        (policy, devices) in setups(),
        lengths in prop::collection::vec(0..5000_usize, 1..120),
        window in 1..40_usize,
    ) {
        let device = |acts: Vec<_>| {
            let rig = Rig::acting(move |nth| acts[nth as usize % acts.len()]);
            // Beside real threads, in real time.
            DeviceSetup::new(rig.on(&Clock::default()).device())
        };
        let setup = Setup {
            devices: devices.into_iter().map(device).collect(),
            window: Some(window),
            job_timeout: Duration::from_millis(5),
            retry: SOON,
            verify: Verify::All,
            ..copying(policy)
        };
        let chunks = stream(&lengths);
        let (pieces, _) = run(setup, &chunks);
        assert_copied(&pieces, &chunks);
    }
}
