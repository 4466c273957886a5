//! Frames that two ends exchange over the connection beside the queue pairs. No I/O.
//!
//! A frame is `OVSL`, one, zero, the length of the rest in two bytes, the version in four, and a
//! [`ControlMessage`]; numbers are little-endian. Version and length stand where version 2 had them
//! in its first frames, so that either names the other.

use serde::{Deserialize, Serialize};

use crate::Secret;
use crate::codec::{self, CodecError, Message, clean};
use crate::verbs::{Access, Side, Token};

/// The version of the protocol, this one and that of the queue pairs.
pub(crate) const VERSION: u32 = 3;
/// Bytes before the message.
pub(crate) const HEADER_BYTES: usize = 12;
/// The longest address of a worker in bytes.
pub(crate) const MAX_ADDRESS_BYTES: usize = 4 << 10;
/// The longest text in bytes.
const MAX_TEXT_BYTES: usize = 256;
const PREFIX: [u8; 6] = *b"OVSL\x01\0";

/// Part of the configuration that the listening end decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    /// Number of queue pairs.
    pub queue_pairs: u32,
    /// The most work in flight on each.
    pub depth: u32,
    /// The longest message in bytes.
    pub max_message_bytes: u32,
}

/// Region of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegionInfo {
    /// Length of the region in bytes.
    pub len: u64,
    /// Ways in which the importing end may access the region.
    pub access: Access,
    /// Additional data that UCX needs for access to the region.
    #[serde(with = "codec::hex")]
    pub description: Vec<u8>,
}

/// Message from one end of a link to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ControlMessage {
    /// First message of the end that connects.
    Hello {
        /// End of the link that the sender is.
        side: Side,
        /// Time that the sender waits for a sign of life of its peer, in milliseconds.
        peer_timeout_ms: u32,
        /// Secret that only the expected peer knows; `None` if the sender has none.
        secret: Option<Secret>,
    },
    /// Answer to `Hello` that accepts the connection.
    Welcome {
        /// End of the link that the sender is.
        side: Side,
        /// Time that the sender waits for a sign of life of its peer, in milliseconds.
        peer_timeout_ms: u32,
        /// Configuration that the listening end has decided.
        decision: Decision,
    },
    /// Answer to `Hello` that rejects the connection, with the reason.
    Reject(String),
    /// Address that the peer of a queue pair must connect to.
    Worker {
        /// The queue pair.
        index: u32,
        /// Tag that the peer must put on messages to this queue pair.
        tag: u64,
        /// The address in UCX's form.
        #[serde(with = "codec::hex")]
        address: Vec<u8>,
    },
    /// This end is set up.
    Ready,
    /// Request for information about a region.
    RegionQuery {
        /// Comes back with the answer.
        id: u32,
        /// The region's key.
        key: u64,
    },
    /// This one, or none.
    RegionInfo {
        /// Id of the request.
        id: u32,
        /// The region.
        region: Option<RegionInfo>,
    },
    /// This end is alive.
    Heartbeat,
}

impl Message for ControlMessage {
    const MAX_BYTES: usize = 2 * MAX_ADDRESS_BYTES + 1024;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            // It will be shown to people.
            Self::Reject(text) => *text = clean(text, MAX_TEXT_BYTES),
            Self::Worker { address, .. } => {
                let max = MAX_ADDRESS_BYTES as u64;
                codec::at_most("the length of an address", address.len() as u64, max)?;
            }
            Self::RegionInfo { region: Some(region), .. } => {
                let len = region.description.len() as u64;
                codec::at_most("a region's description", len, Token::MAX_BYTES as u64)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Bytes that are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// The bytes are no frame.
    #[error("what it sends does not belong to the protocol")]
    Garbage,
    /// The peer speaks another version.
    #[error("it speaks version {0} of the protocol")]
    Version(u32),
    /// The message in the frame cannot be decoded.
    #[error(transparent)]
    Message(#[from] CodecError),
}

/// Appends a message as a frame.
pub(crate) fn encode(message: &ControlMessage, out: &mut Vec<u8>) {
    let bytes = message.encode();
    debug_assert!(bytes.len() <= ControlMessage::MAX_BYTES);
    out.extend_from_slice(&PREFIX);
    out.extend_from_slice(&((4 + bytes.len()) as u16).to_le_bytes());
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// The message that `bytes` begin with and the length of its frame; `None` if more bytes are needed.
///
/// # Errors
/// [`FrameError`], as soon as the bytes cannot become a frame.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(ControlMessage, usize)>, FrameError> {
    let known = bytes.len().min(PREFIX.len());
    if bytes[..known] != PREFIX[..known] {
        return Err(FrameError::Garbage);
    }
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let [.., a, b, c, d] = *header;
    match u32::from_le_bytes([a, b, c, d]) {
        VERSION => {}
        other => return Err(FrameError::Version(other)),
    }
    let len = message_bytes(header);
    if len > ControlMessage::MAX_BYTES {
        return Err(FrameError::Garbage);
    }
    let Some(message) = rest.get(..len) else {
        return Ok(None);
    };
    Ok(Some((ControlMessage::decode(message)?, HEADER_BYTES + len)))
}

/// Returns how many bytes follow a header that [`parse`] accepts.
pub(crate) fn message_bytes(header: &[u8; HEADER_BYTES]) -> usize {
    usize::from(u16::from_le_bytes([header[6], header[7]])).saturating_sub(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = ControlMessage> {
        let side = prop_oneof![Just(Side::Host), Just(Side::Dpu)];
        let access = prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::ReadWrite)];
        let secret =
            any::<[u8; 16]>().prop_map(|bytes| Secret::from_hex(&codec::hex::encode(&bytes)));
        let bytes = prop::collection::vec(any::<u8>(), 0..Token::MAX_BYTES);
        let region = (any::<u64>(), access, bytes.clone())
            .prop_map(|(len, access, description)| RegionInfo { len, access, description });
        let decision = any::<[u32; 3]>().prop_map(|[queue_pairs, depth, max_message_bytes]| {
            Decision { queue_pairs, depth, max_message_bytes }
        });
        prop_oneof![
            (side.clone(), any::<u32>(), secret).prop_map(|(side, peer_timeout_ms, secret)| {
                ControlMessage::Hello { side, peer_timeout_ms, secret }
            }),
            (side, any::<u32>(), decision).prop_map(|(side, peer_timeout_ms, decision)| {
                ControlMessage::Welcome { side, peer_timeout_ms, decision }
            }),
            "[a-z ä]{0,100}".prop_map(ControlMessage::Reject),
            (any::<u32>(), any::<u64>(), bytes).prop_map(|(index, tag, address)| {
                ControlMessage::Worker { index, tag, address }
            }),
            Just(ControlMessage::Ready),
            (any::<u32>(), any::<u64>())
                .prop_map(|(id, key)| ControlMessage::RegionQuery { id, key }),
            (any::<u32>(), prop::option::of(region))
                .prop_map(|(id, region)| ControlMessage::RegionInfo { id, region }),
            Just(ControlMessage::Heartbeat),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_parsed(
            message in any_message(),
            more in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let mut bytes = Vec::new();
            encode(&message, &mut bytes);
            let len = bytes.len();
            for cut in 0..len {
                prop_assert_eq!(parse(&bytes[..cut]), Ok(None));
            }
            bytes.extend(more);
            prop_assert_eq!(parse(&bytes), Ok(Some((message, len))));
        }

        #[test]
        fn any_bytes_are_a_message_or_a_mistake(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let framed = [PREFIX.as_slice(), &bytes].concat();
            for input in [bytes, framed] {
                if let Ok(Some((_, len))) = parse(&input) {
                    prop_assert!(len <= input.len());
                }
            }
        }
    }

    #[test]
    fn the_longest_address_has_room() {
        let mut bytes = Vec::new();
        let address = vec![0xff; MAX_ADDRESS_BYTES];
        let (index, tag) = (u32::MAX, u64::MAX);
        let longest = ControlMessage::Worker { index, tag, address };
        encode(&longest, &mut bytes);
        assert!(matches!(parse(&bytes), Ok(Some(_))));
    }

    #[test]
    fn version_2_is_named_and_names_this_one() {
        // What version 2 says first: its version behind the eight bytes of its header.
        let mut bytes = b"OVSL\x01\0\x1e\0".to_vec();
        bytes.extend_from_slice(&2u32.to_le_bytes());
        bytes.extend_from_slice(&[1; 26]);
        assert_eq!(parse(&bytes), Err(FrameError::Version(2)));
        // Where version 2 looks for ours.
        let mut ours = Vec::new();
        encode(&ControlMessage::Heartbeat, &mut ours);
        assert_eq!(ours[4..6], [1, 0], "a hello");
        assert_eq!(ours[8..12], VERSION.to_le_bytes());
    }

    #[test]
    fn garbage_is_seen_at_its_first_byte() {
        assert_eq!(parse(b"GET / HTTP/1.1"), Err(FrameError::Garbage));
        assert_eq!(parse(b"G"), Err(FrameError::Garbage));
        assert_eq!(parse(b"OVSL\x63\0\0\0"), Err(FrameError::Garbage));
        let long = [PREFIX.as_slice(), &[0xff, 0xff], &VERSION.to_le_bytes()].concat();
        assert_eq!(parse(&long), Err(FrameError::Garbage));
        let mut cut = Vec::new();
        encode(&ControlMessage::Ready, &mut cut);
        cut[12] = b'!';
        assert!(matches!(parse(&cut), Err(FrameError::Message(_))));
    }
}
