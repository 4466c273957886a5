//! Trailer of a message.

/// Bytes behind the body: length, checksum, last word.
pub const TRAILER_BYTES: usize = 16;
/// Longest body, by rendezvous.
pub const BODY_MAX_BYTES: usize = 1 << 30;
/// Set in the length of a message whose body is elsewhere.
const RENDEZVOUS: u32 = 1 << 31;
/// Sequence numbers have 48 bits: at a million messages a second they last for nine years.
const SEQUENCE_MAX: u64 = u64::MAX >> 16;

/// Trailer of a message, which follows the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Number of the message.
    pub sequence: u64,
    /// Requests or answers in the body.
    pub count: u16,
    /// Bytes of the body.
    pub len: usize,
    /// The body is the place of the real one.
    pub is_rendezvous: bool,
}

impl Trailer {
    /// The last word: sequence and count.
    pub fn word(&self) -> u64 {
        (self.sequence & SEQUENCE_MAX) << 16 | u64::from(self.count)
    }

    /// The sequence number in a last word.
    pub fn sequence_in(word: u64) -> u64 {
        word >> 16
    }

    /// Returns its bytes behind this body.
    pub fn encode(&self, body: &[u8]) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        let flag = if self.is_rendezvous { RENDEZVOUS } else { 0 };
        bytes[..4].copy_from_slice(&(self.len as u32 | flag).to_le_bytes());
        bytes[8..].copy_from_slice(&self.word().to_le_bytes());
        let checksum = checksum(body, &bytes);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads its bytes.
    pub fn decode(bytes: &[u8; TRAILER_BYTES]) -> Self {
        let len = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        let word = u64::from_le_bytes(bytes[8..].try_into().expect("eight bytes"));
        Self {
            sequence: Self::sequence_in(word),
            count: word as u16,
            len: (len & !RENDEZVOUS) as usize,
            is_rendezvous: len & RENDEZVOUS != 0,
        }
    }

    /// Returns `true` if the checksum shows that all of the body has arrived with the trailer.
    pub fn is_whole(bytes: &[u8; TRAILER_BYTES], body: &[u8]) -> bool {
        bytes[4..8] == checksum(body, bytes).to_le_bytes()
    }
}

fn checksum(body: &[u8], trailer: &[u8; TRAILER_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(body);
    hasher.update(&trailer[..4]);
    hasher.update(&trailer[8..]);
    hasher.finalize()
}
