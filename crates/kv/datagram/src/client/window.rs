//! Window of datagrams that may be in flight, and the time to wait for an answer.
//!
//! The window grows by additive increase and shrinks by multiplicative decrease (Chiu and Jain, 1989), with
//! TCP's slow start (RFC 5681). The time to wait is that of RFC 6298.

/// Maximum number of datagrams in flight; the server distinguishes 1,024 sequence numbers.
pub(super) const WINDOW_MAX: usize = 512;
const WINDOW_FIRST: f64 = 8.0;
/// Least and first time to wait. Others on the machine may have the core meanwhile.
const WAIT_MIN_NS: f64 = 20e6;
const WAIT_FIRST_NS: f64 = 200e6;
const WAIT_MAX_NS: f64 = 2e9;

/// The window of one client.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    size: f64,
    /// Below it the window doubles in a round trip.
    slow_start_until: f64,
    /// Time of the last reduction, in nanoseconds. Losses of datagrams that were sent before it
    /// belong to it.
    reduced_ns: u64,
    round_trip: Option<(f64, f64)>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            size: WINDOW_FIRST,
            slow_start_until: WINDOW_MAX as f64,
            reduced_ns: 0,
            round_trip: None,
        }
    }
}

impl Window {
    /// Datagrams that may be in flight, at least one.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Records the round trip of a datagram that was answered.
    #[inline]
    pub fn answered(&mut self, round_trip_ns: u64) {
        let growth = match self.size < self.slow_start_until {
            true => 1.0,
            false => 1.0 / self.size,
        };
        self.size = (self.size + growth).min(WINDOW_MAX as f64);
        let new = round_trip_ns as f64;
        self.round_trip = Some(match self.round_trip {
            None => (new, new / 2.0),
            Some((mean, deviation)) => {
                (mean + (new - mean) / 8.0, deviation + ((mean - new).abs() - deviation) / 4.0)
            }
        });
    }

    /// A datagram that was sent at `sent_ns` was lost. Halves the window, once for all datagrams in
    /// flight together.
    pub fn lost(&mut self, sent_ns: u64, now_ns: u64) {
        if sent_ns >= self.reduced_ns {
            self.size = (self.size / 2.0).max(1.0);
            self.slow_start_until = self.size;
            self.reduced_ns = now_ns;
        }
    }

    /// Returns the time to wait for the answer to a datagram that was sent again `tries` times, in
    /// nanoseconds. It doubles with each time.
    #[must_use]
    pub fn wait_ns(&self, tries: u32) -> u64 {
        let wait = match self.round_trip {
            None => WAIT_FIRST_NS,
            Some((mean, deviation)) => (mean + 4.0 * deviation).max(WAIT_MIN_NS),
        };
        (wait * f64::from(1 << tries.min(10))).min(WAIT_MAX_NS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{WINDOW_MAX, Window};

    #[test]
    fn it_grows_by_answers_and_is_halved_by_loss() {
        let mut window = Window::default();
        (0..8).for_each(|_| window.answered(1000));
        assert_eq!(window.size(), 16, "slow start");
        window.lost(5, 10);
        window.lost(9, 11);
        assert_eq!(window.size(), 8, "once a round trip");
        (0..9).for_each(|_| window.answered(1000));
        assert_eq!(window.size(), 9, "one more a round trip");
        (0..1_000_000).for_each(|_| window.answered(1000));
        assert_eq!(window.size(), WINDOW_MAX);
        (20..60).for_each(|at| window.lost(at, at));
        assert_eq!(window.size(), 1);
    }

    #[test]
    fn waits_follow_the_round_trip_and_double() {
        let mut window = Window::default();
        assert_eq!(window.wait_ns(0), 200_000_000);
        (0..100).for_each(|_| window.answered(50_000_000));
        let wait_ns = window.wait_ns(0);
        assert!((50_000_000..60_000_000).contains(&wait_ns), "{wait_ns}");
        assert_eq!(window.wait_ns(2), 4 * wait_ns);
        assert_eq!(window.wait_ns(99), 2_000_000_000);
    }
}
