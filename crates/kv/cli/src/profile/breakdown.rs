//! Breakdown of the time of a server's thread into its stages.
//!
//! A wait for clients is a system call that takes CPU time before and after the thread sleeps; the server
//! cannot distinguish them with a clock. The thread's CPU time beyond its stages is that time, and it belongs
//! to receiving. The rest of the wait is idle, and so is polling without a result.

use overside_kv::stages::Stage;

use super::info::Counters;

/// Stages that do work, in the order of a turn.
pub(super) const WORKING: [Stage; 6] =
    [Stage::Receive, Stage::Parse, Stage::Process, Stage::Persist, Stage::Respond, Stage::Other];

/// Time between two readings of the counters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Breakdown {
    /// Times of the stages in nanoseconds, in the order of [`WORKING`].
    pub stages_ns: [f64; WORKING.len()],
    /// All of it.
    pub elapsed_ns: f64,
    /// Time in which the thread worked, but did not run: it waited for the disk, or others had its core.
    pub off_cpu_ns: f64,
    pub cpu_ns: f64,
    pub batches: u64,
    pub commands: u64,
    pub turns: u64,
}

impl Breakdown {
    pub(super) fn new(before: &Counters, after: &Counters) -> Self {
        let difference = |after: u64, before: u64| after.saturating_sub(before) as f64;
        let ns = |stage: Stage| {
            let at = stage as usize;
            difference(after.stages_ns[at], before.stages_ns[at])
        };
        let mut stages_ns = WORKING.map(ns);
        let worked: f64 = stages_ns.iter().sum();
        let (wait, poll) = (ns(Stage::Wait), ns(Stage::Poll));
        let cpu_ns = difference(after.cpu_ns, before.cpu_ns);
        let beyond_stages = cpu_ns - worked - poll;
        stages_ns[0] += beyond_stages.clamp(0.0, wait);
        Self {
            stages_ns,
            elapsed_ns: worked + wait + poll,
            off_cpu_ns: (-beyond_stages).max(0.0),
            cpu_ns,
            batches: after.batches.saturating_sub(before.batches),
            commands: after.commands.saturating_sub(before.commands),
            turns: after.turns.saturating_sub(before.turns),
        }
    }

    /// Time of all stages.
    pub(super) fn busy_ns(&self) -> f64 {
        self.stages_ns.iter().sum()
    }

    /// The part of the time in which the thread had nothing to do.
    pub(super) fn idle(&self) -> f64 {
        1.0 - self.busy_ns() / self.elapsed_ns.max(1.0)
    }

    /// A stage's part of the time of all.
    pub(super) fn share(&self, ns: f64) -> f64 {
        ns / self.busy_ns().max(1.0)
    }

    /// `None`: no batch was executed.
    pub(super) fn per_batch(&self, value: f64) -> Option<f64> {
        (self.batches > 0).then(|| value / self.batches as f64)
    }

    /// `None`: no command was executed.
    pub(super) fn per_command(&self, value: f64) -> Option<f64> {
        (self.commands > 0).then(|| value / self.commands as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Breakdown, Counters};

    /// Wait, poll and the stages in milliseconds, and CPU time.
    fn counters(ms: [u64; 8], cpu_ms: u64) -> Counters {
        Counters {
            stages_ns: ms.map(|ms| ms * 1_000_000),
            cpu_ns: cpu_ms * 1_000_000,
            batches: 4,
            commands: 40,
            turns: 4,
        }
    }

    #[test]
    fn what_a_wait_costs_is_receiving_and_the_rest_of_it_is_idle() {
        let after = counters([50, 0, 10, 10, 10, 0, 15, 5], 60);
        let all = Breakdown::new(&Counters::default(), &after);
        assert_eq!(all.stages_ns, [20e6, 10e6, 10e6, 0.0, 15e6, 5e6]);
        assert!((all.idle() - 0.4).abs() < 1e-9);
        assert!((all.share(15e6) - 0.25).abs() < 1e-9);
        assert_eq!(all.per_command(20e6), Some(0.5e6));
        assert_eq!((all.elapsed_ns, all.off_cpu_ns), (100e6, 0.0));
    }

    #[test]
    fn a_server_that_polls_is_idle_while_it_asks_in_vain() {
        let after = counters([0, 50, 10, 10, 10, 0, 15, 5], 99);
        let all = Breakdown::new(&Counters::default(), &after);
        assert_eq!(all.stages_ns[0], 10e6);
        assert!((all.idle() - 0.5).abs() < 1e-9);
        // It did not have the core for a millisecond.
        assert!((all.off_cpu_ns - 1e6).abs() < 1.0);
    }

    #[test]
    fn nothing_done_is_no_division_by_nothing() {
        let all = Breakdown::new(&Counters::default(), &Counters::default());
        assert_eq!((all.per_batch(1.0), all.per_command(1.0)), (None, None));
        assert!(all.idle().is_finite() && all.share(0.0).is_finite());
    }
}
