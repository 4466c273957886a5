//! One end of a queue pair over UCX.
//!
//! Each piece of work has a slot of the worker while UCX may touch its memory; the slot holds that memory. A
//! write is complete once a flush that began after it is: then its bytes are in the peer's memory. Messages
//! are fetched from UCX one by one when memory waits for them, so their lengths are known before; the
//! sender's credit bounds the messages that UCX stores until then.

// Hands UCX addresses of memory that the slots hold.
#![allow(unsafe_code)]

mod ended;
mod messages;
mod posting;

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use overside_device::{Region, Slice};

use super::arrived::Arrived;
use super::context::Context;
use super::credit::{Limits, cost};
use super::keys::Keys;
use super::shim::{Operation, RawWorker, What};
use crate::verbs::{
    Completion, ExportedSlice, LinkErrorKind, Messages, RecvBatch, RemoteSlice, Verb, Work,
};
use posting::{local, to};

/// Condition that a queue pair waits for after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The descriptor of the queue pair has to become readable.
    Readable,
    /// Do not wait: there is more to do already.
    Soon,
    /// There is no next event.
    Never,
}

/// Flushes under way at most. Writes that none is left for are covered by the next.
const FLUSHES: usize = 16;
/// Maximum number of times that one call lets UCX progress.
const STEPS: usize = 64;
/// Number of finished operations that are fetched from UCX at a time.
const BATCH: usize = 64;

/// Purpose of a slot in use, with the memory that UCX may touch meanwhile.
enum Use {
    Write {
        tag: u64,
        from: Slice,
        _copy: Option<Vec<u8>>,
        _to: RemoteSlice,
    },
    Read {
        tag: u64,
        into: Region,
        _from: RemoteSlice,
    },
    ReadShared {
        tag: u64,
        into: ExportedSlice,
        _from: RemoteSlice,
    },
    Send {
        tag: u64,
        from: Slice,
        _copy: Option<Vec<u8>>,
    },
    /// A message on its way into memory that waits; with a buffer if that is too short.
    Receive(u64, Region, Option<Vec<u8>>, usize),
    /// A message of [`UcxEngine::send`].
    Copy {
        _bytes: Vec<u8>,
    },
    /// A message on its way to the batch.
    Fetch(Vec<u8>),
    /// Covers writes up to this number.
    Flush(u64),
}

/// A write in the order of their being posted.
struct Written {
    number: u64,
    slot: u32,
    /// UCX has read the source: how that ended.
    read: Option<i32>,
}

/// The state of a queue pair.
pub(crate) struct UcxEngine {
    context: Arc<Context>,
    /// `None` once it is closed.
    worker: Option<RawWorker>,
    /// `true` if UCX has reported that the peer is lost. UCX must not progress any more: it would end the
    /// process if it had to answer the peer now.
    failed: bool,
    keys: Keys,
    limits: Limits,
    room: u64,
    slots: Vec<Option<Use>>,
    free: Vec<u32>,

    writes: VecDeque<Written>,
    write_number: u64,
    flush_begun: u64,
    flushed: u64,
    flushes: usize,
    /// Memory that waits for messages that have not come.
    waiting: VecDeque<(u64, Region)>,
    /// Slots of messages on their way to the batch, in order.
    fetching: VecDeque<u32>,
    /// Messages that have arrived before an earlier one, each with its slot.
    fetched: Vec<(u32, Vec<u8>)>,
    arrived: Arrived,
    done: VecDeque<Completion>,
    pending: usize,

    may_send: u64,
    may_come: u64,
    has_room: bool,
    received: u64,
    sent_messages: u32,
    came_messages: u32,
    bye: Option<bool>,
    heard_bye: Option<u32>,
    lost: Option<(LinkErrorKind, Vec<u64>)>,
    /// `true` while the link is being lost: arrived messages are still delivered.
    losing: bool,
}

impl UcxEngine {
    /// Returns the number of slots that a worker needs.
    pub(crate) fn slots(limits: &Limits) -> u32 {
        (limits.depth * 3 + 2 * FLUSHES) as u32
    }

    pub(crate) fn new(
        context: Arc<Context>,
        worker: RawWorker,
        limits: Limits,
    ) -> Result<(Self, OwnedFd), String> {
        let raw = worker.descriptor()?;
        // SAFETY: the descriptor is the worker's, which lives.
        let descriptor = unsafe { BorrowedFd::borrow_raw(raw) };
        let descriptor = descriptor.try_clone_to_owned().map_err(|error| error.to_string())?;
        let (slots, room) = (Self::slots(&limits), limits.room());
        let engine = Self {
            context,
            worker: Some(worker),
            failed: false,
            keys: Keys::default(),
            limits,
            room,
            slots: (0..slots).map(|_| None).collect(),
            free: (0..slots).rev().collect(),
            writes: VecDeque::new(),
            write_number: 0,
            flush_begun: 0,
            flushed: 0,
            flushes: 0,
            waiting: VecDeque::new(),
            fetching: VecDeque::new(),
            fetched: Vec::new(),
            arrived: Arrived::default(),
            done: VecDeque::new(),
            pending: 0,
            may_send: room,
            may_come: room,
            has_room: false,
            received: 0,
            sent_messages: 0,
            came_messages: 0,
            bye: None,
            heard_bye: None,
            lost: None,
            losing: false,
        };
        Ok((engine, descriptor))
    }

    /// Begins an operation in a free slot, which keeps its memory.
    fn begin(&mut self, what: What, held: Use, mut operation: Operation) -> u32 {
        let slot = self.free.pop().expect("as many slots as there can be work");
        self.slots[slot as usize] = Some(held);
        operation.slot = slot;
        if let Some(worker) = &mut self.worker {
            // SAFETY: the slot is free, and holds the memory until the operation is done; what is
            // written is a region or a box that only the slot has.
            unsafe { worker.begin(what, &operation) };
        }
        slot
    }

    /// Flushes the writes since the last flush, if a flush is free.
    fn flush(&mut self) {
        if self.flush_begun == self.write_number || self.flushes == FLUSHES || self.is_lost() {
            return;
        }
        let slot = self.free.pop().expect("one for each flush");
        self.slots[slot as usize] = Some(Use::Flush(self.write_number));
        self.flush_begun = self.write_number;
        self.flushes += 1;
        if let Some(worker) = &mut self.worker {
            // SAFETY: the slot is free.
            unsafe { worker.flush(slot) };
        }
    }

    fn is_lost(&self) -> bool {
        self.lost.is_some() || self.worker.is_none()
    }

    /// Makes UCX progress. Returns `true` if anything happened.
    fn step(&mut self) -> bool {
        match &mut self.worker {
            Some(worker) if !self.failed => worker.progress(),
            _ => false,
        }
    }

    /// Returns `true` if UCX may still touch the memory of any slot.
    fn busy(&self) -> bool {
        self.slots.iter().any(Option::is_some)
    }
}

/// Methods that the owner and the service thread call, one at a time. None of them blocks.
impl UcxEngine {
    /// Takes one piece of work, which has been checked; gives it back if there is no room.
    pub(super) fn post(&mut self, work: Work) -> Result<(), Work> {
        let full = self.in_flight() >= self.limits.depth || self.free.len() <= FLUSHES;
        let (tag, inline) = (work.tag, work.inline);
        let broke = matches!(&work.verb, Verb::Send { from } if cost(from.len()) > self.may_send);
        if full || broke {
            return Err(work);
        }
        match work.verb {
            Verb::Send { from } => {
                self.may_send -= cost(from.len());
                self.sent_messages = self.sent_messages.wrapping_add(1);
                let (copy, start) = local(&from, inline);
                let mut operation = to(start, from.len());
                if copy.is_none() {
                    operation.memory = self.context.mapped(from.registration());
                }
                self.pending += 1;
                self.begin(What::Send, Use::Send { tag, from, _copy: copy }, operation);
            }
            Verb::Receive { into } => {
                self.pending += 1;
                self.waiting.push_back((tag, into));
                self.take(0);
            }
            verb => {
                let before = self.done.len();
                self.post_remote(tag, verb, inline);
                // It is not pending if it could not be begun.
                self.pending += usize::from(self.done.len() == before);
            }
        }
        Ok(())
    }

    /// Flushes the posted work, at one doorbell.
    pub(super) fn ring(&mut self) {
        self.flush();
        self.reap();
        // What was here already is received now, and nothing may come before the peer knows.
        self.tell();
    }

    /// Makes progress until there is nothing more to do or `STEPS` have passed.
    pub(super) fn progress(&mut self) {
        for _ in 0..STEPS {
            if self.lost.is_some() {
                return;
            }
            let moved = self.step();
            self.reap();
            self.news();
            self.take(self.wanted());
            self.flush();
            if !moved {
                break;
            }
        }
    }

    /// Moves completions to `out`. Returns their number.
    pub(super) fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        let count = self.done.len().min(max);
        out.extend(self.done.drain(..count));
        count
    }

    /// Completions that can be moved.
    pub(super) fn completed(&self) -> usize {
        self.done.len()
    }

    /// Sends messages. Returns the number that were taken.
    pub(super) fn send(&mut self, messages: &Messages<'_>) -> usize {
        let each = messages.each();
        let mut count = 0;
        for message in messages.as_bytes().chunks_exact(each) {
            // The slots of work are not to be used up.
            let free = self.free.len() > FLUSHES + 2 * self.limits.depth;
            if self.may_send < cost(each) || !free {
                break;
            }
            self.may_send -= cost(each);
            self.sent_messages = self.sent_messages.wrapping_add(1);
            let bytes: Vec<u8> = message.into();
            let operation = to(bytes.as_ptr().cast_mut(), each);
            self.begin(What::Send, Use::Copy { _bytes: bytes }, operation);
            self.reap();
            count += 1;
        }
        count
    }

    /// Moves arrived messages to `batch`. Returns their number.
    pub(super) fn receive(&mut self, batch: &mut RecvBatch, max: usize) -> usize {
        self.take(max.min(self.limits.depth));
        self.reap();
        let (count, len) = self.arrived.take(batch, max);
        self.received += cost(0) * count as u64 + len as u64;
        self.tell();
        count
    }

    /// Memory waits for messages.
    pub(super) fn waits_for_messages(&self) -> bool {
        let begun = |held: &Option<Use>| matches!(held, Some(Use::Receive(..)));
        !self.waiting.is_empty() || self.slots.iter().any(begun)
    }

    /// Completions, messages, or the end, can be fetched, or there is room for more messages since
    /// [`Self::noticed`].
    pub(super) fn has_news(&mut self) -> bool {
        let here = !self.done.is_empty() || !self.arrived.is_empty() || self.end().is_some();
        // UCX may have a message that was not fetched yet.
        here || self.has_room || self.worker.as_mut().and_then(RawWorker::probe).is_some()
    }

    /// Records that the owner knows that there is room.
    pub(super) fn noticed(&mut self) {
        self.has_room = false;
    }

    /// Returns the reason why there will be no more messages and completions, with the tags of the
    /// work in flight; `None` before that.
    pub(super) fn end(&self) -> Option<(LinkErrorKind, Vec<u64>)> {
        if let Some((cause, tags)) = &self.lost {
            return Some((cause.clone(), tags.clone()));
        }
        let over = self.heard_all() && self.active() == 0;
        over.then(|| (LinkErrorKind::Closed, self.tags()))
    }

    /// Returns `true` if no more work is taken.
    pub(super) fn is_closed(&self) -> bool {
        self.heard_bye.is_some() || self.lost.is_some()
    }

    /// The tags of unfinished work.
    pub(super) fn tags(&self) -> Vec<u64> {
        let held = self.slots.iter().flatten().filter_map(|held| match held {
            Use::Write { tag, .. }
            | Use::Read { tag, .. }
            | Use::ReadShared { tag, .. }
            | Use::Send { tag, .. } => Some(*tag),
            Use::Receive(tag, ..) => Some(*tag),
            Use::Copy { .. } | Use::Fetch(_) | Use::Flush(_) => None,
        });
        held.chain(self.waiting.iter().map(|(tag, _)| *tag)).collect()
    }

    /// Returns the amount of work that makes progress by itself: all except memory that waits for messages.
    pub(super) fn active(&self) -> usize {
        let fetching = self.fetching.len();
        self.pending - self.waiting.len() + fetching
    }

    /// Work that is not over or not fetched.
    pub(super) fn in_flight(&self) -> usize {
        let lost = self.lost.as_ref().map_or(0, |(_, tags)| tags.len());
        self.pending + self.done.len() + lost
    }

    /// Returns the number of destinations that the peer may still write to although their work is complete.
    pub(super) fn quarantined(&self) -> usize {
        let writes = |held: &&Use| matches!(held, Use::Read { .. } | Use::Receive(..));
        match self.lost {
            Some(_) => self.slots.iter().flatten().filter(writes).count(),
            None => 0,
        }
    }

    /// Tells the peer that nothing more will come.
    pub(super) fn say_bye(&mut self) {
        self.bye.get_or_insert(false);
        self.tell();
    }

    /// Returns `true` if everything that this end sent has reached the peer's system, or never
    /// will.
    pub(super) fn is_delivered(&self) -> bool {
        let sending = |held: &Use| matches!(held, Use::Send { .. } | Use::Copy { .. });
        let sends = self.slots.iter().flatten().any(sending);
        let told = self.worker.as_ref().is_none_or(RawWorker::has_told);
        self.is_lost() || self.bye != Some(false) && !sends && told
    }

    /// Marks the link as lost.
    pub(super) fn mark_lost(&mut self, cause: &LinkErrorKind) {
        if self.lost.is_some() || std::mem::replace(&mut self.losing, true) {
            return;
        }
        // What has come before is still the owner's.
        for _ in 0..STEPS {
            let moved = self.step();
            self.reap();
            self.news();
            self.take(self.slots.len());
            if !moved {
                break;
            }
        }
        let cause = match self.heard_bye {
            Some(_) => LinkErrorKind::Closed,
            None => cause.clone(),
        };
        let tags = self.tags();
        self.waiting.clear();
        self.pending = 0;
        self.lost = Some((cause, tags));
    }

    /// Returns what to wait for after [`Self::progress`], and prepares the descriptor for it.
    pub(super) fn wait(&mut self) -> Wait {
        if self.is_lost() {
            return Wait::Never;
        }
        match self.worker.as_mut().map(RawWorker::arm) {
            Some(Ok(true)) => Wait::Readable,
            Some(Ok(false)) => Wait::Soon,
            Some(Err(reason)) => {
                self.mark_lost(&LinkErrorKind::Local(reason));
                Wait::Never
            }
            None => Wait::Never,
        }
    }
}

impl Drop for UcxEngine {
    fn drop(&mut self) {
        let Some(mut worker) = self.worker.take() else {
            return;
        };
        let mut over = false;
        if !self.busy() && !self.failed {
            self.keys.free(&mut worker);
            worker.disconnect();
            for _ in 0..1_000 {
                worker.progress();
                over = worker.is_disconnected();
                if over {
                    break;
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        if over {
            // SAFETY: it has disconnected, nothing was under way, and it has no keys.
            unsafe { worker.close() };
        } else {
            // UCX may still access this memory, and cannot be stopped. It stays, and so do the
            // worker and its context.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(Arc::clone(&self.context));
        }
    }
}
