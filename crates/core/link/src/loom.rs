//! Model checks of the cursors and the request for a wake-up, in every order that the memory model allows.
//! Run them with `RUSTFLAGS="--cfg loom" cargo test -p overside-link --release --lib loom`.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::doorbell::Armed;
use crate::spsc::{self, Receiver, Sender};

/// Model of the notifier's socket: a flag that can be waited for.
struct Notifier(Mutex<bool>, Condvar);

impl Notifier {
    fn new() -> Self {
        Self(Mutex::new(false), Condvar::new())
    }

    fn notify(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }

    fn clear(&self) {
        *self.0.lock().unwrap() = false;
    }

    fn wait(&self) {
        let mut rung = self.0.lock().unwrap();
        while !*rung {
            rung = self.1.wait(rung).unwrap();
        }
    }
}

/// One side's wish and notifier.
struct Sleeper {
    armed: Armed,
    notifier: Notifier,
}

impl Sleeper {
    fn new() -> Arc<Self> {
        Arc::new(Self { armed: Armed::new(), notifier: Notifier::new() })
    }

    /// Behaves like a queue pair's `arm` followed by a wait, unless `ready` returns `true`.
    fn sleep_unless(&self, ready: impl FnOnce() -> bool) {
        self.notifier.clear();
        if !self.armed.arm(ready) {
            self.notifier.wait();
        }
    }

    /// Wakes the other side if it requested that, as a queue pair does after it has published.
    fn wake(&self) {
        if self.armed.must_notify() {
            self.notifier.notify();
        }
    }
}

/// Publishes `count` values in batches of `batch`, asleep where there is no room.
fn send(mut sender: Sender<Box<u32>>, count: u32, batch: u32, data: &Sleeper, room: &Sleeper) {
    for number in 0..count {
        let mut value = Box::new(number);
        while let Err(back) = sender.stage(value) {
            value = back;
            if sender.publish() {
                data.wake();
            }
            room.sleep_unless(|| sender.has_room());
        }
        if (number + 1).is_multiple_of(batch) && sender.publish() {
            data.wake();
        }
    }
    if sender.publish() {
        data.wake();
    }
}

/// Receives `count` values, and sleeps while there is none. It only ends if no wake-up is lost on either
/// side. loom reports values that are read before they are written, or overwritten before they are read.
fn receive(mut receiver: Receiver<Box<u32>>, count: u32, data: &Sleeper, room: &Sleeper) {
    for number in 0..count {
        let value = loop {
            match receiver.take() {
                Some(value) => break value,
                None => data.sleep_unless(|| !receiver.is_empty()),
            }
        };
        assert_eq!(*value, number);
        receiver.release();
        room.wake();
    }
}

fn both(capacity: usize, count: u32, batch: u32, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let (sender, receiver) = spsc::channel(capacity);
        let [data, room] = [Sleeper::new(), Sleeper::new()];
        let thread = thread::spawn({
            let (data, room) = (Arc::clone(&data), Arc::clone(&room));
            move || send(sender, count, batch, &data, &room)
        });
        receive(receiver, count, &data, &room);
        thread.join().unwrap();
    });
}

#[test]
fn loom_one_place_is_handed_back_and_forth() {
    both(1, 3, 1, 3);
}

#[test]
fn loom_a_ring_wraps() {
    both(2, 4, 1, 3);
}

#[test]
fn loom_batches_are_seen_whole() {
    both(4, 4, 2, 3);
}

/// Checks that values that are left when both ends are dropped, in any order, are dropped once;
/// loom counts the `Arc`s.
#[test]
fn loom_what_is_left_is_dropped() {
    loom::model(|| {
        let (mut sender, mut receiver) = spsc::channel(2);
        let thread = thread::spawn(move || {
            for value in 0..2 {
                let _ = sender.stage(Arc::new(value));
                sender.publish();
            }
        });
        if let Some(value) = receiver.take() {
            assert_eq!(*value, 0);
        }
        drop(receiver);
        thread.join().unwrap();
    });
}

/// A producer that closes: a consumer that sees that sees everything that was published before.
#[test]
fn loom_closing_hides_nothing() {
    use crate::ring::{Consumer, Cursors, Producer};
    use crate::shared::Shared;

    loom::model(|| {
        let cursors = Shared::new(Cursors::new(u64::MAX));
        let mut producer = Producer::new(cursors.clone(), 2, u64::MAX);
        let thread = thread::spawn(move || {
            producer.stage(2);
            producer.publish();
            producer.close();
        });
        let mut consumer = Consumer::new(cursors, 2, u64::MAX);
        if consumer.is_closed() {
            assert_eq!(consumer.available(), Ok(2));
        }
        thread.join().unwrap();
    });
}
