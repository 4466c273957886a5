//! Helpers for the tests of the executor: streams, a way to run them, and a device with planned
//! faults.

// Each test file uses a part of it.
#![allow(dead_code)]

pub(crate) mod rigged;
pub(crate) mod timed;

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_device::{Device, ExternalBytes, Operation, OperationConfig, Slice};
use overside_placement::{Chunk, ChunkResult, Executor, Policy, Report, Setup};

/// Longer than any of these streams takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn cpu() -> Arc<dyn Device> {
    Arc::new(CpuDevice::new(CpuOptions::default()).unwrap())
}

pub(crate) fn cpu_threads(threads: usize) -> Arc<dyn Device> {
    let options = CpuOptions { threads, cores: None };
    Arc::new(CpuDevice::new(options).unwrap())
}

/// Copies: the output is the input, so a wrong merge is seen at once.
pub(crate) fn copying(policy: Policy) -> Setup {
    Setup {
        source_bytes: 8192,
        destination_bytes: 8192,
        cpu: Some(cpu()),
        ..Setup::new(OperationConfig::new(Operation::Copy), policy)
    }
}

/// The caller's memory, which no device registered.
pub(crate) fn foreign(bytes: &[u8]) -> Slice {
    Slice::from_external(ExternalBytes::new(bytes.to_vec()), None)
}

/// Chunks of these lengths; each begins with its number, as far as it is long enough.
pub(crate) fn stream(lengths: &[usize]) -> Vec<Vec<u8>> {
    (lengths.iter().zip(1_u64..))
        .map(|(length, number)| {
            let mut bytes: Vec<u8> = (0..*length as u64).map(|at| (at * number) as u8).collect();
            let head = number.to_le_bytes();
            let most = bytes.len().min(head.len());
            bytes[..most].copy_from_slice(&head[..most]);
            bytes
        })
        .collect()
}

/// Pushes all chunks, out of the executor's own buffers, and pulls all pieces.
pub(crate) fn run(setup: Setup, chunks: &[Vec<u8>]) -> (Vec<ChunkResult>, Report) {
    let mut executor = Executor::open(setup).unwrap();
    let pieces = run_on(&mut executor, chunks);
    (pieces, executor.close())
}

/// Pushes all chunks and pulls all pieces like [`run`], on an executor that exists already.
pub(crate) fn run_on(executor: &mut Executor, chunks: &[Vec<u8>]) -> Vec<ChunkResult> {
    let mut pieces = Vec::new();
    let mut pushed = 0;
    let begin = Instant::now();
    while pieces.len() < chunks.len() {
        while pushed < chunks.len()
            && let Some(mut buffer) = executor.buffer()
        {
            buffer.set_len(chunks[pushed].len());
            buffer.copy_from_slice(&chunks[pushed]);
            let label = pushed as u64;
            let chunk = Chunk { label, ..buffer.into() };
            executor.push(chunk).unwrap();
            pushed += 1;
        }
        while let Some(piece) = executor.pull().unwrap() {
            pieces.push(piece);
        }
        executor.wait(Duration::from_millis(50)).unwrap();
        assert!(begin.elapsed() < PATIENCE, "{:?}", executor.report());
    }
    assert_eq!(executor.in_flight(), 0);
    assert!(executor.pull().unwrap().is_none(), "no piece without a chunk");
    pieces
}

/// Each chunk's piece came once, in order, with its own bytes copied.
pub(crate) fn assert_copied(pieces: &[ChunkResult], chunks: &[Vec<u8>]) {
    assert_eq!(pieces.len(), chunks.len());
    for ((piece, chunk), label) in pieces.iter().zip(chunks).zip(0..) {
        assert_eq!(piece.label, label);
        let output = piece.output().unwrap_or_else(|| panic!("{label}: {:?}", piece.result));
        assert!(output == chunk, "chunk {label} came out as something else");
        let source: Vec<u8> = piece.source.segments().concat_bytes();
        assert!(source == *chunk, "the source of chunk {label} is another's");
    }
}

/// The bytes of several slices.
pub(crate) trait Concat {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl Concat for [Slice] {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|slice| slice.iter().copied()).collect()
    }
}
