//! A stream over an agent's device that is cut: the CPU does the rest, and the output is the same.

use crate::common;

use std::time::{Duration, Instant};

use common::jobs::bytes;
use common::proxy::{Fault, Proxy, Way};
use common::{PATIENT, agent, cpu, entry};
use overside_agent::Agent;
use overside_backend_remote::RemoteDevice;
use overside_device::{Operation, OperationConfig};
use overside_ops::Format;
use overside_placement::{
    Chunk, ChunkResult, DeviceSetup, Event, EventKind, Executor, Policy, Setup,
};

const CHUNKS: u64 = 60;
const CHUNK: usize = 30_000;

fn pieces(executor: &mut Executor) -> Vec<ChunkResult> {
    let (mut pieces, mut pushed, begin) = (Vec::new(), 0, Instant::now());
    while (pieces.len() as u64) < CHUNKS {
        while pushed < CHUNKS
            && let Some(mut buffer) = executor.buffer()
        {
            buffer.set_len(CHUNK);
            let text: Vec<u8> = bytes(pushed, CHUNK).iter().map(|byte| b'a' + byte % 4).collect();
            buffer.copy_from_slice(&text);
            let chunk = Chunk { label: pushed, ..buffer.into() };
            executor.push(chunk).unwrap();
            pushed += 1;
        }
        while let Some(piece) = executor.pull().unwrap() {
            pieces.push(piece);
        }
        executor.wait(Duration::from_millis(50)).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", executor.report());
    }
    pieces
}

fn outputs(fault: Option<Fault>, policy: Policy) -> (Vec<Vec<u8>>, Vec<EventKind>) {
    let agent = agent(cpu(1), true);
    let proxy = Proxy::new(agent.address(), move |number| match (number, fault) {
        (0, Some(fault)) => (Way::ToHost, fault),
        _ => (Way::ToHost, Fault::None),
    });
    let entry = entry(proxy.address(), true);
    let device = RemoteDevice::connect("dpu0", &entry, "cpu", PATIENT).unwrap();
    // One library on both targets, so that the bytes are the same wherever a chunk was done.
    let operation = OperationConfig {
        variant: "zlib".into(),
        ..OperationConfig::new(Operation::Compress(Format::Zlib))
    };
    let setup = Setup {
        source_bytes: CHUNK,
        destination_bytes: CHUNK * 2,
        cpu: Some(cpu(1)),
        devices: vec![DeviceSetup {
            variant: "zlib".into(),
            ..DeviceSetup::new(std::sync::Arc::new(device))
        }],
        ..Setup::new(operation, policy)
    };
    let mut executor = Executor::open(setup).unwrap();
    let pieces = pieces(&mut executor);
    let events = executor.close().events.iter().map(|event| event.kind).collect();
    let output = |piece: &ChunkResult| piece.output().expect("a result").to_vec();
    (pieces.iter().map(output).collect(), events)
}

#[test]
fn a_stream_survives_its_agent() {
    for policy in [Policy::Device, Policy::split(50.0).unwrap()] {
        let (expected, events) = outputs(None, policy);
        assert_eq!(events, [], "{policy:?}");
        for fault in [Fault::Cut(60_000), Fault::Changed(60_000)] {
            let (cut, events) = outputs(Some(fault), policy);
            for (number, (cut, expected)) in cut.iter().zip(&expected).enumerate() {
                let lengths = (cut.len(), expected.len());
                assert!(cut == expected, "{policy:?} {fault:?}: {number}, {lengths:?}");
            }
            assert_eq!(cut.len(), expected.len());
            assert!(events.contains(&EventKind::Lost), "{policy:?} {fault:?}: {events:?}");
        }
    }
}

/// Number of bytes beyond what the system buffers while the peer does not read.
const LONG: usize = 4 << 20;

#[test]
fn a_caller_that_is_away_for_long_does_not_make_the_device_late() {
    let agent = agent(cpu(2), false);
    // A busy machine may make the device late.
    assert!((0..5).any(|_| events_of_a_caller_that_is_away(&agent).is_empty()));
}

fn events_of_a_caller_that_is_away(agent: &Agent) -> Vec<Event> {
    let address = entry(agent.address(), false);
    let device = RemoteDevice::connect("dpu0", &address, "cpu", PATIENT).unwrap();
    let job_timeout = Duration::from_secs(1);
    let setup = Setup {
        source_bytes: LONG,
        destination_bytes: LONG,
        cpu: Some(cpu(1)),
        devices: vec![DeviceSetup::new(std::sync::Arc::new(device))],
        job_timeout,
        ..Setup::new(OperationConfig::new(Operation::Copy), Policy::Device)
    };
    let mut executor = Executor::open(setup).unwrap();
    for label in 0..8 {
        let mut buffer = executor.buffer().expect("room");
        buffer.copy_from_slice(&bytes(label, LONG));
        let chunk = Chunk { label, ..buffer.into() };
        executor.push(chunk).unwrap();
    }
    // As one who waits for the next bytes of a slow pipe is.
    std::thread::sleep(2 * job_timeout);
    for label in 0..8 {
        let piece = loop {
            match executor.pull().unwrap() {
                Some(piece) => break piece,
                None => executor.wait(job_timeout).unwrap(),
            }
        };
        let output = piece.output().expect("a result");
        assert!(output == bytes(label, LONG), "{label} has other bytes");
    }
    executor.close().events
}
