//! The four kernels of McCalpin's STREAM, over arrays that fit no cache.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{MAX_BYTES, MAX_THREADS};

/// What is done to each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// `c = a`
    Copy,
    /// `b = s * c`
    Scale,
    /// `c = a + b`
    Add,
    /// `a = b + s * c`
    Triad,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Copy, Self::Scale, Self::Add, Self::Triad];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
        }
    }

    /// Arrays that are read or written.
    const fn arrays(self) -> usize {
        match self {
            Self::Copy | Self::Scale => 2,
            Self::Add | Self::Triad => 3,
        }
    }

    fn run(self, arrays: &mut [Vec<f64>; 3]) {
        let [a, b, c] = arrays;
        match self {
            Self::Copy => c.copy_from_slice(a),
            Self::Scale => {
                for (b, c) in b.iter_mut().zip(&*c) {
                    *b = 3.0 * c;
                }
            }
            Self::Add => {
                for ((c, a), b) in c.iter_mut().zip(&*a).zip(&*b) {
                    *c = a + b;
                }
            }
            Self::Triad => {
                for ((a, b), c) in a.iter_mut().zip(&*b).zip(&*c) {
                    *a = b + 3.0 * c;
                }
            }
        }
    }
}

/// Bytes a second of `kernel` on `threads` threads (1 to 1024) that share arrays of `array_bytes`
/// each (1 GiB at most), for about `budget`: those read and those written, without what a cache
/// reads before it writes. The fastest pass counts, as in STREAM.
pub fn stream_bytes_per_s(
    kernel: Kernel,
    threads: usize,
    array_bytes: usize,
    budget: Duration,
) -> f64 {
    let threads = threads.clamp(1, MAX_THREADS);
    let elements = (array_bytes.min(MAX_BYTES) / size_of::<f64>() / threads).max(1);
    let barrier = Barrier::new(threads + 1);
    let ended = AtomicBool::new(false);
    // Each thread's own clock, around its own work: a clock beside them could start late and
    // stop early. The pass is from the first start to the last end.
    let origin = Instant::now();
    let first = AtomicU64::new(u64::MAX);
    let last = AtomicU64::new(0);
    let mut fastest_ns = u64::MAX;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut arrays = [1.0, 2.0, 0.5].map(|value| vec![value; elements]);
                loop {
                    barrier.wait();
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                    let start = origin.elapsed().as_nanos() as u64;
                    kernel.run(black_box(&mut arrays));
                    black_box(&arrays);
                    let end = origin.elapsed().as_nanos() as u64;
                    first.fetch_min(start, Ordering::Relaxed);
                    last.fetch_max(end, Ordering::Relaxed);
                    barrier.wait();
                }
            });
        }
        let mut passes = 0;
        while passes < 3 || origin.elapsed() < budget && passes < 10_000 {
            // The barrier orders what the threads write before what is read here, and the reverse.
            first.store(u64::MAX, Ordering::Relaxed);
            last.store(0, Ordering::Relaxed);
            barrier.wait();
            barrier.wait();
            let pass_ns = last.load(Ordering::Relaxed) - first.load(Ordering::Relaxed);
            fastest_ns = fastest_ns.min(pass_ns.max(1));
            passes += 1;
        }
        ended.store(true, Ordering::Relaxed);
        barrier.wait();
    });
    let fastest = fastest_ns as f64 / 1e9;
    (elements * threads * size_of::<f64>() * kernel.arrays()) as f64 / fastest
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Kernel, stream_bytes_per_s};

    #[test]
    fn a_rate_is_not_beyond_what_memory_can_do() {
        for threads in [1, 2] {
            let rate = stream_bytes_per_s(Kernel::Triad, threads, 1 << 22, Duration::ZERO);
            // A clock that stops early shows as terabytes a second.
            assert!((1e6..2e12).contains(&rate), "{rate}");
        }
    }

    #[test]
    fn kernels_compute_what_they_are_named_after() {
        let mut arrays = [vec![1.0; 4], vec![2.0; 4], vec![0.5; 4]];
        Kernel::Copy.run(&mut arrays);
        assert_eq!(arrays[2], [1.0; 4]);
        Kernel::Scale.run(&mut arrays);
        assert_eq!(arrays[1], [3.0; 4]);
        Kernel::Add.run(&mut arrays);
        assert_eq!(arrays[2], [4.0; 4]);
        Kernel::Triad.run(&mut arrays);
        assert_eq!(arrays[0], [15.0; 4]);
    }
}
