//! Running jobs with an eye on the clock: a device that does nothing fails, it does not hang the
//! suite.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::cases::Case;
use overside_device::{Completion, Context, ContextConfig, Job};

thread_local! {
    static PATIENCE: Cell<Duration> = const { Cell::new(Duration::from_secs(60)) };
}

/// Sets how long a device may go without progress before it counts as hanging; a minute unless set.
/// It applies to promises that run on the calling thread.
pub fn set_patience(patience: Duration) {
    PATIENCE.set(patience);
}

pub(super) fn patience() -> Duration {
    PATIENCE.get()
}

/// Watchdog that panics when nothing has happened for long.
pub(super) struct Watch(Instant);

impl Watch {
    pub(super) fn start() -> Self {
        Self(Instant::now() + patience())
    }

    pub(super) fn check(&self, what: &str) {
        assert!(Instant::now() < self.0, "nothing happened for {:?}: {what}", patience());
        std::thread::yield_now();
    }
}

pub(super) fn config(case: &Case<'_>, depth: usize) -> ContextConfig {
    ContextConfig {
        operation: case.config.clone(),
        depth,
        max_source_bytes: case.input.len() as u64,
        max_destination_bytes: case.capacity as u64,
    }
}

pub(super) fn open(case: &Case<'_>, depth: usize) -> Box<dyn Context> {
    let depth = depth.min(case.capability().max_depth);
    case.device
        .open(config(case, depth))
        .unwrap_or_else(|error| panic!("{} cannot be opened: {error}", case.config.operation))
}

/// Runs all jobs, as many at a time as the context takes, by polling.
pub(super) fn run(context: &mut dyn Context, jobs: Vec<Job>) -> Vec<Completion> {
    let mut jobs = VecDeque::from(jobs);
    let (mut out, count) = (Vec::new(), jobs.len());
    let mut watch = Watch::start();
    while out.len() < count {
        let offered = jobs.len();
        let taken = if jobs.is_empty() { 0 } else { submit(context, &mut jobs) };
        assert_eq!(offered - jobs.len(), taken, "submit says how many jobs it took");
        let before = out.len();
        let polled = poll(context, &mut out);
        assert_eq!(out.len() - before, polled, "poll says how many completions it gave");
        if taken + polled > 0 {
            watch = Watch::start();
        } else {
            watch.check("jobs in flight");
        }
    }
    out
}

pub(super) fn run_one(context: &mut dyn Context, job: Job) -> Completion {
    run(context, vec![job]).pop().expect("one job, one completion")
}

pub(super) fn submit(context: &mut dyn Context, jobs: &mut VecDeque<Job>) -> usize {
    context.submit(jobs).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn poll(context: &mut dyn Context, out: &mut Vec<Completion>) -> usize {
    context.poll(out, 16).unwrap_or_else(|error| panic!("{error}"))
}

/// Sorted tags.
pub(super) fn tags<'a>(completions: impl IntoIterator<Item = &'a Completion>) -> Vec<u64> {
    let mut tags: Vec<u64> = completions.into_iter().map(|completion| completion.tag).collect();
    tags.sort_unstable();
    tags
}

/// Polls for a while for completions that must not come.
pub(super) fn nothing_more(context: &mut dyn Context) {
    for _ in 0..50 {
        let mut out = Vec::new();
        poll(context, &mut out);
        assert!(out.is_empty(), "more completions than jobs: {out:?}");
        std::thread::yield_now();
    }
    assert_eq!(context.in_flight(), 0, "nothing is in flight");
}
