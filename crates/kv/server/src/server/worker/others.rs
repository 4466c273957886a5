//! Work that a worker does for others: for other workers, where there are several, and for the ends
//! of replication.

use std::io;
use std::time::Duration;

use super::{WAKER, Worker};
use crate::stages::Stage;

impl Worker<'_> {
    /// Waits until a socket has something, or another worker wakes this one.
    pub(super) fn wait(&mut self, mut timeout: Duration) -> io::Result<()> {
        let Some(waker) = self.waker.clone().filter(|_| !timeout.is_zero()) else {
            return self.epoll.wait(timeout);
        };
        let (backing, shared) = (&mut *self.backing, &self.state.shared);
        if waker.arm(|| backing.serve_others(self.now_ms) || shared.has_killed(self.state.worker)) {
            self.state.stages.end(Stage::Process);
            timeout = Duration::ZERO;
        }
        self.epoll.wait(timeout)?;
        let mut events = 0..self.epoll.events_len();
        let is_woken = events.any(|event| self.epoll.event(event).0 == WAKER);
        waker.disarm(is_woken);
        Ok(())
    }

    /// Serves other workers, and publishes this one's figures to them.
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
