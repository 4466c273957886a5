//! Memory of cache semantics: a circular log.
//!
//! Items are appended at the head. When room is needed, the items at the tail, which are the oldest, are dropped,
//! whether or not they are still wanted: first in, first out. An item that is written again at the same size stays
//! where it is while it is among the newer half of the log; otherwise it moves to the head. So dropped items have not
//! been written since half of the log was.

use std::ops::Range;

/// Memory is given back in blocks of this, the size of a huge page.
const BLOCK: usize = 2 << 20;

/// Positions of head and tail in the circular log. It touches no memory itself.
#[derive(Debug)]
pub(super) struct Log {
    capacity: usize,
    head: usize,
    tail: usize,
    /// End of the part behind the tail, if the head has begun at the front again; otherwise `None`.
    end: Option<usize>,
}

impl Log {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, head: 0, tail: 0, end: None }
    }

    /// Bytes between tail and head.
    pub(super) fn used(&self) -> usize {
        match self.end {
            None => self.head - self.tail,
            Some(end) => end - self.tail + self.head,
        }
    }

    /// Returns `true` if an item of `size` bytes can be appended without dropping another.
    pub(super) fn has_room(&self, size: usize) -> bool {
        match self.end {
            None => self.head + size <= self.capacity || size <= self.tail,
            Some(_) => self.head + size <= self.tail,
        }
    }

    /// Appends an item, for which there `has_room`.
    pub(super) fn append(&mut self, size: usize) -> usize {
        if self.end.is_none() && self.head + size > self.capacity {
            self.end = Some(self.head);
            self.head = 0;
        }
        let at = self.head;
        self.head += size;
        at
    }

    /// The oldest item, if there is one.
    pub(super) fn oldest(&self) -> Option<usize> {
        (self.used() > 0).then_some(self.tail)
    }

    /// Drops the oldest item, which has `size` bytes. Returns memory that may be given back.
    pub(super) fn drop_oldest(&mut self, size: usize) -> Option<Range<usize>> {
        let before = self.tail;
        self.tail += size;
        if Some(self.tail) == self.end {
            self.tail = 0;
            self.end = None;
        }
        if self.end.is_none() && self.tail == self.head {
            (self.head, self.tail) = (0, 0);
        }
        // Not the block that the head is in. While the gap is small, its memory is soon used again.
        let (front, is_far) = match self.end {
            Some(_) => (self.head, self.tail - self.head > 4 * BLOCK),
            None => (0, true),
        };
        let start = (before / BLOCK * BLOCK).max(front.next_multiple_of(BLOCK));
        let blocks = start..self.tail / BLOCK * BLOCK;
        (!blocks.is_empty() && is_far).then_some(blocks)
    }

    /// Returns `true` if an item is in the newer half of the log.
    pub(super) fn is_recent(&self, at: usize) -> bool {
        let distance = match self.end {
            Some(end) if at >= self.tail => end - at + self.head,
            _ => self.head - at,
        };
        distance * 2 <= self.used()
    }

    pub(super) fn clear(&mut self) -> Range<usize> {
        let end = self.end.unwrap_or(self.head).max(self.head);
        *self = Self::new(self.capacity);
        0..end
    }
}
