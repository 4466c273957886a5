//! Sockets of connections.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Address;
use overside_kv_client::{ServerStream, ServerTls};

/// Longest time that a server may take to accept a connection, and to answer requests before the
/// run.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A connected socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(ServerStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn connect(address: &Address, tls: Option<&ServerTls>) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(address) => Self::Tcp(ServerStream::connect(address, tls, PATIENCE)?),
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
        })
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.socket().set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    pub(crate) fn set_patience(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_timeout(PATIENCE),
            Self::Unix(stream) => stream.set_read_timeout(Some(PATIENCE)),
        }
    }

    /// Returns `true` if something can be read that the socket no longer shows, because TLS has
    /// already taken it.
    pub(crate) fn has_buffered(&mut self) -> bool {
        match self {
            Self::Tcp(stream) => stream.has_buffered(),
            Self::Unix(_) => false,
        }
    }

    /// Returns `true` if something was written that the socket has not taken yet. [`Stream::flush`]
    /// hands it over.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.has_unsent(),
            Self::Unix(_) => false,
        }
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }

    pub(crate) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
        }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
