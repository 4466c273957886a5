//! One end of a queue pair over TCP: its state and its connection.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::core::Core;
use super::socket;
use crate::credit::Limits;
use crate::exports::Exports;
use crate::network::Engine;
use crate::service::Wait;
use crate::verbs::{Cause, Completion, Inbox, Messages, Work};

/// How many reads one look at a connection makes at most, so that nobody is kept by a peer that
/// sends without end.
const READS: usize = 16;

/// The state of a queue pair and its connection.
pub(crate) struct TcpEngine {
    core: Core,
    stream: TcpStream,
    /// Bytes wait that the connection did not take.
    blocked: bool,
    /// The service thread knows that.
    service_knows: bool,
}

impl TcpEngine {
    /// Also gives the descriptor to wait on.
    pub(crate) fn new(
        stream: TcpStream,
        exports: Arc<Exports>,
        limits: Limits,
    ) -> std::io::Result<(Self, OwnedFd)> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let descriptor = stream.as_fd().try_clone_to_owned()?;
        let engine = Self {
            core: Core::new(exports, limits),
            stream,
            blocked: false,
            service_knows: false,
        };
        Ok((engine, descriptor))
    }

    /// Writes what the connection takes.
    fn flush(&mut self) {
        self.blocked = false;
        while !self.core.outgoing.is_empty() {
            let pieces = self.core.outgoing.pieces(socket::MAX_PIECES);
            match socket::write(&self.stream, pieces) {
                Ok(count) => self.core.sent(count),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        self.blocked = true;
                        break;
                    }
                    // What the peer has sent before it went is still to be read.
                    _ => {
                        self.read_on();
                        self.core.lose(Cause::Gone(error.to_string()));
                        break;
                    }
                },
            }
        }
    }

    /// Reads what has come before the end.
    fn read_on(&mut self) {
        for _ in 0..READS {
            if !self.read() {
                break;
            }
        }
    }

    /// Reads once; whether there may be more.
    fn read(&mut self) -> bool {
        if self.core.is_lost() {
            return false;
        }
        let (place, buffer) = self.core.room();
        let (direct, room) = (place.len(), place.len() + buffer.len());
        let count = match socket::read(&self.stream, place, buffer) {
            Ok(0) => {
                let ended = "the connection has ended without a good-bye";
                self.core.lose(Cause::Gone(ended.into()));
                return false;
            }
            Ok(count) => count,
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => return true,
                ErrorKind::WouldBlock => return false,
                _ => {
                    self.core.lose(Cause::Gone(error.to_string()));
                    return false;
                }
            },
        };
        let direct = direct.min(count);
        if let Err(cause) = self.core.came(direct, count - direct) {
            self.core.lose(cause);
            // The peer is to notice as well.
            let _ = self.stream.shutdown(Shutdown::Both);
            return false;
        }
        count == room
    }
}

impl Engine for TcpEngine {
    fn post(&mut self, work: Work) -> Result<(), Work> {
        self.core.post(work)
    }

    fn ring(&mut self) {
        self.flush();
    }

    fn progress(&mut self) {
        for _ in 0..READS {
            self.flush();
            if !self.read() {
                break;
            }
        }
        self.flush();
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        self.core.poll(out, max)
    }

    fn completed(&self) -> usize {
        self.core.completed()
    }

    fn send(&mut self, messages: &Messages<'_>) -> usize {
        self.core.send(messages)
    }

    fn receive(&mut self, inbox: &mut Inbox, max: usize) -> usize {
        self.core.receive(inbox, max)
    }

    fn waits_for_messages(&self) -> bool {
        !self.core.receives.is_empty()
    }

    fn has_news(&mut self) -> bool {
        self.core.has_news()
    }

    fn noticed(&mut self) {
        self.core.has_room = false;
    }

    fn end(&self) -> Option<(Cause, Vec<u64>)> {
        self.core.end()
    }

    fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    fn tags(&self) -> Vec<u64> {
        self.core.tags()
    }

    fn active(&self) -> usize {
        self.core.active()
    }

    fn in_flight(&self) -> usize {
        self.core.in_flight()
    }

    fn quarantined(&self) -> usize {
        // Only this end writes to destinations, and it stops when the link is lost.
        0
    }

    fn say_bye(&mut self) {
        self.core.say_bye();
        self.flush();
    }

    fn is_delivered(&self) -> bool {
        self.core.is_lost()
            || self.core.outgoing.is_empty() && socket::unconfirmed(&self.stream) == 0
    }

    fn shut(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn lose(&mut self, cause: &Cause) {
        // What has come before is still the owner's.
        self.read_on();
        self.core.lose(cause.clone());
    }

    fn wait(&mut self) -> Wait {
        match (self.core.is_lost(), self.blocked) {
            (true, _) => Wait::Never,
            (_, true) => {
                self.service_knows = true;
                Wait::Writable
            }
            _ => Wait::Readable,
        }
    }

    fn needs_service(&mut self) -> bool {
        // It may have been told and have waited for it since; then it comes for nothing.
        let knew = std::mem::replace(&mut self.service_knows, self.blocked);
        self.blocked && !knew
    }
}
