//! Messages in a ring of bytes that the peer's process writes, or reads, as well.
//!
//! ```text
//!   | length, count | message | message | message |   | length, count | message ...
//!   ^ a multiple of 64                            ^ to the next multiple of 64
//! ```
//!
//! Messages of equal length that are sent together make one *run*: eight bytes with their length
//! and number, then the messages, close together. So a batch of small messages is moved by one copy
//! at each end, and a single one lies in one cache line. Runs of [`LONG`] bytes and more begin
//! their messages at the next cache line: a copy that begins in the midst of one has every other of
//! its stores in two lines.
//!
//! A receiver that finds the ring empty fetches the line of the next header together with the cursor:
//! once the sender has written both, it waits for the two lines at the same time and not for one after
//! the other.
//!
//! Nothing that is read here is trusted: a run must lie within the published bytes.

use crate::ring::{Consumer, CorruptCursor, Producer};
use crate::verbs::{Messages, RecvBatch};
use crate::volatile_slice::VolatileSlice;

/// Runs begin at its multiples, so that a short one touches a single cache line.
const ALIGN: u64 = 64;
/// Bytes of a run's header.
const HEADER: u64 = 8;
/// Length in bytes from which on messages begin at a multiple of [`ALIGN`].
const LONG: u64 = 512;

/// The bytes of a ring. Positions count up for ever.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    window: VolatileSlice,
    mask: u64,
}

impl Bytes {
    fn new(window: VolatileSlice) -> Self {
        let len = window.len() as u64;
        assert!(len.is_power_of_two() && len >= ALIGN, "a ring of {len} bytes");
        Self { window, mask: len - 1 }
    }

    /// Returns the offset of `position` in the ring, and the number of bytes from there to the end
    /// of the ring.
    #[inline]
    fn at(&self, position: u64) -> (usize, usize) {
        let at = (position & self.mask) as usize;
        (at, self.window.len() - at)
    }

    #[inline]
    fn copy_in(&self, position: u64, from: &[u8]) {
        let (at, until_end) = self.at(position);
        let (first, second) = from.split_at(from.len().min(until_end));
        self.window.copy_in(at, first).expect(WITHIN);
        if !second.is_empty() {
            self.window.copy_in(0, second).expect(WITHIN);
        }
    }

    #[inline]
    fn copy_out(&self, position: u64, into: &mut [u8]) {
        let (at, until_end) = self.at(position);
        let (first, second) = into.split_at_mut(into.len().min(until_end));
        self.window.copy_out(at, first).expect(WITHIN);
        if !second.is_empty() {
            self.window.copy_out(0, second).expect(WITHIN);
        }
    }

    #[inline]
    fn append(&self, position: u64, len: usize, into: &mut Vec<u8>) {
        let (at, until_end) = self.at(position);
        let first = len.min(until_end);
        self.window.append_to(at, first, into).expect(WITHIN);
        if first < len {
            self.window.append_to(0, len - first, into).expect(WITHIN);
        }
    }
}

/// Invariant: copies are no longer than the available or free bytes, and these are no longer than the ring.
const WITHIN: &str = "positions are taken modulo the length";

fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN)
}

/// Returns the offset of the first message in a run whose messages have `payload` bytes together.
#[inline]
fn lead(payload: u64) -> u64 {
    if payload < LONG { HEADER } else { ALIGN }
}

/// Returns how many bytes of the ring a run takes whose messages have `payload` bytes together.
#[inline]
fn run_bytes(payload: u64) -> u64 {
    rounded(lead(payload) + payload)
}

/// Bytes of a ring that takes messages up to `longest` and at least `count` short ones.
pub(crate) fn ring_bytes(longest: usize, count: usize) -> u64 {
    // Twice the longest, so that one can be written while another is read.
    (2 * run_bytes(longest as u64)).max(count as u64 * ALIGN).max(4096).next_power_of_two()
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Outgoing {
    cursors: Producer,
    bytes: Bytes,
}

impl Outgoing {
    /// `window` is all of the ring's bytes; only a peer that breaks the rules also writes there.
    pub(crate) fn new(cursors: Producer, window: VolatileSlice) -> Self {
        Self { cursors, bytes: Bytes::new(window) }
    }

    /// Copies in as many messages as there is room for, from the first on. The peer sees them only
    /// after [`Outgoing::publish`].
    #[inline]
    pub(crate) fn stage(&mut self, messages: Messages<'_>) -> Result<usize, CorruptCursor> {
        let count = self.stage_run(messages)?;
        if count == 0 || count == messages.count() {
            return Ok(count);
        }
        // Behind a long run there may be room for a short one.
        Ok(count + self.stage_run(messages.after(count))?)
    }

    /// Copies in one run.
    #[inline]
    fn stage_run(&mut self, messages: Messages<'_>) -> Result<usize, CorruptCursor> {
        let each = messages.each() as u64;
        let wanted = run_bytes(messages.as_bytes().len() as u64);
        let room = self.cursors.room(wanted.min(self.bytes.mask + 1))?;
        // Room is a multiple of `ALIGN` unless the peer's cursor is not, and then less of it is
        // used.
        let room = room & !(ALIGN - 1);
        let count = if wanted <= room {
            messages.count()
        } else {
            // What fits behind the longer of the two leads, or at least a short run.
            let short = room.saturating_sub(HEADER).min(LONG - 1) / each;
            let long = room.saturating_sub(ALIGN) / each;
            short.max(long).min(messages.count() as u64) as usize
        };
        if count == 0 {
            return Ok(0);
        }
        let payload = &messages.as_bytes()[..count * messages.each()];
        let lead = lead(payload.len() as u64);
        let position = self.cursors.stage(run_bytes(payload.len() as u64));
        let header = (count as u64) << 32 | each;
        self.bytes.window.store(self.bytes.at(position).0, header).expect(WITHIN);
        self.bytes.copy_in(position.wrapping_add(lead), payload);
        Ok(count)
    }

    /// Publishes all reserved bytes. Returns `false` if there were none.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        self.cursors.publish()
    }

    /// Returns `true` if there is room for a message of `len` bytes.
    pub(crate) fn has_room(&mut self, len: usize) -> Result<bool, CorruptCursor> {
        let wanted = run_bytes(len as u64);
        Ok(self.cursors.room(wanted)? >= wanted)
    }

    /// No more messages.
    pub(crate) fn close(&self) {
        self.cursors.close();
    }
}

/// Messages of equal length that are being received.
#[derive(Clone, Copy, Debug)]
struct Run {
    each: usize,
    left: usize,
    /// Position of the next message.
    position: u64,
    /// Number of bytes to take from the ring after the last message.
    padding: u64,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Incoming {
    cursors: Consumer,
    bytes: Bytes,
    longest: usize,
    run: Option<Run>,
}

impl Incoming {
    /// `window` is all of the ring's bytes; `longest` the longest message in bytes.
    pub(crate) fn new(cursors: Consumer, window: VolatileSlice, longest: usize) -> Self {
        Self { cursors, bytes: Bytes::new(window), longest, run: None }
    }

    /// Takes the run that the next message is in, or the rest of it. It lies within the published
    /// bytes.
    #[inline]
    fn next(&mut self) -> Result<Option<Run>, CorruptCursor> {
        match self.run.take() {
            None => self.begin(),
            run => Ok(run),
        }
    }

    /// Takes the header of the next run.
    #[inline]
    fn begin(&mut self) -> Result<Option<Run>, CorruptCursor> {
        if self.cursors.is_drained() {
            self.bytes.window.prefetch(self.bytes.at(self.cursors.position()).0);
        }
        let available = self.cursors.available()?;
        if available < HEADER {
            // Also after something broken: then it is less for ever.
            return if available == 0 { Ok(None) } else { Err(CorruptCursor) };
        }
        let position = self.cursors.position();
        // Read once. Relaxed would do: the tail's load has ordered it.
        let header = (self.bytes.window).load(self.bytes.at(position).0).expect(WITHIN);
        let (each, left) = (header & u64::from(u32::MAX), header >> 32);
        // The product cannot wrap: both factors have 32 bits. The sum cannot after the check.
        let payload = each * left;
        if payload == 0 || payload > available || each > self.longest as u64 {
            return Err(CorruptCursor);
        }
        let (lead, whole) = (lead(payload), run_bytes(payload));
        if whole > available {
            return Err(CorruptCursor);
        }
        self.cursors.take(lead);
        Ok(Some(Run {
            each: each as usize,
            left: left as usize,
            position: position.wrapping_add(lead),
            padding: whole - lead - payload,
        }))
    }

    /// Takes `count` messages of the run, and keeps its rest.
    #[inline]
    fn took(&mut self, run: Run, count: usize) {
        let bytes = (count * run.each) as u64;
        if count == run.left {
            self.cursors.take(bytes + run.padding);
        } else {
            self.cursors.take(bytes);
            self.run = Some(Run {
                left: run.left - count,
                position: run.position.wrapping_add(bytes),
                ..run
            });
        }
    }

    /// Appends up to `max` messages. [`CorruptCursor`] only once all before it have been appended.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        batch: &mut RecvBatch,
        max: usize,
    ) -> Result<usize, CorruptCursor> {
        let mut received = 0;
        while received < max {
            let run = match self.next() {
                Ok(Some(run)) => run,
                Ok(None) => break,
                Err(CorruptCursor) if received > 0 => break,
                Err(broken) => return Err(broken),
            };
            let count = run.left.min(max - received);
            batch.append(run.each, count, |bytes| {
                self.bytes.append(run.position, run.each * count, bytes);
            });
            self.took(run, count);
            received += count;
        }
        Ok(received)
    }

    /// The length in bytes of the next message.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Option<usize>, CorruptCursor> {
        self.run = self.next()?;
        Ok(self.run.map(|run| run.each))
    }

    /// Takes the next message, if there is one, and copies as much of it as fits.
    pub(crate) fn take(&mut self, into: &mut [u8]) {
        if let Some(run) = self.run.take() {
            let len = into.len().min(run.each);
            self.bytes.copy_out(run.position, &mut into[..len]);
            self.took(run, 1);
        }
    }

    /// Releases the room of all taken bytes. Returns `false` if there were none.
    #[inline]
    pub(crate) fn release(&mut self) -> bool {
        self.cursors.release()
    }

    /// Returns `true` if the sender sends no more. Its earlier messages can still be received.
    pub(crate) fn is_closed(&self) -> bool {
        self.cursors.is_closed()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use proptest::prelude::*;

    use super::*;
    use crate::ring::Cursors;
    use crate::shared::Shared;

    /// Both ends of a ring in this process's memory.
    struct Ring {
        outgoing: Outgoing,
        incoming: Incoming,
        window: VolatileSlice,
        cursors: Shared<Cursors>,
        // Not a box, whose owner alone may point into it.
        _memory: Arc<[AtomicU64]>,
    }

    #[allow(unsafe_code)]
    fn ring(bytes: usize, longest: usize, first: u64) -> Ring {
        let memory: Arc<[AtomicU64]> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        let start = NonNull::from(&*memory).cast();
        // SAFETY: `Ring` keeps the memory, of which there are no references but to atomics.
        let window = unsafe { VolatileSlice::new(start, bytes) };
        let cursors = Shared::new(Cursors::new(first));
        let producer = Producer::new(cursors.clone(), bytes as u64, first);
        let consumer = Consumer::new(cursors.clone(), bytes as u64, first);
        Ring {
            outgoing: Outgoing::new(producer, window),
            incoming: Incoming::new(consumer, window, longest),
            window,
            cursors,
            _memory: memory,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send { each: usize, count: usize },
        Receive { max: usize },
        ReceiveOne { capacity: usize },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1..=120usize, 1..=40usize).prop_map(|(each, count)| Step::Send { each, count }),
            (0..=50usize).prop_map(|max| Step::Receive { max }),
            (1..=130usize).prop_map(|capacity| Step::ReceiveOne { capacity }),
        ];
        proptest::collection::vec(step, 1..if cfg!(miri) { 40 } else { 200 })
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Checks that the ring behaves like a queue for any sequence and size of sends and receives. The
        /// cursors pass the end of their range.
        #[test]
        fn is_a_queue(steps in steps(), before_the_end in 0..4096u64) {
            let first = (u64::MAX - before_the_end) & !(ALIGN - 1);
            let mut ring = ring(4096, 120, first);
            let mut oracle: VecDeque<Vec<u8>> = VecDeque::new();
            let (mut value, mut batch) = (0u8, RecvBatch::new());
            for step in steps {
                match step {
                    Step::Send { each, count } => {
                        let bytes: Vec<u8> = (0..each * count)
                            .map(|_| {
                                value = value.wrapping_add(1);
                                value
                            })
                            .collect();
                        let messages = Messages::packed(&bytes, each).unwrap();
                        let sent = ring.outgoing.stage(messages).unwrap();
                        ring.outgoing.publish();
                        oracle.extend(bytes.chunks(each).take(sent).map(Vec::from));
                        // What there is room for is taken.
                        let room = ring.outgoing.has_room(each).unwrap();
                        prop_assert!(sent == count || !room, "{} of {}", sent, count);
                    }
                    Step::Receive { max } => {
                        batch.clear();
                        let received = ring.incoming.receive(&mut batch, max).unwrap();
                        ring.incoming.release();
                        prop_assert_eq!(received, max.min(oracle.len()));
                        prop_assert_eq!(batch.len(), received);
                        let expected: Vec<Vec<u8>> = oracle.drain(..received).collect();
                        prop_assert_eq!(batch.iter().map(Vec::from).collect::<Vec<_>>(), expected);
                    }
                    Step::ReceiveOne { capacity } => {
                        let next = ring.incoming.peek().unwrap();
                        prop_assert_eq!(next, oracle.front().map(Vec::len));
                        if let Some(expected) = oracle.pop_front() {
                            let mut into = vec![0; capacity];
                            ring.incoming.take(&mut into);
                            ring.incoming.release();
                            let len = capacity.min(expected.len());
                            prop_assert_eq!(&into[..len], &expected[..len]);
                        }
                    }
                }
            }
        }

        /// A peer may write whatever it likes into the ring and the tail: received bytes are
        /// bounded by the ring, and invalid content is refused and stays refused.
        #[test]
        fn believes_nothing(
            words in proptest::collection::vec(any::<u64>(), 512),
            short in any::<bool>(),
            tail in any::<u64>(),
        ) {
            let mut ring = ring(4096, 100, 0);
            for (at, word) in words.iter().enumerate() {
                // Short lengths and counts are those that come far.
                let word = if short { word & 0x0000_003f_0000_007f } else { *word };
                ring.window.store(at * 8, word).unwrap();
            }
            let tail = if short { tail % 5000 } else { tail };
            ring.cursors.set_tail(tail);
            let mut batch = RecvBatch::new();
            let received = ring.incoming.receive(&mut batch, usize::MAX);
            prop_assert!(batch.as_bytes().len() <= 4096);
            prop_assert!(batch.iter().all(|message| message.len() <= 100));
            if received.is_err() || tail > 4096 {
                prop_assert!(batch.is_empty() || received.is_ok());
                let mut again = RecvBatch::new();
                prop_assert_eq!(ring.incoming.receive(&mut again, 1), Err(CorruptCursor));
            }
        }
    }

    #[test]
    fn a_head_that_cannot_be_is_no_room() {
        for head in [1, 64, 1 << 40, u64::MAX] {
            let mut ring = ring(4096, 100, 0);
            let message = [7; 100];
            ring.cursors.set_head(head);
            // The whole ring was free at first, so the head is looked at when it is full.
            let outcome = (0..100).find_map(|_| {
                let outcome = ring.outgoing.stage(Messages::one(&message).unwrap());
                outcome.err()
            });
            assert_eq!(outcome, Some(CorruptCursor), "{head}");
        }
    }
}
