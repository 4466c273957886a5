//! Clock that jobs are timed by: the machine's, or a virtual one.
//!
//! Virtual time is that of a discrete-event simulation. It stands still while code runs, and advances
//!
//! 1. to the next event, when the driver of the devices has nothing else to do ([`Clock::wait`]);
//! 2. by the time of an operation that its caller waits for ([`Clock::sleep`]);
//! 3. by the cost of a job to its submitter, if that was measured ([`Clock::submitted`]).
//!
//! So the figures do not depend on the speed and load of this machine, except for times that were measured
//! on it. All devices that work together, and their driver, share one clock and one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_base::lock;

use crate::threads::thread_cpu_ns;

/// A clock; a clone is the same clock. The machine's by default.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Mutex<VirtualTime>>>);

#[derive(Debug)]
struct VirtualTime {
    now: Instant,
    /// Times at which jobs in flight complete, earliest first.
    events: BinaryHeap<Reverse<Instant>>,
    /// Time that submitting one job costs the submitter.
    job_cost: Duration,
    /// CPU time of work that is not the submitter's.
    aside: Duration,
}

impl VirtualTime {
    fn advance(&mut self, to: Instant) {
        self.now = self.now.max(to);
        while (self.events.peek()).is_some_and(|Reverse(event)| *event <= self.now) {
            self.events.pop();
        }
    }
}

impl Clock {
    /// A virtual clock.
    pub fn simulated() -> Self {
        Self(Some(Arc::new(Mutex::new(VirtualTime {
            now: Instant::now(),
            events: BinaryHeap::new(),
            job_cost: Duration::ZERO,
            aside: Duration::ZERO,
        }))))
    }

    /// Returns `true` if the clock is virtual, so that its time advances by events.
    pub fn is_virtual(&self) -> bool {
        self.0.is_some()
    }

    /// The time. That of a virtual clock is no time of day: only differences mean something.
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(time) => lock(time).now,
        }
    }

    /// Time between then and now.
    pub fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }

    /// Advances by a time that the caller has to wait for.
    pub fn sleep(&self, time: Duration) {
        match &self.0 {
            None => std::thread::sleep(time),
            Some(virtual_time) => {
                let mut virtual_time = lock(virtual_time);
                let to = virtual_time.now + time;
                virtual_time.advance(to);
            }
        }
    }

    /// Registers the time of a completion. The machine's clock needs no such notice.
    pub fn schedule(&self, event: Instant) {
        if let Some(time) = &self.0 {
            lock(time).events.push(Reverse(event));
        }
    }

    /// Goes on to the next event, or to `until` if that is earlier. Only for a virtual clock: in
    /// real time, wait for a device's event.
    pub fn wait(&self, until: Instant) {
        if let Some(time) = &self.0 {
            let mut time = lock(time);
            let next = time.events.peek().map_or(until, |Reverse(event)| *event);
            time.advance(next.min(until));
        }
    }

    /// Sets the time that submitting one job costs the submitter from now on; zero initially. It
    /// has no effect on the machine's clock.
    pub fn set_job_cost(&self, cost: Duration) {
        if let Some(time) = &self.0 {
            lock(time).job_cost = cost;
        }
    }

    /// Counts `jobs` submitted jobs: advances a virtual clock by their cost to the submitter.
    pub fn submitted(&self, jobs: usize) {
        if let Some(time) = &self.0 {
            let mut time = lock(time);
            let cost = time.job_cost.saturating_mul(jobs.try_into().unwrap_or(u32::MAX));
            let to = time.now + cost;
            time.advance(to);
        }
    }

    /// Does work that is not the submitter's: a device's, or verification. Its CPU time is kept
    /// apart, and returned.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let Some(time) = &self.0 else {
            return (work(), Duration::ZERO);
        };
        let (begun, aside) = (thread_cpu_ns(), lock(time).aside);
        let done = work();
        let spent = Duration::from_nanos(thread_cpu_ns().saturating_sub(begun));
        // What was kept apart within counts once.
        let mut time = lock(time);
        time.aside = time.aside.max(aside + spent);
        (done, spent)
    }

    /// CPU time of the submitter: the calling thread's so far, without the time kept apart.
    pub fn submitter_cpu_time(&self) -> Duration {
        let aside = (self.0.as_ref()).map_or(Duration::ZERO, |time| lock(time).aside);
        Duration::from_nanos(thread_cpu_ns()).saturating_sub(aside)
    }

    fn identity(&self) -> usize {
        self.0.as_ref().map_or(0, |time| Arc::as_ptr(time) as usize)
    }
}

/// Equal if they are the same clock, not if they show the same time.
impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Clock {}

impl Hash for Clock {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn virtual_time_goes_on_by_events_alone() {
        let clock = Clock::simulated();
        let begun = clock.now();
        std::thread::sleep(MS);
        assert_eq!(clock.now(), begun);
        // In whatever order they are told of.
        clock.schedule(begun + 5 * MS);
        clock.schedule(begun + 3 * MS);
        for (until, now) in [(2, 2), (10, 3), (10, 5), (10, 10)] {
            clock.wait(begun + until * MS);
            assert_eq!(clock.now(), begun + now * MS);
        }
        clock.sleep(MS);
        assert_eq!(clock.since(begun), 11 * MS);
        // What is over does not come again.
        clock.schedule(begun + 4 * MS);
        clock.wait(begun + 20 * MS);
        clock.wait(begun + 20 * MS);
        assert_eq!(clock.since(begun), 20 * MS);
    }

    #[test]
    fn jobs_cost_their_submitter_what_was_measured() {
        let clock = Clock::simulated();
        let begun = clock.now();
        clock.submitted(1000);
        assert_eq!(clock.now(), begun);
        clock.set_job_cost(MS);
        clock.submitted(3);
        assert_eq!(clock.since(begun), 3 * MS);
        assert_eq!(clock, clock.clone());
        assert_ne!(clock, Clock::simulated());
        assert_ne!(clock, Clock::default());
    }
}
