//! Tests of a context made of threads, whose bodies a test can block and release.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use overside_device::threads::{CpuAccounting, Limits, Next, Threads, WorkerMain, WorkerQueue};
use overside_device::{
    Applied, Completion, DeviceId, Job, JobError, Lifecycle, MemoryKind, Outcome, Output,
    Provenance, Region, Registration, Stages, SubmitError,
};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(5);

fn applied() -> Arc<Applied> {
    Arc::new(Applied {
        device: "toy".into(),
        driver: "toy".into(),
        variant: "toy".into(),
        library: "toy".into(),
        because: None,
        provenance: Provenance::Measured,
    })
}

fn limits(depth: usize) -> Limits {
    Limits {
        device: DeviceId::unique(),
        memory: MemoryKind::Any,
        depth,
        max_source_bytes: 100,
        max_destination_bytes: 100,
        max_segments: 1,
        gather: true,
    }
}

fn spawn(depth: usize, bodies: Vec<WorkerMain>) -> Threads {
    Threads::spawn(limits(depth), applied(), CpuAccounting::Host, bodies).unwrap()
}

fn done() -> Result<Outcome, JobError> {
    Ok(Outcome::Done(Output::default()))
}

/// Finishes jobs as they come.
fn prompt(mut port: WorkerQueue) {
    while let Next::Job(taken) = port.next(None) {
        port.finish_timed(taken, done());
    }
}

/// Signals when it has taken a job and finishes it on request.
fn held() -> (WorkerMain, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (tell, told) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let body = WorkerMain::new("held", move |mut port| {
        while let Next::Job(taken) = port.next(None) {
            let _ = tell.send(());
            let _ = released.recv();
            port.finish_timed(taken, done());
        }
    });
    (body, told, release)
}

fn region(len: usize) -> Region {
    Region::allocate(len, 1, None).unwrap()
}

fn job(tag: u64, deadline: Option<Instant>) -> Job {
    let source = region(8).share().into();
    Job { tag, source, destination: region(8), deadline }
}

fn submit(threads: &mut Threads, jobs: impl IntoIterator<Item = Job>) -> usize {
    threads.submit(&mut jobs.into_iter().collect()).unwrap()
}

/// Polls until there is something.
fn poll(threads: &mut Threads) -> Vec<Completion> {
    let mut out = Vec::new();
    while threads.poll(&mut out, usize::MAX).unwrap() == 0 {
        std::thread::yield_now();
    }
    out
}

/// Submits jobs until one is running when its time is over: a busy machine begins some too late.
fn overrun(threads: &mut Threads, make: impl Fn(Instant) -> Job) -> Completion {
    let mut attempts = (1..).map(|attempt| {
        while submit(threads, [make(Instant::now() + attempt * SHORT)]) == 0 {
            assert_eq!(threads.poll(&mut Vec::new(), 1), Ok(0));
        }
        let completion = poll(threads).pop().unwrap();
        assert_eq!(completion.result, Err(JobError::DeadlineExceeded));
        completion
    });
    attempts.find(|late| late.destination.is_none()).unwrap()
}

#[test]
fn jobs_come_back_with_their_buffers_and_times() {
    let mut threads = spawn(4, vec![WorkerMain::new("toy", prompt)]);
    assert_eq!(submit(&mut threads, [job(7, None)]), 1);
    assert_eq!(threads.in_flight(), 1);
    let completion = poll(&mut threads).pop().unwrap();
    assert_eq!((completion.tag, completion.result), (7, done()));
    assert_eq!((completion.source.len(), completion.destination.unwrap().len()), (8, 8));
    assert!(completion.stages.queueing_ns.is_some() && completion.stages.engine_ns.is_some());
    assert_eq!(threads.in_flight(), 0);
}

#[test]
fn a_running_job_past_its_deadline_leaves_its_destination_in_quarantine() {
    let (body, taken, release) = held();
    let mut threads = spawn(2, vec![body]);
    let dropped = Arc::new(());
    let completion = overrun(&mut threads, |deadline| {
        let registration = Registration { device: DeviceId::unique(), handle: dropped.clone() };
        Job {
            destination: Region::allocate(8, 1, Some(registration)).unwrap(),
            ..job(1, Some(deadline))
        }
    });
    taken.recv().unwrap();
    assert_eq!(completion.source.len(), 8);
    assert_eq!((threads.in_flight(), threads.quarantined()), (0, 1));
    assert_eq!(Arc::strong_count(&dropped), 2, "the engine may still write");
    release.send(()).unwrap();
    while threads.quarantined() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(Arc::strong_count(&dropped), 1, "the engine is done");
    // No second completion, and the place is free again.
    assert_eq!(threads.poll(&mut Vec::new(), 1).unwrap(), 0);
    assert_eq!(submit(&mut threads, [job(2, None), job(3, None)]), 2);
    release.send(()).unwrap();
    release.send(()).unwrap();
    let mut tags = Vec::new();
    while tags.len() < 2 {
        tags.extend(poll(&mut threads).iter().map(|completion| completion.tag));
    }
    assert_eq!(tags, [2, 3]);
}

#[test]
fn a_queued_job_past_its_deadline_comes_back_whole_while_the_engine_is_busy() {
    let (body, taken, release) = held();
    let mut threads = spawn(2, vec![body]);
    submit(&mut threads, [job(1, None), job(2, Some(Instant::now() + SHORT))]);
    taken.recv().unwrap();
    let completion = poll(&mut threads).pop().unwrap();
    assert_eq!((completion.tag, completion.result), (2, Err(JobError::DeadlineExceeded)));
    assert!(completion.destination.is_some());
    assert_eq!((threads.in_flight(), threads.quarantined()), (1, 0));
    release.send(()).unwrap();
    assert_eq!(poll(&mut threads).pop().unwrap().tag, 1);
    // Its place is free again in the end.
    while submit(&mut threads, [job(3, None)]) == 0 {
        let mut out = Vec::new();
        assert_eq!(threads.poll(&mut out, 1).unwrap(), 0);
    }
}

#[test]
fn a_job_whose_deadline_has_passed_is_not_begun() {
    let begun = Arc::new(AtomicUsize::new(0));
    let body = WorkerMain::new("counts", {
        let begun = Arc::clone(&begun);
        move |mut port| {
            while let Next::Job(taken) = port.next(None) {
                begun.fetch_add(1, Ordering::Relaxed);
                port.finish_timed(taken, done());
            }
        }
    });
    let mut threads = spawn(2, vec![body]);
    submit(&mut threads, [job(1, Some(Instant::now()))]);
    let completion = poll(&mut threads).pop().unwrap();
    assert_eq!(completion.result, Err(JobError::DeadlineExceeded));
    assert!(completion.destination.is_some());
    assert_eq!(begun.load(Ordering::Relaxed), 0);
}

#[test]
fn the_event_tells_of_a_deadline_though_the_engine_hangs() {
    let (body, taken, release) = held();
    let mut threads = spawn(2, vec![body]);
    submit(&mut threads, [job(1, None)]);
    taken.recv().unwrap();
    submit(&mut threads, [job(2, Some(Instant::now() + SHORT))]);
    let mut out = Vec::new();
    while out.is_empty() {
        if !threads.arm().unwrap() {
            let descriptor = threads.event_fd();
            let mut set = [rustix::event::PollFd::new(&descriptor, rustix::event::PollFlags::IN)];
            let timeout = LONG.try_into().unwrap();
            assert_eq!(rustix::event::poll(&mut set, Some(&timeout)).unwrap(), 1);
        }
        threads.poll(&mut out, 1).unwrap();
    }
    assert_eq!(out[0].result, Err(JobError::DeadlineExceeded));
    release.send(()).unwrap();
}

#[test]
fn a_thread_that_panics_loses_the_context_and_nothing_hangs() {
    let body = WorkerMain::new("panics", |mut port: WorkerQueue| {
        while let Next::Job(taken) = port.next(None) {
            assert_ne!(taken.tag(), 2, "two is too many");
            port.finish_timed(taken, done());
        }
    });
    let mut threads = spawn(4, vec![body]);
    submit(&mut threads, [job(1, None), job(2, None), job(3, None)]);
    let mut out = Vec::new();
    let lost = loop {
        match threads.poll(&mut out, 10) {
            Ok(_) => std::thread::yield_now(),
            Err(lost) => break lost,
        }
    };
    assert_eq!(out.len(), 1, "what completed comes first");
    assert!(lost.reason.contains("two is too many"), "{lost}");
    assert_eq!(lost.tags, [2, 3]);
    assert_eq!(threads.arm(), Err(lost.clone()));
    let refused = threads.submit(&mut VecDeque::from([job(4, None)]));
    assert_eq!(refused, Err(SubmitError::Lost(lost)));
    let closed = threads.close(Lifecycle::default(), Instant::now() + LONG);
    assert_eq!(closed.abandoned, [2, 3]);
}

#[test]
fn a_waiting_submitter_is_woken_when_the_device_is_lost() {
    let (tell, told) = mpsc::channel::<()>();
    let body = WorkerMain::new("returns", move |mut port: WorkerQueue| {
        let _job = port.next(None);
        let _ = told.recv();
    });
    let mut threads = spawn(1, vec![body]);
    submit(&mut threads, [job(1, None)]);
    assert!(!threads.arm().unwrap());
    drop(tell);
    let descriptor = threads.event_fd();
    let mut set = [rustix::event::PollFd::new(&descriptor, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut set, Some(&LONG.try_into().unwrap())).unwrap();
    assert_eq!(threads.poll(&mut Vec::new(), 1).unwrap_err().tags, [1]);
}

#[test]
fn closing_gives_up_at_its_deadline_and_names_what_it_left() {
    let (body, taken, release) = held();
    let mut threads = spawn(4, vec![body]);
    submit(&mut threads, (1..=3).map(|tag| job(tag, None)));
    taken.recv().unwrap();
    release.send(()).unwrap();
    taken.recv().unwrap();
    let closed = threads.close(Lifecycle::default(), Instant::now() + SHORT);
    let tags: Vec<u64> = closed.completions.iter().map(|completion| completion.tag).collect();
    assert_eq!((tags, closed.abandoned), (vec![1], vec![2, 3]));
    assert!(closed.lifecycle.end_ns.is_some());
}

#[test]
fn closing_while_threads_finish_accounts_for_every_job_once() {
    for _ in 0..500 {
        let bodies = (0..3).map(|_| WorkerMain::new("prompt", prompt)).collect();
        let mut threads = spawn(8, bodies);
        let taken = submit(&mut threads, (0..8).map(|tag| job(tag, None)));
        let closed = threads.close(Lifecycle::default(), Instant::now());
        let mut tags: Vec<_> = closed.completions.iter().map(|done| done.tag).collect();
        tags.extend(closed.abandoned);
        tags.sort_unstable();
        assert_eq!(tags, (0..taken as u64).collect::<Vec<_>>());
    }
}

#[test]
fn closing_waits_for_what_is_in_flight() {
    let mut threads = spawn(64, vec![WorkerMain::new("a", prompt), WorkerMain::new("b", prompt)]);
    submit(&mut threads, (0..64).map(|tag| job(tag, None)));
    let closed = threads.close(Lifecycle::default(), Instant::now() + LONG);
    let mut tags: Vec<u64> = closed.completions.iter().map(|completion| completion.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..64).collect::<Vec<_>>());
    assert!(closed.abandoned.is_empty());
    assert!(closed.cpu_time.host_ns > 0);
}

#[test]
fn a_port_wakes_at_the_time_asked_for_and_not_before() {
    let (tell, told) = mpsc::channel();
    let body = WorkerMain::new("timed", move |mut port: WorkerQueue| {
        for wait in [Duration::ZERO, Duration::from_micros(40), Duration::from_millis(3)] {
            let until = Instant::now() + wait;
            let next = port.next(Some(until));
            let _ = tell.send((matches!(next, Next::Timeout), Instant::now() >= until));
        }
        prompt(port);
    });
    let threads = spawn(1, vec![body]);
    for _ in 0..3 {
        assert_eq!(told.recv().unwrap(), (true, true));
    }
    drop(threads);
}

#[test]
fn jobs_can_be_finished_later_and_in_another_order() {
    let body = WorkerMain::new("batches", |mut port: WorkerQueue| {
        let mut hands = Vec::new();
        while let Next::Job(taken) = port.next(None) {
            hands.push(taken);
            if hands.len() == 3 {
                for taken in hands.drain(..).rev() {
                    let stages = Stages { engine_ns: Some(taken.tag()), ..Stages::default() };
                    port.finish(taken, done(), stages);
                }
            }
        }
    });
    let mut threads = spawn(3, vec![body]);
    submit(&mut threads, (1..=3).map(|tag| job(tag, None)));
    let mut out = Vec::new();
    while out.len() < 3 {
        out.extend(poll(&mut threads));
    }
    let seen: Vec<_> = out.iter().map(|done| (done.tag, done.stages.engine_ns)).collect();
    assert_eq!(seen, [(3, Some(3)), (2, Some(2)), (1, Some(1))]);
}

#[test]
fn replaced_threads_stay_on_the_books() {
    let (body, taken, release) = held();
    let mut threads = spawn(1, vec![body]);
    overrun(&mut threads, |deadline| job(1, Some(deadline)));
    taken.recv().unwrap();
    assert_eq!(threads.quarantined(), 1);
    threads.replace(spawn(1, vec![WorkerMain::new("toy", prompt)]));
    assert_eq!(threads.quarantined(), 1);
    submit(&mut threads, [job(2, None)]);
    assert_eq!(poll(&mut threads)[0].tag, 2);
    release.send(()).unwrap();
    while threads.quarantined() > 0 {
        std::thread::yield_now();
    }
    let before = threads.cpu_time().host_ns;
    threads.replace(spawn(1, vec![WorkerMain::new("toy", prompt)]));
    assert!(threads.cpu_time().host_ns >= before);
}

#[test]
fn a_core_that_does_not_exist_is_an_error() {
    let body = WorkerMain::new("nowhere", prompt).pinned(1023);
    let other = WorkerMain::new("here", prompt);
    let spawned = Threads::spawn(limits(1), applied(), CpuAccounting::Host, vec![other, body]);
    assert!(spawned.err().unwrap().to_string().contains("core 1023"));
}

#[test]
fn without_a_thread_or_a_place_nothing_is_opened() {
    for (depth, bodies) in [(1, Vec::new()), (0, vec![WorkerMain::new("toy", prompt)])] {
        assert!(Threads::spawn(limits(depth), applied(), CpuAccounting::Host, bodies).is_err());
    }
}

#[test]
fn a_submitter_that_waits_is_woken_for_several_completions_at_once() {
    let body = WorkerMain::new("slow", |mut port: WorkerQueue| {
        while let Next::Job(taken) = port.next(None) {
            let begun = taken.begun();
            while begun.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
            port.finish_timed(taken, done());
        }
    });
    let mut threads = spawn(16, vec![body]);
    let (mut completed, mut waits) = (0, 0);
    let mut next_tag = 0;
    while completed < 2000 {
        let room = 16 - threads.in_flight() as u64;
        next_tag +=
            submit(&mut threads, (next_tag..next_tag + room).map(|tag| job(tag, None))) as u64;
        if !threads.arm().unwrap() {
            waits += 1;
            let descriptor = threads.event_fd();
            let mut set = [rustix::event::PollFd::new(&descriptor, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut set, Some(&LONG.try_into().unwrap())).unwrap();
        }
        completed += threads.poll(&mut Vec::new(), 16).unwrap();
    }
    assert!(waits < 2000 / 2, "{waits} waits for {completed} completions");
}
