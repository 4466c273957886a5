//! Messages over a link, each confirmed by the peer's program.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use overside_device::threads::ThreadClock;
use overside_device::{Applied, Slice};
use overside_link::verbs::{Completion, Endpoint, Inbox, Messages, QueuePair, Verb, Work};

use super::lane::{self, Done, Lane, misplaced};
use super::one_sided::Plan;
use crate::sample::{Failure, Kind};
use crate::test::Reaping;

/// How long the peer sleeps before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How often it polls before it looks.
const POLLS_A_LOOK: u32 = 256;
/// Bytes of a confirmation: how many messages have been received so far.
pub(crate) const ANSWER_BYTES: usize = 8;
/// The most messages that the peer takes at a time.
const TAKE: usize = 256;

/// What the peer's thread and the initiator's share.
#[derive(Default)]
pub(crate) struct Answering {
    /// Nobody needs it any more.
    stop: AtomicBool,
    /// Messages are copied into `kept`.
    keep: AtomicBool,
    kept: Mutex<VecDeque<Vec<u8>>>,
    /// CPU time of the peer's thread.
    pub clock: ThreadClock,
}

impl Answering {
    /// Lets the peer's thread end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The peer's program: receives and answers until it is stopped or the link is lost.
///
/// # Errors
/// What ended it, if nobody stopped it.
pub(crate) fn answer(
    mut pair: Box<dyn QueuePair>,
    shared: &Answering,
    (size, depth): (usize, usize),
    reaping: Reaping,
) -> Result<(), Failure> {
    let (mut inbox, mut received) = (Inbox::new(), 0u64);
    let stopped = || shared.stop.load(Ordering::Acquire);
    while !stopped() {
        inbox.clear();
        let mut taken = 0;
        for _ in 0..POLLS_A_LOOK {
            taken = pair.receive(&mut inbox, TAKE)?;
            if taken > 0 || reaping == Reaping::Event {
                break;
            }
            std::hint::spin_loop();
        }
        if taken == 0 {
            if reaping == Reaping::Event {
                lane::wait(&mut *pair, LOOK)?;
            }
            continue;
        }
        if inbox.as_bytes().len() != taken * size {
            return Err(misplaced(
                0,
                "a message came that is not as long as was sent",
            ));
        }
        received += taken as u64;
        if shared.keep.load(Ordering::Acquire) {
            let mut kept = shared.kept();
            kept.extend(inbox.iter().map(<[u8]>::to_vec));
            let surplus = kept.len().saturating_sub(depth);
            kept.drain(..surplus);
        }
        let answer = received.to_le_bytes();
        let Some(message) = Messages::one(&answer) else {
            continue;
        };
        while pair.send(message)? == 0 && !stopped() {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// One queue pair's messages.
pub(crate) struct TwoSided {
    endpoint: Arc<dyn Endpoint>,
    pair: Box<dyn QueuePair>,
    plan: Plan,
    shared: Arc<Answering>,
    here: Vec<Slice>,
    offered: VecDeque<Work>,
    /// Handed over and not answered, in order.
    unanswered: VecDeque<usize>,
    answered: u64,
    completions: Vec<Completion>,
    inbox: Inbox,
    /// The last places handed over since the buffers were filled, as many as there are.
    order: VecDeque<usize>,
}

impl TwoSided {
    pub(crate) fn new(
        endpoint: &Arc<dyn Endpoint>,
        pair: Box<dyn QueuePair>,
        plan: Plan,
        shared: Arc<Answering>,
    ) -> Self {
        Self {
            endpoint: Arc::clone(endpoint),
            pair,
            plan,
            shared,
            here: Vec::new(),
            offered: VecDeque::with_capacity(plan.depth),
            unanswered: VecDeque::with_capacity(plan.depth),
            answered: 0,
            completions: Vec::with_capacity(plan.depth),
            inbox: Inbox::new(),
            order: VecDeque::new(),
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
            inline: self.plan.inline,
        });
        self.unanswered.push_back(slot);
        Ok(())
    }

    fn ring(&mut self) -> Result<usize, Failure> {
        let taken = self.pair.post(&mut self.offered)?;
        Ok(taken)
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), Failure> {
        self.pair.poll(&mut self.completions, self.plan.depth)?;
        for completion in self.completions.drain(..) {
            completion.result.map_err(|error| {
                Failure::new(Kind::Job, format!("operation {}: {error}", completion.tag))
            })?;
        }
        self.inbox.clear();
        if self.pair.receive(&mut self.inbox, self.plan.depth)? == 0 {
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
            self.order.push_back(slot);
            done.push(Done { slot, late: false });
        }
        while self.order.len() > self.plan.depth {
            self.order.pop_front();
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        lane::wait(&mut *self.pair, timeout)
    }

    fn fill(&mut self, epoch: u64) -> Result<(), Failure> {
        self.plan.mark.epoch = epoch;
        self.here.clear();
        for slot in 0..self.plan.depth {
            if let (false, Some(first)) = (self.plan.distinct, self.here.first()) {
                let first = first.clone();
                self.here.push(first);
                continue;
            }
            let mut region = (self.endpoint.alloc(self.plan.size, 64))
                .map_err(|error| Failure::new(Kind::Job, error.to_string()))?;
            region.copy_from_slice(&self.plan.payload(slot));
            self.here.push(region.share());
        }
        self.spoil()
    }

    fn spoil(&mut self) -> Result<(), Failure> {
        self.order.clear();
        self.shared.kept().clear();
        Ok(())
    }

    fn keep(&mut self, keep: bool) {
        self.shared.keep.store(keep, Ordering::Release);
    }

    fn remembers(&self) -> bool {
        false
    }

    fn check(&mut self, slot: usize) -> Result<(), Failure> {
        let Some(place) = self.order.iter().rposition(|one| *one == slot) else {
            return Err(misplaced(slot, "it was not answered"));
        };
        let payload = self.plan.payload(slot);
        let kept = self.shared.kept();
        // Both end with the message sent last.
        let behind = self.order.len() - place;
        let there = kept.len().checked_sub(behind).and_then(|at| kept.get(at));
        if there != Some(&payload) {
            return Err(misplaced(slot, "the payload is not at the peer"));
        }
        Ok(())
    }

    fn applied(&self) -> Applied {
        self.pair.applied().clone()
    }
}
