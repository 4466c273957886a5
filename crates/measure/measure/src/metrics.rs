//! A sample's figures by name, in the units of docs/measure/results.md.

use std::collections::BTreeMap;
use std::time::Duration;

use overside_device::CpuTime;
use overside_probe::latency::Latencies;

use crate::sample::Work;

/// Figures by name. A figure that cannot be computed is absent, never zero.
#[derive(Default)]
pub(crate) struct Metrics(pub BTreeMap<String, f64>);

impl Metrics {
    /// Returns rates and costs of jobs on any device.
    pub(crate) fn of_work(work: &Work, elapsed: Duration, cpu: CpuTime) -> Self {
        let (bytes, seconds) = (work.bytes as f64, elapsed.as_secs_f64());
        let mut metrics = Self::default();
        metrics.put("throughput", bytes / 1e6 / seconds);
        metrics.put("rate", work.jobs as f64 / seconds);
        if let Some(compressed) = work.compressed_bytes {
            metrics.put("compressed_throughput", compressed as f64 / 1e6 / seconds);
            metrics.put("ratio", compressed as f64 / bytes);
        }
        let host_s = cpu.host_ns as f64 / 1e9;
        metrics.put("cpu_seconds", host_s);
        metrics.put("cpu_cost", host_s / (bytes / 1e9));
        metrics
    }

    /// Adds a metric, unless its value is infinite or not a number.
    pub(crate) fn put(&mut self, name: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.0.insert(name.into(), value);
        }
    }

    /// Adds those of a distribution of latencies.
    pub(crate) fn put_latencies(&mut self, latencies: &Latencies) {
        latencies.metrics(&mut |name, value| self.put(name, value));
    }

    /// Adds mean times of stages, by name, in nanoseconds.
    pub(crate) fn put_stages(&mut self, means: impl Iterator<Item = (&'static str, f64)>) {
        for (name, ns) in means {
            self.put(format!("stage_{name}"), ns / 1e3);
        }
    }
}
