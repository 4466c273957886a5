//! What surrounds a measurement: how far two cores are apart, what hashing costs.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use overside_device::threads::pin;

use super::Records;
use crate::KeyHasher;

/// A cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

/// The time in nanoseconds that hashing a key of these records takes as the store does it: the median of
/// many short runs, some milliseconds in all.
#[must_use]
pub fn hash_ns(records: &Records) -> f64 {
    const KEYS: u64 = 1024;
    const RUNS: usize = 200;
    let hasher = KeyHasher::random();
    let mut keys = Vec::new();
    (0..KEYS.min(records.count)).for_each(|record| records.key(record, &mut keys));
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begin = Instant::now();
            let hashed = keys.chunks_exact(records.key_bytes);
            let count = hashed.len();
            // Each is needed, and none waits for the one before.
            black_box(hashed.fold(0, |sum, key| sum ^ hasher.hash(black_box(key))));
            begin.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[RUNS / 2]
}

/// The time in nanoseconds that a number takes from one core to the other and back through shared
/// memory: the median of many short runs, about 50 ms in all.
///
/// # Errors
/// If a core cannot be used.
pub fn core_round_trip_ns(cores: (usize, usize)) -> io::Result<f64> {
    const ROUNDS: u64 = 1000;
    const PATIENCE: Duration = Duration::from_millis(50);
    let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    thread::scope(|scope| {
        let echo = scope.spawn(|| -> io::Result<()> {
            if let Err(error) = pin(cores.1) {
                back.0.store(u64::MAX, Ordering::Release);
                return Err(error);
            }
            for number in 1.. {
                let value = loop {
                    match there.0.load(Ordering::Acquire) {
                        u64::MAX => return Ok(()),
                        value if value >= number => break value,
                        _ => std::hint::spin_loop(),
                    }
                };
                back.0.store(value, Ordering::Release);
            }
            Ok(())
        });
        let ping = scope.spawn(|| -> io::Result<Vec<f64>> {
            let mut times = Vec::new();
            let pinned = pin(cores.0);
            let (begin, mut number) = (Instant::now(), 0);
            while pinned.is_ok() && (times.is_empty() || begin.elapsed() < PATIENCE) {
                let started = Instant::now();
                for _ in 0..ROUNDS {
                    number += 1;
                    there.0.store(number, Ordering::Release);
                    while back.0.load(Ordering::Acquire) != number {
                        if back.0.load(Ordering::Acquire) == u64::MAX {
                            return Ok(times);
                        }
                        std::hint::spin_loop();
                    }
                }
                times.push(started.elapsed().as_nanos() as f64 / ROUNDS as f64);
            }
            there.0.store(u64::MAX, Ordering::Release);
            pinned.map(|()| times)
        });
        let mut times = ping.join().unwrap_or_else(|_| Ok(Vec::new()))?;
        echo.join().unwrap_or(Ok(()))?;
        times.sort_unstable_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied();
        median.ok_or_else(|| io::Error::other("the cores did not meet"))
    })
}
