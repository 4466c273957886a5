//! What a replica executes is kept together with how far it is in its primary's history.

use super::frame::Kind;
use super::position::HistoryPosition;
use super::recovery::{Recovery, Replay, ReplayError};
use super::{Journaled, Snapshots};
use crate::server::Backing;
use crate::{KeyHasher, Refusal};

/// History that is followed between two positions that are written although nothing has changed.
const POSITION_INTERVAL_BYTES: u64 = 4096;

/// What a replica can be, and what can have replicas.
pub trait Replicable: Backing + Snapshots {
    /// Removes everything. What is executed until [`Replicable::end_copy`] is a part of another
    /// server's state, and is known as such after a restart.
    ///
    /// # Errors
    /// If the engine takes no writes now; nothing was removed then.
    fn begin_copy(&mut self) -> Result<(), Refusal>;

    /// The state is complete: that of a primary at `position`.
    fn end_copy(&mut self, position: &HistoryPosition);

    /// Executes encoded requests as of `now_ms`. What is here is then the state of a primary at
    /// `position`; none: a part of it.
    ///
    /// # Errors
    /// [`ReplayError`]; nothing was executed if writes are refused, and a part otherwise.
    fn replay(
        &mut self,
        requests: &[u8],
        now_ms: u64,
        position: Option<&HistoryPosition>,
        hasher: &KeyHasher,
    ) -> Result<(), ReplayError>;

    /// Where in the history of a primary the state is; none once something else was executed.
    fn position(&self) -> Option<HistoryPosition>;

    /// The state goes on without a primary.
    fn forget_position(&mut self);
}

/// What a journal has of another server.
#[derive(Debug)]
pub(super) struct Copied {
    /// What is here is a part of that server's state: no snapshot of it is written.
    pub is_partial: bool,
    pub position: Option<HistoryPosition>,
    /// Offset of the position that was written last.
    written_offset: u64,
}

impl Copied {
    pub fn new(recovered: &Recovery) -> Self {
        let position = recovered.position.clone().filter(|_| !recovered.is_partial);
        Self {
            is_partial: recovered.is_partial,
            written_offset: position.as_ref().map_or(0, |position| position.offset),
            position,
        }
    }
}

impl<E: Snapshots> Journaled<E> {
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

impl<E: Snapshots> Replicable for Journaled<E> {
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
        let mut replay = Replay {
            engine: &mut self.engine,
            hasher,
        };
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

/// Snapshots of the engine for somebody else, while none is written here.
impl<E: Snapshots> Snapshots for Journaled<E> {
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
