//! Relation between two clocks: the time on one clock at an instant of the other, and its error.
//!
//! 1. An echo has the other clock's time at some moment between its sending and its return
//!    (Cristian, *Probabilistic clock synchronization*, 1989). So
//!    `there - back <= offset <= there - sent`, for any delays of the two ways.
//! 2. Several echoes together bound it further: the offset lies in all of their intervals (Marzullo
//!    and Owicki, 1983). The middle is the estimate, half of the width its error.
//! 3. One such burst before a pass and one after it give a line: offset and drift. If both ends of the
//!    line are right within an error, all points between them are right within the larger error.

use serde::{Deserialize, Serialize};

/// Clocks drift apart by less than this; oscillators that are sold do by a tenth of it.
const DRIFT_MAX: f64 = 1e-3;

/// One request for the other clock's time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Time at which the request was sent, on this clock.
    pub sent_ns: u64,
    /// Time that the other clock reported.
    pub there_ns: u64,
    /// Time at which the answer arrived, on this clock.
    pub back_ns: u64,
}

/// The other clock's time less this one's, at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The moment, on this clock.
    pub at_ns: u64,
    /// Lower bound of the offset.
    pub low_ns: i64,
    /// Maximum possible offset.
    pub high_ns: i64,
}

impl ClockOffset {
    /// Combines echoes that follow each other closely into one estimate; `None` if there are no
    /// echoes.
    pub fn estimate(echoes: &[Echo]) -> Option<Self> {
        let less = |one: u64, other: u64| one.cast_signed().wrapping_sub(other.cast_signed());
        let of = |echo: &Echo| Self {
            at_ns: echo.sent_ns.midpoint(echo.back_ns),
            low_ns: less(echo.there_ns, echo.back_ns),
            high_ns: less(echo.there_ns, echo.sent_ns),
        };
        let shortest =
            echoes.iter().min_by_key(|echo| echo.back_ns.saturating_sub(echo.sent_ns))?;
        let shortest = of(shortest);
        let all = echoes.iter().map(of).fold(shortest, |all, one| Self {
            low_ns: all.low_ns.max(one.low_ns),
            high_ns: all.high_ns.min(one.high_ns),
            ..all
        });
        // Clocks that drift apart within the burst leave nothing in common.
        Some(if all.low_ns <= all.high_ns { all } else { shortest })
    }

    /// The estimate, in nanoseconds.
    pub fn middle_ns(self) -> i64 {
        self.low_ns.midpoint(self.high_ns)
    }

    /// Returns the largest error of the estimate, in nanoseconds.
    pub fn error_ns(self) -> u64 {
        self.low_ns.abs_diff(self.high_ns).div_ceil(2)
    }
}

/// A line from one offset to a later one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockRelation {
    before: ClockOffset,
    /// Nanoseconds by which the other clock gains on this one, for each of this one's.
    pub drift: f64,
    /// Largest error of the drift.
    pub drift_error: f64,
    /// Largest error at an instant between the two offsets, in nanoseconds.
    pub error_ns: u64,
}

impl ClockRelation {
    /// Computes the relation from two estimates. Returns `None` if the clocks drift apart more than real
    /// clocks do, or time went backwards.
    pub fn between(before: ClockOffset, after: ClockOffset) -> Option<Self> {
        let span_ns = after.at_ns.checked_sub(before.at_ns).filter(|ns| *ns > 0)? as f64;
        let gained = after.middle_ns().checked_sub(before.middle_ns())? as f64;
        let both = (before.error_ns() + after.error_ns()) as f64;
        let (drift, drift_error) = (gained / span_ns, both / span_ns);
        (drift.abs() - drift_error <= DRIFT_MAX).then_some(Self {
            before,
            drift,
            drift_error,
            error_ns: before.error_ns().max(after.error_ns()),
        })
    }

    /// Converts an instant of this clock to the other clock, in nanoseconds.
    pub fn there_ns(&self, here_ns: u64) -> i64 {
        let since = here_ns.abs_diff(self.before.at_ns) as f64;
        let since = if here_ns < self.before.at_ns { -since } else { since };
        here_ns
            .cast_signed()
            .wrapping_add(self.before.middle_ns())
            .wrapping_add((since * self.drift) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overside_base::Random;

    /// A clock that is shifted and runs at another rate, behind ways of random length.
    struct Simulated {
        shift_ns: i64,
        drift: f64,
        random: Random,
    }

    impl Simulated {
        fn there_ns(&self, here_ns: u64) -> i64 {
            here_ns as i64 + self.shift_ns + (here_ns as f64 * self.drift) as i64
        }

        /// `count` echoes from `at_ns` on; each way takes 5 µs and up to 200 µs more.
        fn burst(&mut self, at_ns: u64, count: u64) -> Vec<Echo> {
            let mut now_ns = at_ns;
            let mut echo = || {
                let sent_ns = now_ns;
                let arrives_ns = sent_ns + 5_000 + self.random.below(200_000);
                let there_ns = self.there_ns(arrives_ns) as u64;
                let back_ns = arrives_ns + 5_000 + self.random.below(200_000);
                now_ns = back_ns;
                Echo { sent_ns, there_ns, back_ns }
            };
            (0..count).map(|_| echo()).collect()
        }
    }

    #[test]
    fn a_shifted_clock_that_drifts_is_found_within_the_error_that_is_told() {
        for seed in 0..200 {
            for (shift_ns, drift) in [(0, 0.0), (-7_000_000_000, 50e-6), (3_600_000_000_000, -2e-4)]
            {
                let mut clock = Simulated { shift_ns, drift, random: Random::new(seed) };
                let (begin, end) = (10_000_000_000, 16_000_000_000);
                let before = ClockOffset::estimate(&clock.burst(begin, 32)).unwrap();
                let after = ClockOffset::estimate(&clock.burst(end, 32)).unwrap();
                let relation = ClockRelation::between(before, after).unwrap();
                // Far better than one echo, whose ways may differ by 200 µs.
                assert!(relation.error_ns < 60_000, "{relation:?}");
                assert!((relation.drift - drift).abs() <= relation.drift_error + 1e-6);
                for here_ns in [begin, (begin + end) / 2, end] {
                    let off = relation.there_ns(here_ns).abs_diff(clock.there_ns(here_ns));
                    assert!(off <= relation.error_ns + 2_000, "{off} {relation:?}");
                }
            }
        }
    }

    #[test]
    fn one_sided_delay_does_not_leave_the_interval() {
        // The answer is delayed, the request is not: halving the round trip would be 500 µs off.
        let echo = Echo { sent_ns: 1_000_000, there_ns: 5_010_000, back_ns: 2_010_000 };
        let offset = ClockOffset::estimate(&[echo]).unwrap();
        assert!(offset.low_ns <= 4_000_000 && 4_000_000 <= offset.high_ns);
        assert_eq!(offset.error_ns(), 505_000);
        assert_eq!(ClockOffset::estimate(&[]), None);
    }

    #[test]
    fn clocks_that_no_clock_is_like_are_refused() {
        let offset = |at_ns, low_ns| ClockOffset { at_ns, low_ns, high_ns: low_ns + 1000 };
        let second = 1_000_000_000;
        assert!(ClockRelation::between(offset(0, 0), offset(second, 900_000)).is_some());
        for (before, after) in [
            (offset(0, 0), offset(second, 5_000_000)),
            (offset(second, 0), offset(second, 0)),
            (offset(second, 0), offset(0, 0)),
            (offset(0, i64::MIN), offset(second, i64::MAX - 1000)),
        ] {
            assert_eq!(ClockRelation::between(before, after), None);
        }
    }
}
