//! Work that a worker does periodically: that of its backing, and the closing of clients that send
//! or take nothing.

use super::{Active, TICK_MS, Worker};
use crate::server::counters::CloseReason;

/// Time between two looks at all connections in milliseconds.
const SWEEP_MS: u64 = 1_000;
/// Time for which a connection is not read after a wrong password.
const WRONG_PASSWORD_DELAY_MS: u64 = 500;

/// Makes guessing slow: connections that took part in a turn with wrong passwords wait.
pub(super) fn delay_unauthenticated(group: &mut [Active], now_ms: u64) {
    let guessing =
        group.iter_mut().filter(|one| one.is_ready && !one.connection.session.is_authenticated());
    for one in guessing {
        one.connection.paused_until_ms = now_ms + WRONG_PASSWORD_DELAY_MS;
    }
}

impl Worker<'_> {
    pub(super) fn timers(&mut self) {
        if self.is_backing_busy || self.now_ms >= self.next_tick_ms {
            self.is_backing_busy = self.backing.tick(self.now_ms);
            self.next_tick_ms = self.now_ms + TICK_MS;
            self.sample();
        }
        if self.now_ms >= self.next_sweep_ms {
            self.sweep();
            self.next_sweep_ms = self.now_ms + SWEEP_MS;
        }
    }

    /// Samples waiting input, and losses.
    fn sample(&mut self) {
        let counters = &mut self.state.counters.datagrams;
        (counters.backlog_bytes, counters.queue_bytes, counters.dropped) = (0, 0, 0);
        if let Some(datagrams) = &self.datagrams {
            datagrams.sample(&mut self.state);
        }
        if let Some(port) = &mut self.port {
            port.sample(&mut self.state);
        }
        let counters = &mut self.state.counters.datagrams;
        counters.backlog_max_bytes = counters.backlog_max_bytes.max(counters.backlog_bytes);
    }

    fn sweep(&mut self) {
        let now_ms = self.now_ms;
        let limits = self.state.settings.limits;
        let (mut over, mut resumed) = (Vec::new(), Vec::new());
        for (key, client) in &self.clients.table {
            let Some(connection) = &client.connection else {
                continue;
            };
            let has_passed = |since_ms: u64, limit: std::time::Duration| {
                now_ms.saturating_sub(since_ms) > limit.as_millis() as u64
            };
            let is_idle =
                !limits.idle.is_zero() && has_passed(client.entry.active_ms(), limits.idle);
            let is_late = !client.is_authenticated
                && has_passed(client.entry.opened_ms, limits.authentication);
            let is_stalled =
                (connection.stalled_since_ms).is_some_and(|since| has_passed(since, limits.stall));
            match () {
                () if is_stalled => over.push((key, CloseReason::Stalled)),
                () if is_late => over.push((key, CloseReason::Unauthenticated)),
                () if is_idle => over.push((key, CloseReason::Idle)),
                () if connection.interest != connection.wanted_interest(now_ms) => {
                    resumed.push(key);
                }
                () => {}
            }
        }
        for (key, reason) in over {
            self.evict(key, reason);
        }
        for key in resumed {
            if let Some(mut connection) = self.clients.table[key].connection.take() {
                self.watch(key, &mut connection);
                self.clients.table[key].connection = Some(connection);
            }
        }
        self.scrapes.retain(|_, scrape| !scrape.is_late(now_ms));
        for number in 0..self.listeners.len() {
            self.listen(number, true);
        }
    }

    pub(super) fn close_killed(&mut self) {
        for client in std::mem::take(&mut self.clients.killed) {
            if self.clients.has(&client) {
                self.evict(client.key, CloseReason::Killed);
            }
        }
    }

    /// Closes the clients that hold most memory, until the server's clients are within the limit.
    pub(super) fn close_largest(&mut self) {
        let limit = self.state.settings.limits.memory_bytes;
        if self.state.shared.memory_bytes() <= limit {
            return;
        }
        for client in self.state.shared.take_largest(limit) {
            tracing::warn!(
                id = client.id,
                address = %client.address,
                bytes = client.memory_bytes(),
                "closed: connections hold too much memory, and this one most"
            );
            match client.worker == self.state.worker {
                true => self.evict(client.key, CloseReason::Memory),
                false => self.state.shared.kill(client, CloseReason::Memory),
            }
        }
    }
}
