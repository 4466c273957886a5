//! The two bounded queues between a submitter and its threads. They carry the numbers of slots,
//! never bytes; the thread that holds a number may touch the slot.
//!
//! Neither checks for overflow: there are no more numbers than entries, and each number is in one
//! place at a time.

use crate::primitive::{AtomicU32, AtomicU64, AtomicUsize, Ordering, Padded};

fn entries(capacity: usize) -> Box<[AtomicU32]> {
    (0..capacity.next_power_of_two()).map(|_| AtomicU32::new(0)).collect()
}

/// Ring from one submitter to many threads.
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

    /// Writes an entry that threads see only after [`Submitted::publish`]. Submitter only.
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
        // Acquire on `head` as well: the thread that moved it has seen a tail beyond it. With an
        // older tail, this thread would read entries that do not exist.
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            if head == self.tail.0.load(Ordering::Acquire) {
                return None;
            }
            // Can be overwritten only after another thread has taken it; then `head` has moved.
            let number = self.entries[head & (self.entries.len() - 1)].load(Ordering::Relaxed);
            let next = head.wrapping_add(1);
            match self.head.0.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }

    /// Number that is taken next; `None` if there is none or another thread takes it.
    pub(super) fn peek(&self) -> Option<u32> {
        let head = self.head.0.load(Ordering::Relaxed);
        let there = head != self.tail.0.load(Ordering::Acquire);
        there.then(|| self.entries[head & (self.entries.len() - 1)].load(Ordering::Relaxed))
    }

    /// Returns `true` if there is nothing to take. Sees everything published before a sequentially
    /// consistent fence that precedes the caller's.
    pub(super) fn is_empty(&self) -> bool {
        self.head.0.load(Ordering::Acquire) == self.tail.0.load(Ordering::Acquire)
    }
}

/// Ring from many threads to one submitter, with a wake-up for a waiting submitter.
///
/// A waiting submitter is woken for several completions rather than for each, so that it does not take cores
/// away from the threads it waits for: when enough have gathered, when it has waited for long, or when a
/// thread would become idle.
///
/// No wake-up is lost and no fence is needed, because the request for a wake-up is a bit of the counter that
/// every thread has to increment: either the increment sees the request, or the request sees the increment.
pub(super) struct Finished {
    /// Entries, each 0 if empty, else a number plus one.
    entries: Box<[AtomicU32]>,
    /// Number of entries that were pushed or are about to be, with the bit [`ARMED`].
    tail: Padded<AtomicUsize>,
    wake: Padded<WakeFlag>,
}

/// Written by the submitter, read by the threads.
struct WakeFlag {
    /// Value of `tail` at which enough completions have gathered to wake the submitter.
    target: AtomicUsize,
    /// The time, on the context's own clock, from which every completion wakes.
    patience_ns: AtomicU64,
    /// Number of entries that the submitter has taken.
    taken: AtomicUsize,
}

/// Bit of the counter that requests a wake-up. 2^63 completions do not happen.
const ARMED: usize = 1 << (usize::BITS - 1);

impl Finished {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: entries(capacity),
            tail: Padded(AtomicUsize::new(0)),
            wake: Padded(WakeFlag {
                target: AtomicUsize::new(0),
                patience_ns: AtomicU64::new(0),
                taken: AtomicUsize::new(0),
            }),
        }
    }

    /// Appends a number. Returns `true` if the caller has to wake the submitter.
    #[must_use]
    pub(super) fn push(&self, number: u32, now_ns: impl FnOnce() -> u64) -> bool {
        // AcqRel: of the numbers that were pushed up to here one was submitted after the entry
        // had been emptied, so through this chain the emptying happens before the store below.
        let before = self.tail.0.fetch_add(1, Ordering::AcqRel);
        let position = before & !ARMED;
        self.entries[position & (self.entries.len() - 1)].store(number + 1, Ordering::Release);
        if before & ARMED == 0 {
            return false;
        }
        // Relaxed: written before the bit was set.
        let enough = position + 1 >= self.wake.0.target.load(Ordering::Relaxed);
        let late = || now_ns() >= self.wake.0.patience_ns.load(Ordering::Relaxed);
        (enough || late()) && self.claim()
    }

    /// Prepares a thread for being idle. Returns `true` if it has to wake the submitter.
    #[must_use]
    pub(super) fn idle(&self) -> bool {
        let tail = self.tail.0.load(Ordering::Acquire);
        // Relaxed: written before the bit was set.
        let pending = || tail & !ARMED != self.wake.0.taken.load(Ordering::Relaxed);
        tail & ARMED != 0 && pending() && self.claim()
    }

    /// Clears [`ARMED`]. Returns `true` if it was set: the submitter waits, and this caller has to
    /// wake it.
    #[must_use]
    pub(super) fn claim(&self) -> bool {
        self.tail.0.fetch_and(!ARMED, Ordering::AcqRel) & ARMED != 0
    }

    /// Requests a wake-up when `enough` completions more than `taken` have gathered, or one after
    /// `patience_ns`. Returns `false` if there are some already: then no wake-up follows. Submitter only.
    #[must_use]
    pub(super) fn arm(&self, taken: usize, enough: usize, patience_ns: u64) -> bool {
        // Relaxed: ordered by the exchange below.
        self.wake.0.target.store(taken + enough, Ordering::Relaxed);
        self.wake.0.patience_ns.store(patience_ns, Ordering::Relaxed);
        self.wake.0.taken.store(taken, Ordering::Relaxed);
        let pending = self.tail.0.fetch_or(ARMED, Ordering::AcqRel) & !ARMED != taken;
        if pending {
            self.tail.0.fetch_and(!ARMED, Ordering::AcqRel);
        }
        !pending
    }

    /// Takes the number at `position`, if it is there already. Submitter only, in order.
    pub(super) fn take(&self, position: usize) -> Option<u32> {
        let entry = &self.entries[position & (self.entries.len() - 1)];
        let number = entry.load(Ordering::Acquire).checked_sub(1)?;
        // Relaxed: reaches the next writer with the number that is submitted after this.
        entry.store(0, Ordering::Relaxed);
        Some(number)
    }

    /// Returns `true` if there is a number at `position`.
    pub(super) fn has(&self, position: usize) -> bool {
        self.entries[position & (self.entries.len() - 1)].load(Ordering::Acquire) != 0
    }
}
