//! The loop: keeps a lane busy, and times it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::command::Until;
use super::failure::{Failure, Kind};
use super::lane::{Done, Lane};
use crate::latency::Latencies;

/// How long one wait for an event may last before the clock is looked at again.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// How often an eager poller looks at the clock while nothing comes.
const POLLS_A_LOOK: u32 = 256;
/// Operations after which the clock is looked at where not each of them is timed.
const OPERATIONS_A_LOOK: u64 = 32;

/// Whether nobody waits for the figures any more.
pub type Gone = Arc<dyn Fn() -> bool + Send + Sync>;

/// How long a side may work.
#[derive(Clone)]
pub struct Patience {
    /// When the sample has failed.
    pub deadline: Instant,
    /// Looked at beside the clock; `None`: somebody waits.
    pub gone: Option<Gone>,
}

impl Patience {
    /// Until then, for somebody who waits.
    pub fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            gone: None,
        }
    }

    /// Whether there is time left.
    pub(super) fn check(&self, now: Instant) -> Result<(), Failure> {
        if now >= self.deadline {
            let message = "the sample was not done before the test's time was over";
            return Err(Failure::new(Kind::Timeout, message));
        }
        if self.gone.as_ref().is_some_and(|gone| gone()) {
            let message = "whoever asked for the sample has gone";
            return Err(Failure::new(Kind::Lost, message));
        }
        Ok(())
    }
}

/// How a lane is driven.
#[derive(Clone)]
pub(super) struct Pace {
    /// Places.
    pub depth: usize,
    /// Operations at one doorbell.
    pub batch: usize,
    /// Each operation is timed.
    pub each: bool,
    /// Completions are slept for.
    pub event: bool,
    /// How long it may take.
    pub patience: Patience,
}

/// What one pass came to.
pub(super) struct Passed {
    /// Before the first doorbell.
    pub start: Instant,
    /// After the last operation was reaped.
    pub end: Instant,
    /// Operations; all of them are over.
    pub count: u64,
    /// Doorbells that took something.
    pub doorbells: u64,
    /// Operations later than the profile says.
    pub late: u64,
    /// Of each operation, from its doorbell until it was reaped; if they were timed.
    pub latencies: Option<Latencies>,
}

/// Hands over operations, a batch at a doorbell, until there are enough, then waits for those in
/// flight: the clock stops when none is left.
///
/// # Errors
/// An operation that failed, a lost peer, a deadline that passed.
pub(super) fn pass(lane: &mut dyn Lane, pace: &Pace, until: Until) -> Result<Passed, Failure> {
    let mut left = match until {
        Until::Count(count) => count,
        Until::Passed(_) => u64::MAX,
    };
    let mut free: VecDeque<usize> = (0..pace.depth).collect();
    let mut offered: VecDeque<usize> = VecDeque::with_capacity(pace.depth);
    let mut rung = vec![Instant::now(); pace.depth];
    let mut done: Vec<Done> = Vec::with_capacity(pace.depth);
    let (mut in_flight, mut looked, mut idle) = (0usize, 0u64, 0u32);
    let start = Instant::now();
    let mut passed = Passed {
        start,
        end: start,
        count: 0,
        doorbells: 0,
        late: 0,
        latencies: pace.each.then(Latencies::new),
    };
    loop {
        let batch = left.min(pace.batch as u64) as usize;
        if offered.is_empty() && batch > 0 && free.len() >= batch {
            for slot in free.drain(..batch) {
                lane.offer(slot)?;
                offered.push_back(slot);
            }
            left -= batch as u64;
        }
        if !offered.is_empty() {
            if pace.each {
                let now = Instant::now();
                for &slot in &offered {
                    rung[slot] = now;
                }
            }
            let taken = lane.ring()?;
            offered.drain(..taken);
            in_flight += taken;
            passed.doorbells += u64::from(taken > 0);
        }
        if in_flight == 0 && offered.is_empty() && left == 0 {
            passed.end = Instant::now();
            return Ok(passed);
        }
        let busy = !offered.is_empty() || (left > 0 && free.len() >= batch);
        reap(lane, pace, &mut done, in_flight > 0 && !busy)?;
        let now = (pace.each && !done.is_empty()).then(Instant::now);
        idle = if done.is_empty() { idle + 1 } else { 0 };
        for one in done.drain(..) {
            if let (Some(latencies), Some(now)) = (&mut passed.latencies, now) {
                latencies.record((now - rung[one.slot]).as_nanos() as u64);
            }
            passed.late += u64::from(one.late);
            passed.count += 1;
            in_flight -= 1;
            free.push_back(one.slot);
        }
        let due = passed.count - looked >= OPERATIONS_A_LOOK || idle >= POLLS_A_LOOK;
        if now.is_some() || due || passed.count == 0 {
            (looked, idle) = (passed.count, 0);
            let now = now.unwrap_or_else(Instant::now);
            pace.patience.check(now)?;
            if let Until::Passed(limit) = until
                && passed.count > 0
                && now - start >= limit
            {
                left = 0;
            }
        }
    }
}

/// Collects what is over; waits a little for it if `wait`.
fn reap(lane: &mut dyn Lane, pace: &Pace, done: &mut Vec<Done>, wait: bool) -> Result<(), Failure> {
    loop {
        for _ in 0..POLLS_A_LOOK {
            lane.poll(done)?;
            if !done.is_empty() || !wait {
                return Ok(());
            }
            if pace.event {
                break;
            }
            std::hint::spin_loop();
        }
        let now = Instant::now();
        pace.patience.check(now)?;
        if pace.event {
            lane.wait(WAIT_MAX.min(pace.patience.deadline - now))?;
        }
    }
}
