//! Polling of sources that wake no worker: all the time, and less often once nothing has come for a
//! while.

use std::time::Duration;

/// Number of empty turns after which a worker yields its core, and after which it sleeps each turn.
pub const IDLE_YIELD: u32 = 256;
const IDLE_SLEEP: u32 = 4096;
/// Time that an idle worker sleeps between two turns: the longest time that a message waits.
pub const PAUSE: Duration = Duration::from_micros(50);

/// Turns in which nothing came.
#[derive(Debug, Default)]
pub struct Idle(u32);

impl Idle {
    /// Resets the count: something has come.
    pub fn end(&mut self) {
        self.0 = 0;
    }

    /// Counts an empty turn, and lets other threads run that may need this core.
    pub fn spend(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 >= IDLE_YIELD {
            std::thread::yield_now();
        }
    }

    /// Returns the longest time that the worker may sleep before it polls again: zero until it is
    /// idle.
    pub fn sleep_max(&self) -> Duration {
        match self.0 {
            0..IDLE_SLEEP => Duration::ZERO,
            _ => PAUSE,
        }
    }
}
