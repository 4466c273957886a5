//! Subscribers of an output: each has its own position in the queue.
//!
//! 1. A batch waits until one subscriber has taken it and all current ones have passed it. A subscriber
//!    that acknowledges has taken a batch once it has acknowledged it, and has passed all batches before
//!    the first one that it has not.
//! 2. A subscriber starts with the oldest waiting batch.
//! 3. When the queue is full, a subscriber that is behind another is dropped, and so is one that has taken
//!    nothing for a while: it must not delay the others. The latter also happens while the queue has
//!    room, because a producer may wait for a batch that all others have taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_base::lock;
use tokio::sync::Notify;

/// All subscribers of an output.
#[derive(Default)]
pub struct Subscribers {
    state: Mutex<Cursors>,
}

#[derive(Default)]
struct Cursors {
    next_id: u64,
    cursors: BTreeMap<u64, Cursor>,
    /// Positions that a subscriber has taken and others have not passed, and when it took them.
    taken: BTreeMap<u64, Instant>,
    dropped: u64,
}

struct Cursor {
    /// Position of the first batch that it has not passed.
    position: u64,
    since: Instant,
    dropped: Arc<Notify>,
}

/// A subscriber; it leaves when it is dropped.
pub struct Subscription<'s> {
    subscribers: &'s Subscribers,
    id: u64,
    dropped: Arc<Notify>,
}

impl Subscribers {
    /// Begins at `position`.
    pub fn join(&self, position: u64) -> Subscription<'_> {
        let mut state = lock(&self.state);
        let id = state.next_id;
        state.next_id += 1;
        let dropped = Arc::new(Notify::new());
        let cursor = Cursor { position, since: Instant::now(), dropped: Arc::clone(&dropped) };
        state.cursors.insert(id, cursor);
        Subscription { subscribers: self, id, dropped }
    }

    /// Returns the number of subscribers that are connected now.
    pub fn count(&self) -> usize {
        lock(&self.state).cursors.len()
    }

    /// Returns the number of subscribers that were dropped because they were too slow.
    pub fn dropped(&self) -> u64 {
        lock(&self.state).dropped
    }

    /// Drops the subscriber that delays the others in a full queue, or has taken nothing for
    /// `stall`; in a queue with room, only if a batch that another subscriber has taken waits that
    /// long. Returns the positions that are no longer needed.
    pub fn drop_slowest(&self, stall: Duration, is_full: bool) -> Vec<u64> {
        let mut state = lock(&self.state);
        let slowest = state.cursors.iter().min_by_key(|(_, one)| one.position);
        let Some((&id, cursor)) = slowest else {
            return Vec::new();
        };
        let mut cursors = state.cursors.values();
        let has_stalled = cursor.since.elapsed() > stall;
        let others_wait = match is_full {
            true => has_stalled || cursors.any(|one| one.position > cursor.position),
            false => (state.taken.values().next()).is_some_and(|taken| taken.elapsed() > stall),
        };
        if others_wait && (is_full || has_stalled) {
            cursor.dropped.notify_one();
            state.cursors.remove(&id);
            state.dropped += 1;
        }
        state.passed()
    }
}

impl Subscription<'_> {
    /// Marks everything before `position` as passed, and the batches at these positions as taken.
    /// Returns those that are not needed any more.
    pub fn advance(&self, position: u64, taken: Vec<u64>) -> Vec<u64> {
        let mut state = lock(&self.subscribers.state);
        if let Some(cursor) = state.cursors.get_mut(&self.id)
            && cursor.position < position
        {
            cursor.position = position;
            cursor.since = Instant::now();
        }
        let now = Instant::now();
        (state.taken).extend(taken.into_iter().map(|position| (position, now)));
        state.passed()
    }

    /// Waits until the subscriber is dropped.
    pub async fn dropped(&self) {
        self.dropped.notified().await;
    }

    /// Leaves. Returns the positions that no subscriber needs any more.
    pub fn leave(&self) -> Vec<u64> {
        let mut state = lock(&self.subscribers.state);
        state.cursors.remove(&self.id);
        state.passed()
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        lock(&self.subscribers.state).cursors.remove(&self.id);
    }
}

impl Cursors {
    /// Positions that were taken, and that all have passed.
    fn passed(&mut self) -> Vec<u64> {
        let slowest = self.cursors.values().map(|one| one.position).min();
        let waiting = slowest.map(|slowest| self.taken.split_off(&slowest));
        let passed = std::mem::replace(&mut self.taken, waiting.unwrap_or_default());
        passed.into_keys().collect()
    }
}
