//! Benchmark of the executor's overhead, compared with driving a device's context directly.
//!
//! `cargo bench -p overside-placement --bench executor [-- FILTER]`. Both sides of each ratio run
//! in turns in this process, in short slices, on the same sources: jobs of 64 KiB and of 1 MiB on
//! one thread of the CPU, at depth 16. Both wait for completions, to the last one. Printed are the
//! median ratio of the rates over the turns, its range, and the ratio of the two sides' fastest
//! slices; the aim is at least 0.98. Other load on the machine shows as a wide range.

#[path = "../../../../benches/data.rs"]
mod data;
#[path = "../../../../benches/jobs.rs"]
mod jobs;
#[path = "../../../../benches/turns.rs"]
mod turns;

use std::sync::Arc;
use std::time::{Duration, Instant};

use data::{compressed, plain};
use jobs::{SLICE, SLICE_JOBS, jobs, seconds_a_job, slice};
use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_device::{ContextConfig, Device, OperationConfig, Slice};
use overside_placement::{Executor, Policy, Setup};
use turns::{Side, take_turns, told};

const DEPTH: usize = 16;
const SOURCES: usize = 24;
const LONG: Duration = Duration::from_secs(10);

fn main() {
    let (filter, is_bench) = turns::arguments();
    println!("executor / context, one thread");
    let operations = [
        "compress-deflate",
        "decompress-deflate",
        "compress-lz4-block",
        "decompress-lz4-block",
        "hash-crc32",
        "copy",
    ];
    for bytes in [64 << 10, 1 << 20] {
        let plain = plain(bytes, SOURCES);
        for name in operations {
            let title = format!("{name} {} KiB", bytes >> 10);
            if filter.as_ref().is_none_or(|filter| title.contains(filter)) {
                against_context(name, &title, &plain, is_bench);
            }
        }
    }
}

fn against_context(name: &str, title: &str, plain: &[Vec<u8>], is_bench: bool) {
    let operation = OperationConfig::new(name.parse().expect("a name"));
    let inputs = compressed(&operation, plain);
    let bytes = inputs.iter().chain(plain).map(Vec::len).max().unwrap_or(0);
    let cpu: Arc<dyn Device> = Arc::new(CpuDevice::new(CpuOptions::default()).expect("one thread"));
    let sources: Vec<Slice> = inputs.iter().map(|input| slice(&*cpu, input)).collect();
    let mut jobs = jobs(&*cpu, &sources, bytes);
    let config = ContextConfig {
        operation: operation.clone(),
        depth: DEPTH,
        max_source_bytes: bytes as u64,
        max_destination_bytes: bytes as u64,
    };
    let mut context = cpu.open(config).expect("it can do that");
    let setup = Setup {
        cpu: Some(cpu),
        source_bytes: bytes,
        destination_bytes: bytes,
        cpu_depth: DEPTH,
        ..Setup::new(operation, Policy::Cpu)
    };
    let mut executor = Executor::open(setup).expect("it can do that");
    // Goes on where the last slice ended, as the other side's queue does: sources differ in speed.
    let mut next = sources.iter().cycle();
    let turned = take_turns(is_bench, |side| match side {
        Side::First => seconds_a_job(&mut *context, &mut jobs, 1, true),
        Side::Second => through(&mut executor, &mut next),
    });
    println!("  {title:28} {}; aim: at least 0.98", told(&turned));
}

/// Seconds a chunk, through the executor.
fn through<'a>(executor: &mut Executor, next: &mut impl Iterator<Item = &'a Slice>) -> f64 {
    let (begin, mut count, mut open) = (Instant::now(), 0, true);
    while open || executor.in_flight() > 0 {
        while open && executor.has_capacity() {
            let Some(source) = next.next() else { break };
            executor.push(source.clone().into()).expect("there is room");
        }
        executor.wait(LONG).expect("waiting works");
        while let Some(piece) = executor.pull().expect("the threads live") {
            assert!(piece.result.is_ok(), "{:?}", piece.result);
            count += 1;
        }
        open = open && (count < SLICE_JOBS || begin.elapsed() < SLICE);
    }
    begin.elapsed().as_secs_f64() / count as f64
}
