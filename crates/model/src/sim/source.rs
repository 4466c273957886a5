//! When work arrives.

use super::Random;

/// The time between two things.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gap {
    /// Always the same.
    Fixed {
        /// Nanoseconds.
        ns: f64,
    },
    /// Exponentially distributed: as many clients that know nothing of each other make it.
    Exponential {
        /// Its mean in nanoseconds.
        mean_ns: f64,
    },
}

impl Gap {
    /// One gap in nanoseconds.
    pub fn draw(&self, random: &mut Random) -> f64 {
        match *self {
            Self::Fixed { ns } => ns,
            Self::Exponential { mean_ns } => random.exponential(mean_ns),
        }
    }
}

/// An open-loop source: it sends whether or not what it sent before was answered. Latencies count
/// from the time that it gives, so that a stalled server cannot hide its queue.
#[derive(Clone, Debug)]
pub struct Arrivals {
    gap: Gap,
    /// With its fraction, so that gaps below a nanosecond add up.
    at_ns: f64,
}

impl Arrivals {
    /// The first is one gap after time 0.
    pub fn new(gap: Gap) -> Self {
        Self::starting(0, gap)
    }

    /// The first is one gap after `start_ns`.
    pub fn starting(start_ns: u64, gap: Gap) -> Self {
        let at_ns = start_ns as f64;
        Self { gap, at_ns }
    }

    /// When the next one is sent.
    pub fn next_ns(&mut self, random: &mut Random) -> u64 {
        self.at_ns += self.gap.draw(random);
        self.at_ns as u64
    }

    /// Changes the gaps from now on.
    pub fn set_gap(&mut self, gap: Gap) {
        self.gap = gap;
    }
}
