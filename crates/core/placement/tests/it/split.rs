//! Each chunk is done once, by one target, and the results come in order.

use crate::common;

use common::rigged::{Fault, Rig};
use common::{assert_copied, copying, run, stream};
use overside_placement::{ChunkResult, DeviceSetup, Policy, Setup, Target};
use proptest::prelude::*;

/// Returns the target of each chunk.
fn targets(pieces: &[ChunkResult]) -> Vec<Target> {
    pieces.iter().map(|piece| piece.target).collect()
}

/// Bytes of the chunks that the device had.
fn on_device(pieces: &[ChunkResult], chunks: &[Vec<u8>]) -> usize {
    (pieces.iter().zip(chunks))
        .filter(|(piece, _)| piece.target == Target::Device(0))
        .map(|(_, chunk)| chunk.len())
        .sum()
}

/// A stream over two rigged devices, which record their jobs.
fn two(
    policy: Policy,
    cpu: Rig,
    device: Rig,
    lengths: &[usize],
) -> (Vec<ChunkResult>, [Vec<Vec<u8>>; 2]) {
    let clock = device.clock.clone();
    let ((cpu, cpu_inside), (device, device_inside)) = (cpu.on(&clock).parts(), device.parts());
    let setup = Setup {
        cpu: Some(cpu as _),
        devices: vec![DeviceSetup::new(device as _)],
        clock,
        ..copying(policy)
    };
    let chunks = stream(lengths);
    let (pieces, report) = run(setup, &chunks);
    assert_copied(&pieces, &chunks);
    assert_eq!(report.events, []);
    (pieces, [cpu_inside.done(), device_inside.done()])
}

#[test]
fn each_policy_uses_the_targets_that_it_names() {
    let lengths = [1000; 40];
    let share = |policy| {
        let (pieces, _) = two(policy, Rig::default(), Rig::default(), &lengths);
        on_device(&pieces, &stream(&lengths)) / 1000
    };
    assert_eq!(share(Policy::Cpu), 0);
    assert_eq!(share(Policy::Device), 40);
    for (percent, chunks) in [(0.0, 0), (10.0, 4), (25.0, 10), (50.0, 20), (99.0, 40), (100.0, 40)]
    {
        assert_eq!(share(Policy::split(percent).unwrap()), chunks, "{percent}");
    }
}

#[test]
fn a_split_depends_on_lengths_alone() {
    let lengths: Vec<usize> = (0..200).map(|at| (at * 7919) % 5000).collect();
    let once = two(Policy::split(37.5).unwrap(), Rig::default(), Rig::default(), &lengths).0;
    let slow = Rig::paced(5e7);
    let shuffled = Rig::acting(|nth| (nth % 3 == 0).then_some(Fault::Reordering));
    let again = two(Policy::split(37.5).unwrap(), slow, shuffled, &lengths).0;
    assert_eq!(targets(&once), targets(&again));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The share holds at every point of the stream, to half of the longest chunk.
    #[test]
    fn a_split_keeps_to_its_share(
        lengths in prop::collection::vec(0..5000_usize, 1..80),
        percent in 0.0..=100.0_f64,
        late in prop::collection::vec(any::<bool>(), 1..10),
    ) {
        let device = Rig::acting(move |nth| late[nth as usize % late.len()].then_some(Fault::Reordering));
        let (pieces, [cpu, device]) = two(Policy::split(percent).unwrap(), Rig::default(), device, &lengths);
        let chunks = stream(&lengths);
        let longest = *lengths.iter().max().unwrap();
        for end in 1..=chunks.len() {
            let total: usize = lengths[..end].iter().map(|length| *length.max(&1)).sum();
            let share = on_device(&pieces[..end], &chunks[..end]);
            let off = (share as f64 - total as f64 * percent / 100.0).abs();
            prop_assert!(off <= longest as f64 / 2.0 + end as f64, "{off} after {end} chunks");
        }
        once_by_one(&chunks, &cpu, &device)?;
    }

    /// Adaptive placement runs each chunk once, whichever target it chooses.
    #[test]
    fn adaptive_work_is_done_once(lengths in prop::collection::vec(0..5000_usize, 1..200)) {
        let (_, [cpu, device]) = two(Policy::Adaptive, Rig::default(), Rig::default(), &lengths);
        once_by_one(&stream(&lengths), &cpu, &device)?;
    }
}

/// Counts each chunk among those of the targets.
fn once_by_one(
    chunks: &[Vec<u8>],
    cpu: &[Vec<u8>],
    device: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    let mut done: Vec<&Vec<u8>> = cpu.iter().chain(device).collect();
    let mut expected: Vec<&Vec<u8>> = chunks.iter().collect();
    done.sort();
    expected.sort();
    prop_assert_eq!(done, expected);
    Ok(())
}
