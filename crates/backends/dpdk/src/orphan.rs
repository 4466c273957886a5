//! Jobs in a device, with everything that they need until they come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use overside_device::{Job, Region};

use crate::engine::Engine;
use crate::kit::Kit;
use crate::queue::{Done, Queue};

/// What is in a place for one job.
pub(crate) enum Slot {
    /// Nothing.
    Free,
    /// A job that the device has.
    Running {
        job: Job,
        /// How long the engine took, where it computes while it is given the job.
        engine_ns: Option<u64>,
        /// It was given to the device without a trailer.
        plain: bool,
    },
    /// A job that was given up and that the device still has: its memory.
    Quarantined(#[allow(dead_code, reason = "kept for being dropped later")] Job),
}

/// A context's part of a queue.
pub(crate) struct Work {
    pub(crate) queue: Arc<Queue>,
    pub(crate) number: u32,
    pub(crate) kit: Kit,
    pub(crate) slots: Vec<Slot>,
    /// A trailer, and behind it a destination for jobs without one.
    pub(crate) scratch: Region,
    pub(crate) engine: Arc<Engine>,
    /// Uses the engine's rules.
    pub(crate) with_rules: bool,
}

impl Work {
    /// Jobs that the device has.
    pub(crate) fn busy(&self) -> usize {
        let busy = |slot: &&Slot| !matches!(slot, Slot::Free);
        self.slots.iter().filter(busy).count()
    }
}

impl Drop for Work {
    /// Only when no job is in the device any more.
    fn drop(&mut self) {
        self.queue.leave(self.number);
        if self.with_rules {
            self.engine.leave_rules();
        }
    }
}

/// Work that its context has left before it was done.
pub(crate) struct Orphan {
    /// Nothing, once it is over.
    work: Option<Work>,
    busy: usize,
    /// Destinations that a context still counts as quarantined.
    quarantined: Arc<AtomicUsize>,
    done: Vec<Done>,
}

impl Orphan {
    pub(crate) fn new(work: Work, quarantined: Arc<AtomicUsize>) -> Self {
        let busy = work.busy();
        quarantined.fetch_add(busy, Ordering::Relaxed);
        Self {
            work: Some(work),
            busy,
            quarantined,
            done: Vec::new(),
        }
    }

    /// Frees what has come back; whether that was all.
    pub(crate) fn is_over(&mut self) -> bool {
        let Some(work) = &mut self.work else {
            return true;
        };
        let lost = work.queue.take(work.number, &mut self.done).is_err();
        for done in self.done.drain(..) {
            let Some(slot) = work.slots.get_mut(done.slot as usize) else {
                continue;
            };
            if !matches!(std::mem::replace(slot, Slot::Free), Slot::Free) {
                self.busy -= 1;
                self.quarantined.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if self.busy > 0 && lost {
            // A device that is gone may still write: its jobs' memory stays for as long as the
            // process does.
            std::mem::forget(self.work.take());
            return true;
        }
        self.busy == 0
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if self.busy > 0 {
            std::mem::forget(self.work.take());
        }
    }
}
