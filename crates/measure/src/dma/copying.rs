//! Copies by a device that takes jobs: a DMA engine behind a driver.
//!
//! Both buffers are the device's own memory in this process. A read copies from the peer's to the
//! initiator's and a write the other way; for the engine both are copies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use overside_device::{
    Applied, Completion, Context, ContextConfig, Device, Job, Operation, OperationConfig, Region,
    Slice, SubmitError,
};
use overside_probe::closed_loop::{self, Done, LoopParams, OperationQueue, Pass, Until};
use overside_probe::dma::{Filling, FreeSlots, Lane};
use overside_probe::{Failure, FailureKind};

/// Buffers begin at multiples of this.
const LINE: usize = 64;

/// One context's copies.
pub(crate) struct Copying {
    device: Arc<dyn Device>,
    context: Box<dyn Context>,
    filling: Filling,
    from: Vec<Slice>,
    to: Vec<Option<Region>>,
    filled: VecDeque<Job>,
    free: FreeSlots,
    completions: Vec<Completion>,
    applied: Option<Arc<Applied>>,
}

impl Copying {
    pub(crate) fn new(device: Arc<dyn Device>, filling: Filling) -> Result<Self, Failure> {
        let plan = filling.plan;
        let config = ContextConfig {
            operation: OperationConfig {
                operation: Operation::Copy,
                variant: "auto".into(),
                level: None,
                patterns: Vec::new(),
            },
            depth: plan.depth,
            max_source_bytes: plan.size as u64,
            max_destination_bytes: plan.size as u64,
        };
        device
            .capabilities()
            .check(&device.info().name, &config)
            .map_err(|error| Failure::unsupported(error.to_string()))?;
        let context = device
            .open(config)
            .map_err(|error| Failure::new(FailureKind::Job, error.to_string()))?;
        Ok(Self {
            device,
            context,
            filling,
            from: Vec::new(),
            to: Vec::new(),
            filled: VecDeque::with_capacity(plan.depth),
            free: FreeSlots::new(plan.depth),
            completions: Vec::with_capacity(plan.depth),
            applied: None,
        })
    }

    fn alloc(&self) -> Result<Region, Failure> {
        self.device
            .alloc(self.filling.plan.size, LINE)
            .map_err(|error| Failure::new(FailureKind::Job, error.to_string()))
    }
}

impl OperationQueue for Copying {
    fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    fn fill(&mut self, count: usize, slots: &mut VecDeque<usize>) -> Result<(), Failure> {
        for _ in 0..count {
            let Some(slot) = self.free.take() else { break };
            let destination = self.to[slot].take().ok_or_else(|| {
                let message = format!("place {slot} is in flight");
                Failure::new(FailureKind::Internal, message)
            })?;
            self.filled.push_back(Job {
                tag: slot as u64,
                source: self.from[slot].clone().into(),
                destination,
                deadline: None,
            });
            slots.push_back(slot);
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<usize, Failure> {
        let taken = self.context.submit(&mut self.filled);
        taken.map_err(|error| match error {
            SubmitError::Refused { .. } => Failure::new(FailureKind::Job, error.to_string()),
            SubmitError::Lost(lost) => Failure::new(FailureKind::Lost, lost.to_string()),
        })
    }

    fn poll(&mut self) -> Result<usize, Failure> {
        let polled = (self.context).poll(&mut self.completions, self.filling.plan.depth);
        polled.map_err(|lost| Failure::new(FailureKind::Lost, lost.to_string()))
    }

    fn take(&mut self, _: bool, done: &mut Vec<Done>) -> Result<(), Failure> {
        for completion in self.completions.drain(..) {
            let slot = completion.tag as usize;
            completion.result.map_err(|error| {
                Failure::new(FailureKind::Job, format!("operation {slot}: {error}"))
            })?;
            match self.to.get_mut(slot) {
                Some(to @ None) => *to = completion.destination,
                _ => return Err(Failure::wrong(slot, "it completed and was not in flight")),
            }
            if self.applied.is_none() {
                self.applied = Some(completion.applied);
            }
            self.free.give(slot);
            let late = completion.stages.late;
            done.push(Done { slot, late });
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        overside_device::wait(&mut *self.context, timeout)
            .map(drop)
            .map_err(|error| Failure::new(FailureKind::Lost, error.to_string()))
    }

    fn withdraw(&mut self) {
        while let Some(job) = self.filled.pop_back() {
            self.to[job.tag as usize] = Some(job.destination);
            self.free.give_back(job.tag as usize);
        }
    }
}

impl Lane for Copying {
    fn run(&mut self, params: &LoopParams, until: Until) -> Result<Pass, Failure> {
        self.free = FreeSlots::new(self.filling.plan.depth);
        closed_loop::run(self, params, until)
    }

    fn refill(&mut self, epoch: u64) -> Result<(), Failure> {
        self.filling.begin(epoch);
        let plan = self.filling.plan;
        self.from.clear();
        self.to.clear();
        for slot in 0..plan.depth {
            let shared = self.from.first().filter(|_| !plan.distinct).cloned();
            let from = match shared {
                Some(shared) => shared,
                None => {
                    let mut region = self.alloc()?;
                    region.copy_from_slice(&self.filling.payload(slot));
                    region.share()
                }
            };
            self.from.push(from);
            let to = self.alloc()?;
            self.to.push(Some(to));
        }
        self.poison()
    }

    fn poison(&mut self) -> Result<(), Failure> {
        for (slot, to) in self.to.iter_mut().enumerate() {
            match to {
                Some(to) => to.copy_from_slice(&self.filling.spoilt(slot)),
                None => return Err(Failure::wrong(slot, "it did not come back")),
            }
        }
        Ok(())
    }

    fn check(&mut self, slot: usize) -> Result<(), Failure> {
        let payload = self.filling.payload(slot);
        if self.from[slot][..] != payload[..] {
            return Err(Failure::wrong(
                slot,
                "the buffer that is only read was written",
            ));
        }
        match &self.to[slot] {
            Some(to) if to[..] == payload[..] => Ok(()),
            Some(_) => Err(Failure::wrong(
                slot,
                "the payload is not where it was to be copied",
            )),
            None => Err(Failure::wrong(slot, "it did not come back")),
        }
    }

    fn applied(&self) -> Applied {
        match &self.applied {
            Some(applied) => Applied::clone(applied),
            None => Applied {
                device: self.device.info().name.clone(),
                driver: self.device.info().driver.clone(),
                variant: "none".into(),
                library: "none: nothing was copied".into(),
                provenance: self.device.info().provenance,
            },
        }
    }
}
