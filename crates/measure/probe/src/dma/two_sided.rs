//! Messages over a link, each confirmed by the peer's program: the initiator's side.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use overside_device::{Applied, Slice};
use overside_link::verbs::{Completion, Endpoint, QueuePair, RecvBatch, Verb, Work};

use super::lane::{self, FreeSlots, Lane};
use super::payload::PayloadPattern;
use super::plan::{ANSWER_BYTES, LINE};
use crate::closed_loop::{self, CompletedOperation, LoopParams, OperationQueue, Pass, Until};
use crate::failure::{Failure, FailureKind};

/// One queue pair's messages.
pub(super) struct TwoSided {
    endpoint: Arc<dyn Endpoint>,
    pair: Box<dyn QueuePair>,
    pattern: PayloadPattern,
    here: Vec<Slice>,
    filled: VecDeque<Work>,
    free: FreeSlots,
    /// Handed over and not answered, in order.
    unanswered: VecDeque<usize>,
    answered: u64,
    completions: Vec<Completion>,
    batch: RecvBatch,
}

impl TwoSided {
    pub(super) fn new(
        endpoint: &Arc<dyn Endpoint>,
        pair: Box<dyn QueuePair>,
        pattern: PayloadPattern,
    ) -> Self {
        let depth = pattern.plan.depth;
        Self {
            endpoint: Arc::clone(endpoint),
            pair,
            pattern,
            here: Vec::new(),
            filled: VecDeque::with_capacity(depth),
            free: FreeSlots::new(depth),
            unanswered: VecDeque::with_capacity(depth),
            answered: 0,
            completions: Vec::with_capacity(depth),
            batch: RecvBatch::new(),
        }
    }
}

impl OperationQueue for TwoSided {
    fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    fn fill(&mut self, count: usize, slots: &mut VecDeque<usize>) -> Result<(), Failure> {
        for _ in 0..count {
            let Some(slot) = self.free.take() else { break };
            self.filled.push_back(Work {
                tag: slot as u64,
                verb: Verb::Send { from: self.here[slot].clone() },
                inline: self.pattern.plan.inline,
            });
            slots.push_back(slot);
            self.unanswered.push_back(slot);
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<usize, Failure> {
        Ok(self.pair.post(&mut self.filled)?)
    }

    /// Polls. A message is complete when the peer has confirmed it.
    fn poll(&mut self) -> Result<usize, Failure> {
        let depth = self.pattern.plan.depth;
        self.pair.poll(&mut self.completions, depth)?;
        for completion in self.completions.drain(..) {
            completion.result.map_err(|error| {
                let message = format!("operation {}: {error}", completion.tag);
                Failure::new(FailureKind::Job, message)
            })?;
        }
        self.batch.clear();
        Ok(self.pair.receive(&mut self.batch, depth)?)
    }

    fn take(&mut self, _: bool, done: &mut Vec<CompletedOperation>) -> Result<(), Failure> {
        let handed_over = self.unanswered.len() - self.filled.len();
        let last = self.batch.iter().last().unwrap_or_default();
        let answer = <[u8; ANSWER_BYTES]>::try_from(last)
            .map_err(|_| Failure::wrong(0, "the peer's answer is not a count"))?;
        let total = u64::from_le_bytes(answer);
        let fresh = total.wrapping_sub(self.answered);
        if fresh > handed_over as u64 {
            return Err(Failure::wrong(0, "the peer confirms what was never sent"));
        }
        self.answered = total;
        for slot in self.unanswered.drain(..fresh as usize) {
            self.free.give(slot);
            done.push(CompletedOperation { slot, late: false });
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        lane::wait(&mut *self.pair, timeout)
    }

    fn withdraw(&mut self) {
        while self.filled.pop_back().is_some() {
            if let Some(slot) = self.unanswered.pop_back() {
                self.free.give_back(slot);
            }
        }
    }
}

impl Lane for TwoSided {
    fn run(&mut self, params: &LoopParams, until: Until) -> Result<Pass, Failure> {
        self.free = FreeSlots::new(self.pattern.plan.depth);
        closed_loop::run(self, params, until)
    }

    fn refill(&mut self, epoch: u64) -> Result<(), Failure> {
        self.pattern.begin(epoch);
        let size = self.pattern.plan.size;
        self.here = self.pattern.sources(|| {
            let region = self.endpoint.alloc(size, LINE);
            region.map_err(|error| Failure::new(FailureKind::Job, error.to_string()))
        })?;
        Ok(())
    }

    fn poison(&mut self) -> Result<(), Failure> {
        // Nothing but confirmations arrives here.
        Ok(())
    }

    fn check(&mut self, slot: usize) -> Result<(), Failure> {
        self.pattern.check_source(slot, &self.here[slot])
    }

    fn applied(&self) -> Applied {
        self.pair.applied().clone()
    }
}
