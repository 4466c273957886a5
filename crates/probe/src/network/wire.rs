//! What the two ends say to each other beside the messages.
//!
//! Each connection begins with a greeting of a fixed length: magic, the secret, and which connection it
//! is. On the one for reports the client then asks [`Question`]s and has [`Counts`] back, each a
//! [`Message`] behind its length in four bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use overside_link::Secret;
use overside_link::codec::{self, CodecError, Message};
use serde::{Deserialize, Serialize};

use super::CONNECTIONS_MAX;

/// The last byte is the version.
const MAGIC: [u8; 8] = *b"ovs-net\x03";
/// What a connection begins with.
pub(super) const GREETING_BYTES: usize = MAGIC.len() + Secret::BYTES + 4;
/// The number of the connection for reports.
pub(super) const REPORTS: u32 = u32::MAX;

/// The greeting of a connection.
pub(super) fn greeting(secret: Secret, index: u32) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    let (magic, rest) = bytes.split_at_mut(MAGIC.len());
    let (told, number) = rest.split_at_mut(Secret::BYTES);
    magic.copy_from_slice(&MAGIC);
    told.copy_from_slice(&secret.to_bytes());
    number.copy_from_slice(&index.to_le_bytes());
    bytes
}

/// Which connection it is, if whoever greets knows the secret.
pub(super) fn parse_greeting(bytes: &[u8; GREETING_BYTES], secret: &Secret) -> Option<u32> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (told, number) = rest.split_first_chunk()?;
    let number = number.try_into().ok()?;
    secret.is(told).then(|| u32::from_le_bytes(number))
}

/// Asks for the counts, once `bytes` have come or `patience_ms` are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    pub bytes: u64,
    pub patience_ms: u32,
}

impl Message for Question {
    const MAX_BYTES: usize = 128;
}

/// How much has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    /// Of the receiver's clock, whose zero means nothing.
    pub clock_ns: u64,
    pub messages: u64,
    /// Messages that were not what they should be.
    pub wrong: u64,
    /// CPU time of the receiver's threads.
    pub cpu_ns: u64,
    /// Bytes of whole messages, by connection.
    #[serde(deserialize_with = "codec::list::<_, _, CONNECTIONS_MAX>")]
    pub received: Vec<u64>,
}

impl Message for Counts {
    const MAX_BYTES: usize = 32 << 10;

    fn check(&mut self) -> Result<(), CodecError> {
        let sum = self
            .received
            .iter()
            .try_fold(0u64, |sum, one| sum.checked_add(*one));
        sum.map(drop)
            .ok_or_else(|| CodecError::Malformed("more bytes than can be counted".into()))
    }
}

impl Counts {
    /// Bytes of all connections.
    pub fn bytes(&self) -> u64 {
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
        let good = greeting(secret, 7);
        assert_eq!(parse_greeting(&good, &secret), Some(7));
        for at in 0..GREETING_BYTES - 4 {
            let mut bytes = good;
            bytes[at] ^= 0x80;
            assert_eq!(parse_greeting(&bytes, &secret), None, "{at}");
        }
    }

    #[test]
    fn the_most_counts_have_room_and_more_are_refused() {
        let counts = |connections, each| Counts {
            clock_ns: u64::MAX,
            messages: u64::MAX,
            wrong: u64::MAX,
            cpu_ns: u64::MAX,
            received: vec![each; connections],
        };
        let most = counts(CONNECTIONS_MAX, u64::MAX >> 10);
        assert_eq!(Counts::decode(&most.encode()), Ok(most));
        for bad in [counts(CONNECTIONS_MAX + 1, 1), counts(2, u64::MAX)] {
            assert!(Counts::decode(&bad.encode()).is_err());
        }
    }
}
