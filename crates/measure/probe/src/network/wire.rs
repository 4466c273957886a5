//! Protocol between the two ends of a test, apart from the messages that are measured.
//!
//! Each connection begins with a greeting of a fixed length: magic, the secret, the number of the
//! connection and, for UDP, the port that its datagrams come from; the receiver then answers with
//! the port that they go to, in two bytes. On the connection for reports the client sends
//! [`Request`]s and receives [`Reply`]s, each a [`Message`] behind its length in four bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use overside_link::Secret;
use overside_link::codec::{self, CodecError, Message, at_most, clean};
use serde::{Deserialize, Serialize};

use super::CONNECTIONS_MAX;
use super::arrivals::{ArrivalFigures, CLOCK_MAX_NS, Expected, Timeline};

/// The last byte is the version.
const MAGIC: [u8; 8] = *b"ovs-net\x04";
/// Length in bytes of the greeting with which each connection begins.
pub(super) const GREETING_BYTES: usize = MAGIC.len() + Secret::BYTES + 4 + 2;
/// The number of the connection for reports.
pub(super) const REPORTS: u32 = u32::MAX;

/// The longest text of a refusal in bytes.
const TEXT_MAX: usize = 500;

/// The greeting of a connection; `udp_port` is 0 where no datagrams come.
pub(super) fn greeting(secret: Secret, index: u32, udp_port: u16) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    let (magic, rest) = bytes.split_at_mut(MAGIC.len());
    let (told, rest) = rest.split_at_mut(Secret::BYTES);
    let (number, port) = rest.split_at_mut(4);
    magic.copy_from_slice(&MAGIC);
    told.copy_from_slice(&secret.to_bytes());
    number.copy_from_slice(&index.to_le_bytes());
    port.copy_from_slice(&udp_port.to_le_bytes());
    bytes
}

/// Returns the connection's number and the port of its datagrams; `None` if the secret is wrong.
pub(super) fn parse_greeting(bytes: &[u8; GREETING_BYTES], secret: &Secret) -> Option<(u32, u16)> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (told, rest) = rest.split_first_chunk()?;
    let (number, port) = rest.split_first_chunk()?;
    let port = port.try_into().ok()?;
    let greets = (u32::from_le_bytes(*number), u16::from_le_bytes(port));
    secret.is(told).then_some(greets)
}

/// Request from the client to the receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Request {
    /// Requests the number of received bytes, once `bytes` have arrived or `patience_ms` have
    /// passed. Answered by [`Reply::Counts`].
    Counts { bytes: u64, patience_ms: u32 },
    /// Requests the time on the receiver's clock. Answered by [`Reply::Clock`].
    Clock,
    /// A paced pass begins, with these messages on each connection. [`Reply::Begun`].
    Begin(#[serde(deserialize_with = "codec::list::<_, _, CONNECTIONS_MAX>")] Vec<Expected>),
    /// Requests the arrival figures of the pass. Answered by [`Reply::Arrivals`].
    Arrivals(Timeline),
}

/// Answer of the receiver to the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Reply {
    Counts(Counts),
    /// Time in nanoseconds.
    Clock(u64),
    Begun,
    Arrivals(Box<ArrivalFigures>),
    /// The receiver refuses.
    Refused(String),
}

impl Message for Request {
    const MAX_BYTES: usize = 128 << 10;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            Self::Arrivals(timeline) => timeline.check(),
            Self::Counts { .. } | Self::Clock | Self::Begin(_) => Ok(()),
        }
    }
}

impl Message for Reply {
    const MAX_BYTES: usize = 2 << 20;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            Self::Counts(counts) => counts.check(),
            Self::Clock(now_ns) => at_most("clock_ns", *now_ns, CLOCK_MAX_NS),
            Self::Refused(text) => {
                *text = clean(text, TEXT_MAX);
                Ok(())
            }
            Self::Begun | Self::Arrivals(_) => Ok(()),
        }
    }
}

/// Numbers of messages and bytes that have arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    /// Time on the receiver's clock, whose zero is arbitrary.
    pub clock_ns: u64,
    pub messages: u64,
    /// Messages with wrong content.
    pub wrong: u64,
    /// CPU time of the receiver's threads.
    pub cpu_ns: u64,
    /// Bytes of whole messages, by connection.
    #[serde(deserialize_with = "codec::list::<_, _, CONNECTIONS_MAX>")]
    pub received: Vec<u64>,
}

impl Counts {
    fn check(&self) -> Result<(), CodecError> {
        at_most("clock_ns", self.clock_ns, CLOCK_MAX_NS)?;
        let sum = self.received.iter().try_fold(0u64, |sum, one| sum.checked_add(*one));
        sum.map(drop).ok_or_else(|| CodecError::Malformed("more bytes than can be counted".into()))
    }

    /// Bytes of all connections.
    pub(super) fn bytes(&self) -> u64 {
        self.received.iter().sum()
    }
}

/// Sends a message behind its length.
pub(super) fn send(mut stream: &TcpStream, message: &impl Message) -> io::Result<()> {
    let bytes = message.encode();
    let len = (bytes.len() as u32).to_le_bytes();
    stream.write_all(&[&len[..], &bytes].concat())
}

/// Waits for a message.
pub(super) fn receive<M: Message>(mut stream: &TcpStream) -> io::Result<M> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    let invalid = |error: CodecError| io::Error::new(ErrorKind::InvalidData, error);
    if len > M::MAX_BYTES {
        let max = M::MAX_BYTES;
        return Err(invalid(CodecError::Length { len, max }));
    }
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    M::decode(&bytes).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_byte_of_a_greeting_is_enough() {
        let secret = Secret::random().unwrap();
        let good = greeting(secret, 7, 4567);
        assert_eq!(parse_greeting(&good, &secret), Some((7, 4567)));
        for at in 0..GREETING_BYTES - 6 {
            let mut bytes = good;
            bytes[at] ^= 0x80;
            assert_eq!(parse_greeting(&bytes, &secret), None, "{at}");
        }
    }

    #[test]
    fn the_most_counts_have_room_and_more_are_refused() {
        let counts = |connections, each| {
            Reply::Counts(Counts {
                clock_ns: CLOCK_MAX_NS,
                messages: u64::MAX,
                wrong: u64::MAX,
                cpu_ns: u64::MAX,
                received: vec![each; connections],
            })
        };
        let most = counts(CONNECTIONS_MAX, u64::MAX >> 10);
        assert_eq!(Reply::decode(&most.encode()), Ok(most));
        let late = Reply::Clock(CLOCK_MAX_NS + 1);
        for bad in [counts(CONNECTIONS_MAX + 1, 1), counts(2, u64::MAX), late] {
            assert!(Reply::decode(&bad.encode()).is_err());
        }
        let expected = |connections| {
            let one = Expected { first: u64::MAX, most: u64::MAX };
            Request::Begin(vec![one; connections])
        };
        let most = expected(CONNECTIONS_MAX);
        assert_eq!(Request::decode(&most.encode()), Ok(most));
        assert!(Request::decode(&expected(CONNECTIONS_MAX + 1).encode()).is_err());
    }
}
