//! Breakdown of the time of a thread that has keys and no clients.

use std::cell::Cell;

use rustix::time::{ClockId, clock_gettime};

use crate::stages::{Stage, StageClock};

/// Work of such a thread: its time by stage, and counts.
#[derive(Debug)]
pub struct ServingWork {
    pub(super) stages: StageClock,
    /// Requests that were executed.
    pub(super) requests: Cell<u64>,
    /// Number of rounds over all requesting threads in which there were requests.
    pub(super) turns: Cell<u64>,
}

impl ServingWork {
    /// A record of work that begins now, with counts of 0.
    #[must_use]
    pub fn start() -> Self {
        Self { stages: StageClock::start(), requests: Cell::default(), turns: Cell::default() }
    }

    /// Returns names and values for `INFO`. Only that thread may call it.
    pub(super) fn info(&self) -> Vec<(String, String)> {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let cpu_ns = cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64;
        let stage =
            |(stage, ns): (Stage, u64)| (format!("processing_stage_{}_ns", stage.name()), ns);
        let stages = self.stages.times_ns().map(stage);
        let others = [
            ("processing_batches", self.stages.batches()),
            ("processing_requests", self.requests.get()),
            ("processing_turns", self.turns.get()),
            ("processing_cpu_ns", cpu_ns),
        ];
        let others = others.map(|(name, value)| (name.to_owned(), value));
        let all = stages.into_iter().chain(others);
        all.map(|(name, value)| (name, value.to_string())).collect()
    }
}

/// Ends a stage of the thread, if there is one that is timed.
#[inline]
pub(super) fn end(work: Option<&ServingWork>, stage: Stage) {
    if let Some(work) = work {
        work.stages.end(stage);
    }
}
