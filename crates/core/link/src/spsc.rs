//! A bounded queue of values from one thread to one other of this process.

// Slots are written and read through a shared reference; the cursors say whose turn it is.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use crate::primitive::{Arc, UnsafeCell};
use crate::ring::{Consumer, Cursors, Producer};
use crate::shared::Shared;

struct Slots<T> {
    entries: Box<[UnsafeCell<MaybeUninit<T>>]>,
    cursors: Shared<Cursors>,
}

// SAFETY: a slot is touched by the sender while it is staged and by the receiver while it is
// taken, and the cursors let no slot be both.
unsafe impl<T: Send> Sync for Slots<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> Slots<T> {
    fn at(&self, position: u64) -> &UnsafeCell<MaybeUninit<T>> {
        &self.entries[position as usize & (self.entries.len() - 1)]
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        // Both ends are gone, and have published and released what they had.
        for position in self.cursors.unread() {
            // SAFETY: written and not taken, and no other thread is left.
            self.at(position).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
        }
    }
}

/// A queue with room for at least `capacity` values.
pub(crate) fn channel<T: Send + 'static>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.next_power_of_two();
    let cursors = Shared::new(Cursors::new(0));
    let slots = Arc::new(Slots {
        entries: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        cursors: cursors.clone(),
    });
    let sender = Sender {
        cursors: Producer::new(cursors.clone(), capacity as u64, 0),
        slots: Arc::clone(&slots),
    };
    let receiver = Receiver { cursors: Consumer::new(cursors, capacity as u64, 0), slots };
    (sender, receiver)
}

/// Both cursors of such a queue are this process's own.
const OURS: &str = "both ends are ours";

/// The writing end.
pub(crate) struct Sender<T> {
    cursors: Producer,
    slots: Arc<Slots<T>>,
}

impl<T: Send> Sender<T> {
    /// Returns `true` if there is room for one more.
    pub(crate) fn has_room(&mut self) -> bool {
        self.cursors.room(1).expect(OURS) > 0
    }

    /// Puts a value aside; the receiver sees it only after [`Sender::publish`].
    ///
    /// # Errors
    /// The value, if there is no room.
    pub(crate) fn stage(&mut self, value: T) -> Result<(), T> {
        if !self.has_room() {
            return Err(value);
        }
        let position = self.cursors.stage(1);
        // SAFETY: staged and not published, so it is the sender's alone; it was taken out before,
        // or never written.
        self.slots.at(position).with_mut(|slot| unsafe { (*slot).write(value) });
        Ok(())
    }

    /// Publishes all reserved values. Returns `false` if there were none.
    pub(crate) fn publish(&mut self) -> bool {
        self.cursors.publish()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.cursors.publish();
    }
}

/// The reading end.
pub(crate) struct Receiver<T> {
    cursors: Consumer,
    slots: Arc<Slots<T>>,
}

impl<T: Send> Receiver<T> {
    /// The oldest value.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let position = self.cursors.take(1);
        // SAFETY: published and not released, so it is the receiver's alone; and it is read once.
        let value = self.slots.at(position).with(|slot| unsafe { (*slot).assume_init_read() });
        Some(value)
    }

    /// Returns `true` if there is nothing to take.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.cursors.available().expect(OURS) == 0
    }

    /// Releases the slots of all taken values.
    pub(crate) fn release(&mut self) {
        self.cursors.release();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.cursors.release();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Compared with a queue, and nothing is lost or dropped twice: the values count.
        #[test]
        fn is_a_queue(steps in proptest::collection::vec(0..5u8, 0..100), capacity in 1..9usize) {
            let counted = Arc::new(());
            let (mut sender, mut receiver) = channel(capacity);
            let (mut staged, mut published) = (Vec::new(), VecDeque::new());
            let mut held = 0;
            for (value, step) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => {
                        let full = held == capacity.next_power_of_two();
                        let outcome = sender.stage((value, Arc::clone(&counted)));
                        prop_assert_eq!(outcome.is_err(), full);
                        if outcome.is_ok() {
                            staged.push(value);
                            held += 1;
                        }
                    }
                    2 => {
                        prop_assert_eq!(sender.publish(), !staged.is_empty());
                        published.extend(staged.drain(..));
                    }
                    3 => {
                        let taken = receiver.take().map(|(value, _)| value);
                        prop_assert_eq!(taken, published.pop_front());
                    }
                    _ => {
                        receiver.release();
                        held = staged.len() + published.len();
                    }
                }
                let left = staged.len() + published.len();
                prop_assert_eq!(Arc::strong_count(&counted), 1 + left);
            }
            drop(sender);
            drop(receiver);
            prop_assert_eq!(Arc::strong_count(&counted), 1);
        }
    }

    #[test]
    fn carries_values_between_threads() {
        let count = if cfg!(miri) { 100 } else { 100_000 };
        let (mut sender, mut receiver) = channel(8);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..count {
                    let mut value = Box::new(value);
                    while let Err(back) = sender.stage(value) {
                        value = back;
                        std::thread::yield_now();
                    }
                    sender.publish();
                }
            });
            for expected in 0..count {
                let value = loop {
                    match receiver.take() {
                        Some(value) => break value,
                        None => std::thread::yield_now(),
                    }
                };
                receiver.release();
                assert_eq!(*value, expected);
            }
        });
    }
}
