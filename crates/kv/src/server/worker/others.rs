//! What a worker does for others: other workers where there are several, and the ends of replication.

use std::io;
use std::time::Duration;

use super::{BELL, Worker};
use crate::stages::Stage;

impl Worker<'_> {
    /// Waits until a socket has something, or somebody else.
    pub(super) fn wait(&mut self, mut timeout: Duration) -> io::Result<()> {
        let Some(bell) = self.bell.clone().filter(|_| !timeout.is_zero()) else {
            return self.driver.wait(timeout);
        };
        let (backing, shared) = (&mut *self.backing, &self.state.shared);
        if bell.arm(|| backing.serve_others(self.now_ms) || shared.has_killed(self.state.worker)) {
            self.state.stages.end(Stage::Process);
            timeout = Duration::ZERO;
        }
        self.driver.wait(timeout)?;
        let mut events = 0..self.driver.events_len();
        let is_ringing = events.any(|event| self.driver.event(event).0 == BELL);
        bell.disarm(is_ringing);
        Ok(())
    }

    /// Does what others ask for, and shows other workers what this one has counted.
    pub(super) fn work_for_others(&mut self) {
        self.state.stages.end(Stage::Other);
        if self.backing.serve_others(self.now_ms) {
            self.state.stages.end(Stage::Process);
        }
        if self.state.shared.workers() == 1 {
            return;
        }
        for (client, reason) in self.state.shared.take_killed(self.state.worker) {
            if self.clients.has(&client) {
                self.evict(client.key, reason);
            }
        }
        self.state.show(&self.clients);
    }
}
