//! Connections that replicas take, and clients that wait: for replicas, or until a slot has moved.

use super::Worker;
use crate::replica::{ReplicaConnection, SyncRequest};
use crate::server::connection::Connection;
use crate::server::counters::CloseReason;

impl Worker<'_> {
    /// Passes a replica's connection to the backing; it belongs to the stream from now on.
    pub(super) fn hand_over(&mut self, key: usize, connection: Connection, request: SyncRequest) {
        let address = self.clients.table[key].entry.address.to_string();
        if connection.close.is_some() || self.epoll.remove(&connection.transport).is_err() {
            return self.close(key, connection, CloseReason::Failed);
        }
        self.clients.remove(key);
        let unsent = connection.output[connection.output.len() - connection.unsent()..].to_vec();
        let transport = connection.transport;
        if let Some(replication) = self.backing.replication_mut() {
            let peer = ReplicaConnection::new(transport, unsent, address);
            replication.accept(request, peer);
        }
    }

    /// Answers clients whose wait has ended.
    pub(super) fn end_waits(&mut self) {
        self.next_wait_ms = u64::MAX;
        self.state.blocked = 0;
        if self.waiting.is_empty() {
            return;
        }
        let replication = self.backing.replication();
        let primary = replication.filter(|replication| !replication.is_replica());
        let (due, table, now_ms) = (&mut self.due, &mut self.clients.table, self.now_ms);
        let mut next_ms = u64::MAX;
        let retries_held = now_ms >= self.next_retry_ms;
        if retries_held {
            self.next_retry_ms = now_ms + 1;
        }
        let next_retry_ms = self.next_retry_ms;
        self.waiting.retain(|&key| {
            let client = table.get_mut(key);
            let connection = client.and_then(|client| client.connection.as_mut());
            // It may be gone, and another one in its place.
            let Some(connection) = connection else {
                return false;
            };
            if connection.session.is_held() {
                if retries_held {
                    connection.retry_held();
                    due.push(key);
                }
                next_ms = next_ms.min(next_retry_ms);
                return true;
            }
            let Some(wait) = connection.session.replica_wait() else {
                return false;
            };
            let have = primary.map(|primary| primary.acknowledgments(&wait.ends, wait.replicas));
            let is_over = have.is_none_or(|have| have >= wait.replicas) || now_ms >= wait.end_ms;
            if is_over {
                connection.end_wait(have);
                due.push(key);
            } else {
                next_ms = next_ms.min(wait.end_ms);
            }
            !is_over
        });
        self.next_wait_ms = next_ms;
        self.state.blocked = self.waiting.len();
    }
}
