//! Bytes over a socket, in the clear or by TLS. Nothing blocks.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ServerConnection;

/// Plaintext that is encrypted at a time: the part that the peer does not take yet is held twice.
const ENCRYPTED_BYTES_MAX: usize = 64 << 10;

/// A connected socket.
pub struct Transport {
    socket: OwnedFd,
    tls: Option<Box<ServerConnection>>,
}

/// State of the socket after reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// There may be more data.
    More,
    /// No more input is here yet.
    Drained,
    /// The peer sends no more.
    End,
}

impl Transport {
    /// Connection without encryption.
    pub fn plain(socket: OwnedFd) -> Self {
        Self { socket, tls: None }
    }

    /// By TLS.
    pub fn tls(socket: OwnedFd, mut tls: ServerConnection) -> Self {
        // `send` bounds it.
        tls.set_buffer_limit(None);
        let tls = Some(Box::new(tls));
        Self { socket, tls }
    }

    /// Returns `true` if it is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns `true` if the TLS handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Memory that it holds in bytes, about.
    pub fn memory_bytes(&self) -> usize {
        // The state of a session and the first buffers of the library.
        const TLS_BYTES: usize = 16 << 10;
        self.tls.as_ref().map_or(0, |_| TLS_BYTES)
    }

    /// Appends available bytes to `into`, up to its capacity; by TLS a record more.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    pub fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<Received> {
        match &mut self.tls {
            None => receive(self.socket.as_fd(), into),
            Some(tls) => receive_tls(self.socket.as_fd(), tls, into),
        }
    }

    /// Sends the first bytes. Returns their number.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return if bytes.is_empty() { Ok(0) } else { send_some(self.socket.as_fd(), bytes) };
        };
        let mut sent = 0;
        loop {
            while tls.wants_write() {
                match tls.write_tls(&mut Socket(self.socket.as_fd())) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(sent),
                    Err(error) => return Err(error),
                }
            }
            let rest = &bytes[sent..];
            if rest.is_empty() || tls.is_handshaking() {
                return Ok(sent);
            }
            sent += tls.writer().write(&rest[..rest.len().min(ENCRYPTED_BYTES_MAX)])?;
        }
    }

    /// Returns `true` if TLS still has encrypted bytes that the peer has not taken.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Tells the peer that nothing follows, as far as it takes that at once.
    pub fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // It is closed either way.
            let _ = tls.write_tls(&mut Socket(self.socket.as_fd()));
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn receive(socket: BorrowedFd<'_>, into: &mut Vec<u8>) -> io::Result<Received> {
    let room = into.capacity() - into.len();
    match recv(socket, spare_capacity(into), RecvFlags::empty()) {
        Ok((0, _)) => Ok(Received::End),
        Ok((count, _)) if count < room => Ok(Received::Drained),
        Ok(_) => Ok(Received::More),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Drained),
        Err(error) => Err(error.into()),
    }
}

fn receive_tls(
    socket: BorrowedFd<'_>,
    tls: &mut ServerConnection,
    into: &mut Vec<u8>,
) -> io::Result<Received> {
    // What a record adds may grow it.
    let full = into.capacity();
    loop {
        let state = match tls.read_tls(&mut Socket(socket)) {
            Ok(0) => Received::End,
            Ok(_) => Received::More,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Drained,
            Err(error) => return Err(error),
        };
        let records = tls.process_new_packets();
        let records = records.map_err(|error| {
            // Says why; it is closed either way.
            let _ = tls.write_tls(&mut Socket(socket));
            io::Error::new(io::ErrorKind::InvalidData, error)
        })?;
        let there = records.plaintext_bytes_to_read();
        if there > 0 {
            into.reserve(there);
            let read = tls.reader().take(there as u64).read_to_end(into)?;
            debug_assert_eq!(read, there);
        }
        if records.peer_has_closed() {
            return Ok(Received::End);
        }
        if state != Received::More || into.len() >= full {
            return Ok(state);
        }
    }
}

fn send_some(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(sent) => Ok(sent),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// A socket as the TLS library reads and writes it.
struct Socket<'s>(BorrowedFd<'s>);

impl Read for Socket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, into, RecvFlags::empty())?.0)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(self.0, parts)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
