//! Latencies: HDR histograms that merge, with the exact minimum and maximum.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An hour in nanoseconds. Longer times are counted as an hour; the exact maximum has the real value.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of a histogram's buckets.
const DIGITS: u8 = 3;
/// Maximum length of a histogram's text. A full one of three digits takes 0.1 MiB.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// More buckets than a histogram of three digits within an hour has.
const BUCKETS_MAX: usize = 40_000;

/// Latencies of one sample. Sent as [`PlainLatencies`].
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
}

/// Latencies as they are sent from one machine to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainLatencies {
    /// Nanoseconds, and how many took as long within a thousandth.
    pub buckets: Vec<(u64, u64)>,
    /// The least, exactly.
    pub min_ns: u64,
    /// The greatest, exactly.
    pub max_ns: u64,
    /// All together.
    pub sum_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_plain().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let plain = PlainLatencies::deserialize(deserializer)?;
        Self::from_plain(&plain).map_err(serde::de::Error::custom)
    }
}

impl Latencies {
    /// Makes an empty histogram.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS)
            .expect("the bounds are constants that hdrhistogram allows");
        Self { histogram, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }

    /// Takes one in, in nanoseconds.
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
    }

    /// Takes another's in.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Converts the latencies to the form in which they are sent.
    pub fn to_plain(&self) -> PlainLatencies {
        let recorded = self.histogram.iter_recorded();
        PlainLatencies {
            buckets: recorded
                .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
                .collect(),
            min_ns: self.min_ns(),
            max_ns: self.max_ns,
            sum_ns: self.sum_ns,
        }
    }

    /// Converts latencies back from the form in which they are sent.
    ///
    /// # Errors
    /// The contradiction in the latencies, in words.
    pub fn from_plain(plain: &PlainLatencies) -> Result<Self, String> {
        if plain.buckets.len() > BUCKETS_MAX {
            return Err(format!("they have more than {BUCKETS_MAX} buckets"));
        }
        if plain.min_ns > plain.max_ns {
            return Err("the least latency is above the greatest".into());
        }
        let mut all = Self::new();
        for &(latency_ns, count) in &plain.buckets {
            all.histogram.saturating_record_n(latency_ns, count);
        }
        if all.count() > 0 {
            (all.min_ns, all.max_ns, all.sum_ns) = (plain.min_ns, plain.max_ns, plain.sum_ns);
        }
        Ok(all)
    }

    /// The figures of docs/measure/results.md.
    pub fn metrics(&self, put: &mut impl FnMut(&str, f64)) {
        put("latency_mean", self.mean_ns() / 1e3);
        put("latency_min", self.min_ns() as f64 / 1e3);
        put("latency_max", self.max_ns() as f64 / 1e3);
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            let ns = self.quantile_ns(share) as f64;
            put(&format!("latency_{name}"), ns / 1e3);
        }
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the exact minimum; 0 if it is empty.
    pub fn min_ns(&self) -> u64 {
        self.min_ns.min(self.max_ns)
    }

    /// The greatest, exactly.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Mean of the latencies.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count().max(1) as f64
    }

    /// The latency below which a `share` of all lies; never outside the exact extremes.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share).clamp(self.min_ns(), self.max_ns)
    }

    /// Returns the histogram in the form in which the store keeps it.
    pub fn to_text(&self) -> String {
        encode(&self.histogram)
    }
}

/// Combined figures of several samples' histograms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Merged {
    /// Number of latencies.
    pub count: u64,
    /// Mean of the latencies, within a thousandth.
    pub mean_ns: f64,
    /// The least, within a thousandth; samples have it exactly.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// Latency that 90 % do not exceed.
    pub p90_ns: u64,
    /// Latency that 99 % do not exceed.
    pub p99_ns: u64,
    /// Latency that 99.9 % do not exceed.
    pub p999_ns: u64,
    /// The greatest, within a thousandth; samples have it exactly.
    pub max_ns: u64,
    /// Points of the curve for drawing: quantile and nanoseconds, from the least to the greatest.
    pub curve: Vec<(f64, u64)>,
    /// The merged histogram, in the store's form.
    pub histogram: String,
}

/// Text that is not a histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("histogram {place} cannot be read: {reason}")]
pub struct HistogramError {
    /// Index of the given histogram, from 0.
    pub place: usize,
    /// Description of the error.
    pub reason: String,
}

/// Merges histograms in the format of samples.
///
/// # Errors
/// [`HistogramError`] for the first text that is not a histogram.
pub fn merge_histograms<T: AsRef<str>>(all: &[T]) -> Result<Merged, HistogramError> {
    let mut sum = Latencies::new().histogram;
    for (place, text) in all.iter().enumerate() {
        let one = decode(text.as_ref()).map_err(|reason| HistogramError { place, reason })?;
        // One bucket at a time, because a foreign histogram may reach higher than ours.
        for step in one.iter_recorded() {
            sum.saturating_record_n(step.value_iterated_to(), step.count_since_last_iteration());
        }
    }
    let at = |share| sum.value_at_quantile(share);
    Ok(Merged {
        count: sum.len(),
        mean_ns: if sum.is_empty() { 0.0 } else { sum.mean() },
        min_ns: sum.min(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: sum.max(),
        curve: curve(&sum),
        histogram: encode(&sum),
    })
}

/// Each half percent, and above 99.5 % quantiles that halve their distance to 1 each four points,
/// while there are enough latencies for them to differ.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    const STEPS: u32 = 200;
    if histogram.is_empty() {
        return Vec::new();
    }
    let finest = (1.0 / histogram.len() as f64).max(1e-6);
    let last = 1.0 / f64::from(STEPS);
    let tail = (1..).map(|step| last * 0.5_f64.powf(f64::from(step) / 4.0));
    let shares = (1..STEPS)
        .map(|step| f64::from(step) / f64::from(STEPS))
        .chain(tail.take_while(|rest| *rest >= finest).map(|rest| 1.0 - rest));
    let mut points = vec![(0.0, histogram.min())];
    points.extend(shares.map(|share| (share, histogram.value_at_quantile(share))));
    points.push((1.0, histogram.max()));
    points
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("a histogram within an hour can be written to memory");
    STANDARD.encode(bytes)
}

fn decode(text: &str) -> Result<Histogram<u64>, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("it is longer than {TEXT_BYTES_MAX} characters"));
    }
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    hdrhistogram::serialization::Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_exact_and_quantiles_lie_between_them() {
        let mut latencies = Latencies::new();
        for ns in [1_000_003, 2_000_005, 3_000_007] {
            latencies.record(ns);
        }
        assert_eq!((latencies.min_ns(), latencies.max_ns()), (1_000_003, 3_000_007));
        assert_eq!(latencies.quantile_ns(0.0), 1_000_003);
        assert_eq!(latencies.quantile_ns(1.0), 3_000_007);
        assert_eq!(latencies.mean_ns(), 2_000_005.0);
    }

    #[test]
    fn adding_is_the_same_as_recording_together() {
        let (mut one, mut other, mut both) = (Latencies::new(), Latencies::new(), Latencies::new());
        for ns in [5, 70_000_000, 900] {
            one.record(ns);
            both.record(ns);
        }
        other.record(3);
        both.record(3);
        one.add(&other);
        one.add(&Latencies::new());
        assert_eq!((one.min_ns(), one.max_ns()), (3, 70_000_000));
        assert_eq!(one.mean_ns(), both.mean_ns());
        assert_eq!(one.to_text(), both.to_text());
    }

    #[test]
    fn what_is_sent_is_what_was_recorded() {
        let mut latencies = Latencies::new();
        for ns in [1, 1, 77_777, 123_456_789, u64::MAX / 8] {
            latencies.record(ns);
        }
        let plain = latencies.to_plain();
        let came = Latencies::from_plain(&plain).unwrap();
        assert_eq!(came.to_text(), latencies.to_text());
        assert_eq!(came.to_plain(), plain);
        let none = Latencies::from_plain(&Latencies::new().to_plain()).unwrap();
        assert_eq!((none.count(), none.min_ns(), none.max_ns()), (0, 0, 0));
        let upside_down = PlainLatencies { min_ns: 2, max_ns: 1, ..PlainLatencies::default() };
        assert!(Latencies::from_plain(&upside_down).is_err());
        let endless = PlainLatencies {
            buckets: vec![(1, u64::MAX); BUCKETS_MAX + 1],
            ..PlainLatencies::default()
        };
        assert!(Latencies::from_plain(&endless).is_err());
    }

    #[test]
    fn merging_is_the_same_as_recording_together() {
        let (mut one, mut other, mut both) = (Latencies::new(), Latencies::new(), Latencies::new());
        for ns in (0..1000).map(|n| n * n + 100) {
            if ns % 2 == 0 {
                one.record(ns)
            } else {
                other.record(ns)
            }
            both.record(ns);
        }
        let merged = merge_histograms(&[one.to_text(), other.to_text()]).unwrap();
        let expected = merge_histograms(&[both.to_text()]).unwrap();
        assert_eq!(merged, expected);
        assert_eq!(merged.count, 1000);
        assert!(merged.p50_ns.abs_diff(500 * 500) < 2000);
        assert_eq!(merge_histograms(&[&merged.histogram]).unwrap(), merged);
    }

    #[test]
    fn what_is_no_histogram_is_named() {
        let good = Latencies::new().to_text();
        let bad = merge_histograms(&[good.as_str(), "no base64!"]).unwrap_err();
        assert_eq!(bad.place, 1);
        let cut = merge_histograms(&[&good[..good.len() / 2 / 4 * 4]]).unwrap_err();
        assert_eq!(cut.place, 0);
        assert!(merge_histograms(&["A".repeat(5 << 20)]).is_err());
        assert_eq!(merge_histograms::<&str>(&[]).unwrap().count, 0);
    }

    #[test]
    fn an_endless_wait_is_kept() {
        let mut latencies = Latencies::new();
        latencies.record(u64::MAX / 4);
        assert_eq!(latencies.max_ns(), u64::MAX / 4);
        assert_eq!(merge_histograms(&[latencies.to_text()]).unwrap().count, 1);
    }
}
