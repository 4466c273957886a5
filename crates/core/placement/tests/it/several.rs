//! Several devices beside the CPU, such as a card's cores and its engine, share one stream.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use common::rigged::{Fault, Rig, Rigged};
use common::{assert_copied, copying, run, stream};
use overside_placement::{
    ChunkResult, DeviceSetup, EventKind, Policy, Report, Retry, Setup, Target,
};

const CHUNK: usize = 8192;

/// The devices are on one clock.
fn setup(policy: Policy, cpu: Rig, devices: &[&Arc<Rigged>]) -> Setup {
    let clock = devices[0].0.clock();
    let device = |device: &&Arc<Rigged>| DeviceSetup::new(Arc::clone(device) as _);
    Setup {
        cpu: Some(cpu.on(clock).device() as _),
        devices: devices.iter().map(device).collect(),
        clock: clock.clone(),
        job_timeout: Duration::from_millis(200),
        retry: Retry { first: Duration::from_secs(60), longest: Duration::from_secs(60) },
        ..copying(policy)
    }
}

/// Runs equal chunks, all of which come out. Returns each target's part of all.
fn parts(setup: Setup, count: usize) -> (Vec<f64>, Vec<ChunkResult>, Report) {
    let chunks = stream(&vec![CHUNK; count]);
    let (pieces, report) = run(setup, &chunks);
    assert_copied(&pieces, &chunks);
    let targets = 1 + report.devices.len();
    let part = |index: usize| {
        let is_its = |piece: &&ChunkResult| piece.target.index() == index;
        pieces.iter().filter(is_its).count() as f64 / count as f64
    };
    let parts: Vec<f64> = (0..targets).map(part).collect();
    let told: Vec<u64> = report.targets().map(|target| target.chunks).collect();
    let counted: Vec<u64> = parts.iter().map(|part| (part * count as f64).round() as u64).collect();
    assert_eq!(told, counted);
    (parts, pieces, report)
}

/// Two devices on one clock.
fn two(one: Rig, other: Rig) -> [Arc<Rigged>; 2] {
    let one = one.device();
    let other = other.on(one.0.clock()).device();
    [one, other]
}

#[test]
fn shares_are_kept_all_along_the_stream() {
    for (written, shares) in
        [("split:30+20", [50, 30, 20]), ("split:90+10", [0, 90, 10]), ("split:0+40", [60, 0, 40])]
    {
        let devices = two(Rig::default(), Rig::default());
        let setup = setup(written.parse().unwrap(), Rig::default(), &[&devices[0], &devices[1]]);
        let (_, pieces, report) = parts(setup, 200);
        assert_eq!(report.events, []);
        // What has no share costs nothing.
        for (device, share) in report.devices.iter().zip(&shares[1..]) {
            assert_eq!(device.setups, u64::from(*share > 0), "{written}");
        }
        for end in (10..=200).step_by(10) {
            for (index, share) in shares.iter().enumerate() {
                let have =
                    pieces[..end].iter().filter(|piece| piece.target.index() == index).count();
                let wanted = share * end / 100;
                assert!(have.abs_diff(wanted) <= 1, "{written} {index}: {have} of {wanted}");
            }
        }
    }
}

#[test]
fn adaptive_gives_each_target_its_part() {
    let [slow, fast] = two(Rig::paced(40e6), Rig::paced(120e6));
    for devices in [[&slow, &fast], [&fast, &slow]] {
        let setup = setup(Policy::Adaptive, Rig::paced(20e6), &devices);
        let (parts, _, report) = parts(setup, 6000);
        assert_eq!(report.events, []);
        let of = |device: &Arc<Rigged>| {
            let index = devices.iter().position(|other| Arc::ptr_eq(other, device));
            parts[1 + index.unwrap()]
        };
        assert!(of(&fast) > 0.3, "{parts:?} {:#?}", report.decisions);
        assert!(of(&slow) > 0.04, "{parts:?} {:#?}", report.decisions);
        assert!(of(&fast) > of(&slow), "{parts:?}");
        let between: Vec<Target> =
            report.decisions.iter().map(|decision| decision.target).collect();
        assert!(between.contains(&Target::Cpu) && between.contains(&Target::Device(0)));
    }
}

#[test]
fn several_devices_share_all_of_it_where_the_cpu_is_to_rest() {
    let [slow, fast] = two(Rig::paced(40e6), Rig::paced(120e6));
    let (parts, _, report) = parts(setup(Policy::Device, Rig::default(), &[&slow, &fast]), 3000);
    assert_eq!((parts[0], &report.events[..]), (0.0, &[][..]));
    assert!(parts[2] > 0.5 && parts[1] > 0.08, "{parts:?}");
}

#[test]
fn one_that_fails_leaves_the_others_at_work() {
    for policy in ["device", "split:30+30", "adaptive"] {
        let broken = Rig::acting(|nth| (nth >= 3).then_some(Fault::Loss));
        let [broken, sound] = two(broken, Rig::paced(80e6));
        for devices in [[&broken, &sound], [&sound, &broken]] {
            let place = usize::from(Arc::ptr_eq(devices[1], &broken));
            let setup = setup(policy.parse().unwrap(), Rig::paced(20e6), &devices);
            let (parts, _, report) = parts(setup, 3000);
            for event in &report.events {
                assert_eq!((event.kind, event.target), (EventKind::Lost, Target::Device(place)));
            }
            assert!(parts[1 + place] < 0.05, "{policy}: {parts:?}");
            assert!(parts[2 - place] > 0.25, "{policy}: {parts:?} {:#?}", report.decisions);
        }
    }
}
