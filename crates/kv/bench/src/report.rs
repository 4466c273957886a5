//! Results of a run.

use overside_link::codec;
use overside_probe::latency::Latencies;
use serde::{Deserialize, Serialize};

use super::settings::ENDPOINTS_MAX;

/// Maximum number of parts of a run on another machine, so that their histograms fit into its answer.
pub(super) const WINDOWS_MAX: usize = 32;

/// A part of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Requests that were answered in it.
    pub done: u64,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Latencies of these requests.
    pub latencies: Latencies,
}

impl Window {
    /// Requests a second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.done as f64 / self.seconds
    }
}

/// A run at one load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Offered number of requests per second; `None` for a closed loop.
    pub offered: Option<f64>,
    /// Windows of the run, in order.
    #[serde(deserialize_with = "codec::list::<_, _, WINDOWS_MAX>")]
    pub windows: Vec<Window>,
    /// Number of the requests in the windows that each endpoint answered.
    #[serde(deserialize_with = "codec::list::<_, _, ENDPOINTS_MAX>")]
    pub by_endpoint: Vec<u64>,
    /// Requests that were answered from the beginning to the end, those of the warm-up too.
    pub answered: u64,
    /// Reads that found a value, all verified.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
    /// Time that the oldest request without an answer had waited when the run ended, in
    /// nanoseconds. That request is in no window.
    pub unanswered_ns: u64,
    /// CPU time of the load generator's threads.
    pub client_cpu_s: f64,
    /// Time of those threads.
    pub client_s: f64,
}

impl Point {
    /// Adds the figures of another load generator for the same time. Parts are of equal number and
    /// length.
    pub fn add(&mut self, other: &Self) {
        self.offered = (self.offered.zip(other.offered)).map(|(one, other)| one + other);
        for (sum, window) in self.windows.iter_mut().zip(&other.windows) {
            sum.done += window.done;
            sum.latencies.add(&window.latencies);
        }
        for (sum, count) in self.by_endpoint.iter_mut().zip(&other.by_endpoint) {
            *sum += count;
        }
        self.answered += other.answered;
        self.hits += other.hits;
        self.misses += other.misses;
        self.unanswered_ns = self.unanswered_ns.max(other.unanswered_ns);
        self.client_cpu_s += other.client_cpu_s;
        self.client_s += other.client_s;
    }

    /// Requests a second: the median of the windows, their least and their greatest.
    #[must_use]
    pub fn throughput(&self) -> (f64, f64, f64) {
        spread(self.windows.iter().map(Window::throughput).collect())
    }

    /// A quantile of latency in nanoseconds: the median of the windows, their least and their greatest.
    #[must_use]
    pub fn latency_ns(&self, share: f64) -> (f64, f64, f64) {
        let of = |window: &Window| window.latencies.quantile_ns(share) as f64;
        spread(self.windows.iter().map(of).collect())
    }

    /// All latencies.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        self.windows.iter().for_each(|window| all.add(&window.latencies));
        all
    }

    /// The part of the time in which the load generator's threads were busy. Near 1 it may be the
    /// limit, unless it spins.
    #[must_use]
    pub fn client_busy(&self) -> f64 {
        self.client_cpu_s / self.client_s.max(1e-9)
    }
}

fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return (0.0, 0.0, 0.0);
    };
    let middle = values.len() / 2;
    let median = match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    };
    (median, *first, *last)
}
