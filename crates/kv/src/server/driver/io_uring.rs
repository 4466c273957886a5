//! The driver that hands requests to the kernel in rings: io_uring(7).
//!
//! Before each wait:
//!
//! 1. every socket that something is wanted of and that has no request gets one: a client's connection a
//!    receive, all else (listeners, datagrams, TLS, whoever has to take output first) a poll, and
//! 2. one system call hands them over and waits.
//!
//! A receive stays until it is cancelled, and completes whenever bytes are there. A connection is given one
//! buffer's worth a turn, as with epoll; if more waits than [`WAITING_MAX`], or no input is wanted, its receive is
//! cancelled. So the ring's buffers bound what is received too early. Who has not authenticated is received from
//! once at a time and little. The replies of a group of connections leave by one call ([`Ring::send_all`]).
//!
//! Where bytes are wanted at once (a long value, the drain), the socket is read directly. That keeps the
//! order: the ring receives in calls of this thread alone, whose results have been taken by then.

mod error;
mod ring;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use ahash::RandomState;
use slab::Slab;

pub use error::IoUringError;
pub use ring::MEMORY_BYTES;
use ring::{Chunk, Completion, Ring};

use super::EventFlags;
use crate::server::buffers::Buffers;
use crate::server::connection::Connection;

/// Buffers that wait for a connection's turns before no more are received for it.
const WAITING_MAX: usize = 4;
/// How long a request may take to end after it was cancelled.
const CANCEL_WAIT: Duration = Duration::from_millis(10);
const CANCEL_WAITS: usize = 100;

/// The sockets of a worker, and what is asked of them.
pub struct IoUring {
    ring: Ring,
    sockets: HashMap<u64, Registration, RandomState>,
    /// By their numbers; a place is free again when the request has completed.
    requests: Slab<Request>,
    /// Sockets that may need requests, and requests that nobody needs any more.
    changed: Vec<u64>,
    unneeded: Vec<usize>,
    completions: Vec<Completion>,
    /// What the last wait found, and what has been found since.
    events: Vec<(u64, EventFlags)>,
    next: Vec<(u64, EventFlags)>,
}

/// A socket.
struct Registration {
    socket: RawFd,
    interest: EventFlags,
    mode: Mode,
    /// Requests under way. A receive that was cancelled is, until it completes.
    receive: Option<usize>,
    poll: Option<(usize, EventFlags)>,
    is_cancelled: bool,
    /// What has come and was not served.
    received: VecDeque<Received>,
}

/// How a socket is asked for what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whether there is something.
    Poll,
    /// Bytes of a stream: at most so many at a time, or whatever comes.
    Receive(Option<usize>),
}

enum Received {
    Bytes { chunk: Chunk, has_more: bool },
    End,
    Failed,
}

/// A request under way.
#[derive(Clone, Copy)]
struct Request {
    /// Whose it is; `None`: nobody's any more.
    token: Option<u64>,
    is_receive: bool,
}

impl IoUring {
    pub fn new() -> Result<Self, IoUringError> {
        Ok(Self {
            ring: Ring::new().map_err(IoUringError::explain)?,
            sockets: HashMap::default(),
            requests: Slab::new(),
            changed: Vec::new(),
            unneeded: Vec::new(),
            completions: Vec::new(),
            events: Vec::new(),
            next: Vec::new(),
        })
    }

    /// Adds a socket.
    pub fn add(&mut self, socket: BorrowedFd<'_>, token: u64, interest: EventFlags, mode: Mode) {
        let registration = Registration {
            socket: socket.as_raw_fd(),
            interest,
            mode,
            receive: None,
            poll: None,
            is_cancelled: false,
            received: VecDeque::new(),
        };
        self.sockets.insert(token, registration);
        self.changed.push(token);
    }

    pub fn change(&mut self, token: u64, interest: EventFlags) {
        if let Some(registration) = self.sockets.get_mut(&token) {
            registration.interest = interest;
            self.changed.push(token);
        }
    }

    /// Has nothing to do with a socket any more, which is about to be closed.
    pub fn forget(&mut self, token: u64) {
        let Some(registration) = self.sockets.remove(&token) else {
            return;
        };
        let poll = registration.poll.map(|(request, _)| request);
        for request in registration.receive.into_iter().chain(poll) {
            self.requests[request].token = None;
            self.unneeded.push(request);
        }
        for received in registration.received {
            if let Received::Bytes { chunk, .. } = received {
                self.ring.give_back(chunk);
            }
        }
    }

    /// Gives a socket away: nothing is asked of it any more when this returns.
    ///
    /// # Errors
    /// Something was received from it meanwhile, or the system refuses.
    pub fn remove(&mut self, token: u64) -> io::Result<()> {
        let requests = |all: &Self| {
            let registration = all.sockets.get(&token);
            registration.map_or((None, None), |one| (one.receive, one.poll))
        };
        let (receive, poll) = requests(self);
        let both = receive.into_iter().chain(poll.map(|(request, _)| request));
        self.unneeded.extend(both);
        for _ in 0..CANCEL_WAITS {
            if requests(self) == (None, None) {
                let registration = self.sockets.get(&token);
                let has_lost = registration.is_some_and(|one| !one.received.is_empty());
                self.forget(token);
                return match has_lost {
                    true => Err(io::ErrorKind::InvalidData.into()),
                    false => Ok(()),
                };
            }
            self.turn(CANCEL_WAIT)?;
        }
        self.forget(token);
        Err(io::ErrorKind::TimedOut.into())
    }

    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        for token in std::mem::take(&mut self.changed) {
            self.request(token)?;
        }
        let timeout = match self.next.is_empty() {
            true => timeout,
            false => Duration::ZERO,
        };
        self.turn(timeout)?;
        self.events.clear();
        self.events.append(&mut self.next);
        Ok(())
    }

    pub fn events(&self) -> &[(u64, EventFlags)] {
        &self.events
    }

    /// Hands requests over, and takes what has completed.
    fn turn(&mut self, timeout: Duration) -> io::Result<()> {
        for request in std::mem::take(&mut self.unneeded) {
            self.ring.cancel(request as u64)?;
        }
        self.ring.wait(timeout)?;
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.completions(&mut completions);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        Ok(())
    }

    /// Asks for what is wanted of a socket and has not been asked for.
    fn request(&mut self, token: u64) -> io::Result<()> {
        let Some(one) = self.sockets.get_mut(&token) else {
            return Ok(());
        };
        let mut polled = one.interest;
        if let Mode::Receive(max_bytes) = one.mode {
            polled -= EventFlags::IN;
            let is_wanted =
                one.interest.contains(EventFlags::IN) && one.received.len() < WAITING_MAX;
            match one.receive {
                None if is_wanted && one.received.is_empty() => {
                    let request = self.requests.insert(Request {
                        token: Some(token),
                        is_receive: true,
                    });
                    (one.receive, one.is_cancelled) = (Some(request), false);
                    self.ring.receive(one.socket, max_bytes, request as u64)?;
                }
                Some(request) if !is_wanted && !one.is_cancelled => {
                    one.is_cancelled = true;
                    self.unneeded.push(request);
                }
                _ => {}
            }
        }
        // A poll for what is not wanted any more says nothing when it completes.
        let is_polled = one.poll.is_some_and(|(_, flags)| flags.contains(polled));
        if polled.is_empty() || is_polled {
            return Ok(());
        }
        let request = self.requests.insert(Request {
            token: Some(token),
            is_receive: false,
        });
        if let Some((before, _)) = one.poll.replace((request, polled)) {
            self.requests[before].token = None;
            self.unneeded.push(before);
        }
        self.ring.poll(one.socket, polled.bits(), request as u64)
    }

    fn complete(&mut self, completion: Completion) {
        let number = completion.id as usize;
        let Request { token, is_receive } = self.requests[number];
        if completion.is_last {
            self.requests.remove(number);
        }
        let registration = token.and_then(|token| {
            let registration = self.sockets.get_mut(&token);
            registration.map(|registration| (token, registration))
        });
        let Some((token, one)) = registration else {
            let chunk = completion.chunk.into_iter();
            chunk.for_each(|chunk| self.ring.give_back(chunk));
            return;
        };
        if !is_receive {
            one.poll = None;
            self.changed.push(token);
            let flags = match u32::try_from(completion.result) {
                Ok(flags) => EventFlags::from_bits_truncate(flags),
                Err(_) if completion.result == -libc::ECANCELED => return,
                Err(_) => EventFlags::ERR,
            };
            let wanted = one.interest | EventFlags::ERR | EventFlags::HUP;
            if flags.intersects(wanted) {
                self.next.push((token, flags));
            }
            return;
        }
        if completion.is_last {
            one.receive = None;
            self.changed.push(token);
        }
        let received = match (completion.result, completion.chunk) {
            (1.., Some(chunk)) => Received::Bytes {
                chunk,
                has_more: completion.has_more,
            },
            (result, chunk) => {
                let chunk = chunk.into_iter();
                chunk.for_each(|chunk| self.ring.give_back(chunk));
                match -result {
                    0 => Received::End,
                    // All buffers are out: it is asked for again when they are back.
                    libc::ENOBUFS | libc::EAGAIN | libc::EINTR | libc::ECANCELED => return,
                    _ => Received::Failed,
                }
            }
        };
        if one.received.is_empty() {
            self.next.push((token, EventFlags::IN));
        }
        one.received.push_back(received);
        if one.received.len() == WAITING_MAX {
            self.changed.push(token);
        }
    }

    /// Gives a connection what has come for it. How many bytes.
    pub fn receive(
        &mut self,
        token: u64,
        connection: &mut Connection,
        buffers: &mut Buffers,
    ) -> usize {
        let Some(one) = self.sockets.get_mut(&token) else {
            return connection.receive(buffers);
        };
        let received = one.received.pop_front();
        let is_last = one.received.is_empty();
        if !is_last {
            self.next.push((token, EventFlags::IN));
        }
        if one.mode != Mode::Poll {
            one.mode = Mode::Receive(connection.receive_max_bytes());
            // There may be room for more again.
            if is_last && one.receive.is_none() {
                self.changed.push(token);
            }
        }
        match received {
            None => connection.receive(buffers),
            Some(Received::Bytes { chunk, has_more }) => {
                let bytes = self.ring.bytes(&chunk);
                let len = bytes.len();
                connection.take(bytes, has_more || !is_last, buffers);
                self.ring.give_back(chunk);
                // A long value comes as fast as it can.
                match is_last && has_more && connection.wants_long() {
                    true => len + connection.receive(buffers),
                    false => len,
                }
            }
            Some(Received::End) => {
                connection.end_input();
                0
            }
            Some(Received::Failed) => {
                connection.fail();
                0
            }
        }
    }

    /// Sends what clients take. How many bytes.
    pub fn send<'c>(
        &mut self,
        connections: impl Iterator<Item = &'c mut Connection>,
        now_ms: u64,
    ) -> usize {
        let mut sent = 0;
        let mut plain: Vec<&mut Connection> = Vec::new();
        for connection in connections {
            match connection.plain_output() {
                Some(_) => plain.push(connection),
                None => sent += connection.send(now_ms),
            }
        }
        // One alone leaves sooner without the ring.
        if let [connection] = plain.as_mut_slice() {
            sent += connection.send(now_ms);
        }
        if plain.len() < 2 {
            return sent;
        }
        let sends: Vec<_> = (plain.iter())
            .filter_map(|connection| connection.plain_output())
            .map(|(transport, bytes)| (transport.as_fd(), bytes))
            .collect();
        let results = match self.ring.send_all(&sends) {
            Ok(results) => results,
            Err(error) => {
                // Nothing is known of any of them. The next wait fails too, and ends the server.
                tracing::warn!(%error, "io_uring failed");
                plain.iter_mut().for_each(|connection| connection.fail());
                return sent;
            }
        };
        for (connection, &result) in plain.into_iter().zip(results) {
            let result = match -result {
                libc::EAGAIN | libc::EINTR => Ok(0),
                errno @ 1.. => Err(io::Error::from_raw_os_error(errno)),
                _ => Ok(result as usize),
            };
            sent += connection.count_sent(result, now_ms);
        }
        sent
    }
}
