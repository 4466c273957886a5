//! When work arrives.

use super::Random;

/// An open-loop source: it sends whether or not what it sent before was answered. Latencies count
/// from the time that it gives, so that a stalled server cannot hide its queue.
///
/// Gaps are exponentially distributed: as many clients that know nothing of each other make them.
#[derive(Clone, Debug)]
pub struct Arrivals {
    mean_ns: f64,
    /// With its fraction, so that gaps below a nanosecond add up.
    at_ns: f64,
}

impl Arrivals {
    /// The first is one gap, `mean_ns` on average, after `start_ns`.
    pub fn new(start_ns: u64, mean_ns: f64) -> Self {
        let at_ns = start_ns as f64;
        Self { mean_ns, at_ns }
    }

    /// When the next one is sent.
    pub fn next_ns(&mut self, random: &mut Random) -> u64 {
        self.at_ns += random.exponential(self.mean_ns);
        self.at_ns as u64
    }
}
