//! Parts of a job's time that depend on its bytes, as an operation's entry in a profile gives them.

use overside_ops::{Direction, Operation};

use crate::{Basis, Interval, OperationProfile};

/// Lengths of one job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobBytes {
    pub operation: Operation,
    pub source: u64,
    pub destination: u64,
}

impl JobBytes {
    /// The uncompressed side and the compressed one.
    fn sides(self) -> (u64, u64) {
        match self.operation.uncompressed_side() {
            Direction::Source => (self.source, self.destination),
            Direction::Destination => (self.destination, self.source),
        }
    }

    /// Compressed bytes / uncompressed bytes; 0 for an empty job.
    fn ratio(self) -> f64 {
        let (uncompressed, compressed) = self.sides();
        if uncompressed == 0 { 0.0 } else { compressed as f64 / uncompressed as f64 }
    }
}

impl OperationProfile {
    /// Bytes of the side that the rate counts.
    pub(crate) fn counted_bytes(&self, job: JobBytes) -> u64 {
        let (uncompressed, compressed) = job.sides();
        match self.basis {
            Basis::Compressed => compressed,
            Basis::Uncompressed => uncompressed,
        }
    }

    /// Returns the engine's time for a job's bytes in nanoseconds, at a rate in bytes a second. The typical rate is
    /// lower for data that compress poorly, and results come no faster than `output_rate`.
    pub(crate) fn engine_ns(&self, rate: Interval, job: JobBytes) -> Interval {
        let lost = match self.ratios {
            Some([best, worst]) => ((job.ratio() - best) / (worst - best)).clamp(0.0, 1.0),
            None => 0.0,
        };
        let rate = Interval { typ: rate.typ - lost * (rate.typ - rate.low), ..rate };
        let reading = rate.divide(self.counted_bytes(job) as f64 * 1e9);
        match &self.output_rate {
            Some(most) => {
                let writing = most.interval().divide(job.destination as f64 * 1e9);
                reading.with(writing, f64::max)
            }
            None => reading,
        }
    }

    /// Fraction of `latency` that a job has: it falls in a straight line to nothing at `latency_until`.
    pub(crate) fn latency_share(&self, job: JobBytes) -> f64 {
        let until = self.latency_until.as_ref().map(|until| until.interval().typ);
        until.map_or(1.0, |until| (1.0 - job.sides().0 as f64 / until).max(0.0))
    }
}
