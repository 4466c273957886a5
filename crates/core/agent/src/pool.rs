//! Memory for jobs: taken from the device, used again, bounded.

use std::sync::Arc;

use overside_base::{MemoryBudget, OutOfMemory, Reservation};
use overside_device::{Device, MemoryError, Region, Slice};

/// Memory is rounded up to this, so that lengths that differ a little share it.
const STEP: usize = 4096;

/// Memory of one context.
pub(crate) struct Pool {
    free: Vec<Region>,
    /// Bytes given out and kept.
    bytes: usize,
    /// Bytes given out.
    given: usize,
    limit: usize,
    /// Maximum number of regions that are kept.
    keep: usize,
    /// Part of the agent's memory budget that the pool has reserved; at least `one_job` bytes.
    reserved: Reservation,
    /// Bytes that stay reserved while the context is open, so that one job of the greatest length
    /// always gets memory.
    one_job: u64,
}

impl Pool {
    /// Pool of at most `limit` bytes, for `depth` jobs with sources and destinations of at most
    /// `longest` bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`]: there is no memory even for one job.
    pub(crate) fn new(
        limit: usize,
        depth: usize,
        longest: [usize; 2],
        memory: &Arc<MemoryBudget>,
    ) -> Result<Self, OutOfMemory> {
        let one_job = longest.iter().map(|len| rounded(*len) as u64).sum();
        Ok(Self {
            free: Vec::new(),
            bytes: 0,
            given: 0,
            limit,
            keep: 2 * depth,
            reserved: memory.reserve(one_job)?,
            one_job,
        })
    }

    /// Reserves memory for a job whose source and destination have these lengths in bytes. Returns
    /// `true` if there is enough. A job that is the only one always gets memory.
    pub(crate) fn admit(&mut self, source: usize, destination: usize) -> bool {
        let needed = rounded(source).saturating_add(rounded(destination));
        let given = self.given.saturating_add(needed);
        if self.given == 0 {
            return true;
        }
        let missing = (given as u64).saturating_sub(self.reserved.bytes());
        given <= self.limit && self.reserved.grow(missing).is_ok()
    }

    /// Memory of at least `len` bytes, and not much more.
    pub(crate) fn take(&mut self, device: &dyn Device, len: usize) -> Result<Region, MemoryError> {
        let needed = rounded(len);
        let fits = |region: &Region| (len..=2 * needed).contains(&region.len());
        if let Some(index) = self.free.iter().rposition(fits) {
            let region = self.free.swap_remove(index);
            self.given += region.len();
            return Ok(region);
        }
        let room = self.room();
        while self.bytes.saturating_add(needed) > room
            && let Some(region) = self.free.pop()
        {
            self.bytes -= region.len();
        }
        let region = device.alloc(needed, 64)?;
        self.bytes += needed;
        self.given += needed;
        Ok(region)
    }

    /// Returns the destination of a job to the pool.
    pub(crate) fn give_back(&mut self, part: Region) {
        self.give_back_source(part.share());
    }

    /// Returns the source of a job, or a part of it, to the pool.
    pub(crate) fn give_back_source(&mut self, part: Slice) {
        // All handles to the rest are gone, so this is all of it. If the device kept one, the
        // memory goes when that does, and counts as given out.
        let Ok(whole) = part.reclaim() else {
            return;
        };
        self.given -= whole.len();
        let is_tight = self.reserved.bytes() > self.one_job && self.reserved.is_tight();
        if self.free.len() < self.keep && self.bytes <= self.room() && !is_tight {
            self.free.push(whole);
            return;
        }
        self.bytes -= whole.len();
        drop(whole);
        self.shrink();
    }

    /// Returns `true` if the pool keeps free memory for later jobs.
    pub(crate) fn keeps(&self) -> bool {
        !self.free.is_empty()
    }

    /// Frees the cached regions.
    pub(crate) fn trim(&mut self) {
        for region in self.free.drain(..) {
            self.bytes -= region.len();
        }
        self.shrink();
    }

    fn room(&self) -> usize {
        self.limit.min(usize::try_from(self.reserved.bytes()).unwrap_or(usize::MAX))
    }

    fn shrink(&mut self) {
        self.reserved.shrink_to((self.bytes as u64).max(self.one_job));
    }
}

fn rounded(len: usize) -> usize {
    len.max(1).next_multiple_of(STEP)
}
