//! Time that never goes back.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 as of the start, counted on by the monotonic clock: when the wall clock
/// is set, keys neither expire early nor come back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    start_ms: u64,
}

impl Clock {
    /// Looks at the wall clock, once.
    #[must_use]
    pub fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            start: Instant::now(),
            start_ms: since_1970.map_or(0, |time| time.as_millis() as u64),
        }
    }

    /// A clock that shows `start_ms` now: another machine's time.
    #[must_use]
    pub fn starting_at(start_ms: u64) -> Self {
        Self { start: Instant::now(), start_ms }
    }

    /// Returns the time at which the clock was started, in milliseconds since 1970.
    #[must_use]
    pub fn start_ms(&self) -> u64 {
        self.start_ms
    }

    /// The time of `instant` in milliseconds since 1970.
    #[must_use]
    pub fn ms_at(&self, instant: Instant) -> u64 {
        let passed = instant.saturating_duration_since(self.start);
        self.start_ms + passed.as_millis() as u64
    }

    /// Now, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.ms_at(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Clock;

    #[test]
    fn it_counts_from_1970_and_stands_still_before_its_start() {
        let clock = Clock::start();
        // 2020.
        assert!(clock.start_ms() > 1_577_836_800_000);
        assert!(clock.now_ms() >= clock.start_ms());
        let later = clock.start + Duration::from_millis(1500);
        assert_eq!(clock.ms_at(later), clock.start_ms() + 1500);
        if let Some(before) = clock.start.checked_sub(Duration::from_secs(1)) {
            assert_eq!(clock.ms_at(before), clock.start_ms());
        }
    }
}
