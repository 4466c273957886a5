//! The handshake: blocking, but never beyond a deadline, and never more than a frame in memory.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::frame::{Carrier, Decision, Frame, FrameError, HEADER_BYTES, VERSION};
use crate::secret::Secret;
use crate::verbs::{ConnectError, LinkConfig, Side};

/// How long somebody who has connected may take to say the first thing.
const FIRST_WORD: Duration = Duration::from_secs(3);
/// The least patience.
const MIN_PATIENCE: Duration = Duration::from_millis(100);
/// The most.
const MAX_PATIENCE: Duration = Duration::from_secs(600);

/// A connection on which frames go back and forth, one at a time.
pub(crate) struct Channel {
    stream: TcpStream,
    peer: String,
}

/// What the two ends have agreed on.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) decision: Decision,
    /// How long the peer waits for a sign of life.
    pub(crate) their_patience: Duration,
}

impl Channel {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr, deadline: Instant) -> Result<Self, ConnectError> {
        let peer = address.to_string();
        let left = left(&peer, deadline)?;
        let stream =
            TcpStream::connect_timeout(&address, left).map_err(|error| match error.kind() {
                ErrorKind::TimedOut => ConnectError::Timeout { peer },
                _ => system(format!("connecting to {address}"), error),
            })?;
        Self::new(stream, address)
    }

    fn new(stream: TcpStream, address: SocketAddr) -> Result<Self, ConnectError> {
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(false))
            .map_err(|error| system(format!("setting up the connection with {address}"), error))?;
        Ok(Self {
            stream,
            peer: address.to_string(),
        })
    }

    /// The peer, for people.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// The connection; nothing of what follows has been read.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    pub(crate) fn send(&mut self, frame: &Frame, deadline: Instant) -> Result<(), ConnectError> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let left = left(&self.peer, deadline)?;
        self.stream
            .set_write_timeout(Some(left))
            .and_then(|()| self.stream.write_all(&bytes))
            .map_err(|error| self.failed(error))
    }

    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Frame, ConnectError> {
        let mut bytes = vec![0; HEADER_BYTES];
        self.fill(&mut bytes, 0, deadline)?;
        if let Some(frame) = self.parse(&bytes)? {
            return Ok(frame);
        }
        let header = bytes.as_slice().try_into().expect("as long as a header");
        bytes.resize(HEADER_BYTES + Frame::payload_bytes(header), 0);
        self.fill(&mut bytes, HEADER_BYTES, deadline)?;
        self.parse(&bytes)?
            .ok_or_else(|| self.unexpected("half a frame"))
    }

    /// Reads until `bytes` is full; what has come is looked at at once, so that somebody who says
    /// a few wrong bytes and no more is found out.
    fn fill(
        &mut self,
        bytes: &mut [u8],
        from: usize,
        deadline: Instant,
    ) -> Result<(), ConnectError> {
        let mut at = from;
        while at < bytes.len() {
            let left = left(&self.peer, deadline)?;
            self.stream
                .set_read_timeout(Some(left))
                .map_err(|error| self.failed(error))?;
            match self.stream.read(&mut bytes[at..]) {
                Ok(0) => return Err(self.unexpected("it closed the connection")),
                Ok(count) => at += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
            if from == 0 {
                self.parse(&bytes[..at])?;
            }
        }
        Ok(())
    }

    /// Something has come, or the connection has ended.
    pub(crate) fn has_word(&self) -> bool {
        let now = rustix::event::Timespec::default();
        let mut set = [PollFd::new(&self.stream, PollFlags::IN)];
        rustix::event::poll(&mut set, Some(&now)).is_ok_and(|count| count > 0)
    }

    fn parse(&self, bytes: &[u8]) -> Result<Option<Frame>, ConnectError> {
        let parsed = Frame::parse(bytes).map_err(|error| match error {
            FrameError::Version(theirs) => ConnectError::Version {
                peer: self.peer.clone(),
                theirs,
                ours: VERSION,
            },
            other => self.unexpected(&other.to_string()),
        })?;
        Ok(parsed.map(|(frame, _)| frame))
    }

    /// The peer said something that does not belong here.
    pub(crate) fn unexpected(&self, reason: &str) -> ConnectError {
        ConnectError::Protocol {
            peer: self.peer.clone(),
            reason: reason.to_owned(),
        }
    }

    fn failed(&self, error: std::io::Error) -> ConnectError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => ConnectError::Timeout {
                peer: self.peer.clone(),
            },
            _ => system(format!("the handshake with {}", self.peer), error),
        }
    }
}

/// Somewhere to be connected to.
pub(crate) struct Door {
    listener: TcpListener,
    address: SocketAddr,
}

impl Door {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, ConnectError> {
        let listening = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        });
        listening.map_err(|error| system(format!("listening on {address}"), error))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next who connects and says something that belongs to the protocol, with what that is.
    /// Who does not is turned away; if nobody comes, the error says so of the last one.
    pub(crate) fn next(&self, deadline: Instant) -> Result<(Channel, Frame), ConnectError> {
        let mut last = None;
        loop {
            let mut channel = match self.accept(deadline) {
                Ok(channel) => channel,
                Err(error @ ConnectError::Timeout { .. }) => return Err(last.unwrap_or(error)),
                Err(error) => return Err(error),
            };
            match channel.receive(deadline.min(Instant::now() + FIRST_WORD)) {
                Ok(frame) => return Ok((channel, frame)),
                Err(error) => {
                    refuse(channel, &error);
                    last = Some(error);
                }
            }
        }
    }

    fn accept(&self, deadline: Instant) -> Result<Channel, ConnectError> {
        let nobody = "nobody on ".to_owned() + &self.address.to_string();
        loop {
            match self.listener.accept() {
                Ok((stream, address)) => return Channel::new(stream, address),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // They have gone again.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(system(format!("listening on {}", self.address), error)),
            }
            let left = left(&nobody, deadline)?;
            let timeout = left.try_into().ok();
            let mut set = [PollFd::new(&self.listener, PollFlags::IN)];
            match rustix::event::poll(&mut set, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(system("waiting".into(), error.into())),
            }
        }
    }
}

/// Tells somebody why they are turned away, if they want to hear it.
pub(crate) fn refuse(mut channel: Channel, error: &ConnectError) {
    let text: String = error.to_string().chars().take(200).collect();
    let soon = Instant::now() + Duration::from_millis(100);
    let _ = channel.send(&Frame::Refused(text), soon);
}

/// What a transport's ends bring to their handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    pub(crate) carrier: Carrier,
    pub(crate) patience: Duration,
    /// What the end that connects tells, and the end that listens asks for.
    pub(crate) secret: Option<Secret>,
}

/// The handshake of the end that connects.
pub(crate) fn greet(
    channel: &mut Channel,
    manners: &Manners,
    side: Side,
    deadline: Instant,
) -> Result<Terms, ConnectError> {
    let carrier = manners.carrier;
    let hello = Frame::Hello {
        carrier,
        side,
        patience_ms: in_ms(manners.patience),
        secret: Secret::sent(manners.secret),
    };
    channel.send(&hello, deadline)?;
    match channel.receive(deadline)? {
        Frame::Welcome {
            carrier: theirs,
            patience_ms,
            decision,
            ..
        } if theirs == carrier => {
            check_decision(channel, &decision)?;
            Ok(Terms {
                decision,
                their_patience: patience_from(channel, patience_ms)?,
            })
        }
        Frame::Refused(reason) => Err(channel.unexpected(&format!("it says: {reason}"))),
        _ => Err(channel.unexpected("its answer is no welcome")),
    }
}

/// The handshake of the end that listens, once it has heard `first`.
pub(crate) fn welcome(
    channel: &mut Channel,
    first: &Frame,
    manners: &Manners,
    config: &LinkConfig,
    link: [u8; 16],
    deadline: Instant,
) -> Result<Terms, ConnectError> {
    let carrier = manners.carrier;
    let theirs = match first {
        Frame::Hello { secret, .. } if !Secret::admits(manners.secret, *secret) => {
            return Err(channel.unexpected("it does not know what the expected peer was told"));
        }
        Frame::Hello {
            carrier: theirs,
            patience_ms,
            ..
        } if *theirs == carrier => patience_from(channel, *patience_ms)?,
        Frame::Hello { .. } => return Err(channel.unexpected("it wants another transport")),
        _ => return Err(channel.unexpected("its first word is no hello")),
    };
    let decision = Decision {
        link,
        queue_pairs: config.queue_pairs as u32,
        depth: config.depth as u32,
        max_message_bytes: config.max_message_bytes as u32,
    };
    let answer = Frame::Welcome {
        carrier,
        side: config.side,
        patience_ms: in_ms(manners.patience),
        decision: decision.clone(),
    };
    channel.send(&answer, deadline)?;
    Ok(Terms {
        decision,
        their_patience: theirs,
    })
}

fn check_decision(channel: &Channel, decision: &Decision) -> Result<(), ConnectError> {
    let config = LinkConfig {
        queue_pairs: decision.queue_pairs as usize,
        depth: decision.depth as usize,
        max_message_bytes: decision.max_message_bytes as usize,
        ..LinkConfig::new(Side::Host)
    };
    config
        .check()
        .map_err(|error| channel.unexpected(&format!("it decides that {error}")))
}

fn in_ms(patience: Duration) -> u32 {
    bounded(patience).as_millis() as u32
}

/// Patience within its limits.
pub(crate) fn bounded(patience: Duration) -> Duration {
    patience.clamp(MIN_PATIENCE, MAX_PATIENCE)
}

fn patience_from(channel: &Channel, patience_ms: u32) -> Result<Duration, ConnectError> {
    let patience = Duration::from_millis(patience_ms.into());
    match (MIN_PATIENCE..=MAX_PATIENCE).contains(&patience) {
        true => Ok(patience),
        false => Err(channel.unexpected("its patience is beyond the limits")),
    }
}

/// The time until a deadline, at least a moment.
pub(crate) fn left(peer: &str, deadline: Instant) -> Result<Duration, ConnectError> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ConnectError::Timeout {
            peer: peer.to_owned(),
        }),
        false => Ok(left),
    }
}

pub(crate) fn system(doing: String, source: std::io::Error) -> ConnectError {
    ConnectError::System { doing, source }
}
