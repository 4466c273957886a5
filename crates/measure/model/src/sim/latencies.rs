//! Histogram of latencies, with their exact mean and maximum.

use hdrhistogram::Histogram;

/// An hour in nanoseconds. Longer times are counted as an hour; the exact maximum has the real value.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of the histogram's buckets.
const DIGITS: u8 = 3;

/// A histogram of times, with their exact mean and maximum.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    most_ns: u64,
    sum_ns: u128,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// Empty.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS)
            .expect("the bounds are constants that hdrhistogram allows");
        Self { histogram, most_ns: 0, sum_ns: 0 }
    }

    /// Adds a latency.
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns);
        self.most_ns = self.most_ns.max(latency_ns);
        self.sum_ns += u128::from(latency_ns);
    }

    /// Returns the number of times that were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count().max(1) as f64
    }

    /// The time below which this share of them lies, to three digits.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share).min(self.most_ns)
    }
}
