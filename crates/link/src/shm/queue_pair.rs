//! Queue pairs over shared memory.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Applied, CpuTime, DeviceId, Region};

use super::copy::{self, Direct, Local, MAX_INLINE_BYTES};
use super::engine::Lane;
use super::handshake::Agreed;
use super::mapping::Direction;
use super::regions::Imported;
use super::session::{Connection, Session, lost};
use crate::doorbell::{Armed, Bell, Event};
use crate::ring::{Broken, Consumer, Producer};
use crate::shared::Shared;
use crate::spsc::{self, Receiver, Sender};
use crate::stream::{Incoming, Outgoing};
use crate::verbs::{
    Capabilities, Cause, Closed, Completion, ConnectError, Inbox, Lost, Messages, PostError,
    QueuePair, Refusal, Verb, Work, WorkError,
};
use crate::window::Window;

/// This end's way to its copy engine.
struct EnginePort {
    requests: Sender<Direct>,
    completions: Receiver<Completion>,
    armed: Shared<Armed>,
    /// The tags of what the engine has; it completes in order.
    tags: VecDeque<u64>,
}

/// The wishes of the two sides to be woken by the other.
struct Wishes {
    /// This end's, to be woken by messages.
    data: Shared<Armed>,
    /// This end's, to be woken by room.
    room: Shared<Armed>,
    /// The peer's, for what this end sends.
    peer_data: Shared<Armed>,
    /// The peer's, for what this end receives.
    peer_room: Shared<Armed>,
}

pub(super) struct ShmQueuePair {
    session: Arc<Session>,
    /// The session's, at one hop less.
    connection: Arc<Connection>,
    capabilities: Arc<Capabilities>,
    applied: Arc<Applied>,
    /// What memory would be registered with; here any will do.
    memory: DeviceId,
    outgoing: Outgoing,
    incoming: Incoming,
    wishes: Wishes,
    bell: Arc<Bell>,
    /// What this end waits on; `None` if it only polls.
    event: Option<Arc<Event>>,
    peer_event: bool,
    depth: usize,
    max_message_bytes: usize,
    engine: Option<EnginePort>,
    /// Completed and not polled for.
    ready: VecDeque<Completion>,
    /// Waiting for messages.
    receives: VecDeque<(u64, Region)>,
    /// The last post or send was cut short by a lack of room of this many bytes.
    wants_room: Option<usize>,
    /// The peer closed it, and all that it sent has been taken.
    closed: bool,
    /// `arm` was called, so there may be wake-ups to be taken back.
    was_armed: bool,
}

/// What `begin` makes of a piece of work that has been checked.
enum Begun {
    Yes,
    NoRoom(Work),
}

impl ShmQueuePair {
    pub(super) fn open(
        session: &Arc<Session>,
        agreed: &Agreed,
        index: usize,
        capabilities: Arc<Capabilities>,
        applied: Arc<Applied>,
        bell: Arc<Bell>,
    ) -> Result<Self, ConnectError> {
        let [from_listener, to_listener] = agreed.layout.directions(&agreed.mapping, index);
        let (out, into) = if agreed.listens {
            (from_listener, to_listener)
        } else {
            (to_listener, from_listener)
        };
        let capacity = agreed.layout.ring_bytes();
        let Direction {
            cursors,
            data: peer_data,
            room,
        } = out.0;
        let outgoing = Outgoing::new(Producer::new(cursors, capacity, 0), out.1);
        let Direction {
            cursors,
            data,
            room: peer_room,
        } = into.0;
        let longest = agreed.config.max_message_bytes;
        let incoming = Incoming::new(Consumer::new(cursors, capacity, 0), into.1, longest);
        let event = Event::new(&bell).map_err(|error| ConnectError::System {
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
            EnginePort {
                requests,
                completions,
                armed,
                tags: VecDeque::with_capacity(depth),
            }
        });
        Ok(Self {
            session: Arc::clone(session),
            connection: Arc::clone(&session.connection),
            capabilities,
            applied,
            memory: DeviceId::unique(),
            outgoing,
            incoming,
            wishes: Wishes {
                data,
                room,
                peer_data,
                peer_room,
            },
            bell,
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

    /// The peer's cursors or messages cannot be: the link ends here.
    #[cold]
    fn broken(&self, _: Broken) -> Lost {
        let what = "its cursors or message lengths cannot be";
        self.connection.lose(Cause::Protocol(what.into()));
        self.lost()
    }

    fn lost(&self) -> Lost {
        let cause = self.connection.lost().cloned();
        lost(cause.unwrap_or(Cause::Closed), self.tags())
    }

    fn tags(&self) -> Vec<u64> {
        let engine = self.engine.iter().flat_map(|engine| &engine.tags);
        let receives = self.receives.iter().map(|(tag, _)| tag);
        engine.chain(receives).copied().collect()
    }

    /// Why nothing more will come, once all messages that did have been taken.
    fn end(&mut self) -> Option<Lost> {
        if self.engine_is_dead() {
            let cause = Cause::Local("its copy engine died".into());
            self.connection.lose(cause);
            return Some(self.lost());
        }
        let closed = self.incoming.is_closed();
        if !closed && self.connection.lost().is_none() {
            return None;
        }
        // Looked at after the flags, so that nothing sent before is missed.
        match self.incoming.peek() {
            Ok(Some(_)) => None,
            Ok(None) if closed => {
                self.closed = true;
                Some(lost(Cause::Closed, self.tags()))
            }
            Ok(None) => Some(self.lost()),
            Err(broken) => Some(self.broken(broken)),
        }
    }

    /// `Err` if the link is known to be lost.
    #[inline]
    fn alive(&self) -> Result<(), Lost> {
        if self.closed {
            return Err(lost(Cause::Closed, self.tags()));
        }
        match self.connection.lost() {
            None => Ok(()),
            Some(_) => Err(self.lost()),
        }
    }

    /// Hands over staged messages.
    #[inline]
    fn publish(&mut self) {
        if self.outgoing.publish() && self.peer_event && self.wishes.peer_data.must_ring() {
            self.bell.ring();
        }
    }

    /// Lets the peer use the room of received messages.
    #[inline]
    fn release(&mut self) {
        if self.incoming.release() && self.peer_event && self.wishes.peer_room.must_ring() {
            self.bell.ring();
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

    /// Begins with a piece of work that has been checked.
    fn begin(&mut self, work: Work) -> Begun {
        let Work { tag, verb, inline } = work;
        let (local, remote) = match verb {
            Verb::Read { from, into } => (Local::Into(into), from),
            Verb::Write { from, to } if inline => {
                let mut bytes = [0; MAX_INLINE_BYTES];
                bytes[..from.len()].copy_from_slice(&from);
                (Local::Inline(from, bytes), to)
            }
            Verb::Write { from, to } => (Local::From(from), to),
            Verb::Send { from } => {
                let staged = Messages::one(&from).map(|message| self.outgoing.stage(message));
                if staged != Some(Ok(1)) {
                    if let Some(Err(broken)) = staged {
                        self.broken(broken);
                    }
                    self.wants_room = Some(from.len());
                    let verb = Verb::Send { from };
                    return Begun::NoRoom(Work { tag, verb, inline });
                }
                self.ready.push_back(Completion {
                    tag,
                    result: Ok(from.len() as u64),
                    source: Some(from),
                    destination: None,
                    late: false,
                });
                return Begun::Yes;
            }
            Verb::Receive { into } => {
                self.receives.push_back((tag, into));
                return Begun::Yes;
            }
        };
        let imported = Arc::clone(remote.remote().handle())
            .downcast::<Imported>()
            .expect("an endpoint's regions are its transport's");
        let direct = Direct {
            tag,
            local,
            remote: part(&imported, remote.start(), remote.len()),
            _imported: imported,
        };
        match &mut self.engine {
            None => self.ready.push_back(copy::run(direct)),
            Some(engine) => {
                engine.tags.push_back(tag);
                let staged = engine.requests.stage(direct);
                assert!(staged.is_ok(), "no more is in flight than fits");
            }
        }
        Begun::Yes
    }

    /// Completes receives for which messages have come.
    fn match_receives(&mut self, max: usize) -> Result<usize, Broken> {
        let mut matched = 0;
        while matched < max && !self.receives.is_empty() {
            let Some(len) = self.incoming.peek()? else {
                break;
            };
            let Some((tag, mut into)) = self.receives.pop_front() else {
                break;
            };
            let capacity = into.len();
            self.incoming.take(&mut into);
            let (len, capacity) = (len as u64, capacity as u64);
            self.ready.push_back(Completion {
                tag,
                result: if len > capacity {
                    Err(WorkError::Truncated { len, capacity })
                } else {
                    Ok(len)
                },
                source: None,
                destination: Some(into),
                late: false,
            });
            matched += 1;
        }
        if matched > 0 {
            self.release();
        }
        Ok(matched)
    }

    /// Appends what the engine has completed.
    fn reap(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        let Some(engine) = &mut self.engine else {
            return 0;
        };
        let before = out.len();
        while out.len() - before < max
            && let Some(completion) = engine.completions.take()
        {
            engine.tags.pop_front();
            out.push(completion);
        }
        engine.completions.release();
        out.len() - before
    }

    fn outstanding(&self) -> usize {
        self.engine.as_ref().map_or(0, |engine| engine.tags.len())
    }

    /// Something that `poll`, `receive`, `post` or `send` would find.
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

/// A range of imported memory, which was checked when the range was made.
fn part(imported: &Imported, start: u64, len: u64) -> Window {
    imported
        .window()
        .part(start as usize, len as usize)
        .expect("the range lies within the region")
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

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
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
    fn receive(&mut self, inbox: &mut Inbox, max: usize) -> Result<usize, Lost> {
        if !self.receives.is_empty() {
            return Ok(0);
        }
        let received = self.incoming.receive(inbox, max);
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

    fn arm(&mut self) -> Result<bool, Lost> {
        let Some(event) = self.event.clone() else {
            return Err(lost(Cause::NoEvents, Vec::new()));
        };
        if std::mem::replace(&mut self.was_armed, true) {
            event.clear(&self.bell);
        }
        // Every wish is made before anything is looked at. They are all taken back together, so
        // the last look is the one that counts.
        let data = self.wishes.data.clone();
        let room = self.wishes.room.clone();
        let engine = self.engine.as_ref().map(|engine| engine.armed.clone());
        let wants_room = self.wants_room.is_some();
        let ready = data.arm(|| {
            let rest = |this: &mut Self| match engine {
                Some(engine) => engine.arm(|| this.pending()),
                None => this.pending(),
            };
            if wants_room {
                room.arm(|| rest(self))
            } else {
                rest(self)
            }
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
        // What has come for receives is theirs; what is broken is nobody's.
        let _ = self.match_receives(usize::MAX);
        completions.extend(self.ready.drain(..));
        Closed {
            completions,
            abandoned: self.tags(),
            cpu_time: CpuTime::default(),
        }
    }
}

impl ShmQueuePair {
    fn engine_is_dead(&self) -> bool {
        let engine = self.session.engine.as_ref();
        engine.is_some_and(super::engine::Engine::is_dead)
    }
}

impl Drop for ShmQueuePair {
    fn drop(&mut self) {
        self.outgoing.close();
        if self.peer_event {
            // Whatever the peer waits for, it comes no more.
            let _ = self.wishes.peer_data.must_ring();
            self.bell.ring();
        }
    }
}
