//! The handshake: blocking, but never beyond a deadline, and never more than a frame in memory.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::frame::{self, ControlMessage, Decision, FrameError, HEADER_BYTES, VERSION};
use crate::secret::Secret;
use crate::ucx::UcxOptions;
use crate::verbs::{ConnectError, LinkConfig, Side};

/// Longest time that a peer that has connected may take to send its first message.
const FIRST_MESSAGE: Duration = Duration::from_secs(3);
/// The shortest time after which a silent peer is given up.
const MIN_PEER_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest.
const MAX_PEER_TIMEOUT: Duration = Duration::from_secs(600);

/// A connection on which frames go back and forth, one at a time.
pub(crate) struct Channel {
    stream: TcpStream,
    peer: String,
}

/// Result of the negotiation between the two ends.
#[derive(Clone, Debug)]
pub(crate) struct Negotiated {
    pub(crate) decision: Decision,
    /// Time that the peer waits for a sign of life of this end.
    pub(crate) their_timeout: Duration,
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
        Ok(Self { stream, peer: address.to_string() })
    }

    /// The peer, for people.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// The connection; no byte after the handshake has been read.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    pub(crate) fn send(
        &mut self,
        message: &ControlMessage,
        deadline: Instant,
    ) -> Result<(), ConnectError> {
        let mut bytes = Vec::new();
        frame::encode(message, &mut bytes);
        let left = left(&self.peer, deadline)?;
        self.stream
            .set_write_timeout(Some(left))
            .and_then(|()| self.stream.write_all(&bytes))
            .map_err(|error| self.failed(error))
    }

    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<ControlMessage, ConnectError> {
        let mut bytes = vec![0; HEADER_BYTES];
        self.fill(&mut bytes, 0, deadline)?;
        if let Some(message) = self.parse(&bytes)? {
            return Ok(message);
        }
        let header = bytes.as_slice().try_into().expect("as long as a header");
        bytes.resize(HEADER_BYTES + frame::message_bytes(header), 0);
        self.fill(&mut bytes, HEADER_BYTES, deadline)?;
        self.parse(&bytes)?.ok_or_else(|| self.unexpected("half a frame"))
    }

    /// Reads until `bytes` is full. Received bytes are checked at once, so a peer that sends a few
    /// wrong bytes and then nothing is detected.
    fn fill(
        &mut self,
        bytes: &mut [u8],
        from: usize,
        deadline: Instant,
    ) -> Result<(), ConnectError> {
        let mut at = from;
        while at < bytes.len() {
            let left = left(&self.peer, deadline)?;
            self.stream.set_read_timeout(Some(left)).map_err(|error| self.failed(error))?;
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

    /// Returns `true` if there is input, or the connection has ended.
    pub(crate) fn has_input(&self) -> bool {
        let now = rustix::event::Timespec::default();
        let mut set = [PollFd::new(&self.stream, PollFlags::IN)];
        rustix::event::poll(&mut set, Some(&now)).is_ok_and(|count| count > 0)
    }

    fn parse(&self, bytes: &[u8]) -> Result<Option<ControlMessage>, ConnectError> {
        let parsed = frame::parse(bytes).map_err(|error| match error {
            FrameError::Version(theirs) => {
                ConnectError::Version { peer: self.peer.clone(), theirs, ours: VERSION }
            }
            other => self.unexpected(&other.to_string()),
        })?;
        Ok(parsed.map(|(message, _)| message))
    }

    /// Error for a message of the peer that does not belong here.
    pub(crate) fn unexpected(&self, reason: &str) -> ConnectError {
        ConnectError::Protocol { peer: self.peer.clone(), reason: reason.to_owned() }
    }

    fn failed(&self, error: std::io::Error) -> ConnectError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ConnectError::Timeout { peer: self.peer.clone() }
            }
            _ => system(format!("the handshake with {}", self.peer), error),
        }
    }
}

/// Listening socket of the control connection.
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, ConnectError> {
        let listening = TcpListener::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(Self { socket, address })
        });
        listening.map_err(|error| system(format!("listening on {address}"), error))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Descriptor that is readable when a peer connects.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next peer that connects and speaks the protocol, with its first message. Others are
    /// refused; if no peer comes, the error gives the reason of the last refusal.
    pub(crate) fn next(
        &self,
        deadline: Instant,
    ) -> Result<(Channel, ControlMessage), ConnectError> {
        let mut last = None;
        loop {
            let mut channel = match self.accept(deadline) {
                Ok(channel) => channel,
                Err(error @ ConnectError::Timeout { .. }) => return Err(last.unwrap_or(error)),
                Err(error) => return Err(error),
            };
            match channel.receive(deadline.min(Instant::now() + FIRST_MESSAGE)) {
                Ok(message) => return Ok((channel, message)),
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
            match self.socket.accept() {
                Ok((stream, address)) => return Channel::new(stream, address),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // They have gone again.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(system(format!("listening on {}", self.address), error)),
            }
            let left = left(&nobody, deadline)?;
            let timeout = left.try_into().ok();
            let mut set = [PollFd::new(&self.socket, PollFlags::IN)];
            match rustix::event::poll(&mut set, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(system("waiting".into(), error.into())),
            }
        }
    }
}

/// Tells a peer why it is refused, if it reads that.
pub(crate) fn refuse(mut channel: Channel, error: &ConnectError) {
    tracing::warn!(peer = channel.peer(), %error, "link handshake refused");
    let text: String = error.to_string().chars().take(200).collect();
    let soon = Instant::now() + Duration::from_millis(100);
    if channel.send(&ControlMessage::Reject(text), soon).is_err() {
        return;
    }
    // Closed with bytes unread, the system would throw away what has just been said.
    let _ = channel.stream.shutdown(Shutdown::Write);
    let mut rest = [0; 1024];
    for _ in 0..64 {
        let Ok(left) = left(&channel.peer, soon) else {
            return;
        };
        let waits = channel.stream.set_read_timeout(Some(left));
        if waits.is_err() || !matches!(channel.stream.read(&mut rest), Ok(1..)) {
            return;
        }
    }
}

/// The handshake of the end that connects.
pub(crate) fn greet(
    channel: &mut Channel,
    options: &UcxOptions,
    side: Side,
    deadline: Instant,
) -> Result<Negotiated, ConnectError> {
    let hello = ControlMessage::Hello {
        side,
        peer_timeout_ms: in_ms(options.peer_timeout),
        secret: options.secret,
    };
    channel.send(&hello, deadline)?;
    match channel.receive(deadline)? {
        ControlMessage::Welcome { peer_timeout_ms, decision, .. } => {
            check_decision(channel, &decision)?;
            Ok(Negotiated { decision, their_timeout: timeout_from(channel, peer_timeout_ms)? })
        }
        ControlMessage::Reject(reason) => Err(channel.unexpected(&format!("it says: {reason}"))),
        _ => Err(channel.unexpected("its answer is no welcome")),
    }
}

/// Performs the handshake of the listening end, after it has received `first`.
pub(crate) fn welcome(
    channel: &mut Channel,
    first: &ControlMessage,
    options: &UcxOptions,
    config: &LinkConfig,
    deadline: Instant,
) -> Result<Negotiated, ConnectError> {
    let their_timeout = match first {
        ControlMessage::Hello { secret, .. } if !Secret::admits(options.secret, *secret) => {
            return Err(channel.unexpected("it does not know what the expected peer was told"));
        }
        ControlMessage::Hello { peer_timeout_ms, .. } => timeout_from(channel, *peer_timeout_ms)?,
        _ => return Err(channel.unexpected("its first word is no hello")),
    };
    let decision = Decision {
        queue_pairs: config.queue_pairs as u32,
        depth: config.depth as u32,
        max_message_bytes: config.max_message_bytes as u32,
    };
    let answer = ControlMessage::Welcome {
        side: config.side,
        peer_timeout_ms: in_ms(options.peer_timeout),
        decision: decision.clone(),
    };
    channel.send(&answer, deadline)?;
    Ok(Negotiated { decision, their_timeout })
}

fn check_decision(channel: &Channel, decision: &Decision) -> Result<(), ConnectError> {
    let config = LinkConfig {
        queue_pairs: decision.queue_pairs as usize,
        depth: decision.depth as usize,
        max_message_bytes: decision.max_message_bytes as usize,
        ..LinkConfig::new(Side::Host)
    };
    config.check().map_err(|error| channel.unexpected(&format!("it decides that {error}")))
}

fn in_ms(peer_timeout: Duration) -> u32 {
    bounded(peer_timeout).as_millis() as u32
}

/// Returns the timeout, limited to the range that is allowed.
pub(crate) fn bounded(peer_timeout: Duration) -> Duration {
    peer_timeout.clamp(MIN_PEER_TIMEOUT, MAX_PEER_TIMEOUT)
}

fn timeout_from(channel: &Channel, peer_timeout_ms: u32) -> Result<Duration, ConnectError> {
    let timeout = Duration::from_millis(peer_timeout_ms.into());
    match (MIN_PEER_TIMEOUT..=MAX_PEER_TIMEOUT).contains(&timeout) {
        true => Ok(timeout),
        false => Err(channel.unexpected("its timeout is beyond the limits")),
    }
}

/// The time until a deadline, at least a moment.
pub(crate) fn left(peer: &str, deadline: Instant) -> Result<Duration, ConnectError> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ConnectError::Timeout { peer: peer.to_owned() }),
        false => Ok(left),
    }
}

pub(crate) fn system(doing: String, source: std::io::Error) -> ConnectError {
    ConnectError::System { doing, source }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::Secret;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn config(secret: Option<Secret>) -> UcxOptions {
        UcxOptions { secret, ..UcxOptions::default() }
    }

    fn listener() -> Listener {
        Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port")
    }

    /// Handshake of the listening end, until a peer is accepted.
    fn serve(listener: &Listener, ours: &UcxOptions) -> Result<Negotiated, ConnectError> {
        let link = LinkConfig::new(Side::Host);
        loop {
            let (mut channel, first) = listener.next(soon())?;
            match welcome(&mut channel, &first, ours, &link, soon()) {
                Err(error) => refuse(channel, &error),
                negotiated => return negotiated,
            }
        }
    }

    fn come(address: SocketAddr, secret: Option<Secret>) -> Result<Negotiated, ConnectError> {
        let mut channel = Channel::connect(address, soon())?;
        greet(&mut channel, &config(secret), Side::Dpu, soon())
    }

    #[test]
    fn garbage_does_not_keep_the_peer_out() {
        let listener = listener();
        let mut strangers: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(listener.address()).expect("it listens")).collect();
        strangers[0].write_all(b"SSH-2.0-x\r\n").expect("written");
        strangers[1].write_all(b"OVSL\x01\0\xff\xff\x03\0\0\0").expect("written");
        drop(strangers.pop());
        let address = listener.address();
        let peer = std::thread::spawn(move || come(address, None));
        let ours = serve(&listener, &config(None)).expect("the peer, in spite of them");
        let theirs = peer.join().expect("no panic").expect("the other end");
        assert_eq!(ours.decision, theirs.decision);
        assert_eq!(ours.their_timeout, theirs.their_timeout);
    }

    #[test]
    fn another_version_and_silence_are_named() {
        let listener = listener();
        let mut stranger = TcpStream::connect(listener.address()).expect("it listens");
        let mut hello = b"OVSL\x01\0\x0a\0".to_vec();
        hello.extend([9, 0, 0, 0, 1, 1, 0, 0, 0, 0]);
        stranger.write_all(&hello).expect("written");
        match listener.next(soon()) {
            Err(ConnectError::Version { theirs: 9, .. }) => {}
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a word of a stranger's"),
        }
        let mut told = Vec::new();
        stranger.read_to_end(&mut told).expect("it is closed in order");
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains("version 9"), "it is told why: {told}");
        let soon = Instant::now() + Duration::from_millis(100);
        assert!(matches!(listener.next(soon), Err(ConnectError::Timeout { .. })));
    }

    #[test]
    fn who_does_not_know_the_secret_is_turned_away() {
        let (listener, secret) = (listener(), Secret::random().expect("random bytes"));
        let address = listener.address();
        let peer = std::thread::spawn(move || {
            let other = Secret::random().expect("random bytes");
            for wrong in [None, Some(other)] {
                match come(address, wrong) {
                    Err(ConnectError::Protocol { reason, .. }) => {
                        assert!(reason.contains("was told"), "{reason}");
                    }
                    other => panic!("{other:?}"),
                }
            }
            come(address, Some(secret)).expect("the link");
        });
        serve(&listener, &config(Some(secret))).expect("the peer");
        peer.join().expect("no panic");
    }

    #[test]
    fn a_listener_that_decides_what_cannot_be_is_refused() {
        let listener = listener();
        let address = listener.address();
        let liar = std::thread::spawn(move || {
            let (mut channel, _) = listener.next(soon()).expect("the victim");
            let decision = Decision { queue_pairs: u32::MAX, depth: 1, max_message_bytes: 1 };
            let lie = ControlMessage::Welcome { side: Side::Host, peer_timeout_ms: 1000, decision };
            channel.send(&lie, soon()).expect("sent");
        });
        match come(address, None) {
            Err(ConnectError::Protocol { reason, .. }) => {
                assert!(reason.contains("queue_pairs"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        liar.join().expect("no panic");
    }
}
