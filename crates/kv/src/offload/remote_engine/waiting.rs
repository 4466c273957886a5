//! The contract of a processing engine: waits for each answer.

use super::RemoteEngine;
use crate::{
    Answer, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics, Transaction,
};

impl ProcessingEngine for RemoteEngine {
    fn execute(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        self.begin(batch, now_ms);
        while !self.poll(batch, answers) {}
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) -> bool {
        self.begin_transaction(transaction, now_ms);
        loop {
            if let Some(is_executed) = self.poll_transaction(transaction, answers) {
                return is_executed;
            }
        }
    }

    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        self.begin_scan(position, count, now_ms);
        loop {
            if let Some(next) = self.poll_scan(keys) {
                return next;
            }
        }
    }

    /// The other side does it by itself.
    fn expire_some(&mut self, _: u64, _: usize) -> usize {
        0
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.begin_flush();
        let flushed = loop {
            if let Some(flushed) = self.poll_flush() {
                break flushed;
            }
        };
        if flushed.is_ok() {
            self.refresh_statistics();
        }
        flushed
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }

    fn refresh(&mut self) {
        self.refresh_statistics();
    }
}
