//! A worker's own partition, and the others whom it answers from it.

use std::io;
use std::sync::Arc;

use super::task_queue::TaskQueue;
use crate::Responder;
use overside_kv_backend::StorageBackend;

/// A worker's own partition.
pub(super) struct LocalPartition {
    pub own: Box<dyn StorageBackend + Send>,
    responders: Vec<Responder>,
    task_queue: Arc<TaskQueue>,
    /// Writes could not be kept when others were answered: also those whose replies to this worker's
    /// clients wait.
    failure: Option<io::Error>,
}

impl LocalPartition {
    pub(super) fn new(
        own: Box<dyn StorageBackend + Send>,
        responders: Vec<Responder>,
        task_queue: Arc<TaskQueue>,
    ) -> Self {
        Self { own, responders, task_queue, failure: None }
    }

    /// Answers the requests of other workers. Returns `true` if there were any.
    pub(super) fn serve(&mut self, now_ms: u64) -> bool {
        let own = &mut *self.own;
        let failure = &mut self.failure;
        let mut any = false;
        self.responders.retain_mut(|responder| {
            let polled = responder.poll(own, now_ms);
            any |= matches!(polled, Ok(true));
            if let Some(error) = responder.take_failure() {
                *failure = Some(error);
            }
            is_there(polled)
        });
        if self.task_queue.has_some() {
            any = true;
            for letter in self.task_queue.take() {
                letter(own);
            }
        }
        any
    }

    /// Does the work of [`StorageBackend::before_replies`] for the replies to this worker's clients. Also
    /// returns an error that came up when other workers were answered.
    pub(super) fn before_replies(&mut self) -> io::Result<()> {
        let kept = self.own.before_replies();
        self.failure.take().map_or(kept, Err)
    }

    /// Finds out who has ended.
    pub(super) fn check(&mut self) {
        self.responders.retain_mut(|responder| is_there(responder.check()));
    }
}

impl Drop for LocalPartition {
    fn drop(&mut self) {
        self.task_queue.close();
    }
}

fn is_there<T>(result: Result<T, crate::OffloadError>) -> bool {
    if let Err(error) = &result {
        tracing::error!("another worker is not answered any more: {error}");
    }
    result.is_ok()
}
