//! Contract of an engine that can be a replica and keeps its position in the primary's history.

use super::Snapshots;
use super::position::HistoryPosition;
use super::recovery::ReplayError;
use crate::StorageBackend;
use crate::{KeyHasher, Refusal};

/// StorageBackend that can be a replica and can have replicas.
pub trait Replicable: StorageBackend + Snapshots {
    /// Removes all keys. Requests until [`Replicable::end_copy`] are a part of another server's state, and
    /// are recognized as such after a restart.
    ///
    /// # Errors
    /// If the engine takes no writes now; then nothing was removed.
    fn begin_copy(&mut self) -> Result<(), Refusal>;

    /// The state is complete: that of a primary at `position`.
    fn end_copy(&mut self, position: &HistoryPosition);

    /// Executes encoded requests as of `now_ms`. Afterwards this is the state of a primary at `position`, or
    /// a part of it if `position` is `None`.
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

    /// Returns the position in a primary's history to which the state corresponds; `None` once
    /// something else was executed.
    fn position(&self) -> Option<HistoryPosition>;

    /// Discards the position: the state continues without a primary.
    fn forget_position(&mut self);
}
