//! The way from a worker to one partition: it has the partition itself, or asks for it by messages.

use std::io;

use super::Partitioned;
use crate::RemoteEngine;
use crate::backing::UNREACHABLE;
use crate::{
    Answers, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics, Transaction,
};
use overside_kv_backend::StorageBackend;

/// One partition, as a worker reaches it. While the worker waits for an answer, it serves others.
pub(in super::super) struct Way<'w> {
    pub worker: &'w mut Partitioned,
    pub partition: usize,
}

impl Way<'_> {
    /// The partition, if the worker has it itself.
    fn own(&mut self) -> Option<&mut (dyn StorageBackend + Send + 'static)> {
        let inside = self.worker.inside.as_mut();
        inside.filter(|inside| inside.number == self.partition).map(|inside| inside.own.as_mut())
    }

    /// Begins something on the partition of another thread, and polls for its end.
    fn ask<T>(
        &mut self,
        begin: impl FnOnce(&mut RemoteEngine),
        poll: impl FnMut(&mut RemoteEngine) -> Option<T>,
    ) -> Option<T> {
        self.worker.ask(self.partition, begin, poll)
    }

    /// The partition's last report.
    pub(in super::super) fn told<T>(&self, of: impl FnOnce(&RemoteEngine) -> T) -> Option<T> {
        self.worker.peers[self.partition].as_ref().map(|peer| of(&peer.remote))
    }
}

impl ProcessingEngine for Way<'_> {
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        if let Some(own) = self.own() {
            return own.execute(batch, now_ms, answers);
        }
        self.ask(
            |remote| remote.begin(batch, now_ms),
            |remote| remote.poll(batch, answers).then_some(()),
        );
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        if let Some(own) = self.own() {
            return own.execute_transaction(transaction, now_ms, answers);
        }
        let executed = self.ask(
            |remote| remote.begin_transaction(transaction, now_ms),
            |remote| remote.poll_transaction(transaction, answers),
        );
        executed.unwrap_or(true)
    }

    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        if let Some(own) = self.own() {
            return own.scan(position, count, now_ms, keys);
        }
        let next = self.ask(
            |remote| remote.begin_scan(position, count, now_ms),
            |remote| remote.poll_scan(keys),
        );
        next.unwrap_or(Err(Refusal::Unreachable))
    }

    /// Done by the thread that has the partition.
    fn expire_some(&mut self, _: u64, _: usize) -> usize {
        0
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        if let Some(own) = self.own() {
            return own.flush();
        }
        let flushed = self.ask(RemoteEngine::begin_flush, RemoteEngine::poll_flush);
        flushed.unwrap_or(Err(Refusal::Unreachable))
    }

    fn statistics(&self) -> Statistics {
        self.told(RemoteEngine::statistics).unwrap_or_default()
    }

    /// Asks for the partition's report.
    fn refresh(&mut self) {
        self.ask(RemoteEngine::begin_statistics, |remote| remote.poll_statistics().then_some(()));
    }
}

/// The partition of a relay, for the responder that answers from it.
impl StorageBackend for Way<'_> {
    /// The thread with the partition keeps writes before it answers.
    fn before_replies(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn tick(&mut self, _: u64) -> bool {
        false
    }

    /// Begins to save; the report says when all is written.
    fn save(&mut self, _: bool) -> Result<(), String> {
        let begun = self.ask(RemoteEngine::begin_save, RemoteEngine::poll_save);
        begun.unwrap_or_else(|| Err(UNREACHABLE.into()))
    }

    fn last_save_s(&self) -> u64 {
        self.told(RemoteEngine::last_save_s).unwrap_or_default()
    }

    fn info(&self) -> Vec<(String, String)> {
        self.told(RemoteEngine::told_info).unwrap_or_default()
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
