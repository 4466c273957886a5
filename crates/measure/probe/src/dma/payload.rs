//! Payloads of operations: bytes that identify the operation to which they belong.

use std::sync::Arc;

use overside_base::Random;
use overside_device::{Region, Slice};

use super::plan::Plan;
use crate::failure::Failure;

/// The payloads of one thread's places: random bytes, seeded by the test, the thread, the epoch and the
/// place.
#[derive(Clone, Debug)]
pub struct PayloadPattern {
    /// Plan of the test that uses the payloads.
    pub plan: Plan,
    thread: u64,
    epoch: u64,
    /// Payload of all operations, if it is the same for all; `None` if each place has its own.
    shared: Option<Arc<[u8]>>,
}

impl PayloadPattern {
    /// The first payloads of a thread.
    pub fn new(plan: Plan, thread: usize) -> Self {
        let mut pattern = Self { plan, thread: thread as u64, epoch: 0, shared: None };
        pattern.begin(0);
        pattern
    }

    /// Switches to the payloads of another `epoch`.
    pub fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.shared = (!self.plan.distinct).then(|| self.draw(0));
    }

    /// The payload of a place.
    pub fn payload(&self, slot: usize) -> Arc<[u8]> {
        match &self.shared {
            Some(shared) => Arc::clone(shared),
            None => self.draw(self.plan.place(slot)),
        }
    }

    fn draw(&self, slot: usize) -> Arc<[u8]> {
        let seed = self.plan.seed ^ (self.thread << 48) ^ (self.epoch << 40) ^ slot as u64;
        let mut bytes = Random::new(seed).bytes(self.plan.size);
        // No two fillings of a place agree in the first byte, however short the payload is.
        if let Some(first) = bytes.first_mut() {
            *first = (slot as u8).wrapping_mul(4).wrapping_add(self.epoch as u8 & 3);
        }
        bytes.into()
    }

    /// Returns the contents of a place at which nothing has arrived: no byte of it equals the
    /// payload's.
    pub fn poisoned(&self, slot: usize) -> Vec<u8> {
        self.payload(slot).iter().map(|byte| !byte).collect()
    }

    /// The payload of each operation, the same memory for the same payload.
    ///
    /// # Errors
    /// The error of `alloc`.
    pub fn sources(
        &self,
        alloc: impl Fn() -> Result<Region, Failure>,
    ) -> Result<Vec<Slice>, Failure> {
        let mut all: Vec<Slice> = Vec::with_capacity(self.plan.depth);
        for slot in 0..self.plan.depth {
            let first = if self.plan.distinct { self.plan.place(slot) } else { 0 };
            let source = match all.get(first) {
                Some(shared) => shared.clone(),
                None => {
                    let mut region = alloc()?;
                    region.copy_from_slice(&self.payload(slot));
                    region.share()
                }
            };
            all.push(source);
        }
        Ok(all)
    }

    /// Checks that a source is unchanged.
    ///
    /// # Errors
    /// A failed verification.
    pub fn check_source(&self, slot: usize, source: &[u8]) -> Result<(), Failure> {
        if *source == *self.payload(slot) {
            return Ok(());
        }
        let what = "the initiator's buffer, which is only read, was written";
        Err(Failure::wrong(slot, what))
    }

    /// Overwrites a destination, which nothing has been written into yet.
    ///
    /// # Errors
    /// A failed verification, if it did not come back.
    pub fn poison(&self, slot: usize, destination: &mut Option<Region>) -> Result<(), Failure> {
        let Some(destination) = destination else {
            return Err(Failure::wrong(slot, "it did not come back"));
        };
        destination.copy_from_slice(&self.poisoned(slot));
        Ok(())
    }

    /// Checks that a destination contains the payload.
    ///
    /// # Errors
    /// A failed verification, with the text `missing` if it does not.
    pub fn check_destination(
        &self,
        slot: usize,
        destination: Option<&[u8]>,
        missing: &str,
    ) -> Result<(), Failure> {
        match destination {
            Some(bytes) if *bytes == *self.payload(slot) => Ok(()),
            Some(_) => Err(Failure::wrong(slot, missing)),
            None => Err(Failure::wrong(slot, "it did not come back")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma::Operation;

    #[test]
    fn fillings_places_and_threads_differ() {
        for size in [1, 2, 7, 64, 1000] {
            let plan = Plan {
                operation: Operation::Write,
                event: false,
                deferred: false,
                each: false,
                size,
                depth: 8,
                batch: 1,
                threads: 2,
                distinct: true,
                inline: false,
                events: false,
                seed: 7,
            };
            let of = |thread, epoch, slot| {
                let mut pattern = PayloadPattern::new(plan, thread);
                pattern.begin(epoch);
                (pattern.payload(slot), pattern.poisoned(slot))
            };
            let (one, poisoned) = of(0, 0, 3);
            assert_eq!(one.len(), size);
            assert_eq!(one, of(0, 0, 3).0);
            assert_ne!(one, of(0, 1, 3).0);
            assert_ne!(one, of(0, 0, 4).0);
            assert!(one.iter().zip(poisoned).all(|(a, b)| *a != b));
            assert!(size < 8 || one != of(1, 0, 3).0);
        }
    }
}
