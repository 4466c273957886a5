//! The typical times of one operation's stages, for a device that is emulated job by job.

use overside_ops::Operation;

use crate::engine::JobBytes;
use crate::{Interval, OperationProfile, Profile, Quantity};

/// Typical stage times of one operation: those of [`crate::cost`], without its reasons.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Nanoseconds a byte; zero where nothing is known.
    to_device: f64,
    from_device: f64,
    operation: Operation,
    /// The entry, with the patterns that the job is about.
    entry: OperationProfile,
    per_job_ns: u64,
    per_doorbell_ns: u64,
    latency_ns: Option<u64>,
}

/// Typical times of the stages of one job, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Moving the source to the device.
    pub link_in_ns: u64,
    /// The engine, its cost of one job included.
    pub engine_ns: u64,
    /// Moving the result back.
    pub link_out_ns: u64,
    /// The doorbell, for the job that came first with it.
    pub doorbell_ns: u64,
    /// Time from the doorbell to the engine and back, in addition to the others; `None` if the profile has none.
    pub latency_ns: Option<u64>,
}

impl Profile {
    /// The pace of `operation` with these patterns; `None` if the device cannot do it.
    pub fn pace(&self, operation: Operation, patterns: &[String]) -> Option<Pace> {
        let entry = self.operation(operation)?;
        let per_byte = |rate: Option<&Quantity>| rate.map_or(0.0, |rate| 1e9 / rate.interval().typ);
        let fixed = |time: Option<&Quantity>| time.map(|time| time.interval().typ.round() as u64);
        let mut entry = entry.clone();
        if let Some(one) = entry.pattern(patterns) {
            entry.patterns = vec![one.clone()];
        }
        Some(Pace {
            to_device: per_byte(self.link.to_device.as_ref()),
            from_device: per_byte(self.link.from_device.as_ref()),
            operation,
            per_job_ns: fixed(entry.per_job.as_ref()).unwrap_or(0),
            per_doorbell_ns: fixed(entry.per_doorbell.as_ref()).unwrap_or(0),
            latency_ns: fixed(entry.latency.as_ref()),
            entry,
        })
    }
}

impl Pace {
    /// The times for a job of these lengths. `is_first`: of those that a doorbell handed over.
    pub fn stages(&self, source_bytes: u64, destination_bytes: u64, is_first: bool) -> StageTimes {
        let moved = |bytes: u64, per_byte: f64| (bytes as f64 * per_byte).round() as u64;
        let job = JobBytes {
            operation: self.operation,
            source: source_bytes,
            destination: destination_bytes,
        };
        let entry = &self.entry;
        let of_patterns = entry.patterns.iter().map(|one| one.time_ns(entry.counted_bytes(job)).0);
        let engine = match entry.rate.as_ref() {
            Some(rate) => Some(entry.engine_ns(rate.interval(), job)),
            None => of_patterns.reduce(hull),
        };
        let engine_ns = engine.map_or(0, |time| time.typ.round() as u64);
        let latency = |ns: u64| (ns as f64 * entry.latency_share(job)).round() as u64;
        StageTimes {
            link_in_ns: moved(source_bytes, self.to_device),
            engine_ns: engine_ns.saturating_add(self.per_job_ns),
            link_out_ns: moved(destination_bytes, self.from_device),
            doorbell_ns: if is_first { self.per_doorbell_ns } else { 0 },
            latency_ns: self.latency_ns.map(latency),
        }
    }
}

/// Returns the shortest interval around two; its typical value is the geometric mean.
pub(crate) fn hull(a: Interval, b: Interval) -> Interval {
    let (low, high) = (a.low.min(b.low), a.high.max(b.high));
    Interval { low, typ: (low * high).sqrt(), high }
}
