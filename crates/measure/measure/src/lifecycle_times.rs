//! Times that devices may or may not report: of jobs' stages, and of the stages of contexts' lives.

use overside_device::Lifecycle;

/// A sum of reported times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeSum {
    sum_ns: u64,
    count: u64,
}

impl TimeSum {
    pub(crate) fn add(&mut self, ns: Option<u64>) {
        self.add_many(ns, 1);
    }

    /// Adds a time that `count` contexts share; `count` is 0 if it belongs to another one that is added.
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

    /// MB/s of `bytes` in the time that was recorded; `None` if there was none.
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
    /// Adds the times of one context.
    pub(crate) fn add(&mut self, times: &Lifecycle) {
        self.add_many(times, 1);
    }

    /// Adds the times of `contexts` contexts together.
    pub(crate) fn add_many(&mut self, times: &Lifecycle, contexts: u64) {
        self.discovery.add_many(times.discovery_ns, contexts);
        self.init.add_many(times.init_ns, contexts);
        self.memory.add_many(times.memory_ns, contexts);
        self.end.add_many(times.end_ns, contexts);
    }

    /// Returns the stages by name.
    pub(crate) fn stages(&self) -> [(&'static str, TimeSum); 4] {
        [
            ("discovery", self.discovery),
            ("init", self.init),
            ("memory", self.memory),
            ("end", self.end),
        ]
    }
}
