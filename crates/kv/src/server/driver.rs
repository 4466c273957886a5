//! How a worker waits for its sockets, receives and sends: by epoll or by io_uring. All else is the same.

mod epoll;
mod io_uring;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

pub use epoll::EventFlags;
pub use io_uring::IoUringError;

use super::buffers::Buffers;
use super::connection::Connection;
use super::settings::DriverKind;
use epoll::Epoll;
use io_uring::{IoUring, Mode};

/// The sockets of a worker. Each has a token, and an interest: readable, writable, both or neither.
pub enum Driver {
    Epoll(Epoll),
    IoUring(Box<IoUring>),
}

impl Driver {
    /// For the calling thread.
    pub fn new(kind: DriverKind) -> io::Result<Self> {
        Ok(match kind {
            DriverKind::Epoll | DriverKind::Dpdk => Self::Epoll(Epoll::new()?),
            DriverKind::IoUring => Self::IoUring(Box::new(IoUring::new()?)),
        })
    }

    /// Memory of a worker's for receiving, beside that of connections.
    pub fn memory_bytes(kind: DriverKind) -> u64 {
        match kind {
            DriverKind::Epoll | DriverKind::Dpdk => 0,
            DriverKind::IoUring => io_uring::MEMORY_BYTES as u64,
        }
    }

    /// Whether the system has it.
    pub fn check(kind: DriverKind) -> Result<(), IoUringError> {
        match kind {
            DriverKind::Epoll | DriverKind::Dpdk => Ok(()),
            DriverKind::IoUring => IoUring::new().map(drop),
        }
    }

    /// Adds a socket that events are wanted of.
    pub fn add(&mut self, socket: impl AsFd, token: u64, interest: EventFlags) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.add(socket, token, interest),
            Self::IoUring(ring) => {
                ring.add(socket.as_fd(), token, interest, Mode::Poll);
                Ok(())
            }
        }
    }

    /// Adds a client's connection, which wants input.
    pub fn add_connection(&mut self, connection: &Connection, token: u64) -> io::Result<()> {
        let (socket, interest) = (connection.transport.as_fd(), EventFlags::IN);
        match self {
            Self::Epoll(epoll) => epoll.add(socket, token, interest),
            Self::IoUring(ring) => {
                // What TLS reads of a socket is its library's affair.
                let mode = match connection.transport.is_tls() {
                    true => Mode::Poll,
                    false => Mode::Receive(connection.receive_max_bytes()),
                };
                ring.add(socket, token, interest, mode);
                Ok(())
            }
        }
    }

    /// Changes what is wanted of a socket.
    pub fn change(
        &mut self,
        socket: impl AsFd,
        token: u64,
        interest: EventFlags,
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.change(socket, token, interest),
            Self::IoUring(ring) => {
                ring.change(token, interest);
                Ok(())
            }
        }
    }

    /// Gives a socket away that stays open. After an error it must be closed.
    pub fn remove(&mut self, socket: impl AsFd, token: u64) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.remove(socket),
            Self::IoUring(ring) => ring.remove(token),
        }
    }

    /// A socket is about to be closed.
    pub fn forget(&mut self, token: u64) {
        if let Self::IoUring(ring) = self {
            ring.forget(token);
        }
    }

    /// Waits for events, no longer than `timeout`; a signal ends the wait too.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.wait(timeout),
            Self::IoUring(ring) => ring.wait(timeout),
        }
    }

    /// How many sockets the last wait found something of.
    pub fn events_len(&self) -> usize {
        match self {
            Self::Epoll(epoll) => epoll.events_len(),
            Self::IoUring(ring) => ring.events().len(),
        }
    }

    /// The token of one of them, and what its socket has.
    pub fn event(&self, number: usize) -> (u64, EventFlags) {
        match self {
            Self::Epoll(epoll) => epoll.event(number),
            Self::IoUring(ring) => ring.events()[number],
        }
    }

    /// Receives what has come for a connection, a buffer's capacity at most. How many bytes.
    pub fn receive(
        &mut self,
        token: u64,
        connection: &mut Connection,
        buffers: &mut Buffers,
    ) -> usize {
        match self {
            Self::Epoll(_) => connection.receive(buffers),
            Self::IoUring(ring) => ring.receive(token, connection, buffers),
        }
    }

    /// Sends what clients take. How many bytes.
    pub fn send<'c>(
        &mut self,
        connections: impl Iterator<Item = &'c mut Connection>,
        now_ms: u64,
    ) -> usize {
        match self {
            Self::Epoll(_) => connections.map(|one| one.send(now_ms)).sum(),
            Self::IoUring(ring) => ring.send(connections, now_ms),
        }
    }
}
