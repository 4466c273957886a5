//! A connection to one server, which blocks.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::time::Duration;

use super::reply::{Reply, command};
use super::{ServerStream, ServerTls};

/// Longest reply to `INFO`.
const INFO_MAX_BYTES: u64 = 1 << 20;

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<ServerStream>,
}

impl Connection {
    /// Connects and authenticates. `timeout` is the longest time to connect, and for which the server may be silent.
    ///
    /// # Errors
    /// Of the connection; [`ErrorKind::PermissionDenied`] if the server refuses the password.
    pub fn open(
        address: &str,
        tls: Option<&ServerTls>,
        password: Option<&[u8]>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let stream = ServerStream::connect(address, tls, timeout)?;
        stream.set_timeout(timeout)?;
        let mut connection = Self { stream: BufReader::with_capacity(64 << 10, stream) };
        if let Some(password) = password
            && let Reply::Error(refusal) = connection.ask(&[b"AUTH", password])?
        {
            return Err(io::Error::new(ErrorKind::PermissionDenied, refusal));
        }
        Ok(connection)
    }

    /// Sends bytes: one command or more.
    ///
    /// # Errors
    /// Of the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Reads the next reply.
    ///
    /// # Errors
    /// Of the connection.
    pub fn receive(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream)
    }

    /// Executes a command.
    ///
    /// # Errors
    /// Of the connection.
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        let mut bytes = Vec::new();
        command(words, &mut bytes);
        self.send(&bytes)?;
        self.receive()
    }
}

/// Reads `INFO` of a server.
///
/// # Errors
/// Of the connection; [`ErrorKind::PermissionDenied`] with the reason if the server refuses.
pub fn info(mut stream: impl Read + Write, password: Option<&[u8]>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(password) = password {
        command(&[b"AUTH", password], &mut bytes);
    }
    command(&[b"INFO"], &mut bytes);
    stream.write_all(&bytes)?;
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
