//! Running jobs to the end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_device::{Completion, Context, Job};

/// A completion and when it was seen.
pub struct Timed {
    /// The completion.
    pub completion: Completion,
    /// Time at which polling returned it.
    pub at: Instant,
}

/// Runs jobs to the end, waiting for events where there are any. Returns when it began, and the
/// completions in the order in which they came.
///
/// # Panics
/// If the device refuses a job or is lost.
pub fn run(context: &mut dyn Context, jobs: Vec<Job>) -> (Instant, Vec<Timed>) {
    let (mut jobs, begin) = (VecDeque::from(jobs), Instant::now());
    let (mut seen, mut batch) = (Vec::new(), Vec::new());
    while !jobs.is_empty() || context.in_flight() > 0 {
        if !jobs.is_empty() {
            context.submit(&mut jobs).expect("the jobs are in order");
        }
        (context.poll(&mut batch, usize::MAX)).expect("the device is there");
        let at = Instant::now();
        seen.extend(batch.drain(..).map(|completion| Timed { completion, at }));
        if context.in_flight() > 0 {
            overside_device::wait(context, Duration::from_secs(1)).expect("waiting works");
        }
    }
    (begin, seen)
}

/// The job of a completion once more.
///
/// # Panics
/// If it failed, or its destination is in quarantine.
pub fn again(completion: Completion) -> Job {
    assert!(completion.result.is_ok(), "{:?}", completion.result);
    Job {
        tag: completion.tag,
        source: completion.source,
        destination: completion.destination.expect("no deadline, no quarantine"),
        deadline: None,
    }
}

/// Panics with the text unless this is a part of it.
#[track_caller]
pub fn assert_contains(text: impl std::fmt::Display, part: &str) {
    let text = text.to_string();
    assert!(text.contains(part), "{part:?} is not in: {text}");
}
