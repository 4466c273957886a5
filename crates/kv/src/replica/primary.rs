//! A primary as its replica reaches it: in the clear or by TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::group::GroupMember;

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A primary that says nothing for so long is lost.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// What a replica says to primaries, and what it wants of them.
#[derive(Clone, Debug, Default)]
pub struct Introduction {
    /// What they want to hear.
    pub password: Option<Vec<u8>>,
    /// Where clients of this replica connect.
    pub own_port: u16,
    /// Whom to trust, and the name that their certificates must have; `None`: in the clear.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Introduction {
    /// In the clear.
    #[must_use]
    pub fn new(password: Option<Vec<u8>>, own_port: u16) -> Self {
        Self {
            password,
            own_port,
            tls: None,
        }
    }

    /// By TLS, to primaries whose certificates `config` trusts and have this name.
    ///
    /// # Errors
    /// If that is no name or address.
    pub fn with_tls(
        self,
        config: Arc<ClientConfig>,
        name: &str,
    ) -> Result<Self, InvalidDnsNameError> {
        let name = ServerName::try_from(name.to_owned())?;
        let tls = Some((config, name));
        Ok(Self { tls, ..self })
    }
}

/// Where a primary is.
#[derive(Clone, Debug)]
pub(super) struct Primary {
    /// Its name or address.
    pub host: String,
    pub port: u16,
    pub introduction: Introduction,
    /// Who follows it.
    pub own: GroupMember,
}

impl Primary {
    pub fn connect(&self) -> io::Result<PrimaryStream> {
        let socket = self.connect_socket()?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        socket.set_write_timeout(Some(SILENCE_MAX))?;
        let Some((config, name)) = &self.introduction.tls else {
            return Ok(PrimaryStream::Plain(socket));
        };
        let tls = ClientConnection::new(Arc::clone(config), name.clone());
        let tls = tls.map_err(io::Error::other)?;
        Ok(PrimaryStream::Tls(Box::new(StreamOwned::new(tls, socket))))
    }

    fn connect_socket(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A connection with a primary.
pub(super) enum PrimaryStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl PrimaryStream {
    /// To wait for.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Whether something can be read that its socket does not show any more.
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
}

impl Read for PrimaryStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for PrimaryStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
