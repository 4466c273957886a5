//! Deadlines of the jobs that a context has in flight.

use std::time::Instant;

/// Time at which a context has to look for jobs that are late. Jobs that completed are not taken out, so a look may be
/// early and find none, but is never late.
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

    /// Forgets all deadlines and returns the time to compare with. The caller looks at every job in flight and adds the
    /// deadlines that are later.
    pub fn renew(&mut self) -> Instant {
        self.0 = None;
        Instant::now()
    }
}
