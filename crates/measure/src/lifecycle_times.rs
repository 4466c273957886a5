//! Times that devices may tell or not: of jobs' stages, and of the stages of contexts' lives.

use overside_device::Lifecycle;

use crate::job_totals::JobTotals;

/// A sum of times that were told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeSum {
    sum_ns: u64,
    count: u64,
}

impl TimeSum {
    pub(crate) fn add(&mut self, ns: Option<u64>) {
        self.add_many(ns, 1);
    }

    /// Adds a time that so many share; of none, one that belongs to another that is added.
    pub(crate) fn add_many(&mut self, ns: Option<u64>, count: u64) {
        if let Some(ns) = ns {
            self.sum_ns += ns;
            self.count += count;
        }
    }

    pub(crate) fn total_ns(self) -> Option<f64> {
        (self.count > 0).then_some(self.sum_ns as f64)
    }

    pub(crate) fn mean_ns(self) -> Option<f64> {
        Some(self.total_ns()? / self.count as f64)
    }

    /// MB/s of so many bytes in the time that was told, if any was.
    pub(crate) fn rate(self, bytes: u64) -> Option<f64> {
        (self.sum_ns > 0).then(|| bytes as f64 / self.sum_ns as f64 * 1e3)
    }
}

/// Times of contexts' stages of life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LifecycleTimes {
    discovery: TimeSum,
    init: TimeSum,
    memory: TimeSum,
    end: TimeSum,
}

impl LifecycleTimes {
    /// Adds what one context tells.
    pub(crate) fn add(&mut self, times: &Lifecycle) {
        self.add_many(times, 1);
    }

    /// Adds what so many contexts tell together.
    pub(crate) fn add_many(&mut self, times: &Lifecycle, contexts: u64) {
        self.discovery.add_many(times.discovery_ns, contexts);
        self.init.add_many(times.init_ns, contexts);
        self.memory.add_many(times.memory_ns, contexts);
        self.end.add_many(times.end_ns, contexts);
    }

    /// By name.
    pub(crate) fn stages(&self) -> [(&'static str, TimeSum); 4] {
        [
            ("discovery", self.discovery),
            ("init", self.init),
            ("memory", self.memory),
            ("end", self.end),
        ]
    }
}

/// Mean times of jobs' stages and of the stages of their contexts' lives, by name, as far as they were
/// told.
pub(crate) fn mean_stages(
    totals: &JobTotals,
    lifecycle: &LifecycleTimes,
) -> impl Iterator<Item = (&'static str, f64)> + Clone {
    (totals.stages().into_iter())
        .chain(lifecycle.stages())
        .filter_map(|(name, times)| Some((name, times.mean_ns()?)))
}
