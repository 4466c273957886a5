//! What nobody wakes a worker for is looked at all the time, and less often once nothing has come for a while.

use std::time::Duration;

/// Turns in which nothing came after which others may run, and after which it sleeps between turns.
pub const IDLE_YIELD: u32 = 256;
const IDLE_SLEEP: u32 = 4096;
/// How long it sleeps: what waits at most after a pause.
pub const PAUSE: Duration = Duration::from_micros(50);

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
