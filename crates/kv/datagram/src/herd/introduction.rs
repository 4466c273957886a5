//! Introductions that both ends send before the first request, as messages of the link.

use overside_link::verbs::Token;

use super::{SLOT_BYTES, SLOTS, TAKEN_BYTES};
use crate::link::OffloadError;

/// First bytes.
const MAGIC: [u8; 4] = *b"OvHR";
/// Version of these messages and of the slots.
const VERSION: u16 = 1;

/// Introduction that the server sends on each queue pair.
///
/// ```text
///   0 magic (4) | 4 version (2) | 6 port of replies (2) | 8 bytes of a slot (4) | 12 slots (4) | 16 token
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerIntroduction {
    /// UDP port from which replies are sent.
    pub port: u16,
    pub slot_bytes: usize,
    pub slots: usize,
    /// Token with which the client imports the request region.
    pub token: Token,
}

/// Introduction that a client sends on the first queue pair.
///
/// ```text
///   0 magic (4) | 4 version (2) | 6 port (2)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientIntroduction {
    /// UDP port of the client for its replies.
    pub port: u16,
}

const NONE: OffloadError = OffloadError::Violation("no introduction");

fn head(port: u16) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&port.to_le_bytes());
    bytes
}

/// The port, and the rest.
fn parse_head(bytes: &[u8]) -> Result<(u16, &[u8]), OffloadError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(NONE)?;
    let (version, rest) = rest.split_first_chunk().ok_or(NONE)?;
    let theirs = u16::from_le_bytes(*version);
    if theirs != VERSION {
        let ours = VERSION;
        return Err(OffloadError::Version { theirs, ours });
    }
    let (port, rest) = rest.split_first_chunk().ok_or(NONE)?;
    match u16::from_le_bytes(*port) {
        0 => Err(OffloadError::Violation("no port")),
        port => Ok((port, rest)),
    }
}

impl ServerIntroduction {
    pub(super) fn new(port: u16, token: Token) -> Self {
        Self { port, slot_bytes: SLOT_BYTES, slots: SLOTS, token }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = head(self.port);
        bytes.extend_from_slice(&(self.slot_bytes as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.slots as u32).to_le_bytes());
        bytes.extend_from_slice(self.token.as_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, OffloadError> {
        let (port, rest) = parse_head(bytes)?;
        let (slot_bytes, rest) = rest.split_first_chunk().ok_or(NONE)?;
        let (slots, token) = rest.split_first_chunk().ok_or(NONE)?;
        let slot_bytes = u32::from_le_bytes(*slot_bytes) as usize;
        let slots = u32::from_le_bytes(*slots) as usize;
        let is_possible = (256..=1 << 20).contains(&slot_bytes)
            && slot_bytes.is_multiple_of(64)
            && (2..=4096).contains(&slots);
        match is_possible {
            true => Ok(Self { port, slot_bytes, slots, token: Token::from_bytes(token)? }),
            false => Err(OffloadError::Violation("impossible slots")),
        }
    }

    /// Bytes of the region.
    pub(super) fn region_bytes(&self) -> usize {
        self.slot_bytes * self.slots + TAKEN_BYTES
    }
}

impl ClientIntroduction {
    pub(super) fn encode(self) -> Vec<u8> {
        head(self.port)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, OffloadError> {
        match parse_head(bytes)? {
            (port, []) => Ok(Self { port }),
            _ => Err(NONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use overside_link::verbs::Token;

    use super::{ClientIntroduction, ServerIntroduction};

    #[test]
    fn introductions_are_read_as_they_were_written_and_others_refused() {
        let token = Token::from_bytes(b"token").unwrap();
        let server = ServerIntroduction::new(4000, token);
        let bytes = server.encode();
        assert_eq!(ServerIntroduction::decode(&bytes).unwrap(), server);
        let client = ClientIntroduction { port: 5 };
        assert_eq!(ClientIntroduction::decode(&client.encode()).unwrap(), client);
        for len in 0..bytes.len() - 5 {
            assert!(ServerIntroduction::decode(&bytes[..len]).is_err(), "{len}");
        }
        // Magic, version, port, bytes of a slot, slots.
        for (at, byte) in [(0, 1), (4, 9), (8, 1), (11, 0xff), (15, 0xff)] {
            let mut wrong = bytes.clone();
            wrong[at] = byte;
            assert!(ServerIntroduction::decode(&wrong).is_err(), "{at}");
        }
        assert!(ClientIntroduction::decode(&ClientIntroduction { port: 0 }.encode()).is_err());
        assert!(ClientIntroduction::decode(&bytes).is_err());
    }
}
