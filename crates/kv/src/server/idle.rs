//! What nobody wakes a worker for is looked at all the time, and less often once nothing has come for a while.

use std::time::Duration;

use crate::offload::{IDLE_SLEEP, IDLE_YIELD, PAUSE};

/// Turns in which nothing came.
#[derive(Debug, Default)]
pub struct Idle(u32);

impl Idle {
    /// Something has come.
    pub fn end(&mut self) {
        self.0 = 0;
    }

    /// Nothing has: lets others run who may need this core.
    pub fn spend(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 >= IDLE_YIELD {
            std::thread::yield_now();
        }
    }

    /// How long the worker may sleep.
    pub fn sleep_max(&self) -> Duration {
        match self.0 {
            0..IDLE_SLEEP => Duration::ZERO,
            _ => PAUSE,
        }
    }
}
