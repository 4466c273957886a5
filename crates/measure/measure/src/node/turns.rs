//! Tests take turns on a machine, so that they do not disturb one another.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use overside_base::lock;

/// Interval at which a waiting test checks whether its host has disconnected.
const LOOK: Duration = Duration::from_millis(50);

/// Semaphore with a fixed number of turns.
pub(super) struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl Turns {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count), given_back: Condvar::new() })
    }

    /// Waits for a turn; `None` if there was none until then, or the caller has cancelled.
    pub(super) fn take(
        self: &Arc<Self>,
        deadline: Instant,
        is_over: impl Fn() -> bool,
    ) -> Option<Turn> {
        let mut free = lock(&self.free);
        loop {
            if *free > 0 {
                *free -= 1;
                return Some(Turn(Arc::clone(self)));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || is_over() {
                return None;
            }
            let waited = self.given_back.wait_timeout(free, left.min(LOOK));
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Turn, returned when it is dropped.
pub(super) struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.given_back.notify_one();
    }
}
