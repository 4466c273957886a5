//! Measurements in addition to a run: the distance of two cores, and the time for hashing keys.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use overside_device::threads::pin;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::Records;
use overside_kv_store::KeyHasher;

/// A cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

/// The time in nanoseconds that hashing a key of these records takes as the store does it, in the cache: the median of
/// many short runs, ten milliseconds at most.
#[must_use]
pub fn hash_ns(records: &Records) -> f64 {
    const KEYS: u64 = 1024;
    const BYTES: u64 = 1 << 20;
    const RUNS: usize = 200;
    let hasher = KeyHasher::random();
    let mut keys = Vec::new();
    let most = (BYTES / records.key_bytes as u64).clamp(1, KEYS);
    (0..most.min(records.count)).for_each(|record| records.key(record, &mut keys));
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

/// Time for a cache line to move from one core to another and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreRoundTrip {
    /// Cores of the load generator and of the server.
    pub cores: [usize; 2],
    /// Time from one core to the other and back, in nanoseconds.
    pub ns: f64,
}

impl CoreRoundTrip {
    /// The cores that are named, and in place of others the first ones that this process may use; `None`: there are no
    /// two.
    #[must_use]
    pub fn between(named: [Option<usize>; 2]) -> Option<[usize; 2]> {
        let allowed = sched_getaffinity(None).ok()?;
        let mut free = (0..CpuSet::MAX_CPU)
            .filter(|core| allowed.is_set(*core) && !named.contains(&Some(*core)));
        let [load, server] = named.map(|core| core.or_else(|| free.next()));
        let cores = [load?, server?];
        (cores[0] != cores[1]).then_some(cores)
    }

    /// Measures it: a number goes there and back through shared memory. The median of many short runs, about 30 ms in
    /// all.
    ///
    /// # Errors
    /// If a core cannot be used, or others keep it busy.
    pub fn measure(cores: [usize; 2]) -> io::Result<Self> {
        const ROUNDS: u64 = 1000;
        const PATIENCE: Duration = Duration::from_millis(30);
        const MOST: Duration = Duration::from_secs(1);
        const LOOKS: u32 = 1 << 12;
        const END: u64 = u64::MAX;
        let apart = || io::Error::other("the cores did not meet");
        let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
        thread::scope(|scope| {
            let echo = scope.spawn(|| -> io::Result<()> {
                pin(cores[1]).inspect_err(|_| back.0.store(END, Ordering::Release))?;
                let mut last = 0;
                loop {
                    match there.0.load(Ordering::Acquire) {
                        END => return Ok(()),
                        number if number == last => std::hint::spin_loop(),
                        number => {
                            last = number;
                            back.0.store(number, Ordering::Release);
                        }
                    }
                }
            });
            let ping = scope.spawn(|| -> io::Result<Vec<f64>> {
                pin(cores[0])?;
                let (begin, mut number) = (Instant::now(), 0);
                let mut times = Vec::new();
                while times.is_empty() || begin.elapsed() < PATIENCE {
                    let started = Instant::now();
                    for _ in 0..ROUNDS {
                        number += 1;
                        there.0.store(number, Ordering::Release);
                        let mut looks = 0_u32;
                        loop {
                            match back.0.load(Ordering::Acquire) {
                                END => return Ok(Vec::new()),
                                found if found == number => break,
                                _ => std::hint::spin_loop(),
                            }
                            looks = looks.wrapping_add(1);
                            if looks.is_multiple_of(LOOKS) && begin.elapsed() > MOST {
                                return Err(apart());
                            }
                        }
                    }
                    times.push(started.elapsed().as_nanos() as f64 / ROUNDS as f64);
                }
                Ok(times)
            });
            let times = ping.join().unwrap_or_else(|_| Ok(Vec::new()));
            there.0.store(END, Ordering::Release);
            echo.join().unwrap_or(Ok(()))?;
            let mut times = times?;
            times.sort_unstable_by(f64::total_cmp);
            let ns = times.get(times.len() / 2).copied().ok_or_else(apart)?;
            Ok(Self { cores, ns })
        })
    }
}
