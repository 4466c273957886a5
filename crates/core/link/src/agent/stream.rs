//! Bytes over a socket, in the clear or encrypted.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::keys;

/// Maximum number of plaintext bytes that wait to be encrypted or sent.
const TLS_BUFFER: usize = 256 << 10;
/// Longest time that a peer's machine may be silent before the operating system closes the
/// connection. This does not detect a process that hangs; heartbeats do.
const SILENCE: Duration = Duration::from_secs(15);

/// A connection. Nothing blocks but [`Stream::handshake`].
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
}

impl Stream {
    /// Makes a stream without encryption.
    ///
    /// # Errors
    /// The system's error.
    pub fn plain(socket: TcpStream) -> io::Result<Self> {
        prepare(&socket)?;
        Ok(Self { socket, tls: None })
    }

    /// Makes the host's end of an encrypted stream.
    ///
    /// # Errors
    /// The system's error.
    pub fn host(socket: TcpStream, config: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::try_from(keys::AGENT).map_err(io::Error::other)?;
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::encrypted(socket, Connection::Client(tls))
    }

    /// The agent's end of an encrypted one.
    ///
    /// # Errors
    /// The system's error.
    pub fn agent(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::encrypted(socket, Connection::Server(tls))
    }

    fn encrypted(socket: TcpStream, mut tls: Connection) -> io::Result<Self> {
        tls.set_buffer_limit(Some(TLS_BUFFER));
        let plain = Self::plain(socket)?;
        Ok(Self { tls: Some(Box::new(tls)), ..plain })
    }

    /// The socket, to wait for.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// This end's address, and the other's.
    ///
    /// # Errors
    /// The system's error.
    pub fn addresses(&self) -> io::Result<[SocketAddr; 2]> {
        Ok([self.socket.local_addr()?, self.socket.peer_addr()?])
    }

    /// Agrees on keys, where the connection is encrypted. Blocks, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`]; [`io::ErrorKind::InvalidData`] if the peer has the wrong
    /// identity or protocol; else the system's error.
    pub fn handshake(&mut self, deadline: Instant) -> io::Result<()> {
        while let Some(tls) = &mut self.tls
            && (tls.is_handshaking() || tls.wants_write())
        {
            let (reads, writes) = (tls.is_handshaking() && tls.wants_read(), tls.wants_write());
            if !readable_or_writable(self.socket.as_fd(), reads, writes, deadline)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if writes && !retry(tls.write_tls(&mut self.socket))? {
                continue;
            }
            if !reads {
                continue;
            }
            match tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                other => {
                    retry(other)?;
                }
            }
            self.process()?;
        }
        Ok(())
    }

    /// Reads available bytes; 0 at the end of a connection that was closed in order.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing is there; [`io::ErrorKind::InvalidData`] if the
    /// bytes were changed on their way; else the system's error.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(tls) = &mut self.tls else {
                match self.socket.read(into) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    other => return other,
                }
            };
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            // The end of the socket is for the reader above to judge.
            match tls.read_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(_) => self.process()?,
            }
        }
    }

    /// Takes as many bytes as there is room for, and returns their number. They are sent now or with
    /// [`Stream::flush`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room; otherwise the system's error.
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            loop {
                match self.socket.write_vectored(pieces) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => return other,
                }
            }
        };
        // What was taken before goes first, so that no more than one bufferful waits.
        while tls.wants_write() {
            if !retry(tls.write_tls(&mut self.socket))? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let count = tls.writer().write_vectored(pieces)?;
        self.flush()?;
        Ok(count)
    }

    /// Sends bytes that were taken, without blocking. Returns `true` if none is left.
    ///
    /// # Errors
    /// The system's error.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(true);
        };
        while tls.wants_write() {
            if !retry(tls.write_tls(&mut self.socket))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns `true` if some bytes that were taken have not been sent.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads until `into` is full. Blocks, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], [`io::ErrorKind::UnexpectedEof`]; else as [`Stream::read`].
    pub fn read_all(&mut self, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !into.is_empty() {
            match self.read(into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => into = &mut into[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(true, false, deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends all of `from`. Blocks, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`]; else as [`Stream::write`].
    pub fn write_all(&mut self, mut from: &[u8], deadline: Instant) -> io::Result<()> {
        while !from.is_empty() {
            match self.write(&[IoSlice::new(from)]) {
                Ok(count) => from = &from[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(false, true, deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
        while !self.flush()? {
            self.wait(false, true, deadline)?;
        }
        Ok(())
    }

    /// Waits until bytes may be there, or room for some.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after `deadline`; else the system's error.
    pub fn wait(&self, read: bool, write: bool, deadline: Instant) -> io::Result<()> {
        match readable_or_writable(self.socket.as_fd(), read, write, deadline)? {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Closes the sending direction. The other direction stays open.
    pub fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        // A peer that is gone need not be told.
        let _ = self.flush();
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    fn process(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        let processed = tls.process_new_packets();
        processed.map(|_| ()).map_err(|error| {
            // The peer is told why, if that can be.
            let _ = tls.write_tls(&mut self.socket);
            io::Error::new(io::ErrorKind::InvalidData, error)
        })
    }
}

/// Returns `true` if the call moved bytes or was interrupted, and `false` if it would block.
fn retry(moved: io::Result<usize>) -> io::Result<bool> {
    match moved {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // Answers are waited for: nothing is held back to fill a packet.
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, SILENCE / 3)?;
    sockopt::set_tcp_keepintvl(socket, SILENCE / 3)?;
    sockopt::set_tcp_keepcnt(socket, 2)?;
    sockopt::set_tcp_user_timeout(socket, SILENCE.as_millis() as u32)?;
    Ok(())
}

/// Waits until a descriptor can be read or written, but not beyond `deadline`. Returns `true` if it
/// can; also after a signal.
///
/// # Errors
/// The system's error.
pub fn readable_or_writable(
    descriptor: BorrowedFd<'_>,
    read: bool,
    write: bool,
    deadline: Instant,
) -> io::Result<bool> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, read);
    flags.set(PollFlags::OUT, write);
    let left = deadline.saturating_duration_since(Instant::now());
    // The system's maximum is longer than any caller waits.
    let left = left.min(Duration::from_secs(u32::MAX.into()));
    let timeout: Timespec = left.try_into().map_err(io::Error::other)?;
    match rustix::event::poll(&mut [PollFd::new(&descriptor, flags)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
