//! One client's connection.

use std::io;

use super::buffers::{BUFFER_BYTES, Buffers};
use super::counters::CloseReason;
use super::epoll::EventFlags;
use crate::protocol::{COMMAND_MAX_BYTES, OUTPUT_PAUSE_BYTES, Session};
use overside_kv_backend::transport::{Received, Transport};

/// Bytes that are read at a time from a client that has not authenticated. They limit how many
/// passwords it can try at once.
const UNAUTHENTICATED_READ_BYTES: usize = 512;
/// Longest command of such a client.
const UNAUTHENTICATED_COMMAND_MAX_BYTES: usize = 16 << 10;
/// Memory of a connection itself, its place in the tables included.
const OWN_BYTES: usize = 512;

/// Protocol that a client speaks on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Resp,
    Memcached,
}

/// A connection, with its unprocessed input and its unsent output.
pub(super) struct Connection {
    pub transport: Transport,
    pub protocol: Protocol,
    pub session: Session,
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    /// Number of bytes of the output that have been sent.
    sent: usize,
    /// Length of the input from which on it may have a whole command.
    needed_bytes: usize,
    /// The output was full before the input was done with.
    is_output_full: bool,
    /// Events for which the socket is registered with epoll.
    pub interest: EventFlags,
    /// The client sends no more.
    has_ended: bool,
    /// `true` if the last read found no more input.
    is_drained: bool,
    /// Time before which it is not read.
    pub paused_until_ms: u64,
    /// Time since when the client has taken none of its output.
    pub stalled_since_ms: Option<u64>,
    pub close: Option<CloseReason>,
}

impl Connection {
    pub(super) fn new(transport: Transport, protocol: Protocol, session: Session) -> Self {
        Self {
            transport,
            protocol,
            session,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            needed_bytes: 0,
            is_output_full: false,
            interest: EventFlags::IN,
            has_ended: false,
            is_drained: false,
            paused_until_ms: 0,
            stalled_since_ms: None,
            close: None,
        }
    }

    /// Reads up to a buffer's capacity of available bytes. Returns their number.
    pub(super) fn receive(&mut self, buffers: &mut Buffers) -> usize {
        if !self.wants_input() {
            return 0;
        }
        self.make_room(buffers);
        let before = self.input.len();
        match self.transport.receive(&mut self.input) {
            Ok(Received::More) => self.is_drained = false,
            Ok(Received::Drained) => self.is_drained = true,
            Ok(Received::End) => (self.is_drained, self.has_ended) = (true, true),
            Err(_) => self.close = Some(CloseReason::Failed),
        }
        self.input.len() - before
    }

    fn make_room(&mut self, buffers: &mut Buffers) {
        if !self.session.is_authenticated() {
            self.input.reserve_exact(UNAUTHENTICATED_READ_BYTES);
            return;
        }
        buffers.lend(&mut self.input);
        // No more than twice what has really come, whatever was announced.
        let there = self.input.len();
        let missing = self.needed_bytes.saturating_sub(there);
        let room = missing.clamp(BUFFER_BYTES.min(there.max(1)), there.max(BUFFER_BYTES));
        self.input.reserve(room);
    }

    fn wants_input(&self) -> bool {
        !(self.has_ended || self.is_output_full || self.session.is_closing())
            && self.unsent() <= OUTPUT_PAUSE_BYTES
            && self.close.is_none()
            && !(self.waits() && self.input.len() >= BUFFER_BYTES)
    }

    /// Returns `true` if the next command is not executed yet: the one before waits for replicas, or itself for a
    /// slot that moves.
    fn waits(&self) -> bool {
        self.session.replica_wait().is_some() || self.session.is_held()
    }

    /// Makes the communication engine look again whether the next command can be executed.
    pub(super) fn retry_held(&mut self) {
        self.session.retry_held();
        self.needed_bytes = 0;
    }

    /// Ends its wait for replicas: `have` of them, or none because this server is one itself now.
    pub(super) fn end_wait(&mut self, have: Option<usize>) {
        self.session.end_wait(have, &mut self.output);
        // What has come meanwhile was not looked at.
        self.needed_bytes = 0;
    }

    /// Returns `true` if the communication engine may find a whole command in the input. Then makes
    /// room for its replies.
    pub(super) fn is_ready(&mut self, buffers: &mut Buffers) -> bool {
        let has_input = !self.input.is_empty() && self.input.len() >= self.needed_bytes;
        let is_ready = has_input
            && self.close.is_none()
            && !self.session.is_closing()
            && !self.waits()
            && self.unsent() <= OUTPUT_PAUSE_BYTES;
        if is_ready {
            self.output.drain(..self.sent);
            self.sent = 0;
            buffers.lend(&mut self.output);
        }
        is_ready
    }

    /// Removes the bytes that the communication engine has consumed from the input. `has_more`: it
    /// has not parsed the rest, because the outputs of all connections were full.
    pub(super) fn consume(&mut self, consumed: usize, has_more: bool) {
        self.input.drain(..consumed);
        let session = &self.session;
        self.needed_bytes = self.input.len() + session.missing_bytes();
        self.is_output_full =
            !self.input.is_empty() && (has_more || self.output.len() > OUTPUT_PAUSE_BYTES);
        if self.is_output_full {
            self.needed_bytes = 0;
        }
        if session.is_closing() {
            self.input.clear();
        }
        let longest = match session.is_authenticated() {
            true => COMMAND_MAX_BYTES,
            false => UNAUTHENTICATED_COMMAND_MAX_BYTES,
        };
        if self.needed_bytes > longest {
            self.close = Some(CloseReason::Protocol);
        }
    }

    /// Sends as much as the client takes. Returns the number of bytes.
    pub(super) fn send(&mut self, now_ms: u64) -> usize {
        if self.close.is_some() || (self.unsent() == 0 && !self.transport.has_unsent()) {
            return 0;
        }
        let sent = match self.transport.send(&self.output[self.sent..]) {
            Ok(sent) => sent,
            Err(error) => {
                self.close = Some(match error.kind() {
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        CloseReason::Client
                    }
                    _ => CloseReason::Failed,
                });
                return 0;
            }
        };
        self.sent += sent;
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        let waits = self.unsent() > 0 || self.transport.has_unsent();
        self.stalled_since_ms = match (waits, self.stalled_since_ms) {
            (false, _) => None,
            (true, Some(since)) if sent == 0 => Some(since),
            (true, _) => Some(now_ms),
        };
        sent
    }

    /// Bytes of output that wait.
    pub(super) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Returns `true` if the input must be processed although nothing new has come, because the
    /// output was full and no longer is.
    pub(super) fn is_due(&self) -> bool {
        self.is_output_full && self.unsent() <= OUTPUT_PAUSE_BYTES && self.close.is_none()
    }

    /// Returns `true` if the socket may have input that was not read, and more input is wanted.
    pub(super) fn may_have_input(&self) -> bool {
        !self.is_drained && self.wants_input()
    }

    /// Marks the socket as one that may have input, unless the client has ended its side.
    pub(super) fn look_again(&mut self) {
        self.is_drained = self.has_ended;
    }

    /// Returns unused memory. Returns the reason for closing the connection, if there is one.
    pub(super) fn settle(
        &mut self,
        buffers: &mut Buffers,
        is_draining: bool,
    ) -> Option<CloseReason> {
        buffers.settle(&mut self.input);
        buffers.settle(&mut self.output);
        let is_done = self.unsent() == 0 && !self.transport.has_unsent() && !self.is_due();
        if self.close.is_none() && is_done {
            let is_over = is_draining && self.is_drained;
            self.close = match () {
                () if self.session.is_closing() => Some(CloseReason::Protocol),
                () if self.has_ended => Some(CloseReason::Client),
                () if is_over => Some(CloseReason::Shutdown),
                () => None,
            };
        }
        self.close
    }

    /// Returns the events for which the socket should be registered with epoll.
    pub(super) fn wanted_interest(&self, now_ms: u64) -> EventFlags {
        let mut wanted = EventFlags::empty();
        if self.wants_input() && self.paused_until_ms <= now_ms {
            wanted |= EventFlags::IN;
        }
        if self.unsent() > 0 || self.transport.has_unsent() {
            wanted |= EventFlags::OUT;
        }
        wanted
    }

    /// Memory that it holds in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let buffers = self.input.capacity() + self.output.capacity();
        OWN_BYTES + buffers + self.session.memory_bytes() + self.transport.memory_bytes()
    }
}
