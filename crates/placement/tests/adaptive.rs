//! Adaptive placement finds out who is faster and acts on it.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::rigged::{Act, Rig, Rigged};
use common::{assert_copied, copying, run, stream};
use overside_placement::{EventKind, Policy, Report, Retry, Setup};

const CHUNK: usize = 8000;

/// A device of so many bytes a second.
fn paced(rate: f64) -> Rig {
    Rig {
        rate: Some(Box::new(move |_| rate)),
        ..Rig::default()
    }
}

/// Runs equal chunks on two such devices; returns the device's part of the bytes.
fn share(cpu: Rig, device: &Arc<Rigged>, chunks: usize) -> (f64, Report) {
    let setup = Setup {
        cpu: Some(cpu.device() as _),
        device: Some(Arc::clone(device) as _),
        job_timeout: Duration::from_millis(200),
        retry: Retry {
            first: Duration::from_secs(60),
            longest: Duration::from_secs(60),
        },
        ..copying(Policy::Adaptive)
    };
    let chunks = stream(&vec![CHUNK; chunks]);
    let (pieces, report) = run(setup, &chunks);
    assert_copied(&pieces, &chunks);
    let bytes = report.device.as_ref().map_or(0, |leg| leg.source_bytes);
    let all = chunks.len() * CHUNK;
    (bytes as f64 / all as f64, report)
}

#[test]
fn a_short_stream_does_not_even_open_the_device() {
    let device = paced(1e9).device();
    let (part, report) = share(Rig::default(), &device, 8);
    assert_eq!((part, device.openings()), (0.0, 0));
    assert_eq!(report.device.unwrap().setups, 0);
}

#[test]
fn a_much_faster_device_gets_most_of_the_work() {
    let device = paced(160e6).device();
    let (part, report) = share(paced(8e6), &device, 4000);
    assert!(part > 0.6, "{part}: {:?}", report.decisions);
    assert_eq!(report.events, []);
}

#[test]
fn a_device_of_no_use_gets_next_to_nothing() {
    let device = paced(1e6).device();
    let (part, report) = share(paced(40e6), &device, 4000);
    assert!(part < 0.2, "{part}: {:?}", report.decisions);
}

#[test]
fn legs_that_are_alike_share_the_work() {
    let device = paced(10e6).device();
    let (part, report) = share(paced(10e6), &device, 2000);
    assert!(
        (0.15..0.85).contains(&part),
        "{part}: {:?}",
        report.decisions
    );
}

#[test]
fn a_dead_device_costs_its_time_limit_once() {
    let device = Rig::acting(|_| Act::Forget).device();
    let (part, report) = share(paced(20e6), &device, 2000);
    assert_eq!((part, device.openings()), (0.0, 1));
    let kinds: Vec<_> = report.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Stalled]);
}

#[test]
fn each_decision_is_told_with_its_numbers() {
    let device = paced(80e6).device();
    let (_, report) = share(paced(10e6), &device, 1000);
    let first = &report.decisions[0];
    assert_eq!((first.fraction, first.probe), (0.0, false));
    assert!(report.decisions.iter().any(|decided| decided.probe));
    let times = report.decisions.windows(2);
    assert!(times.into_iter().all(|two| two[0].at_ns <= two[1].at_ns));
    let last = report.decisions.last().unwrap();
    assert!(last.reason.contains("MB/s"), "{}", last.reason);
}
