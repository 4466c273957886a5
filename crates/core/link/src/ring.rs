//! The two cursors of a queue with one producer and one consumer.
//!
//! A cursor counts all that was ever written or read, so that full and empty differ, and indexes by its
//! remainder modulo the capacity, a power of two. Each side caches the other's cursor and reads it again only
//! when the cached value does not suffice: while there is room and something to read, the two sides share no
//! cache line except those of the entries.
//!
//! The user of the cursors defines location and format of the entries: [`spsc`](crate::spsc) keeps values of
//! a type, [`stream`](crate::stream) bytes in memory that another process writes as well. So a cursor that is
//! read here may have any value, and an impossible one is [`CorruptCursor`].

use crate::primitive::{AtomicU32, AtomicU64, Ordering, Padded};
use crate::shared::Shared;

/// State that the two sides of a ring share. In shared memory this is its layout: any bit pattern
/// is valid.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cursors {
    /// Number of units ever written. Stored by the producer only.
    tail: Padded<AtomicU64>,
    /// Number of units ever read. Stored by the consumer only.
    head: Padded<AtomicU64>,
    /// Flag that is not zero once the producer writes no more.
    closed: Padded<AtomicU32>,
}

impl Cursors {
    /// Creates the cursors of a queue through which `first` units have already passed.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            tail: Padded(AtomicU64::new(first)),
            head: Padded(AtomicU64::new(first)),
            closed: Padded(AtomicU32::new(0)),
        }
    }

    /// Sets the tail to any value, as a peer that breaks the rules can do.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn set_tail(&self, tail: u64) {
        self.tail.0.store(tail, Ordering::Release);
    }

    /// Sets the head to any value, as a peer that breaks the rules can do.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn set_head(&self, head: u64) {
        self.head.0.store(head, Ordering::Release);
    }

    /// Returns the positions of units that were published and not released. Call it only once both
    /// sides are gone.
    pub(crate) fn unread(&self) -> impl Iterator<Item = u64> + use<> {
        // Acquire: with the stores of the two sides, which may have been other threads.
        let mut head = self.head.0.load(Ordering::Acquire);
        let tail = self.tail.0.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let position = head;
            head = head.wrapping_add(1);
            (position != tail).then_some(position)
        })
    }
}

/// The other side's cursor has an impossible value: more was read than written, or more written
/// than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CorruptCursor;

/// The writing side.
#[derive(Debug)]
pub(crate) struct Producer {
    cursors: Shared<Cursors>,
    capacity: u64,
    /// Number of units ever staged.
    staged: u64,
    /// Number of units ever published: those that the consumer may see.
    published: u64,
    /// The consumer's cursor as it was seen last.
    head: u64,
}

impl Producer {
    /// `capacity` is a power of two; `first` is the cursor's start of [`Cursors::new`].
    pub(crate) fn new(cursors: Shared<Cursors>, capacity: u64, first: u64) -> Self {
        assert!(capacity.is_power_of_two(), "{capacity} is no capacity");
        Self { cursors, capacity, staged: first, published: first, head: first }
    }

    /// Returns how many units can be staged. Reads the consumer's cursor only if its last known
    /// value leaves room for fewer than `wanted`.
    #[inline]
    pub(crate) fn room(&mut self, wanted: u64) -> Result<u64, CorruptCursor> {
        let room = self.capacity - self.staged.wrapping_sub(self.head);
        if room >= wanted {
            return Ok(room);
        }
        self.look()
    }

    fn look(&mut self) -> Result<u64, CorruptCursor> {
        // Acquire: with `release`'s store. What the consumer read before it moved its cursor is
        // read before anything is written over it.
        let head = self.cursors.head.0.load(Ordering::Acquire);
        // Between what was seen last and what was published: then `staged - head` is at most the
        // capacity, and the subtraction in `room` cannot wrap.
        if head.wrapping_sub(self.head) > self.published.wrapping_sub(self.head) {
            return Err(CorruptCursor);
        }
        self.head = head;
        Ok(self.capacity - self.staged.wrapping_sub(head))
    }

    /// Reserves `amount`, for which there must be room, and returns its beginning. The consumer sees the data
    /// there only after [`Producer::publish`].
    #[inline]
    pub(crate) fn stage(&mut self, amount: u64) -> u64 {
        let position = self.staged;
        self.staged = position.wrapping_add(amount);
        debug_assert!(self.staged.wrapping_sub(self.head) <= self.capacity);
        position
    }

    /// Publishes all reserved data. Returns `false` if there was none.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        if self.published == self.staged {
            return false;
        }
        self.published = self.staged;
        // Release: the entries are written before the consumer can see that they are there.
        self.cursors.tail.0.store(self.staged, Ordering::Release);
        true
    }

    /// Announces that nothing will be published any more.
    pub(crate) fn close(&self) {
        // Release: a reader that sees this and then reads the tail sees all of it.
        self.cursors.closed.0.store(1, Ordering::Release);
    }
}

/// The reading side.
#[derive(Debug)]
pub(crate) struct Consumer {
    cursors: Shared<Cursors>,
    capacity: u64,
    /// Number of units ever taken.
    taken: u64,
    /// Number of units ever released: those that the producer may overwrite.
    released: u64,
    /// The producer's cursor as it was seen last.
    tail: u64,
}

impl Consumer {
    /// Creates the reading side, with the same `capacity` and `first` as for [`Producer::new`].
    pub(crate) fn new(cursors: Shared<Cursors>, capacity: u64, first: u64) -> Self {
        assert!(capacity.is_power_of_two(), "{capacity} is no capacity");
        Self { cursors, capacity, taken: first, released: first, tail: first }
    }

    /// Returns `true` if nothing is left of the entries seen last.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.tail == self.taken
    }

    /// Returns how many units can be taken. Reads the producer's cursor only if everything up to
    /// its last known value has been taken.
    #[inline]
    pub(crate) fn available(&mut self) -> Result<u64, CorruptCursor> {
        if self.is_drained() {
            // Acquire: with `publish`'s store, so that the entries are read after they were
            // written.
            let tail = self.cursors.tail.0.load(Ordering::Acquire);
            if tail.wrapping_sub(self.taken) > self.capacity {
                return Err(CorruptCursor);
            }
            self.tail = tail;
        }
        Ok(self.tail.wrapping_sub(self.taken))
    }

    /// Returns the position of the unit that is taken next.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.taken
    }

    /// Takes `amount`, of which there must be that much available, and returns where it begins. It
    /// stays as it is until [`Consumer::release`].
    #[inline]
    pub(crate) fn take(&mut self, amount: u64) -> u64 {
        debug_assert!(amount <= self.tail.wrapping_sub(self.taken));
        let position = self.taken;
        self.taken = position.wrapping_add(amount);
        position
    }

    /// Releases all taken data, so that the producer can overwrite them. Returns `false` if there were none.
    #[inline]
    pub(crate) fn release(&mut self) -> bool {
        if self.released == self.taken {
            return false;
        }
        self.released = self.taken;
        // Release: the entries are read before the producer can see that they are free.
        self.cursors.head.0.store(self.taken, Ordering::Release);
        true
    }

    /// Returns `true` if the producer writes no more. Its earlier writes are seen by a later
    /// [`Consumer::available`].
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.cursors.closed.0.load(Ordering::Acquire) != 0
    }
}
