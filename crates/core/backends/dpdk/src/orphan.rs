//! Jobs in a device, with everything that they need until they come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use overside_device::{Job, Region};
use slab::Slab;

use crate::engine::Engine;
use crate::queue::{FinishedJob, Queue};
use crate::resources::Resources;

/// A job that the device has.
pub(crate) struct Slot {
    /// The job. Its memory must stay valid until the device is done with it.
    pub(crate) job: Job,
    /// Time in nanoseconds that the engine took. Known only if the device computes during the
    /// enqueue call and was given this job by itself.
    pub(crate) engine_ns: Option<u64>,
    /// `true` if it was submitted to the device without a trailer.
    pub(crate) plain: bool,
    /// `true` if the job was abandoned and has finished.
    pub(crate) is_quarantined: bool,
}

/// A context's part of a queue.
pub(crate) struct QueueShare {
    pub(crate) queue: Arc<Queue>,
    pub(crate) number: u32,
    pub(crate) resources: Resources,
    pub(crate) slots: Slab<Slot>,
    /// A trailer, and behind it a destination for jobs without one.
    pub(crate) scratch: Region,
    pub(crate) engine: Arc<Engine>,
    /// Uses the engine's rules.
    pub(crate) with_rules: bool,
}

impl Drop for QueueShare {
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
    /// Work on the device; `None` once it has finished.
    work: Option<QueueShare>,
    /// Destinations that a context still counts as quarantined.
    quarantined: Arc<AtomicUsize>,
    done: Vec<FinishedJob>,
}

impl Orphan {
    pub(crate) fn new(work: QueueShare, quarantined: Arc<AtomicUsize>) -> Self {
        quarantined.fetch_add(work.slots.len(), Ordering::Relaxed);
        Self { work: Some(work), quarantined, done: Vec::new() }
    }

    /// Frees completed jobs. Returns `true` if none is left.
    pub(crate) fn is_over(&mut self) -> bool {
        let Some(work) = &mut self.work else {
            return true;
        };
        let lost = work.queue.take(work.number, &mut self.done).is_err();
        for done in self.done.drain(..) {
            if work.slots.try_remove(done.slot as usize).is_some() {
                self.quarantined.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let is_over = work.slots.is_empty();
        if !is_over && lost {
            // A device that is gone may still write: its jobs' memory stays for as long as the
            // process does.
            std::mem::forget(self.work.take());
            return true;
        }
        is_over
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|work| !work.slots.is_empty()) {
            std::mem::forget(work);
        }
    }
}
