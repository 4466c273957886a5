//! Batches of a queue that one stream has sent and that are not acknowledged.
//!
//! An acknowledgement has a producer and a number: it stands for all batches of that producer up to the
//! number. So each producer has a list of its own, in the order in which its batches were sent.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use overside_base::lock;

use crate::input::metadata::AcknowledgementMetadata;
use crate::queue::Queued;

/// Batches that a stream has sent and that are not acknowledged, and the position that it has
/// reached.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<SentBatches>);

#[derive(Default)]
struct SentBatches {
    /// Numbers and positions in the queue, by producer.
    sent: HashMap<Arc<str>, VecDeque<(u64, u64)>>,
    /// Positions of all batches in flight.
    positions: BTreeSet<u64>,
    /// The position behind the last batch that was sent or left out.
    next: u64,
}

impl InFlight {
    /// A batch is being sent.
    pub(crate) fn sent(&self, queued: &Queued) {
        let mut state = lock(&self.0);
        let batch = &queued.batch;
        let line = state.sent.entry(Arc::clone(&batch.producer)).or_default();
        line.push_back((batch.sequence, queued.position));
        state.positions.insert(queued.position);
        state.next = queued.position + 1;
    }

    /// A batch is not sent: the stream does not want it.
    pub(crate) fn left_out(&self, queued: &Queued) {
        lock(&self.0).next = queued.position + 1;
    }

    /// Returns the positions of the acknowledged batches, without those that were not sent.
    pub(crate) fn acknowledge(&self, acknowledgement: &AcknowledgementMetadata) -> Vec<u64> {
        let name = acknowledgement.producer.as_deref().unwrap_or_default();
        let mut state = lock(&self.0);
        let Some(line) = state.sent.get_mut(name) else {
            return Vec::new();
        };
        let is_covered = |(sequence, _): &(u64, u64)| *sequence <= acknowledgement.acknowledged;
        let mut positions = Vec::new();
        while let Some((_, position)) = line.pop_front_if(|one| is_covered(one)) {
            positions.push(position);
        }
        if line.is_empty() {
            state.sent.remove(name);
        }
        for position in &positions {
            state.positions.remove(position);
        }
        positions
    }

    /// Position of the first batch that is not done with.
    pub(crate) fn first(&self) -> u64 {
        let state = lock(&self.0);
        state.positions.first().copied().unwrap_or(state.next)
    }

    /// Returns `true` if all batches that were sent are acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).positions.is_empty()
    }
}
