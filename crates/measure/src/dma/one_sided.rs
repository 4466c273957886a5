//! Reads and writes of the peer's memory over a link.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use overside_device::{Applied, Region, Slice};
use overside_link::verbs::{
    Access, Completion, Endpoint, Exported, QueuePair, Remote, RemoteSlice, Verb, Work,
};

use super::lane::{self, Done, Lane, misplaced};
use super::payload::{Mark, spoilt};
use crate::sample::{Failure, Kind};

/// Places begin at multiples of this, so that no two share a cache line.
const LINE: usize = 64;

/// What a lane is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Bytes of one operation.
    pub size: usize,
    /// Places.
    pub depth: usize,
    /// Each place has a payload of its own; else all have one.
    pub distinct: bool,
    /// Payloads are posted inline.
    pub inline: bool,
    /// What payloads are made from.
    pub mark: Mark,
}

impl Plan {
    /// The payload of a place.
    pub(crate) fn payload(&self, slot: usize) -> Vec<u8> {
        let slot = if self.distinct { slot } else { 0 };
        self.mark.payload(slot, self.size)
    }

    /// Bytes from one place to the next in memory that several share.
    fn stride(&self) -> usize {
        self.size.next_multiple_of(LINE)
    }

    /// Bytes of exported memory.
    pub(crate) fn exported_bytes(&self) -> usize {
        self.stride() * self.depth
    }
}

/// This side's memory of a place.
enum Here {
    /// Written from.
    From(Slice),
    /// Read into; `None` while it is the link's.
    Into(Option<Region>),
}

/// One queue pair's reads or writes.
pub(crate) struct OneSided {
    endpoint: Arc<dyn Endpoint>,
    pair: Box<dyn QueuePair>,
    plan: Plan,
    reads: bool,
    /// The peer's memory, as the peer sees it.
    exported: Exported,
    there: Vec<RemoteSlice>,
    here: Vec<Here>,
    offered: VecDeque<Work>,
    completions: Vec<Completion>,
}

impl OneSided {
    /// Exports memory at the peer and imports it here.
    pub(crate) fn new(
        endpoint: &Arc<dyn Endpoint>,
        peer: &Arc<dyn Endpoint>,
        pair: Box<dyn QueuePair>,
        plan: Plan,
        reads: bool,
    ) -> Result<Self, Failure> {
        let access = if reads { Access::Read } else { Access::Write };
        let exported = peer.export(plan.exported_bytes(), access)?;
        let remote = endpoint.import(exported.token())?;
        let there = (0..plan.depth)
            .map(|slot| part(&remote, slot * plan.stride(), plan.size))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            endpoint: Arc::clone(endpoint),
            pair,
            plan,
            reads,
            exported,
            there,
            here: Vec::new(),
            offered: VecDeque::with_capacity(plan.depth),
            completions: Vec::with_capacity(plan.depth),
        })
    }

    fn alloc(&self) -> Result<Region, Failure> {
        self.endpoint
            .alloc(self.plan.size, LINE)
            .map_err(|error| Failure::new(Kind::Job, error.to_string()))
    }

    fn put(&self, slot: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.exported
            .write(slot * self.plan.stride(), bytes)
            .map_err(|error| Failure::new(Kind::Internal, error.to_string()))
    }

    /// What the peer sees in a place of its memory.
    fn seen(&self, slot: usize) -> Result<Vec<u8>, Failure> {
        let mut seen = vec![0; self.plan.size];
        self.exported
            .read(slot * self.plan.stride(), &mut seen)
            .map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
        Ok(seen)
    }
}

fn part(remote: &Remote, at: usize, len: usize) -> Result<RemoteSlice, Failure> {
    remote
        .slice(at as u64..(at + len) as u64)
        .map_err(|error| Failure::new(Kind::Internal, error.to_string()))
}

impl Lane for OneSided {
    fn offer(&mut self, slot: usize) -> Result<(), Failure> {
        let there = self.there[slot].clone();
        let verb = match &mut self.here[slot] {
            Here::From(from) => Verb::Write {
                from: from.clone(),
                to: there,
            },
            Here::Into(into) => Verb::Read {
                from: there,
                into: into.take().ok_or_else(|| {
                    Failure::new(Kind::Internal, format!("place {slot} is in flight"))
                })?,
            },
        };
        self.offered.push_back(Work {
            tag: slot as u64,
            verb,
            inline: self.plan.inline,
        });
        Ok(())
    }

    fn ring(&mut self) -> Result<usize, Failure> {
        Ok(self.pair.post(&mut self.offered)?)
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), Failure> {
        self.pair.poll(&mut self.completions, self.plan.depth)?;
        for completion in self.completions.drain(..) {
            let slot = completion.tag as usize;
            let moved = completion
                .result
                .map_err(|error| Failure::new(Kind::Job, format!("operation {slot}: {error}")))?;
            if moved != self.plan.size as u64 {
                let message = format!("{moved} bytes were moved, not {}", self.plan.size);
                return Err(misplaced(slot, &message));
            }
            match self.here.get_mut(slot) {
                Some(Here::From(_)) => {}
                Some(Here::Into(into @ None)) => *into = completion.destination,
                _ => return Err(misplaced(slot, "it completed and was not in flight")),
            }
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

    fn fill(&mut self, epoch: u64) -> Result<(), Failure> {
        self.plan.mark.epoch = epoch;
        self.here.clear();
        let mut shared: Option<Slice> = None;
        for slot in 0..self.plan.depth {
            let here = if self.reads {
                self.put(slot, &self.plan.payload(slot))?;
                Here::Into(Some(self.alloc()?))
            } else if let (false, Some(shared)) = (self.plan.distinct, &shared) {
                Here::From(shared.clone())
            } else {
                let mut region = self.alloc()?;
                region.copy_from_slice(&self.plan.payload(slot));
                let slice = region.share();
                shared = Some(slice.clone());
                Here::From(slice)
            };
            self.here.push(here);
        }
        // A read of the same buffer reads the same place.
        if self.reads && !self.plan.distinct {
            let first = self.there[0].clone();
            self.there.fill(first);
        }
        self.spoil()
    }

    fn spoil(&mut self) -> Result<(), Failure> {
        for slot in 0..self.plan.depth {
            let spoilt = spoilt(&self.plan.payload(slot));
            match &mut self.here[slot] {
                Here::Into(Some(into)) => into.copy_from_slice(&spoilt),
                Here::Into(None) => return Err(misplaced(slot, "it did not come back")),
                Here::From(_) => self.put(slot, &spoilt)?,
            }
        }
        Ok(())
    }

    fn check(&mut self, slot: usize) -> Result<(), Failure> {
        let (payload, there) = (self.plan.payload(slot), self.seen(slot)?);
        let here: &[u8] = match &self.here[slot] {
            Here::From(from) => from,
            Here::Into(Some(into)) => into,
            Here::Into(None) => return Err(misplaced(slot, "it did not come back")),
        };
        let (to, from) = if self.reads {
            (here, &there[..])
        } else {
            (&there[..], here)
        };
        if from != payload {
            let side = if self.reads { "peer's" } else { "initiator's" };
            let what = format!("the {side} buffer, which is only read, was written");
            return Err(misplaced(slot, &what));
        }
        if to != payload {
            let side = if self.reads { "initiator" } else { "peer" };
            return Err(misplaced(
                slot,
                &format!("the payload is not at the {side}"),
            ));
        }
        Ok(())
    }

    fn applied(&self) -> Applied {
        self.pair.applied().clone()
    }
}
