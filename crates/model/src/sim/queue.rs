//! A queue with a limit: what finds it full is dropped, as by a network card.

use std::collections::VecDeque;

/// First in, first out, up to a limit.
#[derive(Clone, Debug)]
pub struct Bounded<J> {
    waiting: VecDeque<J>,
    room: usize,
    most: usize,
    taken_in: u64,
    dropped: u64,
}

impl<J> Bounded<J> {
    /// Empty, with room for `room`.
    pub fn new(room: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            room,
            most: 0,
            taken_in: 0,
            dropped: 0,
        }
    }

    /// Takes one in; false, and it is lost, if there is no room.
    pub fn push(&mut self, job: J) -> bool {
        if self.waiting.len() >= self.room {
            self.dropped += 1;
            return false;
        }
        self.waiting.push_back(job);
        self.taken_in += 1;
        self.most = self.most.max(self.waiting.len());
        true
    }

    /// Gives the first.
    pub fn pop(&mut self) -> Option<J> {
        self.waiting.pop_front()
    }

    /// Gives the first `most`, or all if there are fewer.
    pub fn take(&mut self, most: usize) -> impl Iterator<Item = J> + '_ {
        let count = most.min(self.waiting.len());
        self.waiting.drain(..count)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The most that ever waited.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many were taken in.
    pub fn taken_in(&self) -> u64 {
        self.taken_in
    }

    /// How many were lost.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
