//! Adaptive placement finds out who is faster and acts on it.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::rigged::{Fault, Rig, Rigged};
use common::{assert_copied, copying, run, stream};
use overside_placement::{DeviceSetup, EventKind, Policy, Report, Retry, Setup, Target};
use overside_testkit::assert_contains;

const CHUNK: usize = 8000;

/// Runs equal chunks on two such devices; returns the device's part of the bytes.
fn share(cpu: Rig, device: &Arc<Rigged>, chunks: usize) -> (f64, Report) {
    let setup = Setup {
        cpu: Some(cpu.on(device.0.clock()).device() as _),
        devices: vec![DeviceSetup::new(Arc::clone(device) as _)],
        job_timeout: Duration::from_millis(200),
        retry: Retry { first: Duration::from_secs(60), longest: Duration::from_secs(60) },
        clock: device.0.clock().clone(),
        ..copying(Policy::Adaptive)
    };
    let chunks = stream(&vec![CHUNK; chunks]);
    let (pieces, report) = run(setup, &chunks);
    assert_copied(&pieces, &chunks);
    let bytes = report.devices[0].source_bytes;
    let all = chunks.len() * CHUNK;
    (bytes as f64 / all as f64, report)
}

#[test]
fn a_short_stream_does_not_even_open_the_device() {
    let device = Rig::paced(1e9).device();
    let (part, report) = share(Rig::default(), &device, 8);
    assert_eq!((part, device.0.openings()), (0.0, 0));
    assert_eq!(report.devices[0].setups, 0);
}

#[test]
fn a_much_faster_device_gets_most_of_the_work() {
    let device = Rig::paced(160e6).device();
    let (part, report) = share(Rig::paced(8e6), &device, 4000);
    assert!(part > 0.6, "{part}: {:?}", report.decisions);
    assert_eq!(report.events, []);
}

#[test]
fn a_device_of_no_use_gets_next_to_nothing() {
    let device = Rig::paced(1e6).device();
    let (part, report) = share(Rig::paced(40e6), &device, 4000);
    assert!(part < 0.2, "{part}: {:?}", report.decisions);
}

#[test]
fn targets_that_are_alike_share_the_work() {
    let device = Rig::paced(10e6).device();
    let (part, report) = share(Rig::paced(10e6), &device, 2000);
    assert!((0.15..0.85).contains(&part), "{part}: {:?}", report.decisions);
}

#[test]
fn a_dead_device_costs_its_time_limit_once() {
    let device = Rig::acting(|_| Some(Fault::Silence)).device();
    let (part, report) = share(Rig::paced(20e6), &device, 2000);
    assert_eq!((part, device.0.openings()), (0.0, 1));
    let kinds: Vec<_> = report.events.iter().map(|event| event.kind).collect();
    // It was silent, and then its time was over.
    assert_eq!(kinds, [EventKind::Stalled; 2]);
}

#[test]
fn each_decision_is_told_with_its_numbers() {
    let device = Rig::paced(80e6).device();
    let (_, report) = share(Rig::paced(10e6), &device, 1000);
    let first = &report.decisions[0];
    assert_eq!((first.fraction, first.probe), (0.0, false));
    assert!(report.decisions.iter().any(|decided| decided.probe));
    let times = report.decisions.windows(2);
    assert!(times.into_iter().all(|two| two[0].at_ns <= two[1].at_ns));
    let last = report.decisions.last().unwrap();
    assert_contains(&last.reason, "MB/s");
}

/// Runs equal chunks on a slow CPU and such a device that has a minute for each job; returns how
/// long that takes.
fn with_patience(device: &Arc<Rigged>, chunks: usize) -> (Duration, Report) {
    with_time(device, chunks, Duration::from_secs(60))
}

/// Runs equal chunks like [`with_patience`], with `job_timeout` for each job.
fn with_time(device: &Arc<Rigged>, chunks: usize, job_timeout: Duration) -> (Duration, Report) {
    let setup = Setup {
        cpu: Some(Rig::paced(20e6).on(device.0.clock()).device() as _),
        devices: vec![DeviceSetup::new(Arc::clone(device) as _)],
        job_timeout,
        clock: device.0.clock().clone(),
        ..copying(Policy::Adaptive)
    };
    let chunks = stream(&vec![CHUNK; chunks]);
    let begin = setup.clock.now();
    let clock = setup.clock.clone();
    let (pieces, report) = run(setup, &chunks);
    assert_copied(&pieces, &chunks);
    let of = |target| pieces.iter().filter(|piece| piece.target == target).count() as u64;
    assert_eq!(report.cpu.as_ref().unwrap().chunks, of(Target::Cpu));
    assert_eq!(report.devices[0].chunks, of(Target::Device(0)));
    (clock.since(begin), report)
}

#[test]
fn the_cpu_does_not_wait_for_a_device_that_falls_silent() {
    // At the first look, in the middle of a split, and when the device works alone.
    for (jobs, rate) in [(0, 20e6), (300, 20e6), (800, 500e6)] {
        let rig = Rig::acting(move |nth| if nth < jobs { None } else { Some(Fault::Silence) });
        let rig = Rig { rate: Some(Box::new(move |_| rate)), ..rig };
        let (took, report) = with_patience(&rig.device(), 1500);
        assert!(took < Duration::from_secs(10), "{jobs}: {took:?}");
        assert_eq!(report.events[0].kind, EventKind::Stalled, "{report:?}");
        assert!(report.devices[0].chunks <= jobs);
    }
}

#[test]
fn what_a_silent_device_brings_late_is_nobodys_and_no_reason_to_open_it_again() {
    let nth = AtomicU64::new(0);
    let rig = Rig {
        // One job takes four tenths of a second.
        rate: Some(Box::new(move |_| {
            let hiccup = nth.fetch_add(1, Ordering::Relaxed) == 300;
            if hiccup { CHUNK as f64 / 0.4 } else { 100e6 }
        })),
        ..Rig::default()
    };
    let (device, inside) = rig.parts();
    let (_, report) = with_patience(&device, 5000);
    let target = report.devices[0].clone();
    assert_eq!(report.events.len(), 1, "{:?}", report.events);
    assert_eq!((target.failed, device.0.openings()), (report.events[0].times, 1));
    assert_eq!(inside.done().len() as u64, target.chunks + target.failed);
}

#[test]
fn what_goes_wrong_with_a_job_that_the_cpu_did_long_ago_is_still_told() {
    let wrong = Duration::from_millis(250);
    for (act, kind) in [
        (Some(Fault::Stall), EventKind::Stalled),
        (Some(Fault::Silence), EventKind::Stalled),
        (Some(Fault::Failure), EventKind::Failed),
    ] {
        let nth = AtomicU64::new(0);
        let rig = Rig {
            rate: Some(Box::new(move |_| {
                let slow =
                    act == Some(Fault::Failure) && nth.fetch_add(1, Ordering::Relaxed) == 300;
                if slow { CHUNK as f64 / 0.25 } else { 100e6 }
            })),
            ..Rig::acting(move |nth| if (300..305).contains(&nth) { act } else { None })
        };
        let limit = if act == Some(Fault::Failure) { wrong * 100 } else { wrong };
        let device = rig.device();
        let (_, report) = with_time(&device, 2500, limit);
        let kinds: Vec<_> = report.events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds[0], EventKind::Stalled, "{act:?}: {:?}", report.events);
        assert!(kinds[1..].contains(&kind), "{act:?}: {:?}", report.events);
        assert!(!kinds.contains(&EventKind::Misbehaved), "{act:?}: {:?}", report.events);
        assert_eq!(report.quarantined > 0, act != Some(Fault::Failure), "{act:?}: {report:?}");
    }
}
