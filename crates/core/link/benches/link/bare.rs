//! Baseline that a queue pair is compared with: a ring for two threads of one process that only
//! carries 32-byte messages. It has cached cursors, a power-of-two mask, and batches by copy.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The length of each message in bytes.
pub(crate) const MESSAGE: usize = 32;

#[repr(align(128))]
struct Line<T>(T);

/// Two to a cache line, and none in two.
#[repr(align(32))]
struct Entry(UnsafeCell<[u8; MESSAGE]>);

struct RingMemory {
    tail: Line<AtomicUsize>,
    head: Line<AtomicUsize>,
    entries: Box<[Entry]>,
}

// SAFETY: an entry is written by the producer before it publishes it and read by the consumer
// before it releases it.
unsafe impl Sync for RingMemory {}
// SAFETY: as above.
unsafe impl Send for RingMemory {}

/// The writing end. In a line of its own, like the other: each thread writes only its own.
#[repr(align(128))]
pub(crate) struct Producer {
    shared: Arc<RingMemory>,
    tail: usize,
    head: usize,
}

/// The reading end.
#[repr(align(128))]
pub(crate) struct Consumer {
    shared: Arc<RingMemory>,
    head: usize,
    tail: usize,
}

/// `capacity` messages, a power of two.
pub(crate) fn ring(capacity: usize) -> (Producer, Consumer) {
    assert!(capacity.is_power_of_two());
    let shared = Arc::new(RingMemory {
        tail: Line(AtomicUsize::new(0)),
        head: Line(AtomicUsize::new(0)),
        entries: (0..capacity).map(|_| Entry(UnsafeCell::new([0; MESSAGE]))).collect(),
    });
    let producer = Producer { shared: Arc::clone(&shared), tail: 0, head: 0 };
    let consumer = Consumer { shared, head: 0, tail: 0 };
    (producer, consumer)
}

/// The two contiguous parts of `count` entries from `at` on.
fn parts(capacity: usize, at: usize, count: usize) -> [(usize, usize); 2] {
    let start = at & (capacity - 1);
    let first = count.min(capacity - start);
    [(start, first), (0, count - first)]
}

impl Producer {
    /// Writes as many as there is room for.
    #[inline]
    pub(crate) fn push(&mut self, messages: &[[u8; MESSAGE]]) -> usize {
        let capacity = self.shared.entries.len();
        if capacity - (self.tail - self.head) < messages.len() {
            self.head = self.shared.head.0.load(Ordering::Acquire);
        }
        let count = messages.len().min(capacity - (self.tail - self.head));
        let mut from = messages.as_ptr();
        for (start, count) in parts(capacity, self.tail, count) {
            // SAFETY: within the entries, and theirs is the producer's turn.
            unsafe {
                let entry = self.shared.entries.as_ptr().add(start);
                let to = UnsafeCell::raw_get(&raw const (*entry).0);
                std::ptr::copy_nonoverlapping(from, to, count);
                from = from.add(count);
            }
            if count == messages.len() {
                break;
            }
        }
        if count > 0 {
            self.tail += count;
            self.shared.tail.0.store(self.tail, Ordering::Release);
        }
        count
    }
}

impl Consumer {
    /// Reads as many as there are.
    #[inline]
    pub(crate) fn pop(&mut self, into: &mut [[u8; MESSAGE]]) -> usize {
        let capacity = self.shared.entries.len();
        if self.tail == self.head {
            self.tail = self.shared.tail.0.load(Ordering::Acquire);
        }
        let count = into.len().min(self.tail - self.head);
        let mut to = into.as_mut_ptr();
        for (start, count) in parts(capacity, self.head, count) {
            // SAFETY: within the entries, and theirs is the consumer's turn.
            unsafe {
                let entry = self.shared.entries.as_ptr().add(start);
                let from = UnsafeCell::raw_get(&raw const (*entry).0).cast_const();
                std::ptr::copy_nonoverlapping(from, to, count);
                to = to.add(count);
            }
        }
        if count > 0 {
            self.head += count;
            self.shared.head.0.store(self.head, Ordering::Release);
        }
        count
    }
}
