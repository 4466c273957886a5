//! Frames of the connection beside the queue pairs. No I/O.
//!
//! A frame is `OVSL`, its kind, a zero, and the length of its payload in two bytes; then the
//! payload. Everything is little-endian and bounded, and what is left over is a mistake.

use crate::verbs::{Access, Side, Token};

/// The version of the protocol, this one and that of the queue pairs.
pub const VERSION: u32 = 2;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 8;
/// The longest payload in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 8 << 10;
/// The longest address of a worker in bytes.
pub const MAX_ADDRESS_BYTES: usize = 4 << 10;
/// The longest text in bytes.
const MAX_TEXT_BYTES: usize = 256;
const MAGIC: &[u8; 4] = b"OVSL";

/// Which transport is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Carrier {
    /// TCP.
    Tcp = 1,
    /// UCX.
    Ucx = 2,
}

/// What the end that listens decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Names the link among those of the listener; nobody else can guess it.
    pub link: [u8; 16],
    /// How many queue pairs.
    pub queue_pairs: u32,
    /// The most work in flight on each.
    pub depth: u32,
    /// The longest message in bytes.
    pub max_message_bytes: u32,
}

/// A region that a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its length in bytes.
    pub len: u64,
    /// What may be done with it.
    pub access: Access,
    /// What the transport has to know beside.
    pub description: Vec<u8>,
}

/// What one end says to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first of the end that connects.
    Hello {
        /// The transport.
        carrier: Carrier,
        /// Which end it is.
        side: Side,
        /// How long it waits for a sign of life, in milliseconds.
        patience_ms: u32,
        /// What only the expected peer knows; zeroes where nothing is expected.
        secret: [u8; 16],
    },
    /// The answer to it.
    Welcome {
        /// The transport.
        carrier: Carrier,
        /// Which end it is.
        side: Side,
        /// How long it waits for a sign of life, in milliseconds.
        patience_ms: u32,
        /// What it decides.
        decision: Decision,
    },
    /// The other answer to it.
    Refused(String),
    /// The first on the connection of a queue pair, which then is that queue pair's.
    Attach {
        /// Names the link.
        link: [u8; 16],
        /// The queue pair.
        index: u32,
    },
    /// Where a queue pair's peer is to connect to.
    Worker {
        /// The queue pair.
        index: u32,
        /// What its messages are to be marked with.
        tag: u64,
        /// The address, as the transport says it.
        address: Vec<u8>,
    },
    /// This end is set up.
    Ready,
    /// Which region is this?
    Ask {
        /// Comes back with the answer.
        id: u32,
        /// The region's key.
        key: u64,
    },
    /// This one, or none.
    Answer {
        /// The question's.
        id: u32,
        /// The region.
        offer: Option<Offer>,
    },
    /// This end is alive.
    Beat,
}

/// Bytes that are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It does not begin as frames do.
    #[error("what it sends does not belong to the protocol")]
    Garbage,
    /// It speaks another version.
    #[error("it speaks version {0} of the protocol")]
    Version(u32),
    /// A frame's payload is not what its kind says.
    #[error("a malformed {0} frame")]
    Payload(&'static str),
}

impl Frame {
    /// Appends the frame as bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[self.kind(), 0, 0, 0]);
        match self {
            Self::Hello {
                carrier,
                side,
                patience_ms,
                secret,
            } => {
                out.extend_from_slice(&VERSION.to_le_bytes());
                out.extend_from_slice(&[*carrier as u8, side_byte(*side)]);
                out.extend_from_slice(&patience_ms.to_le_bytes());
                out.extend_from_slice(secret);
            }
            Self::Welcome {
                carrier,
                side,
                patience_ms,
                decision,
            } => {
                out.extend_from_slice(&VERSION.to_le_bytes());
                out.extend_from_slice(&[*carrier as u8, side_byte(*side)]);
                out.extend_from_slice(&patience_ms.to_le_bytes());
                out.extend_from_slice(&decision.link);
                out.extend_from_slice(&decision.queue_pairs.to_le_bytes());
                out.extend_from_slice(&decision.depth.to_le_bytes());
                out.extend_from_slice(&decision.max_message_bytes.to_le_bytes());
            }
            Self::Refused(text) => {
                let mut len = text.len().min(MAX_TEXT_BYTES);
                while !text.is_char_boundary(len) {
                    len -= 1;
                }
                out.extend_from_slice(&text.as_bytes()[..len]);
            }
            Self::Attach { link, index } => {
                out.extend_from_slice(&VERSION.to_le_bytes());
                out.extend_from_slice(link);
                out.extend_from_slice(&index.to_le_bytes());
            }
            Self::Worker {
                index,
                tag,
                address,
            } => {
                out.extend_from_slice(&index.to_le_bytes());
                out.extend_from_slice(&tag.to_le_bytes());
                out.extend_from_slice(address);
            }
            Self::Ask { id, key } => {
                out.extend_from_slice(&id.to_le_bytes());
                out.extend_from_slice(&key.to_le_bytes());
            }
            Self::Answer { id, offer } => {
                out.extend_from_slice(&id.to_le_bytes());
                if let Some(offer) = offer {
                    out.push(access_byte(offer.access));
                    out.extend_from_slice(&offer.len.to_le_bytes());
                    out.extend_from_slice(&offer.description);
                }
            }
            Self::Ready | Self::Beat => {}
        }
        let len = out.len() - start - HEADER_BYTES;
        assert!(len <= MAX_PAYLOAD_BYTES, "addresses are bounded");
        out[start + 6..start + 8].copy_from_slice(&(len as u16).to_le_bytes());
    }

    /// The frame that `bytes` begin with and its length; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError`], as soon as the bytes cannot become a frame.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(FrameError::Garbage);
        }
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if !(1..=9).contains(&header[4]) || header[5] != 0 || len > MAX_PAYLOAD_BYTES {
            return Err(FrameError::Garbage);
        }
        let Some(payload) = rest.get(..len) else {
            return Ok(None);
        };
        let frame = Self::parse_payload(header[4], Reader(payload))?;
        Ok(Some((frame, HEADER_BYTES + len)))
    }

    fn parse_payload(kind: u8, mut rest: Reader<'_>) -> Result<Self, FrameError> {
        // Other versions say other things, but all begin with their number.
        if matches!(kind, 1 | 2 | 4) {
            match rest.four() {
                None => return Err(FrameError::Payload("handshake")),
                Some(VERSION) => {}
                Some(other) => return Err(FrameError::Version(other)),
            }
        }
        let (name, frame) = match kind {
            1 => ("hello", rest.hello()),
            2 => ("welcome", rest.welcome()),
            3 => ("refused", rest.refused()),
            4 => ("attach", rest.attach()),
            5 => ("worker", rest.worker()),
            6 => ("ready", Some(Self::Ready)),
            7 => ("ask", rest.ask()),
            8 => ("answer", rest.answer()),
            _ => ("beat", Some(Self::Beat)),
        };
        match frame {
            Some(frame) if rest.0.is_empty() => Ok(frame),
            _ => Err(FrameError::Payload(name)),
        }
    }

    /// How many bytes of payload follow a header that [`Frame::parse`] finds nothing wrong with.
    pub fn payload_bytes(header: &[u8; HEADER_BYTES]) -> usize {
        usize::from(u16::from_le_bytes([header[6], header[7]]))
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => 1,
            Self::Welcome { .. } => 2,
            Self::Refused(_) => 3,
            Self::Attach { .. } => 4,
            Self::Worker { .. } => 5,
            Self::Ready => 6,
            Self::Ask { .. } => 7,
            Self::Answer { .. } => 8,
            Self::Beat => 9,
        }
    }
}

fn side_byte(side: Side) -> u8 {
    match side {
        Side::Host => 1,
        Side::Dpu => 2,
    }
}

fn access_byte(access: Access) -> u8 {
    match access {
        Access::Read => 1,
        Access::Write => 2,
        Access::ReadWrite => 3,
    }
}

/// What is left of a payload.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn four(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn eight(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn all(&mut self, most: usize) -> Option<&'a [u8]> {
        let rest = std::mem::take(&mut self.0);
        (rest.len() <= most).then_some(rest)
    }

    fn carrier(&mut self) -> Option<Carrier> {
        match self.take::<1>()? {
            [1] => Some(Carrier::Tcp),
            [2] => Some(Carrier::Ucx),
            _ => None,
        }
    }

    fn side(&mut self) -> Option<Side> {
        match self.take::<1>()? {
            [1] => Some(Side::Host),
            [2] => Some(Side::Dpu),
            _ => None,
        }
    }

    fn access(&mut self) -> Option<Access> {
        match self.take::<1>()? {
            [1] => Some(Access::Read),
            [2] => Some(Access::Write),
            [3] => Some(Access::ReadWrite),
            _ => None,
        }
    }

    fn hello(&mut self) -> Option<Frame> {
        Some(Frame::Hello {
            carrier: self.carrier()?,
            side: self.side()?,
            patience_ms: self.four()?,
            secret: self.take()?,
        })
    }

    fn welcome(&mut self) -> Option<Frame> {
        Some(Frame::Welcome {
            carrier: self.carrier()?,
            side: self.side()?,
            patience_ms: self.four()?,
            decision: Decision {
                link: self.take()?,
                queue_pairs: self.four()?,
                depth: self.four()?,
                max_message_bytes: self.four()?,
            },
        })
    }

    fn refused(&mut self) -> Option<Frame> {
        let text = std::str::from_utf8(self.all(MAX_TEXT_BYTES)?).ok()?;
        // It will be shown to people.
        let plain = text.chars().all(|character| !character.is_control());
        plain.then(|| Frame::Refused(text.to_owned()))
    }

    fn attach(&mut self) -> Option<Frame> {
        Some(Frame::Attach {
            link: self.take()?,
            index: self.four()?,
        })
    }

    fn worker(&mut self) -> Option<Frame> {
        Some(Frame::Worker {
            index: self.four()?,
            tag: self.eight()?,
            address: self.all(MAX_ADDRESS_BYTES)?.to_vec(),
        })
    }

    fn ask(&mut self) -> Option<Frame> {
        Some(Frame::Ask {
            id: self.four()?,
            key: self.eight()?,
        })
    }

    fn answer(&mut self) -> Option<Frame> {
        let id = self.four()?;
        if self.0.is_empty() {
            return Some(Frame::Answer { id, offer: None });
        }
        let access = self.access()?;
        let offer = Offer {
            access,
            len: self.eight()?,
            description: self.all(Token::MAX_BYTES)?.to_vec(),
        };
        let offer = Some(offer);
        Some(Frame::Answer { id, offer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_frame() -> impl Strategy<Value = Frame> {
        let side = prop_oneof![Just(Side::Host), Just(Side::Dpu)];
        let carrier = prop_oneof![Just(Carrier::Tcp), Just(Carrier::Ucx)];
        let access = prop_oneof![
            Just(Access::Read),
            Just(Access::Write),
            Just(Access::ReadWrite)
        ];
        let bytes = prop::collection::vec(any::<u8>(), 0..Token::MAX_BYTES);
        let offer =
            (any::<u64>(), access, bytes.clone()).prop_map(|(len, access, description)| Offer {
                len,
                access,
                description,
            });
        let decision =
            (any::<[u8; 16]>(), any::<[u32; 3]>()).prop_map(|(link, numbers)| Decision {
                link,
                queue_pairs: numbers[0],
                depth: numbers[1],
                max_message_bytes: numbers[2],
            });
        prop_oneof![
            (
                carrier.clone(),
                side.clone(),
                any::<u32>(),
                any::<[u8; 16]>()
            )
                .prop_map(|(carrier, side, patience_ms, secret)| Frame::Hello {
                    carrier,
                    side,
                    patience_ms,
                    secret
                }),
            (carrier, side, any::<u32>(), decision).prop_map(
                |(carrier, side, patience_ms, decision)| Frame::Welcome {
                    carrier,
                    side,
                    patience_ms,
                    decision
                }
            ),
            "[a-z ä]{0,100}".prop_map(Frame::Refused),
            (any::<[u8; 16]>(), any::<u32>())
                .prop_map(|(link, index)| Frame::Attach { link, index }),
            (any::<u32>(), any::<u64>(), bytes).prop_map(|(index, tag, address)| Frame::Worker {
                index,
                tag,
                address
            }),
            Just(Frame::Ready),
            (any::<u32>(), any::<u64>()).prop_map(|(id, key)| Frame::Ask { id, key }),
            (any::<u32>(), prop::option::of(offer))
                .prop_map(|(id, offer)| Frame::Answer { id, offer }),
            Just(Frame::Beat),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_parsed(frame in any_frame(), more in prop::collection::vec(any::<u8>(), 0..9)) {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            let len = bytes.len();
            for cut in 0..len {
                prop_assert_eq!(Frame::parse(&bytes[..cut]), Ok(None));
            }
            bytes.extend(more);
            prop_assert_eq!(Frame::parse(&bytes), Ok(Some((frame, len))));
        }
    }

    #[test]
    fn another_version_is_named_whatever_else_it_says() {
        let mut bytes = b"OVSL\x01\0\x0b\0".to_vec();
        bytes.extend_from_slice(&7u32.to_le_bytes());
        bytes.extend_from_slice(b"not for us"[..7].as_ref());
        assert_eq!(Frame::parse(&bytes), Err(FrameError::Version(7)));
    }

    #[test]
    fn garbage_is_seen_at_its_first_byte() {
        assert_eq!(Frame::parse(b"GET / HTTP/1.1"), Err(FrameError::Garbage));
        assert_eq!(Frame::parse(b"G"), Err(FrameError::Garbage));
        assert_eq!(Frame::parse(b"OVSL\x63\0\0\0"), Err(FrameError::Garbage));
        let long = [b"OVSL\x09\0".as_slice(), &0x2001u16.to_le_bytes()].concat();
        assert_eq!(Frame::parse(&long), Err(FrameError::Garbage));
        assert_eq!(
            Frame::parse(b"OVSL\x09\0\x01\0x"),
            Err(FrameError::Payload("beat"))
        );
    }
}
