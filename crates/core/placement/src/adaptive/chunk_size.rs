//! Choice of the chunk length by hill climbing. It tries chunks twice or half as long, and goes
//! back if that is not faster.
//!
//! A device that takes a while for each job, however short it is, gains by longer chunks; targets that wait for each
//! other at the end of a stream, or share a cache, gain by shorter ones. Neither is known beforehand. So the throughput
//! of all targets together is measured, over spans of 100 ms and of two windows of chunks at least. The first span of a
//! length does not count: chunks of the length before are still under way, and the controller learns the targets' rates
//! with the new one.

use std::time::Duration;

use crate::report::DecisionRecord;
use crate::{Policy, Setup, Target};

/// The longest chunk, in bytes, that callers let adaptive lengths lead to.
pub const MAX_ADAPTIVE_CHUNK_BYTES: usize = 8 << 20;
/// The shortest chunks that are tried.
const LEAST_BYTES: usize = 16 << 10;
/// Shortest duration of a span.
const SPAN: Duration = Duration::from_millis(100);
/// Ratio of throughputs above which another length replaces the best so far.
const GAIN: f64 = 1.03;
/// Spans from one search to the next: at first, then twice as many each time that it finds nothing.
const REST_SPANS: u32 = 8;
const REST_SPANS_MAX: u32 = 256;

/// Totals over all targets since the stream began. The sizer takes their difference over a span to
/// compute a throughput.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Finished {
    pub(crate) bytes: u64,
    pub(crate) chunks: u64,
}

/// Chunks have this length from now on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resized {
    pub(crate) bytes: usize,
    /// `true` if the length is used to measure it, not because it is the fastest.
    pub(crate) probe: bool,
    /// Reason for the decision: the throughputs that were compared, in MB/s, with their chunk
    /// lengths.
    pub(crate) reason: String,
}

impl Resized {
    /// Converts it to the report's record of a decision. `at` is the time of the decision,
    /// `fraction` the part of the stream's bytes that went to devices at that time.
    pub(crate) fn record(self, at: Duration, fraction: f64) -> DecisionRecord {
        DecisionRecord {
            at_ns: at.as_nanos() as u64,
            target: Target::Cpu,
            fraction,
            chunk_bytes: Some(self.bytes),
            probe: self.probe,
            reason: self.reason,
        }
    }
}

/// Chooses the length of chunks: a power of two within the bounds.
#[derive(Debug)]
pub(crate) struct ChunkSizer {
    least: usize,
    most: usize,
    /// The best length so far.
    best: usize,
    state: SearchState,
    /// Twice as long is tried next, else half as long.
    longer: bool,
    /// Number of the two neighboring lengths (twice and half `best`) that are known not to be
    /// faster, 0 to 2.
    known: u32,
    rest_spans: u32,
    span_chunks: u64,
    span: Span,
}

#[derive(Clone, Copy, Debug)]
enum SearchState {
    /// Chunks have the best length; others are tried after `spans` spans.
    Best { spans: u32 },
    /// Chunks have another length, whose throughput will be compared with `against`.
    Trial { bytes: usize, against: f64 },
}

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    begun: Duration,
    finished: Finished,
    /// `true` unless it is the first with its length.
    counts: bool,
}

/// The power of two up to `bytes`.
fn rounded(bytes: usize) -> usize {
    1 << bytes.max(1).ilog2()
}

/// The shortest and the longest chunk, if the first has about `first` bytes and none more than `most`.
fn bounds(first: usize, most: usize) -> (usize, usize) {
    let most = rounded(most);
    (LEAST_BYTES.min(rounded(first)).min(most), most)
}

/// Lengths in bytes that chunks may have with [`Setup::first_chunk_bytes`](crate::Setup::first_chunk_bytes): the first
/// has about `first` bytes, and none more than `most`.
pub fn chunk_lengths(first: usize, most: usize) -> impl Iterator<Item = usize> {
    let (least, most) = bounds(first, most);
    (least.ilog2()..=most.ilog2()).map(|power| 1 << power)
}

impl ChunkSizer {
    /// A sizer for executors of such a set-up, if adaptive placement chooses the length of their chunks.
    pub(crate) fn of(setup: &Setup, window: usize) -> Option<Self> {
        let is_adaptive = match setup.policy {
            Policy::Adaptive => true,
            Policy::Device => setup.devices.len() > 1,
            Policy::Cpu | Policy::Split(_) => false,
        };
        let first = setup.first_chunk_bytes.filter(|_| is_adaptive)?;
        Some(Self::new(first, setup.source_bytes, window))
    }

    /// Begins with about `first` bytes, goes to `most`; `window` chunks are under way at the most.
    pub(crate) fn new(first: usize, most: usize, window: usize) -> Self {
        let (least, most) = bounds(first, most);
        Self {
            least,
            most,
            best: rounded(first).clamp(least, most),
            state: SearchState::Best { spans: 1 },
            longer: true,
            known: 0,
            rest_spans: REST_SPANS,
            span_chunks: 2 * window as u64,
            span: Span::default(),
        }
    }

    /// Returns the length of the next chunk, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self.state {
            SearchState::Best { .. } => self.best,
            SearchState::Trial { bytes, .. } => bytes,
        }
    }

    /// Takes the work finished so far; returns a new length if one was chosen.
    pub(crate) fn observe(&mut self, now: Duration, finished: Finished) -> Option<Resized> {
        let span = self.span;
        let took = now.saturating_sub(span.begun);
        let bytes = finished.bytes.saturating_sub(span.finished.bytes);
        let chunks = finished.chunks.saturating_sub(span.finished.chunks);
        if took < SPAN || chunks < self.span_chunks || bytes == 0 {
            return None;
        }
        self.span = Span { begun: now, finished, counts: true };
        if !span.counts {
            return None;
        }
        let rate = bytes as f64 / took.as_secs_f64();
        match self.state {
            SearchState::Best { spans } if spans > 1 => {
                self.state = SearchState::Best { spans: spans - 1 };
                None
            }
            SearchState::Best { .. } => self.try_another(rate),
            SearchState::Trial { bytes, against } if rate >= GAIN * against => {
                let before = std::mem::replace(&mut self.best, bytes);
                // Where it came from is not faster.
                (self.known, self.rest_spans) = (1, REST_SPANS);
                self.state = SearchState::Best { spans: 1 };
                let kept = Resized {
                    bytes,
                    probe: false,
                    reason: compared((bytes, rate), (before, against)),
                };
                Some(self.try_another(rate).unwrap_or(kept))
            }
            SearchState::Trial { bytes, against } => {
                self.known += 1;
                self.longer = !self.longer;
                self.span.counts = false;
                self.rest();
                Some(Resized {
                    bytes: self.best,
                    probe: false,
                    reason: compared((self.best, against), (bytes, rate)),
                })
            }
        }
    }

    /// Goes to another length, if there is one that may be faster than `rate`.
    fn try_another(&mut self, rate: f64) -> Option<Resized> {
        while self.known < 2 {
            let bytes = if self.longer { 2 * self.best } else { self.best / 2 };
            if (self.least..=self.most).contains(&bytes) {
                self.state = SearchState::Trial { bytes, against: rate };
                self.span.counts = false;
                return Some(Resized {
                    bytes,
                    probe: true,
                    reason: format!("{} now", of(self.best, rate)),
                });
            }
            self.known += 1;
            self.longer = !self.longer;
        }
        self.rest();
        None
    }

    /// Stays with the best length: for long if no other is left to try.
    fn rest(&mut self) {
        let mut spans = 1;
        if self.known >= 2 {
            spans = self.rest_spans;
            self.rest_spans = REST_SPANS_MAX.min(2 * spans);
            self.known = 0;
        }
        self.state = SearchState::Best { spans };
    }
}

fn of(bytes: usize, rate: f64) -> String {
    format!("{:.0} MB/s with chunks of {bytes} bytes", rate / 1e6)
}

fn compared(better: (usize, f64), other: (usize, f64)) -> String {
    format!("{}, {}", of(better.0, better.1), of(other.0, other.1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: usize = 16;

    /// Runs a sizer for `spans` spans in a world whose throughput by length is `rate`; returns the
    /// lengths that it chose.
    fn lengths(sizer: &mut ChunkSizer, rate: impl Fn(usize) -> f64, spans: usize) -> Vec<usize> {
        let (mut now, mut finished) = (Duration::ZERO, Finished::default());
        (0..spans)
            .map(|_| {
                let bytes = sizer.bytes();
                let chunks = (rate(bytes) * 0.1 / bytes as f64).max(2.0 * WINDOW as f64) as u64 + 1;
                finished.chunks += chunks;
                finished.bytes += chunks * bytes as u64;
                now += Duration::from_secs_f64((chunks * bytes as u64) as f64 / rate(bytes));
                let resized = sizer.observe(now, finished);
                if let Some(resized) = resized {
                    assert_eq!(resized.bytes, sizer.bytes());
                }
                bytes
            })
            .collect()
    }

    /// Bytes a second of a target by chunk length: `job_s` a job in addition to its bytes, and a
    /// seventh slower for each doubling beyond `fits`.
    fn world(job_s: f64, rate: f64, fits: usize) -> impl Fn(usize) -> f64 {
        move |bytes| {
            let beyond = (bytes as f64 / fits as f64).log2().max(0.0);
            0.86_f64.powf(beyond) * bytes as f64 / (job_s + bytes as f64 / rate)
        }
    }

    proptest! {
        #[test]
        fn it_climbs_to_the_fastest_length_and_stays(
            first in 1..9_000_000_usize,
            most in 1..9_000_000_usize,
            job_us in 0.0..2000.0_f64,
            fits in 14..24_u32,
        ) {
            let mut sizer = ChunkSizer::new(first, most, WINDOW);
            let rate = world(job_us / 1e6, 1e9, 1 << fits);
            let chosen = lengths(&mut sizer, &rate, 400);
            for bytes in &chosen {
                prop_assert!(bytes.is_power_of_two() && *bytes <= most, "{bytes}");
                prop_assert!(*bytes >= LEAST_BYTES.min(rounded(first)).min(rounded(most)));
            }
            let (least, most) = (sizer.least.ilog2(), sizer.most.ilog2());
            let fastest = (least..=most).map(|power| rate(1 << power)).fold(0.0, f64::max);
            // Each step that it leaves out gains less than 3 %, and there are few of those.
            prop_assert!(rate(sizer.best) * 1.2 > fastest, "{} {fastest}", sizer.best);
            let elsewhere = chosen[200..].iter().filter(|bytes| **bytes != sizer.best).count();
            prop_assert!(elsewhere < 20, "{elsewhere}");
        }
    }

    #[test]
    fn what_changes_is_followed() {
        let mut sizer = ChunkSizer::new(1 << 16, 1 << 22, WINDOW);
        lengths(&mut sizer, world(1e-3, 1e9, 1 << 30), 60);
        assert_eq!(sizer.best, 1 << 22);
        let mut sizer = ChunkSizer { span: Span::default(), ..sizer };
        lengths(&mut sizer, world(0.0, 1e9, 1 << 17), 400);
        assert_eq!(sizer.best, 1 << 17);
    }

    #[test]
    fn one_length_alone_is_left_as_it_is() {
        let mut sizer = ChunkSizer::new(1 << 20, 5000, WINDOW);
        let chosen = lengths(&mut sizer, world(1e-3, 1e9, 1 << 30), 50);
        assert!(chosen.iter().all(|bytes| *bytes == 4096));
    }
}
