//! Tests of the executor's memory: buffers that are reused, and copies that are counted.

use crate::common;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use common::rigged::Rig;
use common::{assert_copied, copying, cpu, foreign, run, stream};
use overside_base::Random;
use overside_device::{ExternalBytes, JobError, MemoryKind, Operation, OperationConfig, Source};
use overside_layers::DeviceMemory;
use overside_placement::{
    Chunk, ChunkResult, DeviceSetup, EventKind, Executor, Policy, Setup, Target, chunk_bytes,
};

fn picky(max_segments: usize) -> Rig {
    Rig { memory: MemoryKind::Registered, max_segments, ..Rig::default() }
}

/// Pushes sources that exist already.
fn push_all(executor: &mut Executor, sources: Vec<Source>) -> Vec<ChunkResult> {
    let (mut pieces, count) = (Vec::new(), sources.len());
    let mut sources = sources.into_iter().zip(0..);
    while pieces.len() < count {
        while executor.has_capacity() {
            let Some((source, label)) = sources.next() else {
                break;
            };
            executor.push(Chunk::new(label, source)).unwrap();
        }
        executor.wait(Duration::from_secs(10)).unwrap();
        while let Some(piece) = executor.pull().unwrap() {
            pieces.push(piece);
        }
    }
    pieces
}

#[test]
fn the_executors_buffers_are_within_reach_of_both_targets() {
    let setup = Setup {
        devices: vec![DeviceSetup::new(picky(1).device())],
        ..copying(Policy::split(50.0).unwrap())
    };
    let chunks = stream(&[900; 50]);
    let (pieces, report) = run(setup, &chunks);
    assert_copied(&pieces, &chunks);
    assert_eq!((report.bounce_copies, report.bounce_bytes), (0, 0));
    assert_eq!(report.events, []);
    assert!(report.memory_ns > 0);
}

#[test]
fn memory_that_the_device_does_not_reach_is_copied_and_counted() {
    let setup = Setup {
        devices: vec![DeviceSetup::new(picky(1).device())],
        ..copying(Policy::split(50.0).unwrap())
    };
    let mut executor = Executor::open(setup).unwrap();
    let chunks = stream(&[900; 50]);
    let sources = chunks.iter().map(|chunk| foreign(chunk).into()).collect();
    assert_copied(&push_all(&mut executor, sources), &chunks);
    let report = executor.close();
    assert_eq!((report.bounce_copies, report.bounce_bytes), (25, 25 * 900));
    assert_eq!(report.events, []);
}

#[test]
fn memory_that_only_the_device_can_address_is_filled_and_read_through_the_device() {
    let alone = Setup { cpu: None, ..copying(Policy::Device) };
    let setups = [copying(Policy::split(50.0).unwrap()), copying(Policy::Adaptive), alone];
    for setup in setups {
        let setup = Setup {
            devices: vec![DeviceSetup::new(DeviceMemory::around(Rig::default().device()))],
            ..setup
        };
        let chunks = stream(&[900; 50]);
        let (pieces, report) = run(setup, &chunks);
        assert_copied(&pieces, &chunks);
        let device = report.devices[0].chunks;
        assert_eq!((report.bounce_copies, &report.events), (device, &vec![]));
    }
}

#[test]
fn the_callers_memory_can_be_registered_instead() {
    let setup =
        Setup { devices: vec![DeviceSetup::new(picky(1).device())], ..copying(Policy::Device) };
    let mut executor = Executor::open(setup).unwrap();
    let chunks = stream(&[900; 50]);
    let sources = (chunks.iter())
        .map(|chunk| executor.register(ExternalBytes::new(chunk.clone())).into())
        .collect();
    assert_copied(&push_all(&mut executor, sources), &chunks);
    assert_eq!(executor.close().bounce_copies, 0);
}

#[test]
fn one_devices_memory_is_copied_for_another() {
    let (cpu, device) = (picky(1).device(), picky(1).device());
    let setup = Setup {
        cpu: Some(cpu as _),
        devices: vec![DeviceSetup::new(device as _)],
        ..copying(Policy::split(50.0).unwrap())
    };
    let chunks = stream(&[900; 50]);
    let (pieces, report) = run(setup, &chunks);
    assert_copied(&pieces, &chunks);
    assert_eq!(report.bounce_copies, 25, "the cpu's half");
}

#[test]
fn adaptive_buffers_are_of_the_devices_memory_from_when_the_device_is_in_use() {
    let device = Rig { rate: Rig::paced(160e6).rate, ..picky(1) };
    let setup = Setup {
        clock: device.clock.clone(),
        cpu: Some(Rig::paced(8e6).on(&device.clock).device()),
        devices: vec![DeviceSetup::new(device.device())],
        ..copying(Policy::Adaptive)
    };
    let mut executor = Executor::open(setup).unwrap();
    let is_registered = |executor: &mut Executor| {
        let slice = executor.buffer().unwrap().share().unwrap();
        slice.registration().is_some()
    };
    assert!(is_registered(&mut executor), "nothing is known yet");
    executor.reconfigure().unwrap();
    assert!(!is_registered(&mut executor), "it has got nothing yet");
    let chunks = stream(&[8000; 4000]);
    assert_copied(&common::run_on(&mut executor, &chunks), &chunks);
    let bounced = executor.report().bounce_copies;
    assert!((1..2000).contains(&bounced), "{bounced} to try the device");
    assert!(is_registered(&mut executor), "it is in use");
    executor.reconfigure().unwrap();
    assert!(is_registered(&mut executor), "it is still in use");
    assert_copied(&common::run_on(&mut executor, &chunks), &chunks);
    assert_eq!(executor.close().bounce_copies, bounced);
}

#[test]
fn chains_longer_than_a_target_takes_are_gathered() {
    for (max_segments, copies) in [(2, 20), (3, 0)] {
        let device = picky(max_segments).device();
        let setup = Setup {
            cpu: None,
            devices: vec![DeviceSetup::new(device as _)],
            ..copying(Policy::Device)
        };
        let mut executor = Executor::open(setup).unwrap();
        let chunks = stream(&[900; 20]);
        let parts = |chunk: &Vec<u8>| {
            let parts =
                chunk.chunks(300).map(|part| executor.register(ExternalBytes::new(part.to_vec())));
            Source::Chain(parts.collect())
        };
        let sources = chunks.iter().map(parts).collect();
        assert_copied(&push_all(&mut executor, sources), &chunks);
        assert_eq!(executor.close().bounce_copies, copies);
    }
}

#[test]
fn buffers_go_round() {
    let mut executor = Executor::open(copying(Policy::Cpu)).unwrap();
    let (mut sources, mut destinations) = (HashSet::new(), HashSet::new());
    for label in 0..200 {
        let mut buffer = executor.buffer().unwrap();
        assert_eq!(buffer.len(), 8192);
        sources.insert(buffer.as_ptr() as usize);
        buffer.set_len(100);
        buffer.fill(label as u8);
        executor.push(Chunk { label, ..buffer.into() }).unwrap();
        executor.wait(Duration::from_secs(10)).unwrap();
        let piece = executor.pull().unwrap().unwrap();
        assert_eq!(piece.output().unwrap(), [label as u8; 100]);
        destinations.insert(piece.destination.as_ptr() as usize);
    }
    assert!(sources.len() <= 4 && destinations.len() <= 4, "{sources:?} {destinations:?}");
}

#[test]
fn pieces_can_be_kept_sent_away_and_outlive_the_executor() {
    let chunks = stream(&[900; 300]);
    let (pieces, _) = run(copying(Policy::Cpu), &chunks);
    std::thread::spawn(move || {
        assert_copied(&pieces, &chunks);
        let shared = pieces.into_iter().map(|piece| piece.destination.share().unwrap());
        for (slice, chunk) in shared.zip(chunks) {
            assert_eq!(slice[..900], chunk);
        }
    })
    .join()
    .unwrap();
}

#[test]
fn there_is_room_for_a_window_and_not_for_more() {
    let setup = Setup { window: Some(5), ..copying(Policy::Cpu) };
    let mut executor = Executor::open(setup).unwrap();
    for label in 0..5 {
        assert!(executor.has_capacity());
        executor.push(Chunk::new(label, foreign(b"abc"))).unwrap();
    }
    assert!(!executor.has_capacity() && executor.buffer().is_none());
    let back = executor.push(Chunk::new(5, foreign(b"abc"))).unwrap_err();
    assert_eq!((back.label, executor.in_flight()), (5, 5));
    executor.wait(Duration::from_secs(10)).unwrap();
    executor.pull().unwrap().unwrap();
    assert!(executor.has_capacity() && executor.buffer().is_some());
}

#[test]
fn chunks_that_are_too_long_for_the_device_run_on_the_cpu_and_are_told() {
    let device = Rig { max_source_bytes: 1000, ..Rig::default() }.device();
    let lengths: Vec<usize> = (0..40).map(|at| if at % 4 == 0 { 2000 } else { 1000 }).collect();
    let chunks = stream(&lengths);
    for policy in [Policy::Device, Policy::Adaptive] {
        let setup =
            Setup { devices: vec![DeviceSetup::new(Arc::clone(&device) as _)], ..copying(policy) };
        let (pieces, report) = run(setup, &chunks);
        assert_copied(&pieces, &chunks);
        assert!(pieces.iter().step_by(4).all(|piece| piece.target == Target::Cpu));
        // An adaptive one may also call a device silent that a busy machine kept from its turn.
        let mut events = report.events.iter();
        let event = events.find(|event| event.kind == EventKind::TooLong);
        assert_eq!(event.map(|event| event.times), Some(10));
    }
    let copy = Operation::Copy;
    assert_eq!(chunk_bytes(&*device, copy, 1 << 20), Some(1000));
    assert_eq!(chunk_bytes(&*device, copy, 10), Some(10));
    assert_eq!(chunk_bytes(&*device, "hash-sha256".parse().unwrap(), 10), None);
}

#[test]
fn a_chunk_that_no_target_takes_fails_in_its_turn() {
    let mut executor = Executor::open(copying(Policy::Cpu)).unwrap();
    let sources = [100, 9000, 100].map(|len| foreign(&vec![1; len]).into());
    let pieces = push_all(&mut executor, sources.into());
    let failed: Vec<bool> = pieces.iter().map(|piece| piece.result.is_err()).collect();
    assert_eq!(failed, [false, true, false]);
    assert_eq!(pieces[1].source.len(), 9000);
}

#[test]
fn no_result_is_longer_than_the_chunk_allows() {
    let mut executor = Executor::open(copying(Policy::Cpu)).unwrap();
    let chunk = |wanted| Chunk::new(0, foreign(&[7; 100])).destination_bytes(wanted);
    executor.push(chunk(99)).unwrap();
    executor.push(chunk(100)).unwrap();
    let mut next = || loop {
        executor.wait(Duration::from_secs(10)).unwrap();
        if let Some(piece) = executor.pull().unwrap() {
            return piece;
        }
    };
    assert_eq!(next().result, Err(JobError::OutputTooSmall { capacity: 99 }));
    assert_eq!(next().output().unwrap(), [7; 100]);
}

#[test]
fn what_does_not_get_smaller_is_handed_back_to_be_stored() {
    let compress = OperationConfig::new("compress-deflate".parse::<Operation>().unwrap());
    let setup = Setup { operation: compress, cpu: Some(cpu()), ..copying(Policy::Cpu) };
    let noise = Random::new(1).bytes(500);
    let (pieces, _) = run(setup, &[noise.clone(), vec![0; 500]]);
    assert_eq!(pieces[0].result, Ok(overside_device::Outcome::Incompressible));
    assert_eq!(pieces[0].source.segments()[0][..], noise);
    assert!(pieces[0].output().is_none() && pieces[1].output().unwrap().len() < 50);
}

#[test]
fn an_executor_may_go_to_another_thread_between_calls() {
    let device = picky(1).device();
    let setup = Setup {
        devices: vec![DeviceSetup::new(device as _)],
        ..copying(Policy::split(50.0).unwrap())
    };
    let mut executor = Executor::open(setup).unwrap();
    executor.push(foreign(b"here").into()).unwrap();
    let there = std::thread::spawn(move || {
        executor.push(foreign(b"there").into()).unwrap();
        executor.wait(Duration::from_secs(10)).unwrap();
        let piece = executor.pull().unwrap().unwrap();
        assert_eq!(piece.output().unwrap(), b"here");
        executor.close();
    });
    there.join().unwrap();
}
