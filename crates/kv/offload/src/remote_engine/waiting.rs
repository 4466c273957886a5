//! The contract of a processing engine: waits for each answer.

use super::RemoteEngine;
use crate::engine;
use crate::{
    Answers, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics, Transaction,
};

/// Requests of a batch: many messages.
const BATCH_REQUESTS: usize = 1024;

impl RemoteEngine {
    /// Polls until there is an answer.
    pub(crate) fn wait<T>(&mut self, mut poll: impl FnMut(&mut Self) -> Option<T>) -> T {
        loop {
            if let Some(answer) = poll(self) {
                return answer;
            }
        }
    }
}

impl ProcessingEngine for RemoteEngine {
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        self.begin(batch, now_ms);
        self.wait(|engine| engine.poll(batch, answers).then_some(()));
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        self.begin_transaction(transaction, now_ms);
        self.wait(|engine| engine.poll_transaction(transaction, answers))
    }

    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        self.begin_scan(position, count, now_ms);
        self.wait(|engine| engine.poll_scan(keys))
    }

    /// The other side does it by itself.
    fn expire_some(&mut self, _: u64, _: usize) -> usize {
        0
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.begin_flush();
        let flushed = self.wait(Self::poll_flush);
        if flushed.is_ok() {
            self.refresh();
        }
        flushed
    }

    fn statistics(&self) -> Statistics {
        self.told.statistics
    }

    /// The other side executes a message while the answers to those before are looked at, and sleeps between batches,
    /// which costs it as much as two messages do.
    fn batch_requests(&self) -> usize {
        match self.overlaps {
            true => BATCH_REQUESTS,
            false => engine::BATCH_REQUESTS,
        }
    }

    fn refresh(&mut self) {
        self.begin_statistics();
        self.wait(|engine| engine.poll_statistics().then_some(()));
    }
}
