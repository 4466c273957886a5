//! Messages that have arrived and that the caller has not received. No I/O.

use std::collections::VecDeque;

use crate::verbs::RecvBatch;

/// Messages, close together. Bounded by the credit that the peer has.
#[derive(Default)]
pub(crate) struct Arrived {
    bytes: Vec<u8>,
    /// Offset of the first message in `bytes`.
    start: usize,
    /// Messages of equal length that came one after the other: length of each, and how many.
    runs: VecDeque<(usize, usize)>,
    /// Bytes at the end that are not a whole message yet.
    partial: usize,
}

impl Arrived {
    /// No whole message.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Appends bytes of messages of `each` bytes; the last one need not be whole.
    pub(crate) fn push(&mut self, each: usize, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.partial += bytes.len();
        let whole = self.partial / each;
        if whole == 0 {
            return;
        }
        self.partial %= each;
        match self.runs.back_mut() {
            Some((last, count)) if *last == each => *count += whole,
            _ => self.runs.push_back((each, whole)),
        }
    }

    /// Moves up to `max` messages. Returns how many, and the bytes of all.
    pub(crate) fn take(&mut self, batch: &mut RecvBatch, max: usize) -> (usize, usize) {
        let (mut moved, mut len) = (0, 0);
        while let Some((each, count)) = self.runs.front_mut()
            && moved < max
        {
            let taken = (*count).min(max - moved);
            let each = *each;
            let bytes = &self.bytes[self.start..self.start + each * taken];
            batch.append(each, taken, |into| into.extend_from_slice(bytes));
            *count -= taken;
            if *count == 0 {
                self.runs.pop_front();
            }
            self.start += each * taken;
            moved += taken;
            len += each * taken;
        }
        self.compact();
        (moved, len)
    }

    /// Passes the first message to `receive` and removes it.
    pub(crate) fn pop<R>(&mut self, receive: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let (each, count) = self.runs.front_mut()?;
        let each = *each;
        let received = receive(&self.bytes[self.start..self.start + each]);
        *count -= 1;
        if *count == 0 {
            self.runs.pop_front();
        }
        self.start += each;
        self.compact();
        Some(received)
    }

    fn compact(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > self.bytes.len() / 2 && self.start > 64 << 10 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}
