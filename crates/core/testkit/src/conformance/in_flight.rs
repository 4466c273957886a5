//! Promises about jobs in flight through a context: back-pressure, waiting, deadlines, closing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use overside_base::Random;

use super::Factory;
use super::cases::{self, Case};
use super::driver::{
    Watch, config, nothing_more, open, patience, poll, run, run_one, submit, tags,
};
use overside_device::{
    Context, ContextConfig, ExternalBytes, Job, JobError, MemoryKind, OpenError, Refusal,
    SubmitError, wait,
};

/// A context takes as many jobs as it was opened for and no more, and gets through any number.
pub fn back_pressure(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let depth = 2.min(case.capability().max_depth);
        let mut context = open(&case, depth);
        let mut jobs: VecDeque<Job> = (0..20).map(|tag| case.job(tag)).collect();
        let (mut out, mut watch) = (Vec::new(), Watch::start());
        while out.len() < 20 {
            let taken = submit(&mut *context, &mut jobs);
            let in_flight = 20 - jobs.len() - out.len();
            assert!(in_flight <= depth, "{in_flight} jobs in flight at a depth of {depth}");
            assert_eq!(context.in_flight(), in_flight);
            if taken + poll(&mut *context, &mut out) > 0 {
                watch = Watch::start();
            }
            watch.check("jobs under back-pressure");
        }
        out.iter().for_each(|completion| case.verify(completion));
        assert_eq!(tags(&out), (0..20).collect::<Vec<_>>());
        nothing_more(&mut *context);
    }
}

/// Each job completes exactly once, for all sizes of batches and polls.
pub fn every_tag_comes_back_once(factory: Factory<'_>) {
    const COUNT: u64 = 300;
    let device = &*factory();
    let case = cases::any(device);
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let depth = [1, 2, 3, 7, 16, 64][seed as usize].min(case.capability().max_depth);
        let mut context = open(&case, depth);
        let (mut next, mut out, mut watch) = (0, Vec::new(), Watch::start());
        let mut jobs = VecDeque::new();
        while (out.len() as u64) < COUNT {
            let batch = random.below(2 * depth as u64).min(COUNT - next);
            jobs.extend((next..next + batch).map(|tag| case.job(tag)));
            next += batch;
            let taken = if jobs.is_empty() { 0 } else { submit(&mut *context, &mut jobs) };
            let max = random.below(2 * depth as u64) as usize;
            let polled = context.poll(&mut out, max).unwrap_or_else(|error| panic!("{error}"));
            assert!(polled <= max, "poll gave {polled} where at most {max} were asked for");
            assert_eq!(context.in_flight() + jobs.len() + out.len(), next as usize);
            if taken + polled > 0 {
                watch = Watch::start();
            }
            watch.check("jobs in random batches");
        }
        assert_eq!(tags(&out), (0..COUNT).collect::<Vec<_>>(), "seed {seed}");
        nothing_more(&mut *context);
    }
}

/// A job whose deadline has passed completes as that, with its destination or with it in
/// quarantine until the engine confirms.
pub fn deadline_passed(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 4);
        let past = Some(Instant::now());
        let late = (0..4).map(|tag| Job { deadline: past, ..case.job(tag) });
        let completions = run(&mut *context, late.collect());
        for completion in &completions {
            let operation = case.config.operation;
            assert_eq!(completion.result, Err(JobError::DeadlineExceeded), "{operation}");
            let destination = completion.destination.as_ref();
            assert!(destination.is_none_or(|region| region.len() == case.capacity));
        }
        assert_eq!(tags(&completions), [0, 1, 2, 3]);
        let watch = Watch::start();
        while context.quarantined() > 0 {
            watch.check("quarantined destinations");
        }
        // The late jobs do not complete again, and the next one does.
        nothing_more(&mut *context);
        case.verify(&run_one(&mut *context, case.job(9)));
    }
}

/// A deadline that does not pass changes nothing.
pub fn deadline_far(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 4);
        let far = Some(Instant::now() + patience());
        let jobs = (0..10).map(|tag| Job { deadline: far, ..case.job(tag) });
        let completions = run(&mut *context, jobs.collect());
        completions.iter().for_each(|completion| case.verify(completion));
        assert_eq!(context.quarantined(), 0);
    }
}

/// Arming and then waiting wakes up for each completion, and does not for nothing.
pub fn events_wake(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 4);
        if !case.capability().event {
            assert!(context.event_fd().is_none());
            assert!(context.arm().is_err(), "a device without events cannot be armed");
            continue;
        }
        assert!(context.event_fd().is_some());
        // One at a time and several, so that both a lone and a gathered completion must wake.
        for count in [1, 4].repeat(20) {
            let mut jobs: VecDeque<Job> = (0..count).map(|tag| case.job(tag)).collect();
            let (mut out, mut watch) = (Vec::new(), Watch::start());
            while (out.len() as u64) < count {
                let taken = if jobs.is_empty() { 0 } else { submit(&mut *context, &mut jobs) };
                let woken = wait(&mut *context, patience()).expect("waiting works");
                assert!(woken, "{} jobs in flight and no event", context.in_flight());
                if taken + poll(&mut *context, &mut out) > 0 {
                    watch = Watch::start();
                }
                watch.check("jobs waited for");
            }
        }
        // Stale events may wake once or twice; a device that always wakes is one to be polled.
        let watch = Watch::start();
        while wait(&mut *context, Duration::from_millis(1)).expect("waiting works") {
            poll(&mut *context, &mut Vec::new());
            watch.check("an idle device to be quiet");
        }
    }
}

/// All completions arrive by polling if the caller never calls [`Context::arm`].
pub fn polling_alone_is_enough(factory: Factory<'_>) {
    let device = &*factory();
    let case = cases::any(device);
    let mut context = open(&case, 4);
    for round in 0..100 {
        let completion = run_one(&mut *context, case.job(round));
        assert_eq!(completion.tag, round);
    }
    nothing_more(&mut *context);
}

/// Closing returns the jobs in flight.
pub fn close_waits_for_jobs(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 8);
        let taken = fill(&case, &mut *context);
        let closed = context.close(Instant::now() + patience());
        assert_eq!(closed.abandoned, [0; 0]);
        assert_eq!(tags(&closed.completions), (0..taken).collect::<Vec<_>>());
        closed.completions.iter().for_each(|completion| case.verify(completion));
    }
}

/// Closing does not wait beyond its deadline, and accounts for each job.
pub fn close_gives_up(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 8);
        let taken = fill(&case, &mut *context);
        let closed = context.close(Instant::now());
        closed.completions.iter().for_each(|completion| case.verify(completion));
        let mut all = tags(&closed.completions);
        all.extend(&closed.abandoned);
        all.sort_unstable();
        assert_eq!(all, (0..taken).collect::<Vec<_>>());
    }
}

/// A context set up again does the new operation within the new limits.
pub fn reconfigure(factory: Factory<'_>) {
    let device = &*factory();
    let cases = cases::all(device);
    let mut context = open(&cases[0], 2);
    // To each operation, and to the same operation with shorter buffers.
    for case in cases.iter().chain(&cases) {
        let half = Case::new(device, case.capability(), "auto", case.input.len() / 2);
        for case in [case, &half] {
            let depth = 3.min(case.capability().max_depth);
            context.reconfigure(config(case, depth)).unwrap_or_else(|error| panic!("{error}"));
            let jobs = (0..6).map(|tag| case.job(tag)).collect();
            run(&mut *context, jobs).iter().for_each(|completion| case.verify(completion));
            let mut long = case.job(1);
            long.source = cases::slice(device, &vec![0; case.input.len() + 1]).into();
            let refused = context.submit(&mut VecDeque::from([long]));
            let expected = matches!(
                refused,
                Err(SubmitError::Refused { refusal: Refusal::SourceTooLong { .. }, .. })
            );
            assert!(expected, "the new limits hold: {refused:?}");
        }
    }
}

/// Reconfiguring a context with jobs in flight is refused, and the context continues.
pub fn reconfigure_refused_in_flight(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 2);
        submit(&mut *context, &mut VecDeque::from([case.job(1)]));
        let refused = context.reconfigure(config(&case, 1));
        assert_eq!(refused, Err(OpenError::InFlight(1)), "{}", case.config.operation);
        let (mut out, watch) = (Vec::new(), Watch::start());
        while poll(&mut *context, &mut out) == 0 {
            watch.check("the job in flight");
        }
        case.verify(&out[0]);
    }
}

/// A context that cannot be reconfigured keeps its configuration.
pub fn reconfigure_fails_whole(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 2);
        let good = config(&case, 2);
        let mut unknown = good.clone();
        unknown.operation.variant = "no such library".into();
        let deep = case.capability().max_depth.saturating_add(1);
        for bad in [unknown, ContextConfig { depth: deep, ..good }] {
            assert!(context.reconfigure(bad).is_err());
            case.verify(&run_one(&mut *context, case.job(1)));
        }
    }
}

/// A context that is dropped lets its memory go when its engine is done, and waits for nothing.
pub fn drop_without_close(factory: Factory<'_>) {
    struct Bytes(Vec<u8>, Arc<AtomicBool>);
    impl AsRef<[u8]> for Bytes {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Bytes {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Release);
        }
    }
    let device = factory();
    for case in cases::all(&*device) {
        let freed = Arc::new(AtomicBool::new(false));
        let mut context = open(&case, 8);
        if case.capability().memory == MemoryKind::Device {
            // It reads no memory of others.
            continue;
        }
        let bytes = Bytes(case.input.clone(), Arc::clone(&freed));
        let source = device.register(ExternalBytes::new(bytes)).expect("memory of this process");
        let jobs = (0..8).map(|tag| case.job_of(tag, &source));
        submit(&mut *context, &mut jobs.collect());
        drop(source);
        // Some are done, some perhaps running, some not begun.
        let (mut out, watch) = (Vec::new(), Watch::start());
        while poll(&mut *context, &mut out) == 0 {
            watch.check("the first job before dropping");
        }
        drop(out);
        drop(context);
        let watch = Watch::start();
        while !freed.load(Ordering::Acquire) {
            watch.check("the memory of a dropped context");
        }
    }
}

/// Contexts of one device in several threads do not disturb each other.
pub fn many_contexts_in_many_threads(factory: Factory<'_>) {
    let device = &*factory();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let all = cases::all(device);
                let mut contexts: Vec<_> = (all.iter().cycle().skip(thread).take(3))
                    .map(|case| (case, open(case, 3)))
                    .collect();
                for round in 0..5 {
                    for (case, context) in &mut contexts {
                        let first = (thread as u64) << 32 | round << 16;
                        let jobs = (first..first + 4).map(|tag| case.job(tag));
                        let completions = run(&mut **context, jobs.collect());
                        completions.iter().for_each(|completion| case.verify(completion));
                        assert_eq!(tags(&completions), (first..first + 4).collect::<Vec<_>>());
                    }
                }
            });
        }
    });
}

/// Fills a context with jobs and returns how many it took.
fn fill(case: &Case<'_>, context: &mut dyn Context) -> u64 {
    let mut jobs = (0..8).map(|tag| case.job(tag)).collect();
    submit(context, &mut jobs) as u64
}
