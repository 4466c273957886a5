//! The queues, the doorbell and the arming, in every order that the memory model allows. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p overside-device --release --lib loom`.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::doorbell::Doorbell;
use super::rings::{Finished, Submitted};

/// A slot's contents, which loom watches for unordered access.
struct Slots(Vec<loom::cell::UnsafeCell<u32>>);

// The holder of the slot's number has access: these tests show that this is enough.
#[allow(unsafe_code)]
// SAFETY: loom reports any two accesses that are not ordered.
unsafe impl Sync for Slots {}

impl Slots {
    fn new(count: usize) -> Self {
        Self((0..count).map(|_| loom::cell::UnsafeCell::new(0)).collect())
    }

    #[allow(unsafe_code)]
    fn set(&self, number: u32, value: u32) {
        // SAFETY: as above.
        self.0[number as usize].with_mut(|at| unsafe { *at = value });
    }

    #[allow(unsafe_code)]
    fn get(&self, number: u32) -> u32 {
        // SAFETY: as above.
        self.0[number as usize].with(|at| unsafe { *at })
    }
}

/// Model of the eventfd: a flag that a thread can wait for.
struct Event(Mutex<bool>, Condvar);

impl Event {
    fn signal(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }

    fn clear(&self) {
        *self.0.lock().unwrap() = false;
    }

    fn wait(&self) {
        let mut signalled = self.0.lock().unwrap();
        while !*signalled {
            signalled = self.1.wait(signalled).unwrap();
        }
    }
}

struct ContextState {
    slots: Slots,
    submitted: Submitted,
    finished: Finished,
    doorbell: Doorbell,
    event: Event,
    stop: AtomicBool,
}

impl ContextState {
    fn new(depth: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: Slots::new(depth),
            submitted: Submitted::new(depth),
            finished: Finished::new(depth),
            doorbell: Doorbell::new(),
            event: Event(Mutex::new(false), Condvar::new()),
            stop: AtomicBool::new(false),
        })
    }

    /// Models `WorkerQueue::next`, `finish` and `idle`, without spinning and without a clock: the
    /// submitter's patience never runs out.
    fn work(&self) {
        loop {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            if let Some(number) = self.submitted.take() {
                self.slots.set(number, self.slots.get(number) + 1);
                if self.finished.push(number, || 0) {
                    self.event.signal();
                }
                continue;
            }
            if self.finished.idle() {
                self.event.signal();
            }
            let ready = || !self.submitted.is_empty() || self.stop.load(Ordering::Acquire);
            self.doorbell.sleep(None, ready);
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.doorbell.ring(usize::MAX);
    }
}

/// Submits each batch when the previous one has completed, and waits for events only. It only ends if no
/// wake-up is lost on either side.
fn waits_for_events(depth: usize, threads: usize, batches: &[u32]) {
    let shared = ContextState::new(depth);
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.work())
        })
        .collect();
    let (mut staged, mut reaped) = (0, 0);
    for (round, &batch) in batches.iter().enumerate() {
        for number in 0..batch {
            shared.slots.set(number, 10 * round as u32);
            shared.submitted.stage(staged, number);
            staged += 1;
        }
        shared.submitted.publish(staged);
        shared.doorbell.ring(batch as usize);
        let mut left = batch as usize;
        while left > 0 {
            shared.event.clear();
            if shared.finished.arm(reaped, (left / 2).max(1), u64::MAX) {
                shared.event.wait();
            } else {
                // Counted but perhaps not written yet.
                thread::yield_now();
            }
            while let Some(number) = shared.finished.take(reaped) {
                assert_eq!(shared.slots.get(number), 10 * round as u32 + 1);
                reaped += 1;
                left -= 1;
            }
        }
    }
    shared.stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(check);
}

#[test]
fn loom_one_thread_wakes_and_is_woken() {
    model(3, || waits_for_events(1, 1, &[1, 1]));
}

#[test]
fn loom_a_gathered_batch_wakes() {
    model(3, || waits_for_events(2, 1, &[2, 1]));
}

#[test]
fn loom_two_threads_wake_and_are_woken() {
    model(2, || waits_for_events(2, 2, &[2]));
}

#[test]
fn loom_numbers_pass_through_the_rings_once() {
    model(3, || {
        let shared = ContextState::new(2);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let mut taken = 0;
                    while let Some(number) = shared.submitted.take() {
                        shared.slots.set(number, shared.slots.get(number) + 1);
                        assert!(!shared.finished.push(number, || 0));
                        taken += 1;
                    }
                    taken
                })
            })
            .collect();
        let (mut staged, mut reaped, mut seen) = (0, 0, 0);
        for number in 0..2 {
            shared.slots.set(number, 5);
            shared.submitted.stage(staged, number);
            staged += 1;
            shared.submitted.publish(staged);
        }
        // One that has come back goes around again, so that the rings wrap.
        if let Some(number) = shared.finished.take(reaped) {
            assert_eq!(shared.slots.get(number), 6);
            reaped += 1;
            seen += 1;
            shared.slots.set(number, 5);
            shared.submitted.stage(staged, number);
            staged += 1;
            shared.submitted.publish(staged);
        }
        let taken: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        while let Some(number) = shared.finished.take(reaped) {
            assert_eq!(shared.slots.get(number), 6);
            reaped += 1;
            seen += 1;
        }
        assert_eq!(seen, taken);
    });
}
