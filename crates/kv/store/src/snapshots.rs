//! Snapshots of an engine that continues meanwhile.

use crate::ProcessingEngine;

/// Engine whose state can be written while it continues.
pub trait Snapshots: ProcessingEngine {
    /// Begins a snapshot of the state as it is now. One that is under way for the same caller ends;
    /// false, and nothing was begun, if one is under way for another.
    fn begin_snapshot(&mut self) -> bool;

    /// Appends the next requests, encoded, that recreate the state at the beginning of the snapshot:
    /// about `max_bytes` of them, and all that had to be kept because it has changed since. Says
    /// whether that was the last.
    fn snapshot_step(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> bool;

    /// Ends a snapshot that is not complete.
    fn cancel_snapshot(&mut self);

    /// Keeps expired keys, hidden, instead of removing them when they are met: only reads are
    /// executed then. For a replica, whose clock may be ahead of its primary's.
    fn keep_expired(&mut self, keeps: bool);
}
