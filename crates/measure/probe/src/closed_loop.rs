//! The measuring loop. It keeps a fixed number of operations in flight (a closed load: Schroeder,
//! Wierman, Harchol-Balter, *Open Versus Closed*, NSDI 2006) on a queue of operations: a device's
//! context, a placement, or a queue pair.
//!
//! 1. Fill: prepare operations while there is room, up to as many as a doorbell takes.
//! 2. Submit: ring the doorbell once a whole batch is filled, or when nothing else will follow.
//! 3. Poll: collect completions; sleep or spin if nothing else can be done.
//! 4. Verify: the queue checks each of them, and a failed operation ends the run.
//! 5. Record: the latency from before the doorbell until the completion was collected.
//!
//! The clock starts before the first doorbell and stops when the last completion was collected. With a
//! virtual [`Clock`], waiting advances it to the next event, and only the deadline is in real time.

mod post_then_drain;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::Clock;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::latency::Latencies;

/// Longest wait for an event before the clock is checked again.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Number of polls for completions before the clock is checked.
const POLLS_A_LOOK: u32 = 256;

/// Queue that takes operations and completes them. Operations have numbered slots, as many as there
/// can be operations in flight.
pub trait OperationQueue {
    /// Returns `true` if another operation can be filled.
    fn has_room(&self) -> bool;

    /// Prepares up to `count` operations, fewer if there is no room for more, and appends their
    /// slots in the order in which they will be submitted.
    ///
    /// # Errors
    /// [`Failure`], like those of the other methods: it ends the run.
    fn fill(&mut self, count: usize, slots: &mut VecDeque<usize>) -> Result<(), Failure>;

    /// Submits filled slots, from the first on, at one doorbell. Returns how many were taken; the
    /// others stay filled.
    ///
    /// # Errors
    /// [`Failure`].
    fn submit(&mut self) -> Result<usize, Failure>;

    /// Collects completions, without looking at them: that is for after the clock was read.
    /// Returns how many there are.
    ///
    /// # Errors
    /// [`Failure`].
    fn poll(&mut self) -> Result<usize, Failure>;

    /// Verifies collected results, frees the slots and appends the completions. `draining`: nothing
    /// more will be filled.
    ///
    /// # Errors
    /// [`Failure`].
    fn take(&mut self, draining: bool, done: &mut Vec<CompletedOperation>) -> Result<(), Failure>;

    /// Sleeps until there may be something to poll for.
    ///
    /// # Errors
    /// [`Failure`].
    fn wait(&mut self, timeout: Duration) -> Result<(), Failure>;

    /// Withdraws slots that were filled but not submitted, because the time has ended.
    fn withdraw(&mut self);
}

/// An operation that completed and is right.
#[derive(Clone, Copy, Debug)]
pub struct CompletedOperation {
    /// Slot of the operation.
    pub slot: usize,
    /// `true` if it came later than the profile's time for the emulated engine.
    pub late: bool,
}

/// Condition under which no more operations are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// Ends after this number of operations.
    Count(u64),
    /// Filling stops once this time has passed; at least one batch runs.
    Passed(Duration),
}

/// Parameters of the loop that drives a queue.
#[derive(Clone)]
pub struct LoopParams {
    /// Operations at one doorbell, at least 1.
    pub batch: usize,
    /// Completions are slept for; else polled for.
    pub event: bool,
    /// `true` to collect completions only when no slot is free, and then all of them.
    pub deferred: bool,
    /// Number of operations after which the clock is read; at least 1. With 1 each collection is timed.
    pub operations_a_look: u64,
    /// `true` to time each operation. The clock is then read whenever something was collected.
    pub latencies: bool,
    /// Limits on the run's duration.
    pub timeouts: Timeouts,
    /// Clock of the run: real or virtual time.
    pub clock: Clock,
    /// Operations after which the time counts as passed.
    pub operations_max: u64,
}

/// Method by which the end of operations is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompletionMode {
    /// Sleep until the device or the system signals.
    #[default]
    Event,
    /// Polls until something completes.
    Poll,
}

/// Function that returns `true` if the requester no longer waits for the figures.
pub type CancelCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Limits on the duration of a run.
#[derive(Clone)]
pub struct Timeouts {
    /// Time at which the sample fails if it is not finished.
    pub deadline: Instant,
    /// Checked together with the clock; `None` if the requester always waits.
    pub cancelled: Option<CancelCheck>,
}

impl Timeouts {
    /// Timeouts until `deadline`, for a requester that always waits.
    pub fn until(deadline: Instant) -> Self {
        Self { deadline, cancelled: None }
    }

    /// Checks that time is left and that the requester still waits.
    ///
    /// # Errors
    /// [`FailureKind::Timeout`], or [`FailureKind::Lost`] if the requester has disconnected.
    pub fn check(&self, now: Instant) -> Result<(), Failure> {
        if now >= self.deadline {
            let message = "the sample was not done before the test's time was over";
            return Err(Failure::new(FailureKind::Timeout, message));
        }
        if self.cancelled.as_ref().is_some_and(|cancelled| cancelled()) {
            let message = "the requester of the sample has gone";
            return Err(Failure::new(FailureKind::Lost, message));
        }
        Ok(())
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Time before the first doorbell.
    pub start: Instant,
    /// Time after the last completion was collected.
    pub end: Instant,
    /// Operations; all of them are over.
    pub operations: u64,
    /// Doorbells that took something.
    pub doorbells: u64,
    /// Operations later than the profile's time.
    pub late: u64,
    /// Latency of each operation; `None` if operations were not timed.
    pub latencies: Option<Latencies>,
    /// CPU time spent on handing operations over; if their completions were deferred.
    pub posting: Option<Duration>,
}

impl LoopParams {
    /// Returns the largest number of operations that are filled.
    fn count_max(&self, until: Until) -> u64 {
        match until {
            Until::Count(count) => count,
            Until::Passed(_) => self.operations_max,
        }
    }

    /// Begins the loop's time. Returns it by the loop's clock, and in real time.
    fn begin(&self) -> (Instant, Instant) {
        self.clock.hold_from_now();
        (self.clock.now(), Instant::now())
    }

    /// Returns `true` if `passed` on the loop's clock is the whole time of the loop. Beside work in real time that
    /// ends too when it has passed in real time since `begun`.
    fn is_over(&self, passed: Duration, begun: Instant, limit: Duration) -> bool {
        passed >= limit || (self.clock.is_held_back() && begun.elapsed() >= limit)
    }
}

impl Pass {
    /// A pass in which nothing has happened yet.
    fn begun(start: Instant) -> Self {
        Self {
            start,
            end: start,
            operations: 0,
            doorbells: 0,
            late: 0,
            latencies: None,
            posting: None,
        }
    }

    /// Returns the time from before the first doorbell until the last completion was collected.
    pub fn elapsed(&self) -> Duration {
        self.end - self.start
    }
}

/// Fills a batch as far as there are slots, of the `left` operations.
#[inline]
fn fill_batch<Q: OperationQueue + ?Sized>(
    queue: &mut Q,
    batch: usize,
    left: &mut u64,
    filled: &mut VecDeque<usize>,
) -> Result<(), Failure> {
    let wanted = (batch.saturating_sub(filled.len()) as u64).min(*left) as usize;
    if wanted > 0 && queue.has_room() {
        let before = filled.len();
        queue.fill(wanted, filled)?;
        *left -= (filled.len() - before) as u64;
    }
    Ok(())
}

/// Runs operations until there are enough, then waits for those in flight.
///
/// # Errors
/// An operation that failed or is wrong, a queue that is lost, a deadline that passed.
pub fn run<Q: OperationQueue + ?Sized>(
    queue: &mut Q,
    params: &LoopParams,
    until: Until,
) -> Result<Pass, Failure> {
    if params.deferred {
        return post_then_drain::run(queue, params, until);
    }
    let mut left = params.count_max(until);
    let mut filled = VecDeque::with_capacity(params.batch);
    let mut done = Vec::new();
    let (mut in_flight, mut looked, mut idle) = (0_usize, 0_u64, 0_u32);
    let clock = &params.clock;
    let (start, begun) = params.begin();
    // By slot: when its doorbell was rung.
    let mut rung: Vec<Instant> = Vec::new();
    let mut pass = Pass::begun(start);
    pass.latencies = params.latencies.then(Latencies::new);
    loop {
        fill_batch(queue, params.batch, &mut left, &mut filled)?;
        let whole = filled.len() >= params.batch || left == 0 || in_flight == 0;
        if whole && !filled.is_empty() {
            if params.latencies {
                let now = clock.now();
                for &slot in &filled {
                    if slot >= rung.len() {
                        rung.resize(slot + 1, now);
                    }
                    rung[slot] = now;
                }
            }
            let taken = queue.submit()?;
            filled.drain(..taken);
            in_flight += taken;
            pass.doorbells += u64::from(taken > 0);
        }
        if in_flight == 0 && left == 0 && filled.is_empty() {
            if !params.latencies {
                pass.end = clock.now();
            }
            return Ok(pass);
        }
        let can_fill = left > 0 && filled.len() < params.batch && queue.has_room();
        let waits_for = if can_fill { 0 } else { in_flight };
        let collected = collect(queue, params, waits_for)?;
        let mut now = None;
        if collected == 0 {
            idle += 1;
        } else {
            idle = 0;
            if params.latencies {
                let collected_at = clock.now();
                (now, pass.end) = (Some(collected_at), collected_at);
            }
            queue.take(left == 0, &mut done)?;
            for one in done.drain(..) {
                if let (Some(latencies), Some(now)) = (&mut pass.latencies, now) {
                    latencies.record((now - rung[one.slot]).as_nanos() as u64);
                }
                pass.late += u64::from(one.late);
                pass.operations += 1;
                in_flight = in_flight.checked_sub(1).ok_or_else(|| {
                    let message = format!("operation {} ended twice", one.slot);
                    Failure::new(FailureKind::Verification, message)
                })?;
            }
        }
        let due = pass.operations - looked >= params.operations_a_look
            || (looked == 0 && pass.operations > 0)
            || idle >= POLLS_A_LOOK;
        if now.is_some() || due {
            (looked, idle) = (pass.operations, 0);
            let now = now.unwrap_or_else(|| clock.now());
            params.timeouts.check(match clock.is_virtual() {
                true => Instant::now(),
                false => now,
            })?;
            if let Until::Passed(limit) = until
                && pass.doorbells > 0
                && left > 0
                && params.is_over(now - start, begun, limit)
            {
                left = 0;
                queue.withdraw();
                filled.clear();
            }
        }
    }
}

/// Collects completions; if there are none, waits for one of the `waits_for` operations in flight.
/// Returns their number.
fn collect<Q: OperationQueue + ?Sized>(
    queue: &mut Q,
    params: &LoopParams,
    waits_for: usize,
) -> Result<usize, Failure> {
    // Polling a virtual clock's devices again has no effect: time has to advance first.
    let waits = params.event || params.clock.is_virtual();
    loop {
        for _ in 0..POLLS_A_LOOK {
            let collected = queue.poll()?;
            if collected > 0 || waits_for == 0 {
                return Ok(collected);
            }
            if waits {
                break;
            }
            std::hint::spin_loop();
        }
        let now = Instant::now();
        if now >= params.timeouts.deadline {
            let message = format!(
                "nothing completed before the test's time was over; {waits_for} operations are in \
                 flight"
            );
            return Err(Failure::new(FailureKind::Timeout, message));
        }
        params.timeouts.check(now)?;
        if waits {
            let left = params.timeouts.deadline - now;
            queue.wait(left.min(WAIT_MAX))?;
        }
    }
}
