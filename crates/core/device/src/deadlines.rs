//! Deadlines of the jobs that a context has in flight.

use std::time::Instant;

/// Time at which a context has to check for late jobs. Jobs that completed are not removed, so a check may
/// find none, but is never too late.
#[derive(Debug, Default)]
pub struct Deadlines(Option<Instant>);

impl Deadlines {
    /// Adds the deadline of a job in flight, if it has one.
    pub fn add(&mut self, deadline: Option<Instant>) {
        self.0 = self.0.into_iter().chain(deadline).min();
    }

    /// Returns the earliest deadline, or an earlier time; `None` if no job has one.
    pub fn next(&self) -> Option<Instant> {
        self.0
    }

    /// Returns `true` if a job may be late.
    pub fn is_due(&self) -> bool {
        self.0.is_some_and(|at| Instant::now() >= at)
    }

    /// Removes all deadlines and returns the time to compare with. The caller checks every job in flight and
    /// adds later deadlines again.
    pub fn renew(&mut self) -> Instant {
        self.0 = None;
        Instant::now()
    }
}
