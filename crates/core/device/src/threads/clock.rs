//! CPU time of threads other than one's own.

// Two calls of the C library that no safe wrapper offers.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// One thread's CPU clock, readable from other threads, during its life and after.
#[derive(Debug, Default)]
pub struct ThreadClock {
    /// The clock's number, shifted left by one, plus one; zero before the thread has started.
    clock: AtomicU64,
    /// CPU time in nanoseconds at the thread's end, plus one; zero before.
    end: AtomicU64,
}

impl ThreadClock {
    /// Starts the thread's clock. The thread calls it when it begins.
    pub fn begin(&self) {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: the calling thread exists and `clock` is writable.
        if unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } == 0 {
            self.clock.store((u64::from(clock as u32) << 1) | 1, Ordering::Release);
        }
    }

    /// Stops the thread's clock. The thread calls it when it ends.
    pub fn end(&self) {
        self.end.store(thread_cpu_ns().saturating_add(1), Ordering::Release);
    }

    /// CPU time so far in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        let end = || self.end.load(Ordering::Acquire).checked_sub(1);
        if let Some(spent) = end() {
            return spent;
        }
        let clock = self.clock.load(Ordering::Acquire);
        let running = (clock & 1 == 1).then(|| read((clock >> 1) as u32 as libc::clockid_t));
        // The thread may have ended in between, and its number may be another's by now.
        end().or(running.flatten()).unwrap_or(0)
    }
}

/// CPU time that the calling thread has spent so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// CPU time that all threads of a process have spent so far, in nanoseconds; `None` if there is no
/// such process.
pub fn process_cpu_ns(process: u32) -> Option<u64> {
    // As clock_getcpuclockid(3) makes it: the process's number inverted, and the scheduler's clock.
    const SCHEDULER: libc::clockid_t = 2;
    let process = libc::clockid_t::try_from(process).ok().filter(|&process| process > 0)?;
    read((!process << 3) | SCHEDULER)
}

fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable; an invalid clock is answered with an error.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    (!failed).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::{Arc, Barrier};

    #[test]
    fn a_process_has_spent_at_least_what_its_thread_has() {
        while read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap() < 1_000_000 {
            black_box(0);
        }
        let own = process_cpu_ns(std::process::id()).unwrap();
        assert!(own >= 1_000_000, "{own}");
        assert_eq!(process_cpu_ns(0), None);
        assert_eq!(process_cpu_ns(u32::MAX), None);
    }

    #[test]
    fn another_threads_time_is_seen_while_it_runs_and_after() {
        let clock = Arc::new(ThreadClock::default());
        assert_eq!(clock.spent_ns(), 0);
        let barrier = Arc::new(Barrier::new(2));
        let thread = std::thread::spawn({
            let (clock, barrier) = (Arc::clone(&clock), Arc::clone(&barrier));
            move || {
                clock.begin();
                while read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap() < 2_000_000 {
                    black_box(0);
                }
                barrier.wait();
                barrier.wait();
                clock.end();
            }
        });
        barrier.wait();
        let running = clock.spent_ns();
        assert!(running >= 2_000_000, "{running}");
        barrier.wait();
        thread.join().unwrap();
        let ended = clock.spent_ns();
        assert!(ended >= running, "{ended} < {running}");
        assert_eq!(clock.spent_ns(), ended);
    }
}
