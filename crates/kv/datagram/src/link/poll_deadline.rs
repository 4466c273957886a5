//! Polling that ends.

use std::time::{Duration, Instant};

use super::OffloadError;

/// Limit on the time for which something is polled.
#[derive(Debug)]
pub struct PollDeadline {
    most: Duration,
    begin: Option<Instant>,
    turns: u32,
}

impl PollDeadline {
    /// Begins to wait, for so long.
    pub fn new(most: Duration) -> Self {
        Self { most, begin: None, turns: 0 }
    }

    /// Once a turn in which nothing came. Says now and then that it is time to look whether the link
    /// is lost; lets others run then, who may need this core.
    #[inline]
    pub fn spend(&mut self) -> Result<bool, OffloadError> {
        std::hint::spin_loop();
        self.turns = self.turns.wrapping_add(1);
        if !self.turns.is_multiple_of(4096) {
            return Ok(false);
        }
        if self.begin.get_or_insert_with(Instant::now).elapsed() > self.most {
            return Err(OffloadError::Timeout);
        }
        std::thread::yield_now();
        Ok(true)
    }
}
