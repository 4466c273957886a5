//! Cost of the device contract, compared with calling the library in a loop.
//!
//! `cargo bench -p overside-backend-cpu [-- FILTER]`. Both sides of each ratio run in turns in
//! this process, in short slices, on the same buffers: 64 KiB jobs at depth 16, handed over by
//! eight or more.
//! Printed are the median ratio over the turns, its range, the ratio of the two sides' fastest
//! slices, and the aim. Other load on the machine shows as a wide range, and as a distance between
//! the median and the ratio of the fastest, which it disturbs least.
//!
//! The submitter waits for events, except for the shortest jobs, where it polls.

#[path = "../../../../../benches/data.rs"]
mod data;
#[path = "../../../../../benches/jobs.rs"]
mod jobs;
#[path = "../../../../../benches/turns.rs"]
mod turns;

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use data::{compressed, plain};
use jobs::{SLICE, SLICE_JOBS, jobs, seconds_a_job, slice};
use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_device::{Context, ContextConfig, Device, Job, Slice};
use overside_ops::{Config, Format, HashAlgorithm, Kernel, MatchKind, Operation, prepare};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use turns::{Side, take_turns, told};

const BUFFER: usize = 64 << 10;
/// Number of jobs in flight, and of buffers, so that both sides cycle through the same buffers.
const DEPTH: usize = 16;
/// A submitter polls for jobs shorter than this: waking it would cost a tenth of one.
const SHORT: Duration = Duration::from_micros(40);

fn main() {
    let (filter, is_bench) = turns::arguments();
    let is_wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter));
    println!("two cores hand a cache line over in {:.0} ns", handover_ns());
    println!("contract / bare loop, one thread");
    for (config, name) in subjects().filter(|(_, name)| is_wanted(name)) {
        against_bare(&config, &name, is_bench);
    }
    println!("two threads / one, waiting for events");
    for (config, name) in subjects().filter(|(_, name)| is_wanted(name)) {
        let scaled = matches!(config.operation, Operation::Match(_))
            || config.operation == Operation::Compress(Format::Deflate)
            || config.operation == Operation::Decompress(Format::Deflate);
        if scaled {
            two_against_one(&config, &name, is_bench);
        }
    }
}

/// Half of the time that two threads take to pass a number there and back, the basis of every
/// exchange between a submitter and its thread.
fn handover_ns() -> f64 {
    const ROUNDS: u32 = 2_000;
    let turn = AtomicU32::new(0);
    let play = |parity: u32| {
        for round in (0..2 * ROUNDS).skip(parity as usize).step_by(2) {
            while turn.load(Ordering::Acquire) != round {
                std::hint::spin_loop();
            }
            turn.store(round + 1, Ordering::Release);
        }
    };
    let once = |_| {
        turn.store(0, Ordering::Release);
        std::thread::scope(|scope| {
            scope.spawn(|| play(1));
            while turn.load(Ordering::Acquire) != 0 {}
            let begin = Instant::now();
            play(0);
            begin.elapsed().as_secs_f64() * 1e9 / f64::from(2 * ROUNDS)
        })
    };
    (0..20).map(once).fold(f64::MAX, f64::min)
}

/// Every library of every kind of operation, framing and match kinds aside.
fn subjects() -> impl Iterator<Item = (Config, String)> {
    let formats = [Format::Deflate, Format::Lz4Block, Format::Zstd];
    let operations = (formats.map(Operation::Compress).into_iter())
        .chain(formats.map(Operation::Decompress))
        .chain([
            Operation::Match(MatchKind::Count),
            Operation::Hash(HashAlgorithm::Xxh3),
            Operation::Hash(HashAlgorithm::Crc32),
            Operation::Copy,
        ]);
    operations.flat_map(|operation| {
        overside_ops::variants(operation).into_iter().map(move |variant| {
            let mut config = Config { variant: variant.name.into(), ..Config::new(operation) };
            if matches!(operation, Operation::Match(_)) {
                config.patterns = vec!["on (.+) at".into(), "needle[0-9]+".into()];
            }
            (config, format!("{operation} {}", variant.name))
        })
    })
}

fn against_bare(config: &Config, name: &str, is_bench: bool) {
    let sources = sources(config);
    let mut kernel = prepare(config).and_then(|ready| ready.kernel()).expect("it was listed");
    // The library on the same core on both sides, because cores are not equally free. The
    // submitter on another, or the scheduler may leave a polling one on its thread's.
    let cores = usable_cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let mut context = open(config, 1, Some(vec![first]), &sources);
    let mut jobs = jobs(&cpu(1, None), &sources, 2 * BUFFER);
    let waits = bare(&mut kernel, &mut jobs) >= SHORT.as_secs_f64();
    let turned = take_turns(is_bench, |side| match side {
        Side::First => {
            pin(&[first]);
            bare(&mut kernel, &mut jobs)
        }
        Side::Second => {
            pin(&[last]);
            seconds_a_job(&mut *context, &mut jobs, DEPTH / 2, waits)
        }
    });
    pin(&cores);
    let aim = match config.operation {
        Operation::Hash(_) | Operation::Copy => "at most 300 ns a job",
        _ => "at least 0.97",
    };
    println!("  {name:32} {}; aim: {aim}", told(&turned));
}

fn two_against_one(config: &Config, name: &str, is_bench: bool) {
    let sources = sources(config);
    let mut contexts = [1, 2].map(|threads| open(config, threads, None, &sources));
    let mut jobs = jobs(&cpu(1, None), &sources, 2 * BUFFER);
    let turned = take_turns(is_bench, |side| {
        seconds_a_job(&mut *contexts[side as usize], &mut jobs, DEPTH / 2, true)
    });
    let ceiling = take_turns(is_bench, |side| bare_threads(config, &sources, 1 + side as usize));
    let (rates, ceiling) = (told(&turned), told(&ceiling));
    println!("  {name:32} {rates}; aim: at least 1.9; bare loops in two threads: {ceiling}");
}

/// Seconds a job, called in a loop by each of several threads: the rate of this machine's cores
/// without submission.
fn bare_threads(config: &Config, sources: &[Slice], threads: usize) -> f64 {
    let loops: Vec<_> = (0..threads)
        .map(|_| {
            let kernel = prepare(config).and_then(|ready| ready.kernel());
            (kernel.expect("it was listed"), jobs(&cpu(1, None), sources, 2 * BUFFER))
        })
        .collect();
    let seconds: Vec<f64> = std::thread::scope(|scope| {
        let running: Vec<_> = (loops.into_iter())
            .map(|(mut kernel, mut jobs)| scope.spawn(move || bare(&mut kernel, &mut jobs)))
            .collect();
        running.into_iter().map(|thread| thread.join().expect("good inputs")).collect()
    });
    1.0 / seconds.iter().map(|seconds| 1.0 / seconds).sum::<f64>()
}

/// Seconds a job, called in a loop.
fn bare(kernel: &mut Box<dyn Kernel>, jobs: &mut VecDeque<Job>) -> f64 {
    let (begin, mut count) = (Instant::now(), 0);
    while count < SLICE_JOBS || begin.elapsed() < SLICE {
        for Job { source, destination, .. } in &mut *jobs {
            let source: &[u8] = black_box(&source.segments()[0]);
            black_box(kernel.run(&[source], destination).expect("a good input"));
            count += 1;
        }
    }
    begin.elapsed().as_secs_f64() / count as f64
}

fn usable_cores() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("the process's cores");
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

fn pin(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).expect("cores of this process");
}

fn cpu(threads: usize, cores: Option<Vec<usize>>) -> CpuDevice {
    CpuDevice::new(CpuOptions { threads, cores }).expect("threads")
}

fn open(
    config: &Config,
    threads: usize,
    cores: Option<Vec<usize>>,
    sources: &[Slice],
) -> Box<dyn Context> {
    let longest = sources.iter().map(|source| source.len()).max();
    let config = ContextConfig {
        operation: config.clone(),
        depth: DEPTH,
        max_source_bytes: longest.expect("inputs") as u64,
        max_destination_bytes: 2 * BUFFER as u64,
    };
    cpu(threads, cores).open(config).expect("it was listed")
}

/// Real data; compressed where that is the input.
fn sources(config: &Config) -> Vec<Slice> {
    let inputs = compressed(config, &plain(BUFFER, DEPTH));
    inputs.iter().map(|bytes| slice(&cpu(1, None), bytes)).collect()
}
