//! Restores order: chunks that start in sequence and finish in any order leave in sequence.

use std::collections::VecDeque;

/// A bounded window of entries by sequence number, consecutive from the oldest one that has not
/// left (the reorder buffer of an out-of-order processor).
pub(crate) struct ReorderBuffer<T> {
    entries: VecDeque<T>,
    /// The sequence number of the first.
    first: u64,
    capacity: usize,
}

impl<T> ReorderBuffer<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: VecDeque::with_capacity(capacity), first: 0, capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// Adds the next entry and returns its sequence number.
    pub(crate) fn push(&mut self, entry: T) -> u64 {
        self.entries.push_back(entry);
        self.first + self.entries.len() as u64 - 1
    }

    /// An entry that has not left.
    pub(crate) fn get_mut(&mut self, sequence: u64) -> Option<&mut T> {
        let index = sequence.checked_sub(self.first)?;
        self.entries.get_mut(usize::try_from(index).ok()?)
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.entries.front()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let entry = self.entries.pop_front()?;
        self.first += 1;
        Some(entry)
    }

    /// All entries with their sequence numbers, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (self.first..).zip(&self.entries)
    }
}
