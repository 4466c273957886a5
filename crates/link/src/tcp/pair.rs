//! One end of a queue pair over TCP: its state and its connection, behind a lock, because the
//! service thread steps in where the owner is away.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::core::{Core, Limits};
use super::socket;
use crate::exports::Exports;
use crate::service::{Member, Wait};
use crate::verbs::Cause;

/// How many reads one look at a connection makes at most, so that nobody is kept by a peer that
/// sends without end.
const READS: usize = 16;

/// Shared by the owner and the service thread.
pub(crate) struct Pair {
    state: Mutex<State>,
    /// The same connection, for being waited on.
    descriptor: OwnedFd,
    visits: AtomicU64,
    /// The owner sleeps until the descriptor or the signal wakes it.
    armed: AtomicBool,
    signal: OwnedFd,
}

/// What the lock protects.
pub(crate) struct State {
    pub(crate) core: Core,
    stream: TcpStream,
    /// Bytes wait that the connection did not take.
    blocked: bool,
    /// The service thread knows that.
    service_knows: bool,
}

impl Pair {
    pub(crate) fn new(
        stream: TcpStream,
        exports: Arc<Exports>,
        limits: Limits,
    ) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            descriptor: stream.as_fd().try_clone_to_owned()?,
            state: Mutex::new(State {
                core: Core::new(exports, limits),
                stream,
                blocked: false,
                service_knows: false,
            }),
            visits: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            signal: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked under it has left a state that is checked at every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner comes by.
    pub(crate) fn visit(&self) -> MutexGuard<'_, State> {
        // Only the owner counts, so this need not be one step.
        let visits = self.visits.load(Ordering::Relaxed);
        self.visits.store(visits.wrapping_add(1), Ordering::Relaxed);
        self.lock()
    }

    /// The owner sleeps from now on, or does not any more.
    pub(crate) fn arm(&self, armed: bool) {
        if armed {
            self.armed.store(true, Ordering::Release);
        } else if self.armed.swap(false, Ordering::AcqRel) {
            let _ = rustix::io::read(&self.signal, &mut [0u8; 8]);
        }
    }

    /// Readable when the service thread has found something for an owner that sleeps.
    pub(crate) fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    fn tell_owner(&self) {
        if self.armed.load(Ordering::Acquire) {
            let _ = rustix::io::write(&self.signal, &1u64.to_ne_bytes());
        }
    }
}

impl State {
    /// Writes what waits and reads what has come, until there is nothing to do or it has been
    /// enough.
    pub(crate) fn progress(&mut self) {
        for _ in 0..READS {
            self.flush();
            if self.core.is_lost() || !self.read() {
                break;
            }
        }
        self.flush();
    }

    /// Writes what the connection takes.
    pub(crate) fn flush(&mut self) {
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

    /// Bytes wait that the connection does not take, and the service thread does not know yet.
    pub(crate) fn needs_service(&mut self) -> bool {
        self.blocked && !std::mem::replace(&mut self.service_knows, true)
    }

    /// Bytes wait that the connection does not take.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Everything that was said has reached the peer's system, or never will.
    pub(crate) fn is_delivered(&self) -> bool {
        self.core.is_lost()
            || self.core.outgoing.is_empty() && socket::unconfirmed(&self.stream) == 0
    }

    /// Lets the peer know that there is no more.
    pub(crate) fn shut(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

impl Member for Pair {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn visits(&self) -> u64 {
        self.visits.load(Ordering::Relaxed)
    }

    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    fn serve(&self) -> Wait {
        let mut state = self.lock();
        state.progress();
        state.service_knows = state.blocked;
        if state.core.has_news() {
            self.tell_owner();
        }
        match (state.core.is_lost(), state.blocked) {
            (true, _) => Wait::Never,
            (_, true) => Wait::Writable,
            _ => Wait::Readable,
        }
    }

    fn lose(&self, cause: &Cause) {
        let mut state = self.lock();
        // What has come before is still the owner's.
        state.read_on();
        state.core.lose(cause.clone());
        self.tell_owner();
    }
}
