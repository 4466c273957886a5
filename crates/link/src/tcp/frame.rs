//! What the two ends of a queue pair say to each other, as bytes. No I/O.
//!
//! A frame is a header of 32 bytes, little-endian, and a payload:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind |
//! | 1 | reason, of a refusal |
//! | 2, 3 | zero |
//! | 4..8 | length of the payload |
//! | 8..12 | messages: length of each; reads: bytes wanted; acknowledgements: how many |
//! | 12..16 | zero |
//! | 16..24 | reads and writes: key of the region; credit: bytes |
//! | 24..32 | reads and writes: where in the region |
//!
//! Nothing is numbered: writes are acknowledged, and reads answered, in the order in which they
//! were sent, which is also the order in which TCP carries them.

/// The length of a header in bytes.
pub const HEADER_BYTES: usize = 32;
// What a message costs counts its header.
const _: () = assert!(HEADER_BYTES == crate::credit::MESSAGE_BYTES);

/// The most bytes of one read or write.
pub const MAX_BYTES: u64 = 1 << 30;

/// Why a read or a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// There is no such region, or no longer.
    Unknown = 1,
    /// The range does not lie within it.
    Range = 2,
    /// It was exported for something else.
    Access = 3,
}

impl Reason {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Unknown, Self::Range, Self::Access]
            .into_iter()
            .find(|reason| *reason as u8 == byte)
    }

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "it has withdrawn the region",
            Self::Range => "the range does not lie within the region",
            Self::Access => "the region was not exported for that",
        }
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Messages of `each` bytes, one after the other; `len` is a multiple of it.
    Messages {
        /// Bytes of all of them: the payload.
        len: u32,
        /// Bytes of each.
        each: u32,
    },
    /// `len` bytes, the payload, for a region of the receiver's.
    Write {
        /// The region's key.
        key: u64,
        /// Where in it.
        at: u64,
        /// How many: the payload.
        len: u32,
    },
    /// `len` bytes of a region of the receiver's are wanted.
    Read {
        /// The region's key.
        key: u64,
        /// Where in it.
        at: u64,
        /// How many.
        len: u32,
    },
    /// What the oldest unanswered read wanted.
    Data {
        /// How many bytes: the payload.
        len: u32,
    },
    /// The `count` oldest unacknowledged writes have arrived.
    Written {
        /// How many.
        count: u32,
    },
    /// The oldest unacknowledged write is refused.
    WriteRefused(Reason),
    /// The oldest unanswered read is refused.
    ReadRefused(Reason),
    /// There is room for so many bytes of messages more.
    Credit {
        /// Bytes, each message counted with a header.
        bytes: u64,
    },
    /// Nothing more will come.
    Bye,
}

/// Bytes that are no header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// There is no such kind of frame.
    #[error("a frame of kind {0}")]
    Kind(u8),
    /// A field has a value that it cannot have.
    #[error("a {kind} frame with {field} {value}")]
    Value {
        /// The kind.
        kind: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

const MESSAGES: u8 = 1;
const WRITE: u8 = 2;
const READ: u8 = 3;
const DATA: u8 = 4;
const WRITTEN: u8 = 5;
const WRITE_REFUSED: u8 = 6;
const READ_REFUSED: u8 = 7;
const CREDIT: u8 = 8;
const BYE: u8 = 9;

/// A header's fields as they lie in the bytes.
#[derive(Default)]
struct Fields {
    kind: u8,
    reason: u8,
    len: u32,
    count: u32,
    key: u64,
    at: u64,
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let fields = match *self {
            Self::Messages { len, each } => Fields {
                kind: MESSAGES,
                len,
                count: each,
                ..Fields::default()
            },
            Self::Write { key, at, len } => Fields {
                kind: WRITE,
                len,
                key,
                at,
                ..Fields::default()
            },
            Self::Read { key, at, len } => Fields {
                kind: READ,
                count: len,
                key,
                at,
                ..Fields::default()
            },
            Self::Data { len } => Fields {
                kind: DATA,
                len,
                ..Fields::default()
            },
            Self::Written { count } => Fields {
                kind: WRITTEN,
                count,
                ..Fields::default()
            },
            Self::WriteRefused(reason) => Fields {
                kind: WRITE_REFUSED,
                reason: reason as u8,
                ..Fields::default()
            },
            Self::ReadRefused(reason) => Fields {
                kind: READ_REFUSED,
                reason: reason as u8,
                ..Fields::default()
            },
            Self::Credit { bytes } => Fields {
                kind: CREDIT,
                key: bytes,
                ..Fields::default()
            },
            Self::Bye => Fields {
                kind: BYE,
                ..Fields::default()
            },
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = fields.kind;
        bytes[1] = fields.reason;
        bytes[4..8].copy_from_slice(&fields.len.to_le_bytes());
        bytes[8..12].copy_from_slice(&fields.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&fields.key.to_le_bytes());
        bytes[24..32].copy_from_slice(&fields.at.to_le_bytes());
        bytes
    }

    /// The header that these bytes are. What one encodes, and only that, is accepted.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (reason, len, count, key, at) = (bytes[1], four(4), four(8), eight(16), eight(24));
        let header = match bytes[0] {
            MESSAGES => Self::messages(len, count)?,
            WRITE => Self::Write {
                key,
                at,
                len: payload("write", len)?,
            },
            READ => Self::Read {
                key,
                at,
                len: payload("read", count)?,
            },
            DATA => Self::Data {
                len: payload("data", len)?,
            },
            WRITTEN if count == 0 => return Err(value("written", "count", 0)),
            WRITTEN => Self::Written { count },
            WRITE_REFUSED => Self::WriteRefused(reason_of("write-refused", reason)?),
            READ_REFUSED => Self::ReadRefused(reason_of("read-refused", reason)?),
            CREDIT if key == 0 => return Err(value("credit", "bytes", 0)),
            CREDIT => Self::Credit { bytes: key },
            BYE => Self::Bye,
            kind => return Err(FrameError::Kind(kind)),
        };
        // Whatever a kind has no use for is zero.
        let again = header.encode();
        match bytes.iter().zip(&again).find(|(left, right)| left != right) {
            None => Ok(header),
            Some((left, _)) => Err(value("malformed", "unused byte", (*left).into())),
        }
    }

    fn messages(len: u32, each: u32) -> Result<Self, FrameError> {
        payload("messages", len)?;
        if each == 0 || !len.is_multiple_of(each) {
            return Err(value("messages", "length of each", each.into()));
        }
        Ok(Self::Messages { len, each })
    }

    /// The length of the payload that follows.
    pub fn payload_bytes(&self) -> u32 {
        match *self {
            Self::Messages { len, .. } | Self::Write { len, .. } | Self::Data { len } => len,
            _ => 0,
        }
    }
}

fn value(kind: &'static str, field: &'static str, value: u64) -> FrameError {
    FrameError::Value { kind, field, value }
}

fn payload(kind: &'static str, len: u32) -> Result<u32, FrameError> {
    match len {
        0 => Err(value(kind, "length", 0)),
        _ if u64::from(len) > MAX_BYTES => Err(value(kind, "length", len.into())),
        _ => Ok(len),
    }
}

fn reason_of(kind: &'static str, byte: u8) -> Result<Reason, FrameError> {
    Reason::from_byte(byte).ok_or_else(|| value(kind, "reason", byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_header() -> impl Strategy<Value = Header> {
        let len = 1..=MAX_BYTES as u32;
        let reason = prop_oneof![
            Just(Reason::Unknown),
            Just(Reason::Range),
            Just(Reason::Access)
        ];
        prop_oneof![
            (1..=1000u32, 1..=1000u32).prop_map(|(each, count)| Header::Messages {
                len: each * count,
                each
            }),
            (any::<u64>(), any::<u64>(), len.clone()).prop_map(|(key, at, len)| Header::Write {
                key,
                at,
                len
            }),
            (any::<u64>(), any::<u64>(), len.clone()).prop_map(|(key, at, len)| Header::Read {
                key,
                at,
                len
            }),
            len.prop_map(|len| Header::Data { len }),
            (1..u32::MAX).prop_map(|count| Header::Written { count }),
            reason.clone().prop_map(Header::WriteRefused),
            reason.prop_map(Header::ReadRefused),
            (1..u64::MAX).prop_map(|bytes| Header::Credit { bytes }),
            Just(Header::Bye),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_parsed(header in any_header()) {
            prop_assert_eq!(Header::parse(&header.encode()), Ok(header));
        }

        #[test]
        fn what_is_parsed_is_what_would_be_encoded(
            kind in 0..12u8,
            rest in prop::array::uniform31(prop_oneof![3 => Just(0u8), 1 => any::<u8>()]),
        ) {
            let mut bytes = [0; HEADER_BYTES];
            bytes[0] = kind;
            bytes[1..].copy_from_slice(&rest);
            if let Ok(header) = Header::parse(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
                prop_assert!(u64::from(header.payload_bytes()) <= MAX_BYTES);
            }
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let mut bytes = Header::Write {
            key: 1,
            at: 2,
            len: 3,
        }
        .encode();
        bytes[4..8].copy_from_slice(&0u32.to_le_bytes());
        assert!(Header::parse(&bytes).is_err());
        bytes[4..8].copy_from_slice(&(MAX_BYTES as u32 + 1).to_le_bytes());
        let error = Header::parse(&bytes).unwrap_err();
        assert_eq!(error.to_string(), "a write frame with length 1073741825");
    }
}
