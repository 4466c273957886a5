//! Tests with a device that returns wrong results: for any error and operation, the final results are right.

use std::sync::Arc;
use std::time::Duration;

use crate::common;
use common::rigged::{Fault, LIES, Rig};
use common::{copying, cpu, foreign, run, stream};
use overside_device::{Device, MemoryKind, Operation, OperationConfig, Outcome};
use overside_layers::DeviceMemory;
use overside_ops::{Format, checksum, prepare};
use overside_placement::{
    Checksum, Chunk, ChunkResult, DeviceSetup, Error, EventKind, Executor, Policy, Report, Setup,
    Target, Verify,
};

/// Lies about every seventh job.
fn liar(lie: Fault, memory: MemoryKind) -> Arc<dyn Device> {
    rigged(memory, move |nth| (nth % 7 == 6).then_some(lie))
}

fn rigged(
    memory: MemoryKind,
    act: impl Fn(u64) -> Option<Fault> + Send + Sync + 'static,
) -> Arc<dyn Device> {
    match memory {
        MemoryKind::Device => DeviceMemory::around(Rig::acting(act).device()),
        _ => Rig { memory, ..Rig::acting(act) }.device(),
    }
}

fn setup(operation: &OperationConfig, policy: Policy, device: &Arc<dyn Device>) -> Setup {
    Setup {
        cpu: Some(cpu()),
        devices: vec![DeviceSetup::new(Arc::clone(device))],
        source_bytes: 16 << 10,
        destination_bytes: 16 << 10,
        verify: Verify::All,
        ..Setup::new(operation.clone(), policy)
    }
}

fn configured(operation: Operation) -> OperationConfig {
    OperationConfig {
        patterns: match operation.family().has_patterns {
            true => vec!["1[0-4]".into()],
            false => Vec::new(),
        },
        ..OperationConfig::new(operation)
    }
}

/// Runs the operation on `source` with the CPU library. Returns its value and its output.
fn made(operation: &OperationConfig, source: &[u8]) -> (Option<u64>, Vec<u8>) {
    let mut room = vec![0; 32 << 10];
    let mut kernel = prepare(operation).unwrap().kernel().unwrap();
    let output = kernel.run(&[source], &mut room).unwrap();
    room.truncate(output.written);
    (output.value, room)
}

/// Sources for an operation, each different: lines of numbers, or what another one made of them.
fn sources(operation: Operation) -> Vec<Vec<u8>> {
    let texts = (0..30u64).map(|chunk| {
        let lines = (0..300 + chunk).map(|line| format!("{} {}\n", chunk, line * (chunk + 1)));
        lines.collect::<String>().into_bytes()
    });
    match operation.made_by().map(OperationConfig::new) {
        Some(maker) => texts.map(|text| made(&maker, &text).1).collect(),
        None => texts.collect(),
    }
}

fn assert_right(operation: &OperationConfig, pieces: &[ChunkResult], sources: &[Vec<u8>]) {
    assert_eq!(pieces.len(), sources.len());
    for (piece, source) in pieces.iter().zip(sources) {
        let output = match &piece.result {
            Ok(Outcome::Done(output)) => output,
            other => panic!("{other:?}"),
        };
        let bytes = piece.output().unwrap();
        match operation.operation.undone_by().map(OperationConfig::new) {
            Some(back) => assert!(made(&back, bytes).1 == *source, "{}", piece.label),
            None => {
                let (value, expected) = made(operation, source);
                assert!(bytes == expected, "{}", piece.label);
                assert_eq!(output.value, value);
            }
        }
    }
}

fn wrong(report: &Report) -> usize {
    let kinds = report.events.iter().map(|event| event.kind);
    kinds.filter(|kind| *kind == EventKind::WrongResult).count()
}

#[test]
fn a_lie_about_any_operation_is_found_out_and_the_device_not_used_again() {
    let mut found = LIES.map(|lie| (lie, 0));
    for operation in Operation::all() {
        if operation.to_string() == "hash-sha256" {
            continue;
        }
        let config = configured(operation);
        let sources = sources(operation);
        for (lie, found) in &mut found {
            let lie = *lie;
            let device = liar(lie, MemoryKind::Any);
            let (pieces, report) = run(setup(&config, Policy::Device, &device), &sources);
            assert_right(&config, &pieces, &sources);
            let verification = &report.verification;
            assert_eq!(verification.unverified, 0);
            match wrong(&report) {
                // Not every lie changes every result: a copy has no count.
                0 => assert_eq!(verification.wrong, 0, "{operation} {lie:?}"),
                _ => {
                    *found += 1;
                    assert!(verification.wrong > 0, "{operation} {lie:?}");
                    let by_cpu =
                        pieces.iter().rev().take_while(|piece| piece.target == Target::Cpu);
                    assert!(by_cpu.count() > 10, "{operation} {lie:?}: it is used again");
                }
            }
        }
    }
    // A count is an answer of matching alone; all else changes what most operations write.
    for (lie, found) in found {
        let least = if lie == Fault::WrongValue { 3 } else { 30 };
        assert!(found >= least, "{lie:?}: {found}");
    }
}

#[test]
fn what_is_called_impossible_is_done_by_the_cpu() {
    let names = ["match-bitmap", "decompress-deflate", "hash-xxh3", "copy"];
    for name in names.into_iter().chain(["encrypt-aes-256-gcm", "decrypt-aes-128-gcm"]) {
        let config = configured(name.parse().unwrap());
        let sources = sources(config.operation);
        for lie in [Fault::FalseIncompressible, Fault::FalseTooSmall] {
            for policy in [Policy::Device, Policy::split(60.0).unwrap(), Policy::Adaptive] {
                let device = liar(lie, MemoryKind::Any);
                let (pieces, _) = run(setup(&config, policy, &device), &sources);
                assert_right(&config, &pieces, &sources);
            }
        }
    }
}

#[test]
fn a_lie_is_found_out_under_every_placement_and_in_any_memory() {
    let config = configured("compress-deflate".parse().unwrap());
    let sources = sources(config.operation);
    for memory in [MemoryKind::Any, MemoryKind::Registered, MemoryKind::Device] {
        for policy in [Policy::Device, Policy::split(60.0).unwrap(), Policy::Adaptive] {
            for lie in LIES {
                let device = liar(lie, memory);
                let (pieces, report) = run(setup(&config, policy, &device), &sources);
                assert_right(&config, &pieces, &sources);
                assert_eq!(report.verification.unverified, 0);
            }
        }
    }
}

#[test]
fn what_an_honest_device_does_counts() {
    for memory in [MemoryKind::Any, MemoryKind::Registered, MemoryKind::Device] {
        let config = configured("compress-zstd".parse().unwrap());
        let sources = sources(config.operation);
        let device = rigged(memory, |_| None);
        let (pieces, report) = run(setup(&config, Policy::Device, &device), &sources);
        assert_right(&config, &pieces, &sources);
        assert!(pieces.iter().all(|piece| piece.target == Target::Device(0)));
        assert_eq!(report.events, []);
        let verification = report.verification;
        assert_eq!((verification.chunks, verification.wrong), (30, 0));
        assert!(verification.cpu_time.host_ns > 0);
    }
}

#[test]
fn a_checksum_spares_the_work_and_convicts_only_who_errs() {
    let operation = configured(Operation::Decompress(Format::Deflate));
    let sources = sources(operation.operation);
    let crc = |bytes: &[u8]| checksum::crc32(0, bytes);
    for (lie, is_checksum_wrong) in [(None, false), (None, true), (Some(Fault::WrongByte), false)] {
        let device = rigged(MemoryKind::Any, move |nth| lie.filter(|_| nth == 5));
        let mut executor = Executor::open(setup(&operation, Policy::Device, &device)).unwrap();
        let mut pieces = Vec::new();
        for source in &sources {
            let value = crc(&made(&operation, source).1) ^ u32::from(is_checksum_wrong);
            let mut chunk = Chunk {
                checksum: Some(Checksum { of: crc, value }),
                ..Chunk::from(foreign(source))
            };
            while let Err(refused) = executor.push(chunk) {
                chunk = refused;
                executor.wait(Duration::from_secs(1)).unwrap();
                pieces.extend(executor.pull().unwrap());
            }
        }
        while executor.in_flight() > 0 {
            executor.wait(Duration::from_secs(1)).unwrap();
            pieces.extend(executor.pull().unwrap());
        }
        let report = executor.close();
        assert_right(&operation, &pieces, &sources);
        assert_eq!(wrong(&report), usize::from(lie.is_some()), "{report:?}");
        let cpu_ns = report.verification.cpu_time.host_ns;
        assert_eq!(cpu_ns == 0, lie.is_none() && !is_checksum_wrong, "{cpu_ns}");
    }
}

#[test]
fn a_sample_finds_out_who_lies_often() {
    let config = configured("match-bitmap".parse().unwrap());
    let sources: Vec<_> = (0..10).flat_map(|_| sources(config.operation)).collect();
    let sampled = |act: fn(u64) -> Option<Fault>| {
        let device = rigged(MemoryKind::Any, act);
        Setup { verify: Verify::Sampled, ..setup(&config, Policy::Device, &device) }
    };
    let (pieces, report) = run(sampled(|_| None), &sources);
    assert_right(&config, &pieces, &sources);
    let verification = &report.verification;
    let (chunks, unverified) = (verification.chunks, verification.unverified);
    assert_eq!(chunks + unverified, 300);
    assert!((2..100).contains(&chunks), "{chunks}");

    // Nothing is believed before something was right.
    let (pieces, report) = run(sampled(|_| Some(Fault::WrongByte)), &sources);
    assert_right(&config, &pieces, &sources);
    assert!(wrong(&report) > 0);
    assert_eq!(report.verification.unverified, 0);

    // Who begins to lie later has been believed, so the whole is in doubt.
    let late = sampled(|nth| (nth >= 60).then_some(Fault::WrongByte));
    let mut executor = Executor::open(late).unwrap();
    let mut sources = sources.iter().cycle();
    let error = loop {
        if executor.has_capacity() {
            let source = sources.next().unwrap();
            executor.push(foreign(source).into()).unwrap();
        }
        match executor.pull() {
            Err(error) => break error,
            Ok(Some(_)) => {}
            Ok(None) => executor.wait(Duration::from_millis(1)).unwrap_or(()),
        }
    };
    let Error::UnverifiedResults { unverified, .. } = error else {
        panic!("{error}");
    };
    assert!(unverified > 0);
}

#[test]
fn verifying_needs_a_cpu() {
    let device = Rig::default().device();
    let alone = Setup {
        cpu: None,
        devices: vec![DeviceSetup::new(device)],
        verify: Verify::All,
        ..copying(Policy::Device)
    };
    let error = Executor::open(alone).err().unwrap();
    assert!(matches!(error, Error::NoTarget { target: Target::Cpu, .. }), "{error}");
}

#[test]
fn without_verifying_a_lie_is_believed() {
    let device = liar(Fault::WrongByte, MemoryKind::Any);
    let setup = Setup { devices: vec![DeviceSetup::new(device)], ..copying(Policy::Device) };
    let chunks = stream(&[700; 30]);
    let (pieces, report) = run(setup, &chunks);
    let differs = |(piece, chunk): (&ChunkResult, &Vec<u8>)| piece.output() != Some(chunk);
    assert_eq!(pieces.iter().zip(&chunks).filter(|pair| differs(*pair)).count(), 4);
    assert_eq!(report.events, []);
}
