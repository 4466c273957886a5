//! Events to come, by time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Maximum number of events that may wait at the same time.
pub const PENDING_MAX: usize = 1 << 24;

/// Events to come. Those of the same time come in the order in which they were put in.
#[derive(Debug)]
pub struct Calendar<E> {
    heap: BinaryHeap<Entry<E>>,
    now_ns: u64,
    put_in: u64,
    overflowed: bool,
}

#[derive(Debug)]
struct Entry<E> {
    /// The time above, the order below: one comparison decides both.
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the greatest first.
        other.key.cmp(&self.key)
    }
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Calendar<E> {
    /// An empty calendar at time 0.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), now_ns: 0, put_in: 0, overflowed: false }
    }

    /// The time of the event that happens now.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Events to come.
    pub fn pending(&self) -> usize {
        self.heap.len()
    }

    /// Returns `true` if events were lost because [`PENDING_MAX`] others waited.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Schedules `event` at `time_ns`, or now if that has passed.
    pub fn at(&mut self, time_ns: u64, event: E) {
        if self.heap.len() >= PENDING_MAX {
            self.overflowed = true;
            return;
        }
        let time_ns = time_ns.max(self.now_ns);
        let key = (u128::from(time_ns) << 64) | u128::from(self.put_in);
        self.put_in += 1;
        self.heap.push(Entry { key, event });
    }

    /// Schedules `event` `delay_ns` from now.
    pub fn after(&mut self, delay_ns: u64, event: E) {
        self.at(self.now_ns.saturating_add(delay_ns), event);
    }

    /// Returns the time of the next event in nanoseconds; `None` if there is none.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| (entry.key >> 64) as u64)
    }

    /// Takes the next event, unless it is later than `until_ns`, and advances the time to it.
    pub fn next_until(&mut self, until_ns: u64) -> Option<E> {
        let time_ns = self.next_ns()?;
        if self.overflowed || time_ns > until_ns {
            return None;
        }
        self.now_ns = time_ns;
        self.heap.pop().map(|entry| entry.event)
    }
}
