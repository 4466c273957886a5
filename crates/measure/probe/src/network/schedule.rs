//! Times at which messages are due: all at once, or at even distances (open loop).

use std::time::Duration;

use super::group::PassContext;
use super::pass::Limit;

/// Less than this before a message is due, a thread stays awake: a sleep may last longer.
const AWAKE_NS: u64 = 30_000;
/// Delay beyond its time from which on a message is late.
pub(super) const LATE_NS: u64 = 1_000_000;

/// Times at which messages are due, in nanoseconds of the pass.
#[derive(Clone, Copy)]
pub(super) struct Schedule {
    intervals: Intervals,
    limit: Limit,
}

/// The distances between messages: connections take turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Intervals {
    /// Time between two messages of one connection; 0 to send each as soon as there is room.
    pub step_ns: f64,
    pub connections: usize,
}

impl Intervals {
    /// A schedule of `rate_per_s` messages a second over `connections` connections.
    pub(super) fn of(rate_per_s: Option<f64>, connections: usize) -> Self {
        Self {
            step_ns: rate_per_s.map_or(0.0, |rate| 1e9 * connections as f64 / rate),
            connections,
        }
    }

    /// Returns the intended time of message `number` of connection `index`, in nanoseconds of the pass.
    pub(super) fn intended_ns(self, index: usize, number: u64) -> u64 {
        ((number as f64 + index as f64 / self.connections as f64) * self.step_ns) as u64
    }

    /// Maximum number of messages that one connection sends within `limit`.
    pub(super) fn most(self, limit: Limit) -> u64 {
        match limit {
            Limit::Messages(most) => most,
            Limit::Time(time) if self.step_ns > 0.0 => {
                (time.as_nanos() as f64 / self.step_ns) as u64 + 2
            }
            Limit::Time(_) => u64::MAX,
        }
    }
}

impl Schedule {
    pub(super) fn new(task: &PassContext<'_>) -> Self {
        Self { intervals: task.plan.intervals(), limit: task.limit }
    }

    pub(super) fn has_rate(self) -> bool {
        self.intervals.step_ns > 0.0
    }

    /// See [`Intervals::intended_ns`].
    pub(super) fn intended_ns(self, index: usize, number: u64) -> u64 {
        self.intervals.intended_ns(index, number)
    }

    /// Returns `true` if a connection that has sent `number` messages sends another one, now or
    /// later.
    pub(super) fn goes_on(self, index: usize, number: u64, now_ns: u64) -> bool {
        match self.limit {
            Limit::Messages(most) => number < most,
            // At least one.
            Limit::Time(_) if number == 0 => true,
            Limit::Time(time) => {
                let at = if self.has_rate() { self.intended_ns(index, number) } else { now_ns };
                u128::from(at) < time.as_nanos()
            }
        }
    }

    /// Returns `true` if the message is part of the schedule and its time has come.
    pub(super) fn is_due(self, index: usize, number: u64, now_ns: u64) -> bool {
        self.goes_on(index, number, now_ns) && self.intended_ns(index, number) <= now_ns
    }

    /// Returns the time to sleep until `next_ns`, shortened by `AWAKE_NS`.
    pub(super) fn sleep(next_ns: u64, now_ns: u64) -> Duration {
        let left = next_ns.saturating_sub(now_ns).saturating_sub(AWAKE_NS);
        Duration::from_nanos(left)
    }
}
