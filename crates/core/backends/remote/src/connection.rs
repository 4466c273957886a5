//! A connection to an agent, from its greeting on.

use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use overside_link::agent::{Item, Outbox, Reader, Reply, Request, Side, Stream, Usage, Violation};
use overside_link::codec::{CodecError, Message};

/// Maximum number of pieces in one write to the socket.
const PIECES: usize = 64;

/// A connection that is of no use any more.
#[derive(Debug)]
pub(crate) enum Broken {
    /// An error of the system, or no input for too long.
    Io(io::Error),
    /// The agent did something it must not.
    Violation(Violation),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<CodecError> for Broken {
    fn from(error: CodecError) -> Self {
        Self::Violation(error.into())
    }
}

impl From<Violation> for Broken {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe => f.write_str("the connection was cut"),
                io::ErrorKind::TimedOut => f.write_str("the agent does not answer"),
                io::ErrorKind::InvalidData => {
                    write!(f, "what came was changed on its way: {error}")
                }
                _ => write!(f, "the connection failed: {error}"),
            },
            Self::Violation(violation) => {
                write!(f, "the agent does not keep to the language: {violation}")
            }
        }
    }
}

pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) reader: Reader,
    pub(crate) outbox: Outbox,
    /// Time at which the last byte was received.
    heard: Instant,
    /// Time at which a ping was sent to the agent, if nothing was received since; `None` otherwise.
    asked: Option<Instant>,
    /// CPU time in the agent's last report.
    pub(crate) usage: Usage,
}

impl Connection {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            reader: Reader::new(Side::Host),
            outbox: Outbox::default(),
            heard: Instant::now(),
            asked: None,
            usage: Usage::default(),
        }
    }

    /// Sends pending bytes, as many as the socket takes.
    pub(crate) fn send(&mut self) -> Result<(), Broken> {
        while !self.outbox.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let count = self.outbox.gather(&mut pieces);
            match self.stream.write(&pieces[..count]) {
                Ok(sent) => self.outbox.advance(sent, drop),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.stream.flush()?;
        Ok(())
    }

    /// Returns `true` if pending bytes could not be sent yet.
    pub(crate) fn wants_write(&self) -> bool {
        !self.outbox.is_empty() || self.stream.wants_write()
    }

    /// Reads once. Returns the number of bytes, 0 if there are none now.
    pub(crate) fn fill(&mut self) -> Result<usize, Broken> {
        let read = self.stream.read(self.reader.room());
        let count = self.read_or_ended(read)?;
        self.reader.filled(count);
        Ok(count)
    }

    /// Reads a part of an answer directly to its destination. Returns the number of bytes, 0 if
    /// there are none now.
    pub(crate) fn fill_past(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let read = self.stream.read(into);
        let count = self.read_or_ended(read)?;
        self.reader.body_passed_by(count);
        Ok(count)
    }

    fn read_or_ended(&mut self, read: io::Result<usize>) -> Result<usize, Broken> {
        match read {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => {
                self.heard = Instant::now();
                self.asked = None;
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a ping to a silent agent; if it does not answer, the connection is broken. Call it
    /// when all received bytes have been read.
    pub(crate) fn beat(
        &mut self,
        now: Instant,
        ask: Duration,
        silence: Duration,
    ) -> Result<(), Broken> {
        match self.asked {
            Some(at) if now.saturating_duration_since(at) >= silence => {
                tracing::warn!(
                    silent_ms = now.saturating_duration_since(self.heard).as_millis() as u64,
                    "agent does not answer"
                );
                Err(io::Error::from(io::ErrorKind::TimedOut).into())
            }
            None if now.saturating_duration_since(self.heard) >= ask => {
                let silent_ms = now.saturating_duration_since(self.heard).as_millis() as u64;
                tracing::debug!(silent_ms, "agent silent; asking whether it is there");
                self.asked = Some(now);
                self.outbox.ping(1);
                self.send()
            }
            _ => Ok(()),
        }
    }

    /// Returns the time at which [`Connection::beat`] next has something to do.
    pub(crate) fn next_beat(&self, ask: Duration, silence: Duration) -> Instant {
        self.asked.map_or(self.heard + ask, |at| at + silence)
    }

    /// Sends a request.
    pub(crate) fn request(&mut self, request: &Request) {
        self.outbox.control(request);
    }

    /// Sends all there is and waits for a message. No job is in flight.
    pub(crate) fn reply(&mut self, deadline: Instant) -> Result<Reply, Broken> {
        loop {
            self.send()?;
            while let Some(item) = self.reader.item()? {
                if let Item::Usage(usage) = item {
                    self.usage = usage;
                }
                if let Some(reply) = between_contexts(item)? {
                    return Ok(reply);
                }
            }
            if self.fill()? == 0 {
                self.stream.wait(true, self.wants_write(), deadline)?;
            } else if Instant::now() >= deadline {
                // The agent keeps sending, but not the answer.
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
        }
    }

    /// Returns `true` if nothing came since the last context was closed, not even the end.
    pub(crate) fn is_quiet(&mut self) -> bool {
        !self.reader.is_mid_frame() && self.outbox.is_empty() && matches!(self.fill(), Ok(0))
    }
}

/// Handles an item that arrives on a connection without a context. Returns the reply that it
/// contains, `None` if it can be ignored, or an error if the agent must not send it.
fn between_contexts(item: Item) -> Result<Option<Reply>, Violation> {
    match item {
        Item::Control(json) => Ok(Some(Reply::decode(&json)?)),
        Item::Usage(_) | Item::Pong(_) => Ok(None),
        Item::Answer(..) | Item::Job(..) | Item::Ping(_) | Item::Probe(_) => {
            Err(Violation::OutOfTurn("an answer comes and nothing was asked".into()))
        }
    }
}
