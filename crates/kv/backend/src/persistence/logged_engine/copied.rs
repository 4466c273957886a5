//! Keeps the requests that a replica executes, together with its position in the primary's history.

use super::LoggedEngine;
use crate::persistence::frame::Kind;
use crate::persistence::{HistoryPosition, Recovery, Replay, ReplayError, Replicable, Snapshots};
use crate::{KeyHasher, Refusal};

/// History that is followed between two positions that are written although nothing has changed.
const POSITION_INTERVAL_BYTES: u64 = 4096;

/// State of a journal that follows a primary.
#[derive(Debug)]
pub(super) struct Copied {
    /// `true` if the engine has only a part of the primary's state. No snapshot of it is written.
    pub is_partial: bool,
    pub position: Option<HistoryPosition>,
    /// Offset of the position that was written last.
    written_offset: u64,
}

impl Copied {
    pub(super) fn new(recovered: &Recovery) -> Self {
        let position = recovered.position.clone().filter(|_| !recovered.is_partial);
        Self {
            is_partial: recovered.is_partial,
            written_offset: position.as_ref().map_or(0, |position| position.offset),
            position,
        }
    }
}

impl<E: Snapshots> LoggedEngine<E> {
    /// Logs requests of a primary, which were executed.
    fn log_followed(&mut self, requests: &[u8], now_ms: u64, position: Option<&HistoryPosition>) {
        let is_first = self.copied.position.is_none();
        self.copied.position = position.cloned();
        let Some(position) = position else {
            if let Some(log) = &mut self.log {
                log.add(Kind::Copy, now_ms, &[requests]);
            }
            return;
        };
        let distance = position.offset.saturating_sub(self.copied.written_offset);
        if requests.is_empty() && !is_first && distance < POSITION_INTERVAL_BYTES {
            return;
        }
        self.copied.written_offset = position.offset;
        if let Some(log) = &mut self.log {
            log.add_position(position, requests, now_ms);
        }
    }
}

impl<E: Snapshots> Replicable for LoggedEngine<E> {
    fn begin_copy(&mut self) -> Result<(), Refusal> {
        self.remove_all(Kind::CopyBegin)?;
        self.copied.is_partial = true;
        Ok(())
    }

    fn end_copy(&mut self, position: &HistoryPosition) {
        self.copied.is_partial = false;
        self.copied.position = Some(position.clone());
        self.copied.written_offset = position.offset;
        self.has_unanswered = true;
        if let Some(log) = &mut self.log {
            log.mark_now(Kind::CopyEnd);
            log.add_position(position, &[], log.now_ms());
        }
    }

    fn replay(
        &mut self,
        requests: &[u8],
        now_ms: u64,
        position: Option<&HistoryPosition>,
        hasher: &KeyHasher,
    ) -> Result<(), ReplayError> {
        if self.failure.is_some() {
            return Err(ReplayError::Refused(Refusal::ReadOnly));
        }
        let mut replay = Replay { engine: &mut self.engine, hasher };
        self.changes += replay.execute_payload(requests, now_ms)?;
        self.has_unanswered = true;
        self.log_followed(requests, now_ms, position);
        Ok(())
    }

    fn position(&self) -> Option<HistoryPosition> {
        self.copied.position.clone()
    }

    fn forget_position(&mut self) {
        self.copied.position = None;
    }
}

/// Snapshots of the engine for another reader, while none is written here.
impl<E: Snapshots> Snapshots for LoggedEngine<E> {
    fn begin_snapshot(&mut self) -> bool {
        self.is_lent = self.snapshot.is_none() && self.engine.begin_snapshot();
        self.is_lent
    }

    fn snapshot_step(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> bool {
        let is_last = !self.is_lent || self.engine.snapshot_step(out, max_bytes);
        self.is_lent &= !is_last;
        is_last
    }

    fn cancel_snapshot(&mut self) {
        if std::mem::take(&mut self.is_lent) {
            self.engine.cancel_snapshot();
        }
    }

    fn keep_expired(&mut self, keeps: bool) {
        self.engine.keep_expired(keeps);
    }
}
