//! The orderly end of a worker.

use super::{DATAGRAMS, LISTENER, REGIONS, Worker};

impl Worker<'_> {
    /// Accepts nobody any more, and serves what has come.
    pub(super) fn begin_drain(&mut self) {
        tracing::info!(connections = self.clients.table.len(), "asked to end");
        for number in 0..self.listeners.len() {
            self.driver.forget(LISTENER | number as u64);
        }
        self.listeners.clear();
        // What has not been answered is asked again, elsewhere.
        let datagrams = self.datagrams.take();
        for (number, _) in datagrams.iter().flat_map(|all| all.sockets()).enumerate() {
            self.driver.forget(DATAGRAMS | number as u64);
        }
        self.port = None;
        if self.regions.take().is_some() {
            self.driver.forget(REGIONS);
        }
        let drain_ms = self.state.settings.drain.as_millis() as u64;
        self.deadline_ms = Some(self.now_ms.saturating_add(drain_ms));
        for (key, client) in &mut self.clients.table {
            if let Some(connection) = &mut client.connection {
                connection.look_again();
                self.due.push(key);
            }
        }
    }
}
