//! Copies by a device that takes jobs: a DMA engine behind a driver.
//!
//! Both buffers are the device's own memory in this process. A read copies from the peer's to the
//! initiator's and a write the other way; for the engine both are copies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::context_queue::{self, is_lost, not_submitted};
use overside_device::{
    Applied, Clock, Completion, Context, ContextConfig, Device, Job, Operation, OperationConfig,
    Region, Slice,
};
use overside_probe::closed_loop::{
    self, CompletedOperation, LoopParams, OperationQueue, Pass, Until,
};
use overside_probe::dma::{FreeSlots, Lane, PayloadPattern};
use overside_probe::{Failure, FailureKind};

/// Alignment of buffers in bytes.
const LINE: usize = 64;

/// Copies through one context.
pub(crate) struct Copying {
    device: Arc<dyn Device>,
    clock: Clock,
    context: Box<dyn Context>,
    pattern: PayloadPattern,
    from: Vec<Slice>,
    to: Vec<Option<Region>>,
    filled: VecDeque<Job>,
    free: FreeSlots,
    completions: Vec<Completion>,
    applied: Option<Arc<Applied>>,
}

impl Copying {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        clock: Clock,
        pattern: PayloadPattern,
    ) -> Result<Self, Failure> {
        let plan = pattern.plan;
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
            clock,
            context,
            pattern,
            from: Vec::new(),
            to: Vec::new(),
            filled: VecDeque::with_capacity(plan.depth),
            free: FreeSlots::new(plan.depth),
            completions: Vec::with_capacity(plan.depth),
            applied: None,
        })
    }

    fn alloc(&self) -> Result<Region, Failure> {
        self.alloc_len(self.pattern.plan.size)
    }

    fn alloc_len(&self, len: usize) -> Result<Region, Failure> {
        self.device
            .alloc(len, LINE)
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
        taken.map_err(|error| not_submitted(&error))
    }

    fn poll(&mut self) -> Result<usize, Failure> {
        let polled = (self.context).poll(&mut self.completions, self.pattern.plan.depth);
        polled.map_err(|lost| is_lost(&lost))
    }

    fn take(&mut self, _: bool, done: &mut Vec<CompletedOperation>) -> Result<(), Failure> {
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
            done.push(CompletedOperation { slot, late });
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        context_queue::wait(&mut *self.context, &self.clock, timeout)
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
        self.free = FreeSlots::new(self.pattern.plan.depth);
        closed_loop::run(self, params, until)
    }

    fn refill(&mut self, epoch: u64) -> Result<(), Failure> {
        self.pattern.begin(epoch);
        self.from = self.pattern.sources(|| self.alloc())?;
        let plan = self.pattern.plan;
        // In virtual time the bytes of a place are moved for one of the operations that have it.
        let moved = match self.clock.is_virtual() {
            true => plan.places(),
            false => plan.depth,
        };
        self.to = (0..plan.depth)
            .map(|slot| {
                let len = if slot < moved { plan.size } else { 0 };
                Ok(Some(self.alloc_len(len)?))
            })
            .collect::<Result<_, Failure>>()?;
        self.poison()
    }

    fn poison(&mut self) -> Result<(), Failure> {
        for (slot, to) in self.to.iter_mut().enumerate() {
            if to.as_ref().is_some_and(|to| to.is_empty()) {
                continue;
            }
            self.pattern.poison(slot, to)?;
        }
        Ok(())
    }

    fn check(&mut self, slot: usize) -> Result<(), Failure> {
        self.pattern.check_source(slot, &self.from[slot])?;
        let missing = "the payload is not where it was to be copied";
        (self.pattern).check_destination(slot, self.to[slot].as_deref(), missing)
    }

    fn emulator_ns(&self) -> u64 {
        self.context.cpu_time().emulator_ns
    }

    fn applied(&self) -> Applied {
        match &self.applied {
            Some(applied) => Applied::clone(applied),
            None => Applied {
                device: self.device.info().name.clone(),
                driver: self.device.info().driver.clone(),
                variant: "none".into(),
                library: "none: nothing was copied".into(),
                because: None,
                provenance: self.device.info().provenance,
            },
        }
    }
}
