//! Parts that all devices made of software threads share: a bounded queue in, threads, a bounded
//! queue out, an event, deadlines, quarantine, closing.
//!
//! A backend makes one [`WorkerMain`] for each thread: a loop over [`WorkerQueue::next`] and
//! [`WorkerQueue::finish`] until it has to stop. [`Threads`] keeps the promises of [`crate::Context`] to
//! the submitter. [`Runner`] runs one kernel and reports the outcome of a job.
//!
//! ```text
//!   submitter                                            threads
//!   Threads::submit -> slots + queue of their numbers -> WorkerQueue::next
//!   Threads::poll   <- slots + queue of their numbers <- WorkerQueue::finish
//! ```
//!
//! Nothing is allocated after the context is opened, and nothing blocks: a slot for each of
//! `depth` jobs is made at the beginning, and the queues carry the slots' numbers.

mod clock;
mod doorbell;
mod event;
mod rings;
mod runner;
mod slot;
mod submitter;
mod worker_main;
mod worker_queue;

#[cfg(all(test, loom))]
mod loom;

pub use clock::{ThreadClock, process_cpu_ns, thread_cpu_ns};
pub use doorbell::Doorbell;
pub use event::{Event, Timer};
pub use runner::{Runner, outcome};
pub use submitter::{CpuAccounting, Limits, Threads};
pub use worker_main::{WorkerMain, pin};
pub use worker_queue::{Next, RunningJob, WorkerQueue};

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::primitive::{AtomicBool, AtomicUsize, Ordering};
use overside_base::lock;
use rings::{Finished, Submitted};
use slot::Slot;

/// State that the submitter and the threads of one context share.
struct ContextState {
    slots: Box<[Slot]>,
    submitted: Submitted,
    finished: Finished,
    doorbell: Doorbell,
    event: Event,
    quarantined: AtomicUsize,
    /// Tells the threads to return.
    stop: AtomicBool,
    /// `true` if a thread ended without an order to stop; `reason` then says why.
    lost: AtomicBool,
    reason: Mutex<String>,
    /// Threads that have not ended.
    alive: Mutex<usize>,
    ended: Condvar,
    clocks: Box<[ThreadClock]>,
    epoch: Instant,
}

impl ContextState {
    fn new(depth: usize, threads: usize) -> std::io::Result<Self> {
        Ok(Self {
            slots: (0..depth).map(|_| Slot::new()).collect(),
            submitted: Submitted::new(depth),
            finished: Finished::new(depth),
            doorbell: Doorbell::new(),
            event: Event::new()?,
            quarantined: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            reason: Mutex::new(String::new()),
            alive: Mutex::new(0),
            ended: Condvar::new(),
            clocks: (0..threads).map(|_| ThreadClock::default()).collect(),
            epoch: Instant::now(),
        })
    }

    /// Nanoseconds on this context's clock.
    fn time_ns(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// Returns a slot's number to the submitter and wakes it if it is time.
    fn completed(&self, number: u32, now: Instant) {
        if self.finished.push(number, || self.time_ns(now)) {
            self.event.signal();
        }
    }

    /// Ends the threads after their current jobs.
    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.doorbell.ring(usize::MAX);
    }

    /// Marks the context as lost because a thread has ended.
    fn lose(&self, reason: String) {
        tracing::error!(reason, "context lost");
        *lock(&self.reason) = reason;
        self.lost.store(true, Ordering::Release);
        self.stop();
        if self.finished.claim() {
            self.event.signal();
        }
    }

    /// Waits until all threads have ended, but not beyond `deadline`. Returns `true` if they have.
    fn wait_for_end(&self, deadline: Instant) -> bool {
        let alive = lock(&self.alive);
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.ended.wait_timeout_while(alive, left, |alive| *alive > 0);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0 == 0
    }

    fn spent_ns(&self) -> u64 {
        self.clocks.iter().map(ThreadClock::spent_ns).sum()
    }
}
