//! Arrival times of a paced pass's messages, and the figures that follow from them: one-way delays,
//! loss, duplicates and reordering.
//!
//! A paced message needs no time stamp: its planned time follows from its number. The receiver
//! stores the arrival time of each number. The offset of the two clocks is known only after the
//! pass, and the figures are computed then.

use std::sync::atomic::{AtomicU64, Ordering};

use overside_link::codec::{self, CodecError, at_most};
use serde::{Deserialize, Serialize};

use super::pass::Slice;
use super::schedule::Intervals;
use super::{CONNECTIONS_MAX, SLICES_SENT_MAX};
use crate::latency::Latencies;

/// Latest accepted instant of a clock, in nanoseconds: 146 years.
pub(super) const CLOCK_MAX_NS: u64 = 1 << 62;

/// The messages of a pass on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    /// The number of the first.
    pub first: u64,
    /// The most that there will be.
    pub most: u64,
}

/// Intended times of sending a pass's messages, on the receiver's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timeline {
    /// Start of the pass, in nanoseconds.
    pub start_ns: i64,
    /// Nanoseconds by which the receiver's clock gains on the sender's, for each of the sender's.
    pub drift: f64,
    /// Time between two messages of a connection, on the sender's clock.
    pub step_ns: f64,
    /// Length of the time slices of the figures; without it there are none.
    pub slice_ns: Option<u64>,
    /// Messages that were sent, by connection.
    #[serde(deserialize_with = "codec::list::<_, _, CONNECTIONS_MAX>")]
    pub sent: Vec<u64>,
}

/// Figures about the arrival of a pass's messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArrivalFigures {
    /// Messages that came, each counted once, by connection.
    #[serde(deserialize_with = "codec::list::<_, _, CONNECTIONS_MAX>")]
    pub received: Vec<u64>,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages that came after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Arrival of the last message, in nanoseconds from the beginning of the pass.
    pub last_ns: u64,
    /// Slices of the pass.
    #[serde(deserialize_with = "codec::list::<_, _, SLICES_SENT_MAX>")]
    pub slices: Vec<Slice>,
    /// Delays from the intended time of sending to the arrival of each message.
    pub delays: Latencies,
}

/// Arrivals of the messages so far.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    connections: Vec<ConnectionArrivals>,
}

#[derive(Debug)]
struct ConnectionArrivals {
    first: u64,
    /// Arrival times by message number: the clock's time plus one; 0 if the message has not arrived.
    at_ns: Vec<AtomicU64>,
    /// One more than the highest number of a message so far.
    next: AtomicU64,
    duplicates: AtomicU64,
    reordered: AtomicU64,
}

impl Arrivals {
    /// Makes room for the expected messages of each connection.
    pub(super) fn new(expected: &[Expected]) -> Self {
        let connection = |one: &Expected| ConnectionArrivals {
            first: one.first,
            at_ns: (0..one.most).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            reordered: AtomicU64::new(0),
        };
        Self { connections: expected.iter().map(connection).collect() }
    }

    /// Records a message. Returns `true` if it is one of the pass's and the first with its number.
    /// One thread records all messages of a connection.
    pub(super) fn note(&self, connection: usize, number: u64, clock_ns: u64) -> bool {
        let Some(all) = self.connections.get(connection) else {
            return false;
        };
        let place = number.checked_sub(all.first).map(usize::try_from);
        let Some(Ok(place)) = place else {
            return false;
        };
        let Some(at) = all.at_ns.get(place) else {
            return false;
        };
        if at.load(Ordering::Relaxed) != 0 {
            all.duplicates.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        at.store(clock_ns + 1, Ordering::Release);
        if place as u64 >= all.next.load(Ordering::Relaxed) {
            all.next.store(place as u64 + 1, Ordering::Relaxed);
        } else {
            all.reordered.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// The figures of those that were sent.
    pub(super) fn figures(&self, timeline: &Timeline) -> ArrivalFigures {
        let intervals =
            Intervals { step_ns: timeline.step_ns, connections: self.connections.len() };
        let mut figures = ArrivalFigures::default();
        let mut slices = Slices { length_ns: timeline.slice_ns, all: Vec::new() };
        for (index, (all, &sent)) in self.connections.iter().zip(&timeline.sent).enumerate() {
            let mut received = 0;
            for (number, at) in (0..sent).zip(&all.at_ns) {
                let intended_ns = intervals.intended_ns(index, number);
                let Some(at_ns) = at.load(Ordering::Acquire).checked_sub(1) else {
                    slices.lost(intended_ns);
                    continue;
                };
                received += 1;
                let since_start = at_ns.cast_signed().wrapping_sub(timeline.start_ns) as f64;
                // What is before its time is so within the error of the clocks.
                let arrived_ns = (since_start / (1.0 + timeline.drift)).max(0.0) as u64;
                let delay_ns = arrived_ns.saturating_sub(intended_ns);
                figures.last_ns = figures.last_ns.max(arrived_ns);
                figures.delays.record(delay_ns);
                slices.arrived(arrived_ns, delay_ns);
            }
            figures.received.push(received);
            figures.duplicates += all.duplicates.load(Ordering::Relaxed);
            figures.reordered += all.reordered.load(Ordering::Relaxed);
        }
        figures.slices = slices.all;
        figures
    }
}

/// Figures by time slice. Bytes need the length of a message, which the caller knows.
struct Slices {
    length_ns: Option<u64>,
    all: Vec<Slice>,
}

impl Slices {
    fn arrived(&mut self, at_ns: u64, delay_ns: u64) {
        if let Some(slice) = self.at(at_ns) {
            slice.messages += 1;
            slice.latency_sum_ns = slice.latency_sum_ns.saturating_add(delay_ns);
            slice.latency_max_ns = slice.latency_max_ns.max(delay_ns);
        }
    }

    fn lost(&mut self, intended_ns: u64) {
        if let Some(slice) = self.at(intended_ns) {
            slice.lost += 1;
        }
    }

    fn at(&mut self, at_ns: u64) -> Option<&mut Slice> {
        let length_ns = self.length_ns?.max(1);
        let index = usize::try_from(at_ns / length_ns).ok()?;
        if index >= SLICES_SENT_MAX {
            return None;
        }
        while self.all.len() <= index {
            self.all.push(Slice::numbered(self.all.len(), length_ns));
        }
        self.all.get_mut(index)
    }
}

impl Timeline {
    /// Refuses values that figures cannot be computed with.
    pub(super) fn check(&self) -> Result<(), CodecError> {
        let start = self.start_ns.unsigned_abs();
        at_most("start_ns", start, CLOCK_MAX_NS)?;
        let step = self.step_ns.is_finite() && (0.0..=1e15).contains(&self.step_ns);
        let drift = self.drift.is_finite() && self.drift.abs() < 0.5;
        match step && drift {
            true => Ok(()),
            false => Err(CodecError::Malformed("a timeline that cannot be".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(sent: Vec<u64>) -> Timeline {
        Timeline { start_ns: 5_000, drift: 0.0, step_ns: 1_000.0, slice_ns: Some(2_000), sent }
    }

    fn arrivals(first: u64, most: u64) -> Arrivals {
        Arrivals::new(&[Expected { first, most }])
    }

    #[test]
    fn each_message_counts_once_and_from_its_intended_time() {
        let arrivals = arrivals(10, 6);
        // Number 12 is lost; 14 overtakes 13; 11 comes twice.
        for (number, at_ns, is_new) in [
            (10, 5_300, true),
            (11, 6_300, true),
            (11, 6_400, false),
            (14, 9_300, true),
            (13, 9_500, true),
            (9, 9_600, false),
            (16, 9_700, false),
        ] {
            assert_eq!(arrivals.note(0, number, at_ns), is_new, "{number}");
        }
        let figures = arrivals.figures(&timeline(vec![5]));
        assert_eq!(figures.received, [4]);
        assert_eq!((figures.duplicates, figures.reordered), (1, 1));
        assert_eq!(figures.last_ns, 4_500);
        assert_eq!(figures.delays.count(), 4);
        assert_eq!((figures.delays.min_ns(), figures.delays.max_ns()), (300, 1_500));
        let told: Vec<_> = (figures.slices.iter())
            .map(|slice| (slice.messages, slice.lost, slice.latency_sum_ns))
            .collect();
        assert_eq!(told, [(2, 0, 600), (0, 1, 0), (2, 0, 1_800)]);
    }

    #[test]
    fn a_clock_that_runs_faster_makes_no_delay() {
        let arrivals = arrivals(0, 2);
        let drift = 1e-3;
        for number in 0..2_u64 {
            let sent = number as f64 * 1e9;
            arrivals.note(0, number, (5_000.0 + (sent + 700.0) * (1.0 + drift)) as u64);
        }
        let figures = arrivals.figures(&Timeline {
            drift,
            step_ns: 1e9,
            slice_ns: None,
            ..timeline(vec![2])
        });
        assert!(figures.delays.max_ns().abs_diff(700) <= 2, "{figures:?}");
        assert!(figures.slices.is_empty());
    }

    #[test]
    fn what_was_never_expected_is_not_counted() {
        let arrivals = arrivals(0, 3);
        for number in [u64::MAX, 3] {
            assert!(!arrivals.note(0, number, 1));
        }
        assert!(!arrivals.note(7, 0, 1));
        // More sent than was expected, and more connections.
        let figures = arrivals.figures(&timeline(vec![u64::MAX, 5]));
        assert_eq!(figures.received, [0]);
        for bad in [
            Timeline { drift: f64::NAN, ..timeline(vec![]) },
            Timeline { step_ns: f64::INFINITY, ..timeline(vec![]) },
            Timeline { start_ns: i64::MIN, ..timeline(vec![]) },
        ] {
            assert!(bad.check().is_err());
        }
    }
}
