//! Chunks that wait for a leg.

use std::collections::{BTreeSet, VecDeque};

/// Places in the stream of chunks that wait for a leg. Together they are no more than the window.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// For whichever leg takes them.
    pub(crate) shared: VecDeque<u64>,
    /// Bytes of those.
    pub(crate) shared_bytes: u64,
    pub(crate) cpu: VecDeque<u64>,
    pub(crate) device: VecDeque<u64>,
    /// For the CPU, before all others, because results wait for them.
    pub(crate) again: BTreeSet<u64>,
}

impl Queues {
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.is_empty()
            && self.cpu.is_empty()
            && self.device.is_empty()
            && self.again.is_empty()
    }
}
