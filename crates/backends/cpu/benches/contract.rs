//! What the device contract costs beside calling the library in a loop.
//!
//! `cargo bench -p overside-backend-cpu [-- FILTER]`. Both sides of each ratio run in turns in
//! this process, in short slices, on the same buffers: 64 KiB jobs at depth 16, handed over by
//! eight or more.
//! Printed are the median ratio over the turns, its range, the ratio of the two sides' fastest
//! slices, and the aim. Other load on the machine shows as a wide range, and as a distance between
//! the median and the ratio of the fastest, which it disturbs least.
//!
//! The submitter waits for events, except for the shortest jobs, where it polls.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_device::{Completion, Context, ContextConfig, Device, Job, Region, Slice, wait};
use overside_ops::{Config, Format, HashAlgorithm, Kernel, MatchKind, Operation, prepare};
use overside_testkit::data::{sources, text};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const BUFFER: usize = 64 << 10;
/// As many as are in flight, so that both sides go round the same ones.
const BUFFERS: usize = DEPTH;
const DEPTH: usize = 16;
/// The least jobs and time of a slice: a thread that slept is slow to begin, and that is not what
/// is measured here.
const SLICE_JOBS: u32 = 8 * DEPTH as u32;
const SLICE: Duration = Duration::from_millis(20);
/// A submitter polls for jobs shorter than this: waking it would cost a tenth of one.
const SHORT: Duration = Duration::from_micros(40);
/// The most turns and about the longest time of one ratio.
const TURNS: usize = 101;
const TIME: Duration = Duration::from_secs(4);

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` passes nothing, and only tries it.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let turns = if arguments.iter().any(|argument| argument == "--bench") {
        TURNS
    } else {
        1
    };
    println!(
        "two cores hand a cache line over in {:.0} ns",
        handover_ns()
    );
    println!("contract / bare loop, one thread; up to {turns} turns");
    for (config, name) in subjects() {
        if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            against_bare(&config, &name, turns);
        }
    }
    println!("two threads / one, waiting for events");
    for (config, name) in subjects() {
        let scaled = matches!(config.operation, Operation::Match(_))
            || config.operation == Operation::Compress(Format::Deflate)
            || config.operation == Operation::Decompress(Format::Deflate);
        if scaled && filter.is_none_or(|filter| name.contains(filter.as_str())) {
            two_against_one(&config, &name, turns);
        }
    }
}

/// Half of the time that two threads take to pass a number there and back: what every exchange
/// between a submitter and its thread is made of.
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
fn subjects() -> Vec<(Config, String)> {
    let formats = [Format::Deflate, Format::Lz4Block, Format::Zstd];
    let operations = (formats.map(Operation::Compress).into_iter())
        .chain(formats.map(Operation::Decompress))
        .chain([
            Operation::Match(MatchKind::Count),
            Operation::Hash(HashAlgorithm::Xxh3),
        ])
        .chain([Operation::Hash(HashAlgorithm::Crc32), Operation::Copy]);
    let mut subjects = Vec::new();
    for operation in operations {
        for variant in overside_ops::variants(operation) {
            let mut config = Config {
                variant: variant.name.into(),
                ..Config::new(operation)
            };
            if matches!(operation, Operation::Match(_)) {
                config.patterns = vec!["on (.+) at".into(), "needle[0-9]+".into()];
            }
            subjects.push((config, format!("{operation} {}", variant.name)));
        }
    }
    subjects
}

fn against_bare(config: &Config, name: &str, turns: usize) {
    let inputs = Inputs::new(config);
    let mut kernel = prepare(config)
        .and_then(|ready| ready.kernel())
        .expect("it was listed");
    // The library on the same core on both sides, because cores are not equally free. The
    // submitter on another, or the scheduler may leave a polling one on its thread's.
    let cores = usable_cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let mut context = open(config, 1, Some(vec![first]), &inputs);
    let mut jobs = inputs.jobs();
    let short = bare(&mut kernel, &mut jobs) < SHORT.as_secs_f64();
    let completions = if short {
        Completions::Poll
    } else {
        Completions::Wait
    };
    let turned = take_turns(turns, |side| match side {
        Side::First => {
            pin(&[first]);
            bare(&mut kernel, &mut jobs)
        }
        Side::Second => {
            pin(&[last]);
            contract(&mut *context, &mut jobs, completions)
        }
    });
    pin(&cores);
    let aim = match config.operation {
        Operation::Hash(_) | Operation::Copy => "at most 300 ns a job",
        _ => "at least 0.97",
    };
    let cost = |(direct, through): (f64, f64)| (through - direct) * 1e9;
    let (median, best) = (spread(&turned, cost, 0), cost(fastest(&turned)));
    let rates = rates(&turned);
    println!("  {name:32} {rates}; a job pays {median} ns, fastest {best:.0}; aim: {aim}");
}

fn two_against_one(config: &Config, name: &str, turns: usize) {
    let inputs = Inputs::new(config);
    let (mut one, mut two) = (
        open(config, 1, None, &inputs),
        open(config, 2, None, &inputs),
    );
    let mut jobs = inputs.jobs();
    let turned = take_turns(turns, |side| match side {
        Side::First => contract(&mut *one, &mut jobs, Completions::Wait),
        Side::Second => contract(&mut *two, &mut jobs, Completions::Wait),
    });
    let ceiling = take_turns(turns, |side| match side {
        Side::First => bare_threads(config, &inputs, 1),
        Side::Second => bare_threads(config, &inputs, 2),
    });
    let (rates, ceiling) = (rates(&turned), rates(&ceiling));
    println!("  {name:32} {rates}; aim: at least 1.9; bare loops in two threads: {ceiling}");
}

/// Seconds a job, called in a loop by each of several threads: what this machine's cores give
/// when nobody submits anything.
fn bare_threads(config: &Config, inputs: &Inputs, threads: usize) -> f64 {
    let loops: Vec<_> = (0..threads)
        .map(|_| {
            let kernel = prepare(config).and_then(|ready| ready.kernel());
            (kernel.expect("it was listed"), inputs.jobs())
        })
        .collect();
    let seconds: Vec<f64> = std::thread::scope(|scope| {
        let running: Vec<_> = (loops.into_iter())
            .map(|(mut kernel, mut jobs)| scope.spawn(move || bare(&mut kernel, &mut jobs)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("good inputs"))
            .collect()
    });
    1.0 / seconds.iter().map(|seconds| 1.0 / seconds).sum::<f64>()
}

enum Side {
    First,
    Second,
}

/// Runs the two sides in turns, A B, B A, so that drift hits both.
fn take_turns(turns: usize, mut run: impl FnMut(Side) -> f64) -> Vec<(f64, f64)> {
    let (begin, mut turned) = (Instant::now(), Vec::new());
    while turned.len() < turns && (turned.len() < 7 || begin.elapsed() < TIME) {
        turned.push(if turned.len() % 2 == 0 {
            let first = run(Side::First);
            (first, run(Side::Second))
        } else {
            let second = run(Side::Second);
            (run(Side::First), second)
        });
    }
    turned
}

/// Seconds a job, called in a loop.
fn bare(kernel: &mut Box<dyn Kernel>, jobs: &mut VecDeque<Job>) -> f64 {
    let (begin, mut count) = (Instant::now(), 0);
    while count < SLICE_JOBS || begin.elapsed() < SLICE {
        for Job {
            source,
            destination,
            ..
        } in &mut *jobs
        {
            let source: &[u8] = black_box(&source.segments()[0]);
            black_box(kernel.run(&[source], destination).expect("a good input"));
            count += 1;
        }
    }
    begin.elapsed().as_secs_f64() / f64::from(count)
}

#[derive(Clone, Copy, PartialEq)]
enum Completions {
    Poll,
    Wait,
}

/// Seconds a job, through the contract.
fn contract(context: &mut dyn Context, jobs: &mut VecDeque<Job>, how: Completions) -> f64 {
    let mut out = Vec::with_capacity(DEPTH);
    let (begin, mut count) = (Instant::now(), 0);
    let mut open = true;
    while open || context.in_flight() > 0 {
        if open && jobs.len() >= DEPTH / 2 {
            context.submit(jobs).expect("good jobs");
        }
        // To the last job: with as many threads as cores, a submitter that polled for the rest
        // would take a core from a thread that has some of it.
        if how == Completions::Wait {
            wait(context, Duration::from_secs(10)).expect("waiting works");
        }
        count += reap(context, &mut out, jobs);
        open = open && (count < SLICE_JOBS || begin.elapsed() < SLICE);
    }
    begin.elapsed().as_secs_f64() / f64::from(count)
}

/// Turns what has completed into jobs again.
fn reap(context: &mut dyn Context, out: &mut Vec<Completion>, jobs: &mut VecDeque<Job>) -> u32 {
    let count = context.poll(out, DEPTH).expect("the threads live");
    if count == 0 {
        // Pauses rather than polls or system calls: what looks like two cores may share the units
        // of one, and then a submitter's haste is its thread's loss.
        (0..100).for_each(|_| std::hint::spin_loop());
    }
    for Completion {
        tag,
        result,
        source,
        destination,
        ..
    } in out.drain(..)
    {
        assert!(result.is_ok(), "{result:?}");
        let destination = destination.expect("no deadline, no quarantine");
        jobs.push_back(Job {
            tag,
            source,
            destination,
            deadline: None,
        });
    }
    count as u32
}

fn usable_cores() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("the process's cores");
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

fn pin(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).expect("cores of this process");
}

fn open(
    config: &Config,
    threads: usize,
    cores: Option<Vec<usize>>,
    inputs: &Inputs,
) -> Box<dyn Context> {
    let device = CpuDevice::new(CpuOptions { threads, cores }).expect("threads");
    let longest = inputs.sources.iter().map(|source| source.len()).max();
    let config = ContextConfig {
        operation: config.clone(),
        depth: DEPTH,
        max_source_bytes: longest.expect("inputs") as u64,
        max_destination_bytes: inputs.capacity as u64,
    };
    device.open(config).expect("it was listed")
}

struct Inputs {
    sources: Vec<Slice>,
    capacity: usize,
}

impl Inputs {
    /// Half generated text, half this repository's own files; compressed where that is the input.
    fn new(config: &Config) -> Self {
        let plain: Vec<Vec<u8>> = (sources().chunks_exact(BUFFER).take(BUFFERS / 2))
            .map(<[u8]>::to_vec)
            .chain(
                text(7, BUFFERS * BUFFER)
                    .chunks_exact(BUFFER)
                    .map(<[u8]>::to_vec),
            )
            .take(BUFFERS)
            .collect();
        let capacity = 2 * BUFFER;
        let inputs = match config.operation {
            Operation::Decompress(format) => {
                let compress = Config::new(Operation::Compress(format));
                let ready = prepare(&compress).and_then(|ready| ready.kernel());
                let mut kernel = ready.expect("a compressor");
                let mut out = vec![0; capacity];
                (plain.iter())
                    .map(|plain| {
                        let done = kernel.run(&[plain], &mut out).expect("good input");
                        out[..done.written].to_vec()
                    })
                    .collect()
            }
            _ => plain,
        };
        Self {
            sources: inputs.iter().map(|bytes| slice(bytes)).collect(),
            capacity,
        }
    }

    /// As many jobs as may be in flight: the sources go round with their jobs.
    fn jobs(&self) -> VecDeque<Job> {
        (self.sources.iter().zip(0..))
            .map(|(source, tag)| Job {
                tag,
                source: source.clone().into(),
                destination: Region::allocate(self.capacity, 64, None).expect("memory"),
                deadline: None,
            })
            .collect()
    }
}

fn slice(bytes: &[u8]) -> Slice {
    let mut region = Region::allocate(bytes.len(), 64, None).expect("memory");
    region.copy_from_slice(bytes);
    region.share()
}

/// How much faster the second side was.
fn rates(turned: &[(f64, f64)]) -> String {
    let ratio = |(first, second): (f64, f64)| first / second;
    format!(
        "rate {}, fastest {:.3}",
        spread(turned, ratio, 3),
        ratio(fastest(turned))
    )
}

/// Each side's own fastest slice.
fn fastest(turned: &[(f64, f64)]) -> (f64, f64) {
    (turned.iter()).fold((f64::MAX, f64::MAX), |best, turn| {
        (best.0.min(turn.0), best.1.min(turn.1))
    })
}

/// `median (least..most)` of a value of each turn.
fn spread(turned: &[(f64, f64)], value: impl Fn((f64, f64)) -> f64, digits: usize) -> String {
    let mut values: Vec<f64> = turned.iter().copied().map(value).collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!(
        "{:.digits$} ({least:.digits$}..{most:.digits$})",
        values[values.len() / 2]
    )
}
