//! A worker's own partition, and the others whom it answers from it.

use std::io;
use std::sync::Arc;

use super::task_queue::TaskQueue;
use crate::RemoteClients;
use overside_kv_backend::StorageBackend;

/// A worker's own partition.
pub(super) struct LocalPartition {
    pub number: usize,
    pub own: Box<dyn StorageBackend + Send>,
    clients: RemoteClients,
    task_queue: Arc<TaskQueue>,
}

impl LocalPartition {
    pub(super) fn new(
        number: usize,
        own: Box<dyn StorageBackend + Send>,
        clients: RemoteClients,
        task_queue: Arc<TaskQueue>,
    ) -> Self {
        Self { number, own, clients, task_queue }
    }

    /// Answers the requests of other threads. Returns `true` if there were any.
    pub(super) fn serve(&mut self, now_ms: u64) -> bool {
        // Whoever has set up the links is told if they are lost.
        let polled = self.clients.poll(&mut *self.own, now_ms, None);
        let mut any = polled.unwrap_or(false);
        if self.task_queue.has_some() {
            any = true;
            for letter in self.task_queue.take() {
                letter(&mut *self.own);
            }
        }
        any
    }

    /// Does the work of [`StorageBackend::before_replies`] for the replies to this worker's clients. Also
    /// returns an error that came up when others were answered, whose writes may be what these replies wait for.
    pub(super) fn before_replies(&mut self) -> io::Result<()> {
        let kept = self.own.before_replies();
        self.clients.take_failure().map_or(kept, Err)
    }

    /// Finds out who has ended, and who has come again.
    pub(super) fn check(&mut self) {
        let _ = self.clients.check();
    }

    /// Returns `true` if requests come over links, whose other side wakes no worker.
    pub(super) fn is_asked_over_links(&self) -> bool {
        self.clients.has_links()
    }
}

impl Drop for LocalPartition {
    fn drop(&mut self) {
        self.task_queue.close();
    }
}
