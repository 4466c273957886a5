//! The orderly end of a worker.

use super::Worker;

impl Worker<'_> {
    /// Accepts no more connections, and serves received commands.
    pub(super) fn begin_drain(&mut self) {
        tracing::info!(connections = self.clients.table.len(), "asked to end");
        self.listeners.clear();
        // Clients send unanswered datagrams again, to other servers.
        self.datagrams = None;
        self.port = None;
        self.regions = None;
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
