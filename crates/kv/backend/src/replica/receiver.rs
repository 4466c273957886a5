//! A replica's connection with its primary: a thread that receives frames.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use overside_base::{EventFd, lock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::LinkState;
use super::handshake::{StreamStart, handshake};
use super::primary::{Primary, SILENCE_MAX};
use super::stream::{ReceivedFrame, StreamParser, identity};
use crate::Waker;
use crate::persistence::HistoryPosition;
use crate::persistence::frame::Kind;
use overside_kv_client::ServerStream;

/// Time from the loss of a primary to the next attempt to connect.
const RETRY: Duration = Duration::from_millis(200);
/// Time to the next attempt if its stream cannot be executed, a reason that lasts.
const RETRY_COPY: Duration = Duration::from_secs(5);
/// Shortest time between two acknowledgments to the primary. `ACKNOWLEDGE_MAX` is the longest.
const ACKNOWLEDGE_MIN: Duration = Duration::from_millis(1);
const ACKNOWLEDGE_MAX: Duration = Duration::from_secs(1);
/// Bytes received and not executed, without the last frame.
const QUEUE_BYTES: usize = 4 << 20;
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum Event {
    /// A copy begins, of the state at this position.
    Full(HistoryPosition),
    Frame(ReceivedFrame),
}

impl Event {
    fn bytes(&self) -> usize {
        match self {
            Self::Full(_) => 0,
            Self::Frame(frame) => frame.payload.len(),
        }
    }
}

#[derive(Debug, Default)]
struct Inbox {
    events: VecDeque<Event>,
    bytes: usize,
    link: LinkState,
    heard: Option<Instant>,
    /// Reason for the last loss of the primary, or the last frame that could not be executed; empty
    /// if there was none.
    error: String,
    /// `true` if received frames could not be executed, so that another copy is needed.
    is_broken: bool,
    is_ended: bool,
}

#[derive(Debug)]
struct Reception {
    inbox: Mutex<Inbox>,
    room: Condvar,
    waker: Arc<Waker>,
    /// Offset that was executed; 0 while the copy is not complete.
    executed: AtomicU64,
    /// Event of the receiving thread.
    event: EventFd,
}

/// The thread. It ends soon after this is dropped.
#[derive(Debug)]
pub(super) struct Receiver(Arc<Reception>);

impl Receiver {
    /// Goes on from `position` if the primary does.
    pub(super) fn start(primary: Primary, position: Option<HistoryPosition>) -> io::Result<Self> {
        let offset = position.as_ref().map_or(0, |position| position.offset);
        let shared = Arc::new(Reception {
            inbox: Mutex::default(),
            room: Condvar::new(),
            waker: Arc::clone(primary.own.waker()),
            executed: AtomicU64::new(offset),
            event: EventFd::new()?,
        });
        let theirs = Arc::clone(&shared);
        let builder = Builder::new().name("kv-primary".into());
        builder.spawn(move || run(&primary, &theirs, position))?;
        Ok(Self(shared))
    }

    /// Removes the oldest received event and returns it; `None` if there is none.
    pub(super) fn take(&self) -> Option<Event> {
        let mut inbox = lock(&self.0.inbox);
        let event = inbox.events.pop_front()?;
        inbox.bytes -= event.bytes();
        drop(inbox);
        self.0.room.notify_all();
        Some(event)
    }

    /// Puts an event back as the oldest one.
    pub(super) fn put_back(&self, event: Event) {
        let mut inbox = lock(&self.0.inbox);
        inbox.bytes += event.bytes();
        inbox.events.push_front(event);
    }

    /// Returns `true` if an event was received and not taken.
    pub(super) fn has_more(&self) -> bool {
        !lock(&self.0.inbox).events.is_empty()
    }

    /// Acknowledges executed and kept requests to the primary.
    pub(super) fn acknowledge(&self, offset: u64) {
        if self.0.executed.swap(offset, Ordering::Relaxed) != offset {
            self.0.event.signal();
        }
    }

    /// Makes the primary send another copy.
    pub(super) fn begin_again(&self, reason: &str) {
        self.0.executed.store(0, Ordering::Relaxed);
        let mut inbox = lock(&self.0.inbox);
        inbox.is_broken = true;
        inbox.events.clear();
        inbox.bytes = 0;
        inbox.error = format!("what it sends cannot be executed: {reason}");
        drop(inbox);
        self.0.room.notify_all();
        self.0.event.signal();
    }

    /// The copy has been executed.
    pub(super) fn complete(&self) {
        let mut inbox = lock(&self.0.inbox);
        if inbox.link == LinkState::Sync {
            inbox.link = LinkState::Connected;
        }
    }

    /// The state of the link, when the primary was heard last, and why it was lost before.
    pub(super) fn link(&self) -> (LinkState, Option<Instant>, String) {
        let inbox = lock(&self.0.inbox);
        (inbox.link, inbox.heard, inbox.error.clone())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        lock(&self.0.inbox).is_ended = true;
        self.0.room.notify_all();
        self.0.event.signal();
    }
}

impl Reception {
    /// Waits while a condition holds, for a limited time, or until any wake-up.
    fn wait_while<'i>(
        &self,
        inbox: MutexGuard<'i, Inbox>,
        most: Duration,
        holds: impl FnMut(&mut Inbox) -> bool,
    ) -> MutexGuard<'i, Inbox> {
        let waited = self.room.wait_timeout_while(inbox, most, holds);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Queues an event, and waits for room. Returns `true` if it was taken.
    fn push(&self, event: Event) -> bool {
        let mut inbox = lock(&self.inbox);
        while inbox.bytes > QUEUE_BYTES && !inbox.is_ended && !inbox.is_broken {
            inbox = self.wait_while(inbox, SILENCE_MAX, |inbox| {
                inbox.bytes > QUEUE_BYTES && !inbox.is_ended && !inbox.is_broken
            });
        }
        if inbox.is_ended || inbox.is_broken {
            return false;
        }
        inbox.bytes += event.bytes();
        inbox.events.push_back(event);
        drop(inbox);
        self.waker.wake();
        true
    }
}

/// Follows the primary until the receiver ends.
fn run(primary: &Primary, shared: &Reception, mut position: Option<HistoryPosition>) {
    loop {
        let lost = session(primary, shared, &mut position);
        let mut inbox = lock(&shared.inbox);
        if inbox.is_ended {
            return;
        }
        inbox.link = LinkState::Connect;
        let mut pause = RETRY;
        if std::mem::take(&mut inbox.is_broken) {
            position = None;
            pause = RETRY_COPY;
        } else if let Err(error) = lost {
            let text = error.to_string();
            if text != inbox.error {
                let (host, port) = (&primary.host, primary.port);
                tracing::warn!(host, port, "the primary is lost: {text}");
            }
            inbox.error = text;
        }
        if shared.wait_while(inbox, pause, |inbox| !inbox.is_ended).is_ended {
            return;
        }
    }
}

/// Follows the primary until it is lost.
fn session(
    primary: &Primary,
    shared: &Reception,
    position: &mut Option<HistoryPosition>,
) -> io::Result<()> {
    let mut stream = primary.connect()?;
    lock(&shared.inbox).link = LinkState::Sync;
    let reply = handshake(&mut stream, primary, position.as_ref())?;
    let at = match (reply, position.take()) {
        (StreamStart::Continue, Some(known)) => {
            lock(&shared.inbox).link = LinkState::Connected;
            *position = Some(known.clone());
            known
        }
        (StreamStart::Continue, None) => return Err(ErrorKind::InvalidData.into()),
        (StreamStart::Full(at), _) => {
            if !shared.push(Event::Full(at.clone())) {
                return Ok(());
            }
            at
        }
    };
    let identity = identity(&at.id).ok_or(ErrorKind::InvalidData)?;
    let mut following =
        Frames { shared, parser: StreamParser::new(identity, at.number), at, position };
    following.follow(&mut stream)
}

/// The frames of one connection.
struct Frames<'s> {
    shared: &'s Reception,
    parser: StreamParser,
    at: HistoryPosition,
    /// Known once the copy is complete.
    position: &'s mut Option<HistoryPosition>,
}

impl Frames<'_> {
    fn follow(&mut self, stream: &mut ServerStream) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut heard = Instant::now();
        let mut acknowledged = (0, Instant::now());
        loop {
            let is_readable = self.wait(stream, acknowledged)?;
            if is_readable {
                match stream.read(&mut buffer) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(len) => {
                        heard = Instant::now();
                        self.parser.push(&buffer[..len]);
                        self.hand_over()?;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            let mut inbox = lock(&self.shared.inbox);
            inbox.heard = Some(heard);
            if inbox.is_ended || inbox.is_broken {
                return Ok(());
            }
            drop(inbox);
            if heard.elapsed() > SILENCE_MAX {
                return Err(ErrorKind::TimedOut.into());
            }
            acknowledge(stream, self.shared, &mut acknowledged)?;
        }
    }

    /// Waits for input, or for the time of an acknowledgment. Returns `true` if something was received.
    fn wait(&self, stream: &mut ServerStream, acknowledged: (u64, Instant)) -> io::Result<bool> {
        if stream.has_buffered() {
            return Ok(true);
        }
        let shared = self.shared;
        let mut events = [
            PollFd::new(stream.socket(), PollFlags::IN),
            PollFd::new(&shared.event, PollFlags::IN),
        ];
        let has_more = shared.executed.load(Ordering::Relaxed) != acknowledged.0;
        let most = match has_more {
            true => ACKNOWLEDGE_MIN,
            false => ACKNOWLEDGE_MAX,
        };
        let left = most.saturating_sub(acknowledged.1.elapsed());
        let timeout = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut events, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !events[1].revents().is_empty() {
            shared.event.clear();
        }
        Ok(!events[0].revents().is_empty())
    }

    /// Passes on the complete frames.
    fn hand_over(&mut self) -> io::Result<()> {
        loop {
            let frame = match self.parser.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(error) => {
                    // The same would come again.
                    *self.position = None;
                    return Err(io::Error::other(error));
                }
            };
            self.at.offset += frame.history_bytes;
            self.at.number = self.parser.number();
            let is_complete = frame.kind == Kind::CopyEnd;
            if !self.shared.push(Event::Frame(frame)) {
                return Ok(());
            }
            if is_complete || self.position.is_some() {
                *self.position = Some(self.at.clone());
            }
        }
    }
}

/// Acknowledges the replica's offset, if it is new or the last acknowledgment is old.
fn acknowledge(
    stream: &mut ServerStream,
    shared: &Reception,
    acknowledged: &mut (u64, Instant),
) -> io::Result<()> {
    let executed = shared.executed.load(Ordering::Relaxed);
    let least = match executed == acknowledged.0 {
        true => ACKNOWLEDGE_MAX,
        false => ACKNOWLEDGE_MIN,
    };
    if acknowledged.1.elapsed() >= least {
        *acknowledged = (executed, Instant::now());
        stream.write_all(&executed.to_le_bytes())?;
    }
    Ok(())
}
