//! Contract of an engine that can be a replica and keeps its position in the primary's history.

use super::Snapshots;
use super::position::HistoryPosition;
use super::recovery::ReplayError;
use crate::StorageBackend;
use crate::{KeyHasher, Refusal};

/// StorageBackend that can be a replica and can have replicas.
pub trait Replicable: StorageBackend + Snapshots {
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

    /// Returns the position in a primary's history to which the state corresponds; `None` once
    /// something else was executed.
    fn position(&self) -> Option<HistoryPosition>;

    /// The state goes on without a primary.
    fn forget_position(&mut self);
}
