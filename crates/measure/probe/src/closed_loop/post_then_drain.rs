//! The measuring loop of operations whose completions are polled later: it measures the cost of
//! submission without the cost of polling.
//!
//! 1. Post: fill and submit batches until no slot is free or the queue takes no more. The CPU time
//!    of this counts as posting: time of other threads on the core does not.
//! 2. Drain: collect the completions of all operations in flight; verify each.
//! 3. Repeat until the time has passed.
//!
//! The clock runs through both.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_device::threads::thread_cpu_ns;

use super::{LoopParams, OperationQueue, Pass, Until, collect, fill_batch};
use crate::failure::{Failure, FailureKind};

/// Runs operations until there are enough. Single operations are not timed.
///
/// # Errors
/// As of [`crate::closed_loop::run`].
pub(super) fn run<Q: OperationQueue + ?Sized>(
    queue: &mut Q,
    params: &LoopParams,
    until: Until,
) -> Result<Pass, Failure> {
    let clock = &params.clock;
    let mut left = params.count_max(until);
    let (mut filled, mut done) = (VecDeque::with_capacity(params.batch), Vec::new());
    let mut posting = Duration::ZERO;
    let (start, begun) = params.begin();
    let mut pass = Pass::begun(start);
    loop {
        let begun_ns = thread_cpu_ns();
        let mut in_flight = 0;
        loop {
            fill_batch(queue, params.batch, &mut left, &mut filled)?;
            if filled.is_empty() {
                break;
            }
            let taken = queue.submit()?;
            filled.drain(..taken);
            in_flight += taken;
            pass.doorbells += u64::from(taken > 0);
            if taken == 0 {
                break;
            }
        }
        posting += Duration::from_nanos(thread_cpu_ns().saturating_sub(begun_ns));
        while in_flight > 0 {
            collect(queue, params, in_flight)?;
            queue.take(left == 0, &mut done)?;
            in_flight = in_flight.checked_sub(done.len()).ok_or_else(|| {
                let message = "more operations ended than were in flight";
                Failure::new(FailureKind::Verification, message)
            })?;
            pass.operations += done.len() as u64;
            pass.late += done.drain(..).filter(|one| one.late).count() as u64;
        }
        let now = clock.now();
        params.timeouts.check(match clock.is_virtual() {
            true => Instant::now(),
            false => now,
        })?;
        let passed = matches!(until,
            Until::Passed(limit) if params.is_over(now - pass.start, begun, limit));
        if passed && pass.operations > 0 {
            queue.withdraw();
            filled.clear();
            left = 0;
        }
        if left == 0 && filled.is_empty() {
            pass.end = now;
            pass.posting = Some(posting);
            return Ok(pass);
        }
    }
}
