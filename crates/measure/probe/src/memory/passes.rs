//! Threads that do the same work in passes, each with memory of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use overside_base::{lock, panic_text};
use overside_device::threads::thread_cpu_ns;

use crate::counters::{Counters, Events};
use crate::failure::{Failure, FailureKind};
use crate::memory;

/// The time that a pass should take at least, so that starting it and reading clocks is nothing.
const PASS_NS: u64 = 2_000_000;
/// The most that passes are lengthened by at a time, and in all.
const LONGER: u64 = 16;
const REPEATS_MAX: u64 = 1 << 24;

/// A pass longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// Work of one thread, repeated in passes.
pub(crate) trait Work {
    /// Runs the pass `repeats` times; returns accesses and bytes. Under the clock.
    fn run(&mut self, repeats: u64) -> (u64, u64);

    /// Makes ready for the next `run`. Not under the clock.
    fn prepare(&mut self) {}

    /// Checks that the last `run` had the right result. Not under the clock.
    fn check(&mut self) -> Result<(), Failure>;

    /// Runs everything once and verifies all of it, before the first pass. Returns a sum that is the same for
    /// all correct implementations of the work, and the number of items.
    fn verify(&mut self, deadline: Instant) -> Result<(u64, u64), Failure>;

    /// The pages that its memory is on.
    fn pages(&self) -> &str;
}

/// Durations of a run.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Work that does not count.
    pub warmup: Duration,
    /// Work that does, at least one pass.
    pub sample: Duration,
    /// Time at which the run fails if it is not finished.
    pub deadline: Instant,
}

impl Times {
    /// Returns times without a warm-up and without a limit.
    pub fn of(sample: Duration) -> Self {
        Self { warmup: Duration::ZERO, sample, deadline: Instant::now() + LONG }
    }
}

/// Result of running a probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeResult {
    /// Passes under the clock.
    pub passes: u64,
    /// Accesses of all threads.
    pub accesses: u64,
    /// Bytes that were read and written by all threads.
    pub bytes: u64,
    /// The sum of the passes, each from the first thread's start to the last one's end.
    pub elapsed_ns: u64,
    /// CPU time of all threads in the passes.
    pub cpu_ns: u64,
    /// Threads.
    pub threads: usize,
    /// Bytes a second of the fastest pass.
    pub best_bytes_per_s: f64,
    /// Nanoseconds of one access of one thread, in each pass.
    pub access_ns_by_pass: Vec<f64>,
    /// Processor events counted under the clock; empty unless requested.
    pub events: Events,
    /// A sum over the verified items, and their number.
    pub checked: (u64, u64),
    /// The pages that the memory was on.
    pub pages: String,
}

impl ProbeResult {
    /// Nanoseconds of one access of one thread, the mean.
    pub fn access_ns(&self) -> f64 {
        self.elapsed_ns as f64 * self.threads as f64 / self.accesses.max(1) as f64
    }

    /// The median over the passes of the nanoseconds of one access of one thread.
    pub fn median_access_ns(&self) -> f64 {
        let mut passes = self.access_ns_by_pass.clone();
        passes.sort_by(f64::total_cmp);
        passes.get(passes.len() / 2).copied().unwrap_or(0.0)
    }
}

/// State shared by the threads of a run.
struct PassThreads {
    barrier: Barrier,
    ended: AtomicBool,
    /// The pass counts.
    timed: AtomicBool,
    repeats: AtomicU64,
    origin: Instant,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    accesses: AtomicU64,
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
    found: Mutex<Findings>,
}

/// Findings that the threads report.
#[derive(Default)]
struct Findings {
    failure: Option<Failure>,
    events: Events,
    checked: (u64, u64),
    pages: String,
}

impl PassThreads {
    fn found(&self) -> std::sync::MutexGuard<'_, Findings> {
        lock(&self.found)
    }

    /// Runs a step, and keeps its failure: a thread that left would leave the others waiting.
    fn step<T>(&self, step: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
        let failure = match catch_unwind(AssertUnwindSafe(step)) {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(failure)) => failure,
            Err(panic) => Failure::new(
                FailureKind::Internal,
                format!("a thread panicked: {}", panic_text(&*panic)),
            ),
        };
        self.found().failure.get_or_insert(failure);
        None
    }

    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// One thread's life.
    fn work<W: Work>(
        &self,
        deadline: Instant,
        counted: bool,
        make: impl FnOnce() -> Result<W, Failure>,
    ) {
        let mut work = self.step(|| {
            let mut work = make()?;
            let (sum, items) = work.verify(deadline)?;
            work.prepare();
            let mut found = self.found();
            found.checked.0 = found.checked.0.wrapping_add(sum);
            found.checked.1 += items;
            found.pages = work.pages().to_owned();
            Ok(work)
        });
        let counters = counted.then(Counters::open);
        self.barrier.wait();
        loop {
            self.barrier.wait();
            if self.ended.load(Ordering::Relaxed) {
                break;
            }
            if let Some(work) = &mut work {
                self.step(|| {
                    self.pass(work, counters.as_ref());
                    Ok(())
                });
            }
            self.barrier.wait();
            if let Some(work) = &mut work {
                self.step(|| {
                    work.check()?;
                    work.prepare();
                    Ok(())
                });
            }
        }
        if let Some(counters) = counters {
            self.found().events.add(counters.events());
        }
    }

    /// Each thread's own clock stands around its own work: a clock beside them could start late and
    /// stop early.
    fn pass<W: Work>(&self, work: &mut W, counters: Option<&Counters>) {
        let repeats = self.repeats.load(Ordering::Relaxed);
        let counters = counters.filter(|_| self.timed.load(Ordering::Relaxed));
        if let Some(counters) = counters {
            counters.start();
        }
        let cpu_before = thread_cpu_ns();
        let start = self.now_ns();
        let (accesses, bytes) = work.run(repeats);
        let end = self.now_ns();
        let cpu_after = thread_cpu_ns();
        if let Some(counters) = counters {
            counters.stop();
        }
        let spent = cpu_after.saturating_sub(cpu_before);
        self.cpu_ns.fetch_add(spent, Ordering::Relaxed);
        self.first_ns.fetch_min(start, Ordering::Relaxed);
        self.last_ns.fetch_max(end, Ordering::Relaxed);
        self.accesses.fetch_add(accesses, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Runs one pass on all threads. Returns its nanoseconds, accesses and bytes.
    fn lead(&self) -> (u64, u64, u64) {
        // The barrier orders what the threads write before what is read here, and the reverse.
        self.first_ns.store(u64::MAX, Ordering::Relaxed);
        self.last_ns.store(0, Ordering::Relaxed);
        self.accesses.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.cpu_ns.store(0, Ordering::Relaxed);
        self.barrier.wait();
        self.barrier.wait();
        let first = self.first_ns.load(Ordering::Relaxed);
        let pass_ns = self.last_ns.load(Ordering::Relaxed).saturating_sub(first);
        (pass_ns.max(1), self.accesses.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Runs passes until the warm-up has ended and a pass is long enough, then those that count.
    fn measure(&self, times: &Times, taken: &mut ProbeResult) {
        let failed = || self.found().failure.is_some();
        let late = || Instant::now() >= times.deadline;
        let began = Instant::now();
        while !failed() && !late() {
            let (pass_ns, ..) = self.lead();
            let repeats = self.repeats.load(Ordering::Relaxed);
            if pass_ns < PASS_NS && repeats < REPEATS_MAX {
                let longer = (PASS_NS / pass_ns + 1).clamp(2, LONGER);
                self.repeats.store(repeats * longer, Ordering::Relaxed);
            } else if began.elapsed() >= times.warmup {
                break;
            }
        }
        self.timed.store(true, Ordering::Relaxed);
        let duration_ns = times.sample.as_nanos() as u64;
        while !failed() && (taken.passes == 0 || taken.elapsed_ns < duration_ns) {
            if late() {
                self.found().failure = Some(memory::out_of_time());
                break;
            }
            let (pass_ns, accesses, bytes) = self.lead();
            taken.passes += 1;
            taken.elapsed_ns += pass_ns;
            taken.accesses += accesses;
            taken.bytes += bytes;
            taken.cpu_ns += self.cpu_ns.load(Ordering::Relaxed);
            let rate = bytes as f64 / (pass_ns as f64 / 1e9);
            let access_ns = pass_ns as f64 * taken.threads as f64 / accesses.max(1) as f64;
            taken.best_bytes_per_s = taken.best_bytes_per_s.max(rate);
            taken.access_ns_by_pass.push(access_ns);
        }
    }
}

/// Runs on `threads` threads the work that `make` makes on each of them, where they will run.
pub(crate) fn run<W: Work>(
    threads: usize,
    times: &Times,
    counted: bool,
    make: impl Fn(usize) -> Result<W, Failure> + Sync,
) -> Result<ProbeResult, Failure> {
    let shared = PassThreads {
        barrier: Barrier::new(threads + 1),
        ended: AtomicBool::new(false),
        timed: AtomicBool::new(false),
        repeats: AtomicU64::new(1),
        origin: Instant::now(),
        first_ns: AtomicU64::new(0),
        last_ns: AtomicU64::new(0),
        accesses: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        cpu_ns: AtomicU64::new(0),
        found: Mutex::default(),
    };
    let mut taken = ProbeResult { threads, ..ProbeResult::default() };
    std::thread::scope(|scope| {
        // No thread waits at the barrier before all have been started; dropping this ends them.
        let mut gates = Vec::new();
        for index in 0..threads {
            let (shared, make) = (&shared, &make);
            let (gate, opened) = mpsc::channel::<()>();
            let work = move || {
                if opened.recv().is_ok() {
                    shared.work(times.deadline, counted, || make(index));
                }
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, work);
            started.map_err(|error| {
                let number = index + 1;
                Failure::unsupported(format!(
                    "thread {number} of {threads} cannot be started ({error}): take fewer threads"
                ))
            })?;
            gates.push(gate);
        }
        gates.iter().for_each(|gate| {
            // The thread waits for it and cannot have gone.
            let _ = gate.send(());
        });
        shared.barrier.wait();
        shared.measure(times, &mut taken);
        shared.ended.store(true, Ordering::Relaxed);
        shared.barrier.wait();
        Ok::<_, Failure>(())
    })?;
    let found = shared.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    match found.failure {
        Some(failure) => Err(failure),
        None => Ok(ProbeResult {
            events: found.events,
            checked: found.checked,
            pages: found.pages,
            ..taken
        }),
    }
}

/// Runs `step` for each part of `0..count`, of at most `part`, as long as there is time.
pub(crate) fn in_parts(
    count: usize,
    part: usize,
    deadline: Instant,
    mut step: impl FnMut(std::ops::Range<usize>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for from in (0..count).step_by(part.max(1)) {
        if Instant::now() >= deadline {
            return Err(memory::out_of_time());
        }
        step(from..(from + part).min(count))?;
    }
    Ok(())
}
