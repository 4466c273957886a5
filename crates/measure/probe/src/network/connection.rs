//! One data connection: whole messages in, whole messages out, without blocking.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use super::Error;
use super::pattern::BytePattern;

/// Number of bytes of one read, unless a message is longer.
const READ_BYTES: usize = 128 << 10;

/// Buffer that collects bytes until messages are complete. Its length is a multiple of theirs, so the last
/// one ends at the end of the buffer, and no byte is ever moved.
pub(super) struct ReadBuffer {
    buffer: Vec<u8>,
    /// Offset of the first message that has not been consumed.
    begin: usize,
    filled: usize,
    message_bytes: usize,
}

impl ReadBuffer {
    pub(super) fn new(message_bytes: usize) -> Self {
        let size = READ_BYTES.max(message_bytes).next_multiple_of(message_bytes);
        Self { buffer: vec![0; size], begin: 0, filled: 0, message_bytes }
    }

    /// Reads once. `None`: there is nothing. All messages that are whole have been consumed.
    pub(super) fn read(&mut self, mut stream: &TcpStream) -> Result<Option<usize>, Error> {
        match stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => Err(Error::Closed),
            Ok(count) => {
                self.filled += count;
                Ok(Some(count))
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
                _ => Err(gone(error)),
            },
        }
    }

    /// The bytes of the messages that are whole.
    pub(super) fn whole(&self) -> &[u8] {
        let all = &self.buffer[self.begin..self.filled];
        &all[..all.len() / self.message_bytes * self.message_bytes]
    }

    /// Forgets the messages that are whole.
    pub(super) fn consume(&mut self) {
        self.begin += self.whole().len();
        if self.begin == self.filled {
            (self.begin, self.filled) = (0, 0);
        }
    }
}

/// Messages that are being written: a batch of them, and how far it is.
pub(super) struct WriteBuffer {
    buffer: Vec<u8>,
    message_bytes: usize,
    /// Bytes that are to be written, from the beginning.
    len: usize,
    written: usize,
}

impl WriteBuffer {
    pub(super) fn new(pattern: &BytePattern, batch: usize) -> Self {
        Self {
            buffer: pattern.repeated(batch),
            message_bytes: pattern.message_bytes(),
            len: 0,
            written: 0,
        }
    }

    /// Returns `true` if all bytes have been sent.
    pub(super) fn is_empty(&self) -> bool {
        self.written == self.len
    }

    /// Messages that can be added before the next write.
    pub(super) fn room(&self) -> usize {
        match self.is_empty() {
            true => self.buffer.len() / self.message_bytes,
            // What has begun is finished first.
            false => 0,
        }
    }

    /// Puts messages in, numbered from `first` on. There is room for them.
    pub(super) fn fill(&mut self, pattern: &BytePattern, first: u64, count: usize) {
        let messages = self.buffer.chunks_exact_mut(self.message_bytes);
        for (number, message) in (first..).zip(messages.take(count)) {
            pattern.stamp(message, number);
        }
        self.len = count * self.message_bytes;
        self.written = 0;
    }

    /// Returns the bytes that have not been written yet.
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.buffer[self.written..self.len]
    }

    /// Records that all bytes have been sent by another way.
    pub(super) fn clear(&mut self) {
        self.written = self.len;
    }

    /// Writes once. `false`: the connection takes nothing more for now.
    pub(super) fn write(&mut self, stream: &TcpStream) -> Result<bool, Error> {
        let Some(count) = write(stream, self.unwritten())? else {
            return Ok(false);
        };
        self.written += count;
        Ok(true)
    }
}

/// Writes once. `None`: the connection takes nothing for now.
pub(super) fn write(mut stream: &TcpStream, bytes: &[u8]) -> Result<Option<usize>, Error> {
    match stream.write(bytes) {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
            _ => Err(gone(error)),
        },
    }
}

/// Treats a connection that was reset like a closed one.
pub(super) fn gone(error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::ConnectionReset
        | ErrorKind::BrokenPipe
        | ErrorKind::ConnectionAborted
        | ErrorKind::UnexpectedEof => Error::Closed,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Error::Timeout("the other end had not answered".into())
        }
        _ => Error::system("the connection")(error),
    }
}
