//! Reads and writes of the peer's memory over a link: the initiator's side.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use overside_device::{Applied, Region, Slice};
use overside_link::verbs::{
    Completion, Endpoint, QueuePair, Remote, RemoteSlice, Token, Verb, Work,
};

use super::lane::{self, FreeSlots, Lane};
use super::plan::{Filling, LINE, Operation, Plan};
use crate::closed_loop::{self, Done, LoopParams, OperationQueue, Pass, Until};
use crate::failure::{Failure, FailureKind};

/// This side's memory of a place.
enum Here {
    /// Written from.
    From(Slice),
    /// Read into; `None` while it is the link's.
    Into(Option<Region>),
}

/// One queue pair's reads or writes.
pub(super) struct OneSided {
    endpoint: Arc<dyn Endpoint>,
    pair: Box<dyn QueuePair>,
    filling: Filling,
    there: Vec<RemoteSlice>,
    here: Vec<Here>,
    filled: VecDeque<Work>,
    free: FreeSlots,
    completions: Vec<Completion>,
}

impl OneSided {
    /// Imports the memory that the peer exported for this thread.
    pub(super) fn new(
        endpoint: &Arc<dyn Endpoint>,
        pair: Box<dyn QueuePair>,
        filling: Filling,
        token: &[u8],
    ) -> Result<Self, Failure> {
        let plan = filling.plan;
        let remote = endpoint.import(&Token::from_bytes(token)?)?;
        let there = (0..plan.depth)
            .map(|slot| match (plan.operation, plan.distinct) {
                // A read of the same buffer reads the same place.
                (Operation::Read, false) => place(&remote, &plan, 0),
                _ => place(&remote, &plan, slot),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            endpoint: Arc::clone(endpoint),
            pair,
            filling,
            there,
            here: Vec::new(),
            filled: VecDeque::with_capacity(plan.depth),
            free: FreeSlots::new(plan.depth),
            completions: Vec::with_capacity(plan.depth),
        })
    }

    fn alloc(&self) -> Result<Region, Failure> {
        self.endpoint
            .alloc(self.filling.plan.size, LINE)
            .map_err(|error| Failure::new(FailureKind::Job, error.to_string()))
    }
}

fn place(remote: &Remote, plan: &Plan, slot: usize) -> Result<RemoteSlice, Failure> {
    let at = (slot * plan.stride()) as u64;
    remote
        .slice(at..at + plan.size as u64)
        .map_err(|error| Failure::new(FailureKind::Job, error.to_string()))
}

impl OperationQueue for OneSided {
    fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    fn fill(&mut self, count: usize, slots: &mut VecDeque<usize>) -> Result<(), Failure> {
        for _ in 0..count {
            let Some(slot) = self.free.take() else { break };
            let there = self.there[slot].clone();
            let verb = match &mut self.here[slot] {
                Here::From(from) => Verb::Write {
                    from: from.clone(),
                    to: there,
                },
                Here::Into(into) => Verb::Read {
                    from: there,
                    into: into.take().ok_or_else(|| {
                        let message = format!("place {slot} is in flight");
                        Failure::new(FailureKind::Internal, message)
                    })?,
                },
            };
            self.filled.push_back(Work {
                tag: slot as u64,
                verb,
                inline: self.filling.plan.inline,
            });
            slots.push_back(slot);
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<usize, Failure> {
        Ok(self.pair.post(&mut self.filled)?)
    }

    fn poll(&mut self) -> Result<usize, Failure> {
        let depth = self.filling.plan.depth;
        Ok(self.pair.poll(&mut self.completions, depth)?)
    }

    fn take(&mut self, _: bool, done: &mut Vec<Done>) -> Result<(), Failure> {
        let size = self.filling.plan.size;
        for completion in self.completions.drain(..) {
            let slot = completion.tag as usize;
            let moved = completion.result.map_err(|error| {
                Failure::new(FailureKind::Job, format!("operation {slot}: {error}"))
            })?;
            if moved != size as u64 {
                let message = format!("{moved} bytes were moved, not {size}");
                return Err(Failure::wrong(slot, &message));
            }
            match self.here.get_mut(slot) {
                Some(Here::From(_)) => {}
                Some(Here::Into(into @ None)) => *into = completion.destination,
                _ => return Err(Failure::wrong(slot, "it completed and was not in flight")),
            }
            self.free.give(slot);
            done.push(Done {
                slot,
                late: completion.late,
            });
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        lane::wait(&mut *self.pair, timeout)
    }

    fn withdraw(&mut self) {
        while let Some(work) = self.filled.pop_back() {
            let slot = work.tag as usize;
            if let Verb::Read { into, .. } = work.verb {
                self.here[slot] = Here::Into(Some(into));
            }
            self.free.give_back(slot);
        }
    }
}

impl Lane for OneSided {
    fn run(&mut self, params: &LoopParams, until: Until) -> Result<Pass, Failure> {
        self.free = FreeSlots::new(self.filling.plan.depth);
        closed_loop::run(self, params, until)
    }

    fn refill(&mut self, epoch: u64) -> Result<(), Failure> {
        self.filling.begin(epoch);
        self.here.clear();
        let plan = self.filling.plan;
        let mut shared: Option<Slice> = None;
        for slot in 0..plan.depth {
            let here = if plan.operation == Operation::Read {
                Here::Into(Some(self.alloc()?))
            } else if let (false, Some(shared)) = (plan.distinct, &shared) {
                Here::From(shared.clone())
            } else {
                let mut region = self.alloc()?;
                region.copy_from_slice(&self.filling.payload(slot));
                let slice = region.share();
                shared = Some(slice.clone());
                Here::From(slice)
            };
            self.here.push(here);
        }
        self.poison()
    }

    fn poison(&mut self) -> Result<(), Failure> {
        for (slot, here) in self.here.iter_mut().enumerate() {
            match here {
                Here::Into(Some(into)) => into.copy_from_slice(&self.filling.spoilt(slot)),
                Here::Into(None) => return Err(Failure::wrong(slot, "it did not come back")),
                Here::From(_) => {}
            }
        }
        Ok(())
    }

    fn check(&mut self, slot: usize) -> Result<(), Failure> {
        let payload = self.filling.payload(slot);
        match &self.here[slot] {
            Here::From(from) if from[..] != payload[..] => Err(Failure::wrong(
                slot,
                "the initiator's buffer, which is only read, was written",
            )),
            Here::Into(Some(into)) if into[..] != payload[..] => {
                Err(Failure::wrong(slot, "the payload is not at the initiator"))
            }
            Here::Into(None) => Err(Failure::wrong(slot, "it did not come back")),
            Here::From(_) | Here::Into(Some(_)) => Ok(()),
        }
    }

    fn applied(&self) -> Applied {
        self.pair.applied().clone()
    }
}
