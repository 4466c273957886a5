//! Memory for jobs: taken from the device, used again, bounded.

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
    /// The most regions that are kept.
    keep: usize,
}

impl Pool {
    /// With that many bytes, for that many jobs.
    pub(crate) fn new(limit: usize, depth: usize) -> Self {
        Self {
            free: Vec::new(),
            bytes: 0,
            given: 0,
            limit,
            keep: 2 * depth,
        }
    }

    /// Whether a job with that much source and destination can have memory now. The only job can
    /// always.
    pub(crate) fn admits(&self, source: usize, destination: usize) -> bool {
        let needed = rounded(source).saturating_add(rounded(destination));
        self.given == 0 || self.given.saturating_add(needed) <= self.limit
    }

    /// Memory of at least `len` bytes.
    pub(crate) fn take(&mut self, device: &dyn Device, len: usize) -> Result<Region, MemoryError> {
        let fitting = self.free.iter().rposition(|region| region.len() >= len);
        if let Some(index) = fitting {
            let region = self.free.swap_remove(index);
            self.given += region.len();
            return Ok(region);
        }
        let needed = rounded(len);
        while self.bytes.saturating_add(needed) > self.limit
            && let Some(region) = self.free.pop()
        {
            self.bytes -= region.len();
        }
        let region = device.alloc(needed, 64)?;
        self.bytes += needed;
        self.given += needed;
        Ok(region)
    }

    /// Gives back what a job has written to.
    pub(crate) fn give_back(&mut self, part: Region) {
        self.give_back_source(part.share());
    }

    /// Gives back what a job has read, all of it or a part.
    pub(crate) fn give_back_source(&mut self, part: Slice) {
        // All handles to the rest are gone, so this is all of it. If the device kept one, the
        // memory goes when that does, and counts as given out.
        let Ok(whole) = part.reclaim() else {
            return;
        };
        self.given -= whole.len();
        if self.free.len() < self.keep && self.bytes <= self.limit {
            self.free.push(whole);
        } else {
            self.bytes -= whole.len();
        }
    }
}

fn rounded(len: usize) -> usize {
    len.max(1).next_multiple_of(STEP)
}
