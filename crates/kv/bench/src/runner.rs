//! Threads that drive connections.

mod driver;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use overside_device::threads::pin;
use overside_link::agent::CancellationToken;

use super::{BenchError, LoadMode, Point, Settings, Window};
use driver::{Driver, Measured};

/// Writes every record once; returns the rate per second.
///
/// # Errors
/// [`BenchError`].
pub fn load(settings: &Settings) -> Result<f64, BenchError> {
    load_until(settings, &CancellationToken::default())
}

/// Variant of `load` that can be cancelled: fails with [`BenchError::Cancelled`] then.
pub(super) fn load_until(
    settings: &Settings,
    cancelled: &CancellationToken,
) -> Result<f64, BenchError> {
    settings.check()?;
    let next = AtomicU64::new(0);
    let started = Instant::now();
    on_threads(settings, |numbers, _| {
        let mut driver = Driver::open(settings, numbers, cancelled)?;
        driver.load(&next)
    })?;
    Ok(settings.records.count as f64 / started.elapsed().as_secs_f64())
}

/// Measures. Records must have been loaded.
///
/// # Errors
/// [`BenchError`].
pub fn run(settings: &Settings) -> Result<Point, BenchError> {
    run_until(settings, &CancellationToken::default())
}

/// Variant of `run` that can be cancelled: fails with [`BenchError::Cancelled`] then.
pub(super) fn run_until(
    settings: &Settings,
    cancelled: &CancellationToken,
) -> Result<Point, BenchError> {
    settings.check()?;
    let begin = Instant::now();
    let threads = settings.threads;
    let ready = Barrier::new(threads);
    // Threads begin together; one that fails lets the others go.
    let failed = AtomicBool::new(false);
    let results = on_threads(settings, |numbers, thread| {
        let opened = Driver::open(settings, numbers, cancelled);
        failed.fetch_or(opened.is_err(), Ordering::SeqCst);
        ready.wait();
        let mut driver = opened?;
        match failed.load(Ordering::SeqCst) {
            true => Ok(Measured::default()),
            false => driver.measure(begin, begin.elapsed().as_nanos() as u64, thread),
        }
    })?;
    let mut point = Point {
        offered: match settings.mode {
            LoadMode::Closed => None,
            LoadMode::Open { rate } => Some(rate),
        },
        ..Point::default()
    };
    let seconds = settings.duration.as_secs_f64() / settings.windows as f64;
    let empty = Window { seconds, ..Window::default() };
    point.windows = vec![empty; settings.windows];
    point.by_endpoint = vec![0; settings.endpoints().count()];
    for measured in results {
        for (sum, count) in point.by_endpoint.iter_mut().zip(&measured.by_endpoint) {
            *sum += count;
        }
        for (sum, window) in point.windows.iter_mut().zip(&measured.windows) {
            sum.done += window.count();
            sum.latencies.add(window);
        }
        point.unanswered_ns = point.unanswered_ns.max(measured.waited_ns);
        point.answered += measured.answered;
        point.hits += measured.counts.hits;
        point.misses += measured.counts.misses;
        point.client_cpu_s += measured.cpu_s;
        point.client_s += measured.seconds;
    }
    Ok(point)
}

/// Runs `work` on each thread with the numbers of its connections; the first error is that of all.
fn on_threads<T: Send>(
    settings: &Settings,
    work: impl Fn(Vec<u64>, usize) -> Result<T, BenchError> + Sync,
) -> Result<Vec<T>, BenchError> {
    let threads = settings.threads;
    let results: Vec<Result<T, BenchError>> = thread::scope(|scope| {
        let work = &work;
        let start = |thread: usize| {
            let first = settings.generator.index * settings.connections;
            let numbers = first + thread..first + settings.connections;
            let numbers: Vec<u64> = numbers.step_by(threads).map(|n| n as u64).collect();
            scope.spawn(move || {
                if let Some(core) = settings.core {
                    pin(core + thread).map_err(system("a core"))?;
                }
                work(numbers, thread)
            })
        };
        let started: Vec<_> = (0..threads).map(start).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, _>| match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        started.into_iter().map(join).collect()
    });
    results.into_iter().collect()
}

/// Returns a function that makes a [`BenchError`] of an error of the system.
fn system(what: &'static str) -> impl Fn(std::io::Error) -> BenchError {
    move |source| BenchError::System { what, source }
}
