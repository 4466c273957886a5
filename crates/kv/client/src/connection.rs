//! A connection to one server of a cluster.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::reply::{Reply, command};
use super::{ServerStream, ServerTls};

/// Longest reply to `INFO`.
const INFO_MAX_BYTES: u64 = 1 << 20;

/// Options of a cluster's client.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Password for all servers; `None` if they need none.
    pub password: Option<Vec<u8>>,
    /// TLS settings, if servers are reached only by TLS; `None`: only in the clear.
    pub tls: Option<ServerTls>,
    /// Longest time to connect, and longest time that a server may be silent.
    pub timeout: Duration,
    /// Called when a signal interrupts the wait for a server; `false` ends the request as [`ClusterError::Interrupted`].
    pub goes_on: fn() -> bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { password: None, tls: None, timeout: Duration::from_secs(5), goes_on: || true }
    }
}

/// Reason why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The server cannot be reached, or is another server.
    Unreachable(String),
    /// The server does not let this client in.
    Refused(String),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(reason(&error))
    }
}

/// Returns the text for an error of a connection.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the connection was closed".into(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer in time".into(),
        _ => error.to_string(),
    }
}

/// A connection to the server of this address.
#[derive(Debug)]
pub(super) struct Connection {
    pub address: String,
    stream: BufReader<Interruptible>,
}

/// A stream whose reads end with [`INTERRUPTED`] if `goes_on` says so. (`ErrorKind::Interrupted` would be tried again.)
#[derive(Debug)]
struct Interruptible {
    stream: ServerStream,
    goes_on: fn() -> bool,
}

/// The error of a request that a signal has ended.
pub(super) const INTERRUPTED: Errno = Errno::CANCELED;

impl Read for Interruptible {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted && !(self.goes_on)() => {
                Err(INTERRUPTED.into())
            }
            done => done,
        }
    }
}

impl Connection {
    /// Connects, authenticates, and makes sure that this is the server.
    pub(super) fn open(
        server: &str,
        address: &str,
        options: &ClusterOptions,
    ) -> Result<Self, ConnectError> {
        let stream = ServerStream::connect(address, options.tls.as_ref(), options.timeout)?;
        stream.set_timeout(options.timeout)?;
        let password = options.password.as_deref();
        let mut connection = Self {
            address: address.into(),
            stream: BufReader::with_capacity(
                64 << 10,
                Interruptible { stream, goes_on: options.goes_on },
            ),
        };
        connection.send(&introduction(password, &[b"INFO", b"overside"]))?;
        if password.is_some() {
            connection.expect()?;
        }
        match connection.expect()? {
            Reply::Bytes(info) if is_named(&info, server) => Ok(connection),
            _ => Err(ConnectError::Unreachable(format!("another server is at {address}"))),
        }
    }

    /// Returns `true` if the server has closed the connection, or has sent something that the client did not
    /// request.
    pub(super) fn is_stale(&mut self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = recv(self.stream.get_ref().stream.socket(), &mut [0; 1], flags);
        !self.stream.buffer().is_empty()
            || self.stream.get_mut().stream.has_buffered()
            || !matches!(peeked, Err(Errno::AGAIN))
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = &mut self.stream.get_mut().stream;
        stream.write_all(bytes)?;
        stream.flush()
    }

    pub(super) fn receive(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream)
    }

    fn expect(&mut self) -> Result<Reply, ConnectError> {
        match self.receive()? {
            Reply::Error(message) => Err(ConnectError::Refused(message)),
            reply => Ok(reply),
        }
    }
}

/// Reads `INFO` of a server.
///
/// # Errors
/// Of the connection; [`ErrorKind::PermissionDenied`] with the reason if the server refuses.
pub fn info(mut stream: impl Read + Write, password: Option<&[u8]>) -> io::Result<String> {
    stream.write_all(&introduction(password, &[b"INFO"]))?;
    stream.flush()?;
    let mut replies = BufReader::new(stream.take(INFO_MAX_BYTES));
    loop {
        match Reply::read(&mut replies)? {
            Reply::Bytes(info) => return Ok(String::from_utf8_lossy(&info).into_owned()),
            Reply::Error(refusal) => {
                return Err(io::Error::new(ErrorKind::PermissionDenied, refusal));
            }
            _ => {}
        }
    }
}

/// A command, after the password where there is one.
fn introduction(password: Option<&[u8]>, words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(password) = password {
        command(&[b"AUTH", password], &mut bytes);
    }
    command(words, &mut bytes);
    bytes
}

/// Returns `true` if `info`, the reply to `INFO`, comes from the server of this name.
fn is_named(info: &[u8], server: &str) -> bool {
    let info = String::from_utf8_lossy(info);
    let mut names = info.lines().filter_map(|line| line.strip_prefix("server_name:"));
    names.next() == Some(server)
}
