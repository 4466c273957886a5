//! The newest part of a history.

use std::collections::VecDeque;

/// Bytes of frames, the oldest of which are dropped.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: VecDeque<u8>,
    max_bytes: usize,
    start: u64,
}

impl Backlog {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// Returns the offset in the history at which the backlog begins.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the offset in the history at which the next frame begins.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Appends whole frames. Frames longer than the backlog stay until more are appended.
    pub(super) fn append(&mut self, frames: &[u8]) {
        let most = self.max_bytes.max(frames.len());
        let surplus = (self.bytes.len() + frames.len()).saturating_sub(most);
        self.bytes.drain(..surplus);
        self.start += surplus as u64;
        let needed = self.bytes.len() + frames.len();
        if needed > self.bytes.capacity() {
            // Never more than is kept, which doubling could be.
            let grown = (2 * self.bytes.capacity()).clamp(needed, most.max(needed));
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        self.bytes.extend(frames);
        if most == self.max_bytes {
            self.bytes.shrink_to(most);
        }
    }

    /// Appends up to `max` bytes from `position` on, but none from `limit` on, to `out`. Returns their
    /// number; `None` if the backlog no longer has them.
    pub(super) fn copy(
        &self,
        position: u64,
        limit: u64,
        max: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let begin = position.checked_sub(self.start)? as usize;
        let there = limit.min(self.end()).saturating_sub(position) as usize;
        let count = there.min(max);
        if count == 0 {
            return (begin <= self.bytes.len()).then_some(0);
        }
        let (front, back) = self.bytes.as_slices();
        let end = begin + count;
        if begin < front.len() {
            out.extend_from_slice(&front[begin..end.min(front.len())]);
        }
        if end > front.len() {
            let from = begin.saturating_sub(front.len());
            out.extend_from_slice(&back[from..end - front.len()]);
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::Backlog;

    #[test]
    fn it_has_the_newest_bytes_at_their_offsets() {
        let mut backlog = Backlog::new(100);
        let mut history = Vec::new();
        for number in 0..200u32 {
            let frame = vec![number as u8; (number % 17) as usize + 1];
            backlog.append(&frame);
            history.extend_from_slice(&frame);
            assert_eq!(backlog.end(), history.len() as u64);
            for position in backlog.start()..=backlog.end() {
                let mut out = Vec::new();
                let copied = backlog.copy(position, u64::MAX, 1000, &mut out);
                assert_eq!(copied, Some(out.len()));
                assert_eq!(out, history[position as usize..]);
            }
        }
        assert!(backlog.end() - backlog.start() <= 100);
        assert_eq!(backlog.copy(backlog.start() - 1, u64::MAX, 9, &mut Vec::new()), None);
        assert_eq!(backlog.copy(backlog.end() + 1, u64::MAX, 9, &mut Vec::new()), None);
        backlog.append(&[7; 300]);
        assert_eq!(backlog.end() - backlog.start(), 300);
    }
}
