//! Jobs that go round through a context, and what one takes.

// Each bench uses a part of it.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_device::{Completion, Context, Device, Job, Slice, wait};

/// The least jobs and time of a slice: a thread that slept is slow to begin, and that is not what
/// is measured.
pub(crate) const SLICE_JOBS: usize = 128;
pub(crate) const SLICE: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(10);

/// Bytes in memory of a device.
pub(crate) fn slice(device: &dyn Device, bytes: &[u8]) -> Slice {
    let mut region = device.alloc(bytes.len(), 64).expect("memory");
    region.copy_from_slice(bytes);
    region.share()
}

/// A job for each source.
pub(crate) fn jobs(device: &dyn Device, sources: &[Slice], capacity: usize) -> VecDeque<Job> {
    (sources.iter().zip(0..))
        .map(|(source, tag)| Job {
            tag,
            source: source.clone().into(),
            destination: device.alloc(capacity, 64).expect("memory"),
            deadline: None,
        })
        .collect()
}

/// Seconds a job, at least `batch` handed over at once. To the last job: with as many threads as
/// cores, a submitter that polled for the rest would take a core from a thread that has some of it.
pub(crate) fn seconds_a_job(
    context: &mut dyn Context,
    jobs: &mut VecDeque<Job>,
    batch: usize,
    waits: bool,
) -> f64 {
    let mut out: Vec<Completion> = Vec::with_capacity(jobs.len());
    let (begin, mut count, mut open) = (Instant::now(), 0, true);
    while open || context.in_flight() > 0 {
        if open && jobs.len() >= batch {
            context.submit(jobs).expect("good jobs");
        }
        if waits {
            wait(context, LONG).expect("waiting works");
        }
        let done = context.poll(&mut out, usize::MAX).expect("the device is there");
        if done == 0 {
            // Pauses rather than polls or system calls: what looks like two cores may share the
            // units of one, and then a submitter's haste is its thread's loss.
            (0..100).for_each(|_| std::hint::spin_loop());
        }
        count += done;
        jobs.extend(out.drain(..).map(overside_testkit::again));
        open = open && (count < SLICE_JOBS || begin.elapsed() < SLICE);
    }
    begin.elapsed().as_secs_f64() / count as f64
}
