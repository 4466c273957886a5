//! A connection with a server, in the clear or by TLS: of clients, replicas and load generators.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::alert::explained;

/// TLS configuration by which servers are trusted, and the name that they must have.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl ServerTls {
    /// Servers whose certificates `config` trusts and have this name.
    ///
    /// # Errors
    /// If that is no name or address.
    pub fn new(config: Arc<ClientConfig>, name: &str) -> Result<Self, InvalidDnsNameError> {
        let name = ServerName::try_from(name.to_owned())?;
        Ok(Self { config, name })
    }
}

/// A connected socket.
#[derive(Debug)]
pub enum ServerStream {
    /// Connection without encryption.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl ServerStream {
    /// Connects to the first of the addresses that can be reached within `timeout`. The first read or write
    /// performs the handshake of TLS.
    pub fn connect(
        addresses: impl ToSocketAddrs,
        tls: Option<&ServerTls>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let socket = connect(addresses, timeout)?;
        socket.set_nodelay(true)?;
        let Some(ServerTls { config, name }) = tls else {
            return Ok(Self::Plain(socket));
        };
        let tls = ClientConnection::new(Arc::clone(config), name.clone());
        let tls = tls.map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(tls, socket))))
    }

    /// Returns the socket, to wait for it.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Sets the longest time that reading and writing wait for the server.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let socket = self.socket();
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))
    }

    /// Returns `true` if something can be read that the socket no longer shows, because TLS has
    /// already taken it.
    pub fn has_buffered(&mut self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => {
                // What is wrong there is said by the next read.
                let state = stream.conn.process_new_packets();
                state.map_or(true, |state| state.plaintext_bytes_to_read() > 0)
            }
        }
    }

    /// Returns `true` if something was written that the socket has not taken yet. [`Write::flush`]
    /// hands it over.
    pub fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.conn.wants_write(),
        }
    }
}

fn connect(addresses: impl ToSocketAddrs, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl AsFd for ServerStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl Read for ServerStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => (stream.read(into))
                .map_err(|error| explained(error, &mut stream.conn, &mut stream.sock)),
        }
    }
}

impl Write for ServerStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => (stream.write(bytes))
                .map_err(|error| explained(error, &mut stream.conn, &mut stream.sock)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => (stream.flush())
                .map_err(|error| explained(error, &mut stream.conn, &mut stream.sock)),
        }
    }
}
