//! Clock that jobs are timed by: the machine's, or a virtual one.
//!
//! Virtual time is that of a discrete-event simulation. It stands still while code runs, and advances
//!
//! 1. to the next event, when the driver of the devices has nothing else to do ([`Clock::wait`]);
//! 2. by the time of an operation that its caller waits for ([`Clock::sleep`]);
//! 3. by the cost of a job to its submitter, if that was measured ([`Clock::submitted`]);
//! 4. on a clock of work ([`Clock::of_work`]), by the CPU time of the thread that drives the devices, which is
//!    charged whenever the clock is read.
//!
//! Beside work in real time ([`Clock::beside_real_time`]) it is held back, so that it is never ahead of real time.
//!
//! So the figures do not depend on the speed and load of this machine, except for times that were measured
//! on it. All devices that work together, and their driver, share one clock and one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
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
    /// `true` while such work is done.
    is_aside: bool,
    /// The submitter's CPU time so far, and the number of threads that share what comes; `None` if CPU
    /// time is no part of the time.
    charged: Option<(Duration, u32)>,
    /// The clock's time and the real time when it began to be held back; `None` if it may be ahead of real time.
    held_to: Option<[Instant; 2]>,
}

/// Longest time by which a clock that is held back is ahead of real time.
const AHEAD: Duration = Duration::from_millis(1);

impl VirtualTime {
    /// Advances by the thread's CPU time since the last call.
    fn charge(&mut self) {
        let aside = self.aside;
        if let Some((charged, threads)) = self.charged.as_mut().filter(|_| !self.is_aside) {
            let spent = Duration::from_nanos(thread_cpu_ns()).saturating_sub(aside);
            let to = self.now + spent.saturating_sub(*charged) / *threads;
            *charged = spent.max(*charged);
            self.advance(to);
        }
    }

    fn advance(&mut self, to: Instant) {
        self.now = self.now.max(to);
    }
}

impl Clock {
    /// A virtual clock.
    pub fn simulated() -> Self {
        Self::starting_with(None, None)
    }

    /// A virtual clock whose driver sleeps when it is ahead of real time, as beside traffic. On a busy machine it
    /// falls behind, and its figures stay those of the devices.
    pub fn beside_real_time() -> Self {
        let now = Instant::now();
        Self::starting_with(None, Some([now, now]))
    }

    /// A virtual clock on which the work of the thread that makes it passes as well, by its CPU time. No
    /// other thread may read it.
    pub fn of_work() -> Self {
        Self::starting_with(Some((Duration::from_nanos(thread_cpu_ns()), 1)), None)
    }

    fn starting_with(charged: Option<(Duration, u32)>, held_to: Option<[Instant; 2]>) -> Self {
        Self(Some(Arc::new(Mutex::new(VirtualTime {
            now: held_to.map_or_else(Instant::now, |[now, _]| now),
            events: BinaryHeap::new(),
            job_cost: Duration::ZERO,
            aside: Duration::ZERO,
            is_aside: false,
            charged,
            held_to,
        }))))
    }

    /// Returns `true` if the clock is virtual and never ahead of real time.
    pub fn is_held_back(&self) -> bool {
        self.0.as_ref().is_some_and(|time| lock(time).held_to.is_some())
    }

    /// Begins to hold a clock back, if that is what it does, at its time now: real time before counts no more.
    pub fn hold_from_now(&self) {
        if let Some(time) = &self.0 {
            let mut time = lock(time);
            time.held_to = time.held_to.map(|_| [time.now, Instant::now()]);
        }
    }

    /// Sleeps for as long as a clock that is held back is ahead.
    fn hold_back(time: MutexGuard<'_, VirtualTime>) {
        if let Some([begun, real]) = time.held_to {
            let ahead = (time.now - begun).saturating_sub(real.elapsed());
            drop(time);
            if ahead > AHEAD {
                std::thread::sleep(ahead);
            }
        }
    }

    /// The virtual time, charged up to now.
    fn charged(time: &Mutex<VirtualTime>) -> MutexGuard<'_, VirtualTime> {
        let mut time = lock(time);
        time.charge();
        time
    }

    /// Does work that `threads` threads share evenly: its CPU time passes divided by their number.
    pub fn shared<T>(&self, threads: u32, work: impl FnOnce() -> T) -> T {
        let set = |threads: u32| {
            let mut time = self.0.as_ref().map(|time| Self::charged(time));
            let charged = time.as_mut().and_then(|time| time.charged.as_mut());
            charged.map_or(1, |(_, shared_by)| std::mem::replace(shared_by, threads.max(1)))
        };
        let before = set(threads);
        let done = work();
        set(before);
        done
    }

    /// Does work as another thread would that begins at `begin`, while time stands still for the caller.
    /// Returns the time of its end.
    pub fn meanwhile(&self, begin: Instant, work: impl FnOnce()) -> Instant {
        let Some(time) = &self.0 else {
            work();
            return Instant::now();
        };
        let here = Self::charged(time).now;
        lock(time).now = begin;
        work();
        std::mem::replace(&mut Self::charged(time).now, here)
    }

    /// Returns `true` if the clock is virtual, so that its time advances by events.
    pub fn is_virtual(&self) -> bool {
        self.0.is_some()
    }

    /// The time. That of a virtual clock is no time of day: only differences mean something.
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(time) => Self::charged(time).now,
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
                let mut virtual_time = Self::charged(virtual_time);
                let to = virtual_time.now + time;
                virtual_time.advance(to);
                Self::hold_back(virtual_time);
            }
        }
    }

    /// Registers the time of a completion. The machine's clock needs no such notice.
    pub fn schedule(&self, event: Instant) {
        if let Some(time) = &self.0 {
            lock(time).events.push(Reverse(event));
        }
    }

    /// Goes on to the next event, or to `until` if that is earlier; if an event is over, it returns at once. Only for a virtual clock: in
    /// real time, wait for a device's event.
    pub fn wait(&self, until: Instant) {
        if let Some(time) = &self.0 {
            let mut time = Self::charged(time);
            let next = time.events.peek().map_or(until, |Reverse(event)| *event);
            time.advance(next.min(until));
            // Events that work has passed by are over as well: the caller looks for them after this.
            while (time.events.peek()).is_some_and(|Reverse(event)| *event <= time.now) {
                time.events.pop();
            }
            Self::hold_back(time);
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
            Self::hold_back(time);
        }
    }

    /// Does work that is not the submitter's: a device's, or verification. Its CPU time is kept
    /// apart, and returned.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let Some(time) = &self.0 else {
            return (work(), Duration::ZERO);
        };
        let (aside, was_aside) = {
            let mut time = Self::charged(time);
            (time.aside, std::mem::replace(&mut time.is_aside, true))
        };
        let begun = thread_cpu_ns();
        let done = work();
        let spent = Duration::from_nanos(thread_cpu_ns().saturating_sub(begun));
        // What was kept apart within counts once.
        let mut time = lock(time);
        time.aside = time.aside.max(aside + spent);
        time.is_aside = was_aside;
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

    fn spin(time: Duration) {
        let end = thread_cpu_ns() + time.as_nanos() as u64;
        while thread_cpu_ns() < end {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn work_passes_by_its_cpu_time_on_a_clock_of_work() {
        let clock = Clock::of_work();
        let mut begun = clock.now();
        let mut passed = |expected: Duration| {
            let now = clock.now();
            let found = now - std::mem::replace(&mut begun, now);
            assert!(found >= expected && found < expected + MS, "{found:?} {expected:?}");
        };
        std::thread::sleep(5 * MS);
        passed(Duration::ZERO);
        spin(3 * MS);
        passed(3 * MS);
        clock.aside(|| spin(3 * MS));
        passed(Duration::ZERO);
        clock.shared(3, || spin(6 * MS));
        passed(2 * MS);
        spin(2 * MS);
        passed(2 * MS);
        clock.schedule(clock.now() + MS);
        spin(2 * MS);
        passed(2 * MS);
        clock.wait(clock.now() + Duration::from_secs(1));
        passed(Duration::ZERO);
        let begin = clock.now();
        let end = clock.meanwhile(begin - MS, || spin(3 * MS));
        assert!(end >= begin + 2 * MS && end < begin + 3 * MS);
        passed(Duration::ZERO);
    }

    #[test]
    fn a_clock_that_is_held_back_is_never_ahead_of_real_time() {
        let (clock, real) = (Clock::beside_real_time(), Instant::now());
        let begun = clock.now();
        for _ in 0..40 {
            clock.sleep(MS / 2);
            assert!(clock.since(begun) <= real.elapsed() + AHEAD);
        }
        assert_eq!(clock.since(begun), 20 * MS);
        assert!(clock.is_held_back() && !Clock::simulated().is_held_back());
        // Nor of what has passed since it was begun to be held back.
        std::thread::sleep(20 * MS);
        clock.hold_from_now();
        let (begun, real) = (clock.now(), Instant::now());
        clock.sleep(20 * MS);
        assert!(clock.since(begun) <= real.elapsed() + AHEAD);
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
