//! Jobs as the shim takes them.

// Hands memory of jobs over to the device.
#![allow(unsafe_code)]

use crate::orphan::{QueueShare, Slot};
use crate::probe::{TRAILER, TRAILER_BYTES};
use crate::queue::token;
use crate::shim::{RawJob, RawSegment};

/// Length in bytes of the scratch destination for jobs whose own destination is empty: drivers
/// require a destination even for a job without output.
pub(crate) const SCRATCH_BYTES: usize = 64;

/// Jobs on their way to the device. Between calls it is empty.
#[derive(Default)]
pub(crate) struct Batch {
    /// The places of its jobs.
    pub(crate) numbers: Vec<u32>,
    jobs: Vec<RawJob>,
    segments: Vec<RawSegment>,
    /// Total length in bytes of the sources of the jobs staged in this batch.
    pub(crate) bytes: usize,
}

// SAFETY: holds no pointer between calls.
unsafe impl Send for Batch {}

impl Batch {
    /// Adds the job in a place.
    pub(crate) fn add(&mut self, work: &mut QueueShare, number: u32) {
        let raw = |bytes: &[u8]| RawSegment { start: bytes.as_ptr(), len: bytes.len() as u64 };
        let (ones, scratch) = work.scratch.split_at_mut(TRAILER_BYTES);
        let Slot { job, plain, .. } = &mut work.slots[number as usize];
        let first = self.segments.len();
        let segments = job.source.segments().iter();
        let filled = segments.filter(|segment| !segment.is_empty());
        self.segments.extend(filled.map(|segment| raw(segment)));
        if !*plain {
            self.segments.extend(TRAILER.map(|len| raw(&ones[..len])));
        }
        let (destination, capacity) = match job.destination.len() {
            // Drivers want a destination even for what has no output.
            0 => (scratch.as_mut_ptr(), SCRATCH_BYTES),
            len => (job.destination.as_mut_ptr(), len),
        };
        self.numbers.push(number);
        self.jobs.push(RawJob {
            token: token(work.number, number),
            slot: work.resources.slot(number),
            transform: work.resources.transform(number),
            segments: std::ptr::null(),
            destination,
            segment_count: (self.segments.len() - first) as u32,
            destination_len: capacity as u32,
        });
    }

    /// Enqueues the batch. Returns the number of jobs that the device took.
    pub(crate) fn put(&mut self, work: &QueueShare) -> Result<usize, String> {
        let mut next = self.segments.as_ptr();
        for job in &mut self.jobs {
            job.segments = next;
            next = next.wrapping_add(job.segment_count as usize);
        }
        if self.jobs.is_empty() {
            return Ok(0);
        }
        // SAFETY: the jobs are in `work.slots` and stay there until `Queue::take` returns them:
        // `Pipeline::reap` takes them out then, and what is left when the pipeline is dropped goes to
        // the environment. A source is shared and cannot be written; a destination belongs to its
        // job. Places and transforms are those of the job's own number.
        unsafe { work.queue.put(&self.jobs) }
    }

    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.jobs.clear();
        self.segments.clear();
        self.bytes = 0;
    }
}
