//! Queue pairs over shared memory.

mod ending;
mod work;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Applied, CpuTime, DeviceId, Region};

use super::copy::Direct;
use super::engine::Lane;
use super::handshake::Agreed;
use super::mapping::Direction;
use super::session::{Connection, Session, lost};
use crate::doorbell::{Armed, Event, Notifier};
use crate::ring::{Consumer, Producer};
use crate::shared::Shared;
use crate::spsc::{self, Receiver, Sender};
use crate::stream::{Incoming, Outgoing};
use crate::verbs::{
    Capabilities, Closed, Completion, ConnectError, LinkError, LinkErrorKind, Messages, PostError,
    QueuePair, RecvBatch, Refusal, Work,
};
use work::Begun;

/// This end's way to its copy engine.
struct EnginePort {
    requests: Sender<Direct>,
    completions: Receiver<Completion>,
    armed: Shared<Armed>,
    /// The tags of the engine's work; it completes in order.
    tags: VecDeque<u64>,
}

/// The wishes of the two sides to be woken by the other.
struct PendingRequests {
    /// This end's, to be woken by messages.
    data: Shared<Armed>,
    /// This end's, to be woken by room.
    room: Shared<Armed>,
    /// The peer's, for messages that this end sends.
    peer_data: Shared<Armed>,
    /// The peer's, for messages that this end receives.
    peer_room: Shared<Armed>,
}

/// One thread's, and in lines of its own: each thread writes its queue pair at every message.
#[repr(align(128))]
pub(super) struct ShmQueuePair {
    session: Arc<Session>,
    /// The session's connection, kept here to save an access.
    connection: Arc<Connection>,
    capabilities: Arc<Capabilities>,
    applied: Arc<Applied>,
    /// Identifier that registered memory would have. This transport accepts any memory.
    memory: DeviceId,
    outgoing: Outgoing,
    incoming: Incoming,
    wake_requests: PendingRequests,
    notifier: Arc<Notifier>,
    /// Event that this end waits on; `None` if it only polls.
    event: Option<Arc<Event>>,
    peer_event: bool,
    depth: usize,
    max_message_bytes: usize,
    engine: Option<EnginePort>,
    /// Completed and not polled for.
    ready: VecDeque<Completion>,
    /// Waiting for messages.
    receives: VecDeque<(u64, Region)>,
    /// Number of bytes for which the last post or send had no room.
    wants_room: Option<usize>,
    /// `true` if the peer closed it, and all its messages have been taken.
    closed: bool,
    /// `true` if `arm` was called, so there may be requests for wake-ups to be withdrawn.
    was_armed: bool,
}

impl ShmQueuePair {
    pub(super) fn open(
        session: &Arc<Session>,
        agreed: &Agreed,
        index: usize,
        capabilities: Arc<Capabilities>,
        applied: Arc<Applied>,
        notifier: Arc<Notifier>,
    ) -> Result<Self, ConnectError> {
        let [from_listener, to_listener] = agreed.layout.directions(&agreed.mapping, index);
        let (out, into) = if agreed.listens {
            (from_listener, to_listener)
        } else {
            (to_listener, from_listener)
        };
        let capacity = agreed.layout.ring_bytes();
        let Direction { cursors, data: peer_data, room } = out.0;
        let outgoing = Outgoing::new(Producer::new(cursors, capacity, 0), out.1);
        let Direction { cursors, data, room: peer_room } = into.0;
        let longest = agreed.config.max_message_bytes;
        let incoming = Incoming::new(Consumer::new(cursors, capacity, 0), into.1, longest);
        let event = Event::new(&notifier).map_err(|error| ConnectError::System {
            doing: "making an event".into(),
            source: error.into(),
        })?;
        let event = Arc::new(event);
        session.connection.wake_when_lost(&event);
        let depth = agreed.config.depth;
        let engine = session.engine.as_ref().map(|engine| {
            let (requests, theirs) = spsc::channel(depth);
            let (ours, completions) = spsc::channel(depth);
            let armed = Shared::new(Armed::new());
            engine.add(Lane {
                requests: theirs,
                completions: ours,
                armed: armed.clone(),
                event: Arc::clone(&event),
            });
            EnginePort { requests, completions, armed, tags: VecDeque::with_capacity(depth) }
        });
        Ok(Self {
            session: Arc::clone(session),
            connection: Arc::clone(&session.connection),
            capabilities,
            applied,
            memory: DeviceId::unique(),
            outgoing,
            incoming,
            wake_requests: PendingRequests { data, room, peer_data, peer_room },
            notifier,
            event: agreed.config.event.then_some(event),
            peer_event: agreed.peer_event,
            depth,
            max_message_bytes: longest,
            engine,
            ready: VecDeque::with_capacity(depth),
            receives: VecDeque::with_capacity(depth),
            wants_room: None,
            closed: false,
            was_armed: false,
        })
    }

    /// Publishes reserved messages.
    #[inline]
    fn publish(&mut self) {
        if self.outgoing.publish() && self.peer_event && self.wake_requests.peer_data.must_notify()
        {
            self.notifier.notify();
        }
    }

    /// Releases the room of received messages.
    #[inline]
    fn release(&mut self) {
        if self.incoming.release() && self.peer_event && self.wake_requests.peer_room.must_notify()
        {
            self.notifier.notify();
        }
    }

    #[cold]
    fn too_long(&self, messages: Messages<'_>) -> PostError {
        let refusal = Refusal::TooLong {
            verb: "send",
            len: messages.each() as u64,
            max: self.max_message_bytes as u64,
        };
        PostError::Refused { tag: 0, refusal }
    }

    /// Returns `true` if `poll`, `receive`, `post` or `send` would find something.
    fn pending(&mut self) -> bool {
        let engine = self.engine.as_mut();
        let room = match self.wants_room {
            None => false,
            Some(len) => self.outgoing.has_room(len).unwrap_or(true),
        };
        room || !self.ready.is_empty()
            || engine.is_some_and(|engine| !engine.completions.is_empty())
            // A broken ring counts as well: polling says what is wrong.
            || self.incoming.peek().map_or(true, |next| next.is_some())
            || self.end().is_some()
    }
}

impl QueuePair for ShmQueuePair {
    fn post(&mut self, work: &mut VecDeque<Work>) -> Result<usize, PostError> {
        self.alive()?;
        self.wants_room = None;
        let mut taken = 0;
        let mut outcome = Ok(());
        while self.in_flight() < self.depth
            && let Some(first) = work.front()
        {
            let checked = (self.capabilities).check(first, self.connection.id, self.memory);
            if let Err(refusal) = checked {
                let tag = first.tag;
                outcome = Err(PostError::Refused { tag, refusal });
                break;
            }
            let Some(first) = work.pop_front() else { break };
            match self.begin(first) {
                Begun::Yes => taken += 1,
                Begun::NoRoom(first) => {
                    work.push_front(first);
                    if taken == 0
                        && let Some(lost) = self.end()
                    {
                        outcome = Err(lost.into());
                    }
                    break;
                }
            }
        }
        self.publish();
        if let Some(port) = &mut self.engine
            && port.requests.publish()
            && let Some(engine) = &self.session.engine
        {
            engine.ring();
        }
        match outcome {
            Err(error) if taken == 0 => Err(error),
            _ => Ok(taken),
        }
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, LinkError> {
        if max == 0 {
            return Ok(0);
        }
        let before = out.len();
        self.reap(out, max);
        if !self.receives.is_empty()
            && let Err(broken) = self.match_receives(max)
        {
            let lost = self.broken(broken);
            if self.ready.is_empty() && out.len() == before {
                return Err(lost);
            }
        }
        let room = max - (out.len() - before);
        let ready = room.min(self.ready.len());
        out.extend(self.ready.drain(..ready));
        let polled = out.len() - before;
        // Work that the engine has completes even if the peer is gone.
        if polled == 0
            && let Some(lost) = self.end()
            && (self.outstanding() == 0 || self.engine_is_dead())
        {
            return Err(lost);
        }
        Ok(polled)
    }

    #[inline]
    fn send(&mut self, messages: Messages<'_>) -> Result<usize, PostError> {
        self.alive()?;
        if messages.each() > self.max_message_bytes {
            return Err(self.too_long(messages));
        }
        self.wants_room = None;
        let sent = match self.outgoing.stage(messages) {
            Ok(sent) => sent,
            Err(broken) => return Err(self.broken(broken).into()),
        };
        self.publish();
        if sent < messages.count() {
            self.wants_room = Some(messages.each());
            if sent == 0
                && let Some(lost) = self.end()
            {
                return Err(lost.into());
            }
        }
        Ok(sent)
    }

    #[inline]
    fn receive(&mut self, batch: &mut RecvBatch, max: usize) -> Result<usize, LinkError> {
        if !self.receives.is_empty() {
            return Ok(0);
        }
        let received = self.incoming.receive(batch, max);
        self.release();
        match received {
            Ok(0) if max > 0 => match self.end() {
                None => Ok(0),
                Some(lost) => Err(lost),
            },
            Ok(received) => Ok(received),
            Err(broken) => Err(self.broken(broken)),
        }
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(|event| event.descriptor())
    }

    fn arm(&mut self) -> Result<bool, LinkError> {
        let Some(event) = self.event.clone() else {
            return Err(lost(LinkErrorKind::NoEvents, Vec::new()));
        };
        if std::mem::replace(&mut self.was_armed, true) {
            event.clear(&self.notifier);
        }
        // Every wish is made before anything is looked at. They are all taken back together, so
        // the last look is the one that counts.
        let data = self.wake_requests.data.clone();
        let room = self.wake_requests.room.clone();
        let engine = self.engine.as_ref().map(|engine| engine.armed.clone());
        let wants_room = self.wants_room.is_some();
        let ready = data.arm(|| {
            let rest = |this: &mut Self| match engine {
                Some(engine) => engine.arm(|| this.pending()),
                None => this.pending(),
            };
            if wants_room { room.arm(|| rest(self)) } else { rest(self) }
        });
        Ok(ready)
    }

    fn in_flight(&self) -> usize {
        self.outstanding() + self.ready.len() + self.receives.len()
    }

    fn quarantined(&self) -> usize {
        match self.connection.lost() {
            None => 0,
            Some(_) => self.outstanding() + self.receives.len(),
        }
    }

    fn applied(&self) -> &Applied {
        &self.applied
    }

    fn close(mut self: Box<Self>, deadline: Instant) -> Closed {
        let mut completions = Vec::new();
        loop {
            self.reap(&mut completions, usize::MAX);
            if self.outstanding() == 0 || self.engine_is_dead() || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        // Received messages belong to posted receives; an error is reported elsewhere.
        let _ = self.match_receives(usize::MAX);
        completions.extend(self.ready.drain(..));
        Closed { completions, abandoned: self.tags(), cpu_time: CpuTime::default() }
    }
}

impl Drop for ShmQueuePair {
    fn drop(&mut self) {
        self.outgoing.close();
        if self.peer_event {
            // Whatever the peer waits for, it comes no more.
            let _ = self.wake_requests.peer_data.must_notify();
            self.notifier.notify();
        }
    }
}
