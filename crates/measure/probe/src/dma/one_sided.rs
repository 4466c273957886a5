//! Reads and writes of the peer's memory over a link: the initiator's side.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use overside_device::{Applied, Region, Slice};
use overside_link::verbs::{
    Access, Completion, Endpoint, Exported, ExportedSlice, OutOfBounds, QueuePair, RemoteMemory,
    RemoteSlice, Token, Verb, Work,
};

use super::lane::{self, FreeSlots, Lane};
use super::payload::PayloadPattern;
use super::plan::{LINE, Operation, Plan};
use crate::closed_loop::{self, CompletedOperation, LoopParams, OperationQueue, Pass, Until};
use crate::failure::{Failure, FailureKind};

/// Error message for a read whose payload did not arrive.
const MISSING: &str = "the payload is not at the initiator";

/// This side's memory of a place.
enum LocalMemory {
    /// Written from.
    From(Slice),
    /// Read into; `None` while it is the link's.
    Into(Option<Region>),
    /// Read into by several at a time.
    Shared(ExportedSlice),
}

/// One queue pair's reads or writes.
pub(super) struct OneSided {
    endpoint: Arc<dyn Endpoint>,
    pair: Box<dyn QueuePair>,
    pattern: PayloadPattern,
    there: Vec<RemoteSlice>,
    here: Vec<LocalMemory>,
    /// Memory that reads write into if there are fewer places than operations; no single operation
    /// owns it.
    shared: Option<Arc<Exported>>,
    filled: VecDeque<Work>,
    free: FreeSlots,
    completions: Vec<Completion>,
}

impl OneSided {
    /// Imports the memory that the peer exported for this thread.
    pub(super) fn new(
        endpoint: &Arc<dyn Endpoint>,
        pair: Box<dyn QueuePair>,
        pattern: PayloadPattern,
        token: &[u8],
    ) -> Result<Self, Failure> {
        let plan = pattern.plan;
        let remote = endpoint.import(&Token::from_bytes(token)?)?;
        let there = (0..plan.depth)
            .map(|slot| match (plan.operation, plan.distinct) {
                // A read of the same buffer reads the same place.
                (Operation::Read, false) => place(&remote, &plan, 0),
                _ => place(&remote, &plan, plan.place(slot)),
            })
            .collect::<Result<_, _>>()?;
        let shared = match plan.operation {
            Operation::Read if plan.shares_places() => {
                let exported = endpoint.export(plan.exported_bytes(), Access::Write)?;
                Some(Arc::new(exported))
            }
            _ => None,
        };
        Ok(Self {
            shared,
            endpoint: Arc::clone(endpoint),
            pair,
            pattern,
            there,
            here: Vec::new(),
            filled: VecDeque::with_capacity(plan.depth),
            free: FreeSlots::new(plan.depth),
            completions: Vec::with_capacity(plan.depth),
        })
    }

    fn alloc(&self) -> Result<Region, Failure> {
        self.endpoint
            .alloc(self.pattern.plan.size, LINE)
            .map_err(|error| Failure::new(FailureKind::Job, error.to_string()))
    }
}

fn within<T>(reached: Result<T, OutOfBounds>) -> Result<T, Failure> {
    reached.map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))
}

fn place(remote: &RemoteMemory, plan: &Plan, slot: usize) -> Result<RemoteSlice, Failure> {
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
                LocalMemory::From(from) => Verb::Write { from: from.clone(), to: there },
                LocalMemory::Shared(into) => Verb::ReadShared { from: there, into: into.clone() },
                LocalMemory::Into(into) => Verb::Read {
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
                inline: self.pattern.plan.inline,
            });
            slots.push_back(slot);
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<usize, Failure> {
        Ok(self.pair.post(&mut self.filled)?)
    }

    fn poll(&mut self) -> Result<usize, Failure> {
        let depth = self.pattern.plan.depth;
        Ok(self.pair.poll(&mut self.completions, depth)?)
    }

    fn take(&mut self, _: bool, done: &mut Vec<CompletedOperation>) -> Result<(), Failure> {
        let size = self.pattern.plan.size;
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
                Some(LocalMemory::From(_) | LocalMemory::Shared(_)) => {}
                Some(LocalMemory::Into(into @ None)) => *into = completion.destination,
                _ => return Err(Failure::wrong(slot, "it completed and was not in flight")),
            }
            self.free.give(slot);
            done.push(CompletedOperation { slot, late: completion.late });
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
                self.here[slot] = LocalMemory::Into(Some(into));
            }
            self.free.give_back(slot);
        }
    }
}

impl Lane for OneSided {
    fn run(&mut self, params: &LoopParams, until: Until) -> Result<Pass, Failure> {
        self.free = FreeSlots::new(self.pattern.plan.depth);
        closed_loop::run(self, params, until)
    }

    fn refill(&mut self, epoch: u64) -> Result<(), Failure> {
        self.pattern.begin(epoch);
        let plan = self.pattern.plan;
        self.here = match (plan.operation, &self.shared) {
            (Operation::Read, Some(shared)) => (0..plan.depth)
                .map(|slot| {
                    let at = plan.place(slot) * plan.stride();
                    let place = within(shared.slice(at..at + plan.size))?;
                    Ok(LocalMemory::Shared(place))
                })
                .collect::<Result<_, Failure>>()?,
            (Operation::Read, None) => (0..plan.depth)
                .map(|_| Ok(LocalMemory::Into(Some(self.alloc()?))))
                .collect::<Result<_, Failure>>()?,
            _ => {
                let sources = self.pattern.sources(|| self.alloc())?;
                sources.into_iter().map(LocalMemory::From).collect()
            }
        };
        self.poison()
    }

    fn poison(&mut self) -> Result<(), Failure> {
        let places = self.pattern.plan.places();
        for (slot, here) in self.here.iter_mut().enumerate() {
            match here {
                LocalMemory::Into(into) => self.pattern.poison(slot, into)?,
                LocalMemory::Shared(into) if slot < places => {
                    let poison = self.pattern.poisoned(slot);
                    within(into.window().copy_in(0, &poison))?;
                }
                LocalMemory::Shared(_) | LocalMemory::From(_) => {}
            }
        }
        Ok(())
    }

    fn check(&mut self, slot: usize) -> Result<(), Failure> {
        match &self.here[slot] {
            LocalMemory::From(from) => self.pattern.check_source(slot, from),
            LocalMemory::Into(into) => {
                (self.pattern).check_destination(slot, into.as_deref(), MISSING)
            }
            LocalMemory::Shared(into) => {
                let mut there = vec![0; into.len()];
                within(into.window().copy_out(0, &mut there))?;
                (self.pattern).check_destination(slot, Some(&there), MISSING)
            }
        }
    }

    fn applied(&self) -> Applied {
        self.pair.applied().clone()
    }
}
