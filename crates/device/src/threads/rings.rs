//! The two bounded queues between a submitter and its threads. They carry the numbers of slots,
//! never bytes; whoever holds a number may touch the slot.
//!
//! Neither checks for overflow: there are no more numbers than entries, and each number is in one
//! place at a time.

use crate::primitive::{AtomicU32, AtomicUsize, Ordering, Padded};

fn entries(capacity: usize) -> Box<[AtomicU32]> {
    (0..capacity.next_power_of_two())
        .map(|_| AtomicU32::new(0))
        .collect()
}

/// From one submitter to many threads.
pub(super) struct Submitted {
    entries: Box<[AtomicU32]>,
    /// Written by the submitter: one store hands over a whole batch.
    tail: Padded<AtomicUsize>,
    /// Advanced by the threads, each number taken by one of them.
    head: Padded<AtomicUsize>,
}

impl Submitted {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: entries(capacity),
            tail: Padded(AtomicUsize::new(0)),
            head: Padded(AtomicUsize::new(0)),
        }
    }

    /// Writes an entry that nobody sees before [`Submitted::publish`]. Submitter only.
    pub(super) fn stage(&self, position: usize, number: u32) {
        // Relaxed: `publish` orders it. The entry's last reader is done with it, because the
        // number that it read has come back to the submitter since.
        self.entries[position & (self.entries.len() - 1)].store(number, Ordering::Relaxed);
    }

    /// Makes all entries before `end` visible. Submitter only.
    pub(super) fn publish(&self, end: usize) {
        self.tail.0.store(end, Ordering::Release);
    }

    /// Takes the oldest number.
    pub(super) fn take(&self) -> Option<u32> {
        // Acquire on `head` as well: whoever moved it has seen a tail beyond it, and a tail older
        // than that one would make this thread believe in entries that are not there.
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            if head == self.tail.0.load(Ordering::Acquire) {
                return None;
            }
            // Can be overwritten only after another thread has taken it; then `head` has moved.
            let number = self.entries[head & (self.entries.len() - 1)].load(Ordering::Relaxed);
            let next = head.wrapping_add(1);
            match self
                .head
                .0
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }

    /// Nothing to take. Sees everything published before a sequentially consistent fence that
    /// precedes the caller's.
    pub(super) fn is_empty(&self) -> bool {
        self.head.0.load(Ordering::Acquire) == self.tail.0.load(Ordering::Acquire)
    }
}

/// From many threads to one submitter.
pub(super) struct Finished {
    /// Zero is empty, anything else a number plus one.
    entries: Box<[AtomicU32]>,
    tail: Padded<AtomicUsize>,
}

impl Finished {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: entries(capacity),
            tail: Padded(AtomicUsize::new(0)),
        }
    }

    /// Appends a number and returns its position.
    pub(super) fn push(&self, number: u32) -> usize {
        // AcqRel: of the numbers that were pushed up to here one was submitted after the entry
        // had been emptied, so through this chain the emptying happens before the store below.
        let position = self.tail.0.fetch_add(1, Ordering::AcqRel);
        self.entries[position & (self.entries.len() - 1)].store(number + 1, Ordering::Release);
        position
    }

    /// Takes the number at `position`, if it is there already. Submitter only, in order.
    pub(super) fn take(&self, position: usize) -> Option<u32> {
        let entry = &self.entries[position & (self.entries.len() - 1)];
        let number = entry.load(Ordering::Acquire).checked_sub(1)?;
        // Relaxed: reaches the next writer with the number that is submitted after this.
        entry.store(0, Ordering::Relaxed);
        Some(number)
    }

    /// The position after the last number that was or is being pushed.
    pub(super) fn end(&self) -> usize {
        self.tail.0.load(Ordering::Acquire)
    }

    /// There is a number at `position`.
    pub(super) fn has(&self, position: usize) -> bool {
        self.entries[position & (self.entries.len() - 1)].load(Ordering::Acquire) != 0
    }
}
