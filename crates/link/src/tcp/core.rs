//! One end of a queue pair over TCP, without I/O: work goes in, bytes come out and go in,
//! completions and messages come out.
//!
//! Nothing that the peer says is believed. What it may cause this end to keep is bounded: messages
//! by the credit that it was given, answers by the depth that was agreed on.

use std::collections::VecDeque;
use std::sync::Arc;

use overside_device::{Region, Slice};

use super::frame::{HEADER_BYTES, Header, Reason};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::arrived::Arrived;
use crate::credit::{Limits, cost};
use crate::exports::{Area, Exports};
use crate::network::import_of;
use crate::verbs::{Cause, Completion, Inbox, Messages, Verb, Work, WorkError};
use crate::window::Window;

/// A read that has not been answered.
pub(crate) struct Read {
    tag: u64,
    pub(crate) destination: Region,
}

struct Write {
    tag: u64,
    source: Slice,
}

struct Send {
    tag: u64,
    source: Slice,
    /// The position of the queue of bytes behind it.
    end: u64,
}

/// Memory that waits for a message.
pub(crate) struct Receive {
    tag: u64,
    pub(crate) destination: Region,
}

/// The state of one end.
pub(crate) struct Core {
    exports: Arc<Exports>,
    limits: Limits,
    room: u64,

    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,

    pub(crate) reads: VecDeque<Read>,
    writes: VecDeque<Write>,
    sends: VecDeque<Send>,
    pub(crate) receives: VecDeque<Receive>,
    done: VecDeque<Completion>,
    pub(crate) arrived: Arrived,

    /// What may be sent, and what the peer may send, as [`cost`] counts it.
    may_send: u64,
    may_come: u64,
    /// The peer has made room since the owner has taken notice.
    pub(crate) has_room: bool,
    /// What has been received and not been given back to the peer.
    received: u64,
    /// Writes of the peer's that have arrived and that it has not been told of.
    arrived_writes: u32,
    /// Positions of the queue of bytes behind the answers to the peer: at most as many as it may
    /// have questions.
    answers: VecDeque<u64>,
    /// Positions behind the last acknowledgement and the last credit, of which one each waits.
    told_writes: u64,
    told_credit: u64,

    said_bye: bool,
    heard_bye: bool,
    lost: Option<(Cause, Vec<u64>)>,
}

impl Core {
    pub(crate) fn new(exports: Arc<Exports>, limits: Limits) -> Self {
        let room = limits.room();
        Self {
            exports,
            limits,
            room,
            outgoing: Outgoing::default(),
            incoming: Incoming::new(),
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            done: VecDeque::new(),
            arrived: Arrived::default(),
            may_send: room,
            may_come: room,
            has_room: false,
            received: 0,
            arrived_writes: 0,
            answers: VecDeque::new(),
            told_writes: 0,
            told_credit: 0,
            said_bye: false,
            heard_bye: false,
            lost: None,
        }
    }

    /// Work that is not over yet.
    pub(crate) fn pending(&self) -> usize {
        self.reads.len() + self.writes.len() + self.sends.len() + self.receives.len()
    }

    /// Work that goes on by itself: all but memory that waits for messages.
    pub(crate) fn active(&self) -> usize {
        self.pending() - self.receives.len()
    }

    /// Work that is not over or not fetched.
    pub(crate) fn in_flight(&self) -> usize {
        let lost = self.lost.as_ref().map_or(0, |(_, tags)| tags.len());
        self.pending() + self.done.len() + lost
    }

    /// Takes one piece of work, which has been checked; gives it back if there is no room.
    pub(crate) fn post(&mut self, work: Work) -> Result<(), Work> {
        if self.in_flight() >= self.limits.depth {
            return Err(work);
        }
        let (tag, inline) = (work.tag, work.inline);
        match work.verb {
            Verb::Read { from, into } => {
                let remote = import_of(from.remote());
                self.outgoing.header(&Header::Read {
                    key: remote.key,
                    at: from.start(),
                    len: into.len() as u32,
                });
                let destination = into;
                self.reads.push_back(Read { tag, destination });
            }
            Verb::Write { from, to } => {
                let remote = import_of(to.remote());
                self.outgoing.header(&Header::Write {
                    key: remote.key,
                    at: to.start(),
                    len: from.len() as u32,
                });
                self.outgoing.source(&from, inline);
                self.writes.push_back(Write { tag, source: from });
            }
            Verb::Send { from } if cost(from.len()) > self.may_send => {
                let verb = Verb::Send { from };
                return Err(Work { tag, verb, inline });
            }
            Verb::Send { from } => {
                self.may_send -= cost(from.len());
                let len = from.len() as u32;
                self.outgoing.header(&Header::Messages { len, each: len });
                self.outgoing.source(&from, inline);
                let end = self.outgoing.end();
                let source = from;
                self.sends.push_back(Send { tag, source, end });
            }
            Verb::Receive { into } => {
                let destination = into;
                self.receives.push_back(Receive { tag, destination });
                self.waits();
            }
        }
        Ok(())
    }

    /// Takes messages; how many.
    pub(crate) fn send(&mut self, messages: &Messages<'_>) -> usize {
        let each = messages.each();
        let count = messages.count().min((self.may_send / cost(each)) as usize);
        if count > 0 {
            self.may_send -= cost(each) * count as u64;
            self.outgoing.header(&Header::Messages {
                len: (each * count) as u32,
                each: each as u32,
            });
            self.outgoing.copy(&messages.as_bytes()[..each * count]);
        }
        count
    }

    /// Moves messages that have arrived.
    pub(crate) fn receive(&mut self, inbox: &mut Inbox, max: usize) -> usize {
        let (count, len) = self.arrived.take(inbox, max);
        self.received += (len + HEADER_BYTES * count) as u64;
        self.settle();
        count
    }

    /// Moves completions.
    pub(crate) fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        let count = self.done.len().min(max);
        out.extend(self.done.drain(..count));
        count
    }

    /// Completions that can be fetched.
    pub(crate) fn completed(&self) -> usize {
        self.done.len()
    }

    /// Completions, messages, or the end, can be fetched, or there is room.
    pub(crate) fn has_news(&self) -> bool {
        let messages = self.receives.is_empty() && !self.arrived.is_empty();
        messages || self.has_room || !self.done.is_empty() || self.end().is_some()
    }

    /// Why there will be no more, with the tags of what is in flight.
    pub(crate) fn end(&self) -> Option<(Cause, Vec<u64>)> {
        if let Some((cause, tags)) = &self.lost {
            return Some((cause.clone(), tags.clone()));
        }
        // What has been asked for before may still be answered.
        let over = self.heard_bye && self.active() == 0;
        over.then(|| (Cause::Closed, self.tags()))
    }

    /// Nothing is taken any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.heard_bye || self.lost.is_some()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The tags of what is in flight.
    pub(crate) fn tags(&self) -> Vec<u64> {
        let reads = self.reads.iter().map(|read| read.tag);
        let writes = self.writes.iter().map(|write| write.tag);
        let sends = self.sends.iter().map(|send| send.tag);
        let receives = self.receives.iter().map(|receive| receive.tag);
        reads.chain(writes).chain(sends).chain(receives).collect()
    }

    /// Says that nothing more will come.
    pub(crate) fn say_bye(&mut self) {
        if !self.said_bye && self.lost.is_none() {
            self.said_bye = true;
            self.settle();
            self.outgoing.header(&Header::Bye);
        }
    }

    /// The connection is over; `how` if the peer has not said bye.
    pub(crate) fn lose(&mut self, how: Cause) {
        if self.lost.is_some() {
            return;
        }
        let cause = match self.heard_bye {
            true => Cause::Closed,
            false => how,
        };
        let tags = self.tags();
        // Nobody writes to the destinations any more: only this end does, and it has stopped.
        self.reads.clear();
        self.writes.clear();
        self.sends.clear();
        self.receives.clear();
        self.outgoing.clear();
        self.incoming.stop();
        self.lost = Some((cause, tags));
    }

    /// The first `len` bytes of what goes out have gone out.
    pub(crate) fn sent(&mut self, len: usize) {
        self.outgoing.take(len);
        let start = self.outgoing.start();
        while let Some(send) = self.sends.pop_front_if(|send| send.end <= start) {
            let len = send.source.len();
            self.complete(send.tag, Ok(len as u64), Some(send.source), None);
        }
        while self.answers.pop_front_if(|end| *end <= start).is_some() {}
        self.settle();
    }

    /// Acknowledges what has arrived and gives back credit, if the last time has gone out:
    /// somebody who does not listen gets no more than one of each.
    pub(crate) fn settle(&mut self) {
        if self.lost.is_some() {
            return;
        }
        let start = self.outgoing.start();
        if self.arrived_writes > 0 && self.told_writes <= start {
            self.acknowledge();
        }
        if self.received * 4 >= self.room && self.told_credit <= start {
            let bytes = std::mem::take(&mut self.received);
            self.may_come += bytes;
            self.outgoing.header(&Header::Credit { bytes });
            self.told_credit = self.outgoing.end();
        }
    }

    fn acknowledge(&mut self) {
        let count = std::mem::take(&mut self.arrived_writes);
        self.outgoing.header(&Header::Written { count });
        self.told_writes = self.outgoing.end();
    }

    /// A header has arrived; where its payload goes, if it has one.
    pub(crate) fn handle(&mut self, header: Header) -> Result<Option<Sink>, Cause> {
        match header {
            Header::Messages { len, each } => return self.messages(len, each).map(Some),
            Header::Write { key, at, len } => return self.write(key, at, len).map(Some),
            Header::Data { len } => return self.data(len).map(Some),
            Header::Read { key, at, len } => self.read(key, at, len)?,
            Header::Written { count } => self.written(count)?,
            Header::WriteRefused(reason) => {
                let write = self.writes.pop_front().ok_or_else(unasked)?;
                let refused = WorkError::RefusedByPeer(reason.as_str().to_owned());
                self.complete(write.tag, Err(refused), Some(write.source), None);
            }
            Header::ReadRefused(reason) => {
                let read = self.reads.pop_front().ok_or_else(unasked)?;
                let refused = WorkError::RefusedByPeer(reason.as_str().to_owned());
                self.complete(read.tag, Err(refused), None, Some(read.destination));
            }
            Header::Credit { bytes } => {
                let credit = self.may_send.checked_add(bytes);
                let credit = credit.filter(|credit| *credit <= self.room);
                self.may_send = credit.ok_or_else(|| broken("more credit than there is room"))?;
                self.has_room = true;
            }
            Header::Bye if self.heard_bye => return Err(broken("it says bye twice")),
            Header::Bye => self.heard_bye = true,
        }
        Ok(None)
    }

    fn messages(&mut self, len: u32, each: u32) -> Result<Sink, Cause> {
        if self.heard_bye {
            return Err(broken("messages after bye"));
        }
        if each as usize > self.limits.max_message_bytes {
            return Err(broken(&format!("a message of {each} bytes")));
        }
        let cost = u64::from(len) + HEADER_BYTES as u64 * u64::from(len / each);
        let left = self.may_come.checked_sub(cost);
        self.may_come = left.ok_or_else(|| broken("more messages than it has credit for"))?;
        Ok(Sink::Messages {
            each: each as usize,
        })
    }

    fn write(&mut self, key: u64, at: u64, len: u32) -> Result<Sink, Cause> {
        match self.exported(key, at, len, |area| area.access.writes()) {
            Ok(_) if self.arrived_writes as usize >= self.limits.depth => {
                Err(broken("more work than was agreed on"))
            }
            Ok((_area, window)) => Ok(Sink::Write { _area, window }),
            Err(reason) => {
                // In order: those before it have arrived.
                if self.arrived_writes > 0 {
                    self.acknowledge();
                }
                self.answer()?;
                self.outgoing.header(&Header::WriteRefused(reason));
                self.answers.push_back(self.outgoing.end());
                Ok(Sink::Nowhere)
            }
        }
    }

    fn read(&mut self, key: u64, at: u64, len: u32) -> Result<(), Cause> {
        self.answer()?;
        match self.exported(key, at, len, |area| area.access.reads()) {
            Ok((area, window)) => {
                self.outgoing.header(&Header::Data { len });
                self.outgoing.exported(area, window);
            }
            Err(reason) => self.outgoing.header(&Header::ReadRefused(reason)),
        }
        self.answers.push_back(self.outgoing.end());
        Ok(())
    }

    /// Whether the peer may have one more answer coming.
    fn answer(&self) -> Result<(), Cause> {
        match self.answers.len() < self.limits.depth {
            true => Ok(()),
            false => Err(broken("more work than was agreed on")),
        }
    }

    fn exported(
        &self,
        key: u64,
        at: u64,
        len: u32,
        allows: impl FnOnce(&Area) -> bool,
    ) -> Result<(Arc<Area>, Window), Reason> {
        let area = self.exports.get(key).ok_or(Reason::Unknown)?;
        if !allows(&area) {
            return Err(Reason::Access);
        }
        let at = usize::try_from(at).map_err(|_| Reason::Range)?;
        let window = area.window.part(at, len as usize);
        window
            .map(|window| (area, window))
            .map_err(|_| Reason::Range)
    }

    fn data(&mut self, len: u32) -> Result<Sink, Cause> {
        let read = self.reads.front().ok_or_else(unasked)?;
        match read.destination.len() == len as usize {
            true => Ok(Sink::Read),
            false => Err(broken("an answer of another length than the read")),
        }
    }

    fn written(&mut self, count: u32) -> Result<(), Cause> {
        if count as usize > self.writes.len() {
            return Err(unasked());
        }
        for _ in 0..count {
            let write = self.writes.pop_front().expect("as many");
            let len = write.source.len() as u64;
            self.complete(write.tag, Ok(len), Some(write.source), None);
        }
        Ok(())
    }

    /// The payload of the oldest read is there.
    pub(crate) fn read_done(&mut self) {
        let read = self.reads.pop_front().expect("it was waiting");
        let len = read.destination.len() as u64;
        self.complete(read.tag, Ok(len), None, Some(read.destination));
    }

    /// The payload of a write of the peer's is there.
    pub(crate) fn write_done(&mut self) {
        self.arrived_writes += 1;
    }

    /// A message has come straight into the memory that waits the longest.
    pub(crate) fn receive_done(&mut self, len: usize) {
        let receive = self.receives.pop_front().expect("it was waiting");
        self.received += cost(len);
        self.received_into(receive, len);
    }

    fn received_into(&mut self, receive: Receive, len: usize) {
        let capacity = receive.destination.len() as u64;
        let len = len as u64;
        let result = match len <= capacity {
            true => Ok(len),
            false => Err(WorkError::Truncated { len, capacity }),
        };
        self.complete(receive.tag, result, None, Some(receive.destination));
    }

    /// Hands messages that have arrived to the memory that waits for them.
    pub(crate) fn match_receives(&mut self) {
        while let Some(receive) = self.receives.front_mut() {
            let len = self.arrived.pop(|message| {
                if let Some(into) = receive.destination.get_mut(..message.len()) {
                    into.copy_from_slice(message);
                }
                message.len()
            });
            match len {
                Some(len) => self.receive_done(len),
                None => break,
            }
        }
    }

    fn complete(
        &mut self,
        tag: u64,
        result: Result<u64, WorkError>,
        source: Option<Slice>,
        destination: Option<Region>,
    ) {
        self.done.push_back(Completion {
            tag,
            result,
            source,
            destination,
            late: false,
        });
    }
}

/// Where a payload goes.
pub(crate) enum Sink {
    /// To whoever receives messages.
    Messages { each: usize },
    /// To a region; `window` is what is left of the range.
    Write { _area: Arc<Area>, window: Window },
    /// To the oldest read.
    Read,
    /// It is refused.
    Nowhere,
}

fn broken(reason: &str) -> Cause {
    Cause::Protocol(reason.to_owned())
}

fn unasked() -> Cause {
    broken("an answer that nobody asked for")
}
