//! Random arrival times of work.

use super::Random;

/// An open-loop source: it sends whether or not its earlier requests were answered. Latencies count
/// from the time that it gives, so that a stalled server cannot hide its queue.
///
/// Gaps are exponentially distributed: as many clients that know nothing of each other make them.
#[derive(Clone, Debug)]
pub struct Arrivals {
    mean_ns: f64,
    /// Time with its fraction, so that gaps below a nanosecond add up.
    at_ns: f64,
}

impl Arrivals {
    /// Arrivals after `start_ns`; the first comes after one gap, `mean_ns` on average.
    pub fn new(start_ns: u64, mean_ns: f64) -> Self {
        let at_ns = start_ns as f64;
        Self { mean_ns, at_ns }
    }

    /// Draws the time at which the next request is sent, in nanoseconds.
    pub fn next_ns(&mut self, random: &mut Random) -> u64 {
        self.at_ns += random.exponential(self.mean_ns);
        self.at_ns as u64
    }
}
