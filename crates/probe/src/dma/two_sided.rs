//! Messages over a link, each confirmed by the peer's program: the initiator's side.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use overside_device::{Applied, Slice};
use overside_link::verbs::{Completion, Endpoint, Inbox, QueuePair, Verb, Work};

use super::failure::{Failure, Kind, misplaced};
use super::lane::{self, Done, Lane};
use super::plan::{ANSWER_BYTES, Filling, LINE};

/// One queue pair's messages.
pub(super) struct TwoSided {
    endpoint: Arc<dyn Endpoint>,
    pair: Box<dyn QueuePair>,
    filling: Filling,
    here: Vec<Slice>,
    offered: VecDeque<Work>,
    /// Handed over and not answered, in order.
    unanswered: VecDeque<usize>,
    answered: u64,
    completions: Vec<Completion>,
    inbox: Inbox,
}

impl TwoSided {
    pub(super) fn new(
        endpoint: &Arc<dyn Endpoint>,
        pair: Box<dyn QueuePair>,
        filling: Filling,
    ) -> Self {
        let depth = filling.plan.depth;
        Self {
            endpoint: Arc::clone(endpoint),
            pair,
            filling,
            here: Vec::new(),
            offered: VecDeque::with_capacity(depth),
            unanswered: VecDeque::with_capacity(depth),
            answered: 0,
            completions: Vec::with_capacity(depth),
            inbox: Inbox::new(),
        }
    }
}

impl Lane for TwoSided {
    fn offer(&mut self, slot: usize) -> Result<(), Failure> {
        self.offered.push_back(Work {
            tag: slot as u64,
            verb: Verb::Send {
                from: self.here[slot].clone(),
            },
            inline: self.filling.plan.inline,
        });
        self.unanswered.push_back(slot);
        Ok(())
    }

    fn ring(&mut self) -> Result<usize, Failure> {
        let taken = self.pair.post(&mut self.offered)?;
        Ok(taken)
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), Failure> {
        let depth = self.filling.plan.depth;
        self.pair.poll(&mut self.completions, depth)?;
        for completion in self.completions.drain(..) {
            completion.result.map_err(|error| {
                Failure::new(Kind::Job, format!("operation {}: {error}", completion.tag))
            })?;
        }
        self.inbox.clear();
        if self.pair.receive(&mut self.inbox, depth)? == 0 {
            return Ok(());
        }
        let handed_over = self.unanswered.len() - self.offered.len();
        let last = self.inbox.iter().last().unwrap_or_default();
        let answer = <[u8; ANSWER_BYTES]>::try_from(last)
            .map_err(|_| misplaced(0, "the peer's answer is not a count"))?;
        let total = u64::from_le_bytes(answer);
        let fresh = total.wrapping_sub(self.answered);
        if fresh > handed_over as u64 {
            return Err(misplaced(0, "the peer confirms what was never sent"));
        }
        self.answered = total;
        for slot in self.unanswered.drain(..fresh as usize) {
            done.push(Done { slot, late: false });
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        lane::wait(&mut *self.pair, timeout)
    }

    fn fill(&mut self, epoch: u64) -> Result<(), Failure> {
        self.filling.begin(epoch);
        self.here.clear();
        let plan = self.filling.plan;
        for slot in 0..plan.depth {
            if let (false, Some(first)) = (plan.distinct, self.here.first()) {
                let first = first.clone();
                self.here.push(first);
                continue;
            }
            let mut region = (self.endpoint.alloc(plan.size, LINE))
                .map_err(|error| Failure::new(Kind::Job, error.to_string()))?;
            region.copy_from_slice(&self.filling.payload(slot));
            self.here.push(region.share());
        }
        Ok(())
    }

    fn spoil(&mut self) -> Result<(), Failure> {
        // Nothing but confirmations arrives here.
        Ok(())
    }

    fn check(&mut self, slot: usize) -> Result<(), Failure> {
        if self.here[slot][..] != self.filling.payload(slot)[..] {
            let what = "the initiator's buffer, which is only read, was written";
            return Err(misplaced(slot, what));
        }
        Ok(())
    }

    fn applied(&self) -> Applied {
        self.pair.applied().clone()
    }
}
