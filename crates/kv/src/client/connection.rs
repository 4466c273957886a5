//! A connection to one server of a cluster.

use std::io::{self, BufReader, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};

use super::reply::{Reply, request};

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// It cannot be reached, or is another server.
    Unreachable(String),
    /// It does not let this client in.
    Refused(String),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(reason(&error))
    }
}

/// What an error of a connection means.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the connection was closed".into(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer in time".into(),
        _ => error.to_string(),
    }
}

/// A connection to the server of this address.
#[derive(Debug)]
pub struct Connection {
    pub address: String,
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects, authenticates, and makes sure that this is the server.
    pub fn open(
        server: &str,
        address: &str,
        password: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let stream = connect(address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut connection = Self {
            address: address.into(),
            stream: BufReader::with_capacity(64 << 10, stream),
        };
        let mut bytes = Vec::new();
        if let Some(password) = password {
            request(&[b"AUTH", password], &mut bytes);
        }
        request(&[b"INFO", b"overside"], &mut bytes);
        connection.send(&bytes)?;
        if password.is_some() {
            connection.expect()?;
        }
        match connection.expect()? {
            Reply::Bytes(info) if is_named(&info, server) => Ok(connection),
            _ => Err(ConnectError::Unreachable(format!(
                "another server is at {address}"
            ))),
        }
    }

    /// Whether the server has closed it, or said something that nobody asked.
    pub fn is_stale(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = recv(self.stream.get_ref(), &mut [0; 1], flags);
        !self.stream.buffer().is_empty() || !matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    pub fn receive(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream)
    }

    fn expect(&mut self) -> Result<Reply, ConnectError> {
        match self.receive()? {
            Reply::Error(message) => Err(ConnectError::Refused(message)),
            reply => Ok(reply),
        }
    }
}

fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut failure = ErrorKind::NotFound.into();
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Whether `INFO` is that of a server.
fn is_named(info: &[u8], server: &str) -> bool {
    let info = String::from_utf8_lossy(info);
    let mut names = info
        .lines()
        .filter_map(|line| line.strip_prefix("server_name:"));
    names.next() == Some(server)
}
