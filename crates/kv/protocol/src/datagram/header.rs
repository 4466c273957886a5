//! Header of a datagram.

/// The first two bytes.
pub const MAGIC: [u8; 2] = *b"KV";
/// Version of the datagram protocol.
pub const VERSION: u8 = 1;
/// Length of a header.
pub const HEADER_BYTES: usize = 34;
/// Flag: these are answers.
pub const ANSWER: u8 = 1;
/// Flag of answers: datagrams to this port arrive at the worker of the partition in their header.
pub const STEERED: u8 = 2;

/// The beginning of a datagram. All numbers are in little endian.
///
/// ```text
///   0 magic (2) | 2 version (1) | 3 flags (1) | 4 partition (2) | 6 count (2) | 8 client (8)
///   16 sequence (8) | 24 timestamp (8) | 32 limit (2) | 34 records
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`ANSWER`], [`STEERED`].
    pub flags: u8,
    /// In requests: the partition that has their keys, if the client knows it. In answers: the
    /// number of partitions.
    pub partition: u16,
    /// Requests or answers that follow.
    pub count: u16,
    /// A random number of the client.
    pub client: u64,
    /// Counted by the client, one a datagram; a copy has the same.
    pub sequence: u64,
    /// Timestamp of the client, which the answers repeat.
    pub timestamp: u64,
    /// In requests: the longest answer datagram in bytes. In answers: the number of the request
    /// that the first of them is for.
    pub limit: u16,
}

/// Reason why bytes are no datagram of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes are something else.
    #[error("not a datagram of this protocol")]
    Foreign,
    /// The datagram has another version.
    #[error("version {0} of the protocol is unknown")]
    Version(u8),
}

impl Header {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.flags;
        bytes[4..6].copy_from_slice(&self.partition.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.client.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[32..].copy_from_slice(&self.limit.to_le_bytes());
        out.extend_from_slice(&bytes);
    }

    /// The header of a datagram, and the rest.
    ///
    /// # Errors
    /// [`HeaderError`].
    #[inline]
    pub fn read(datagram: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let (bytes, rest) = (datagram.split_first_chunk::<HEADER_BYTES>())
            .filter(|(bytes, _)| bytes[..2] == MAGIC)
            .ok_or(HeaderError::Foreign)?;
        if bytes[2] != VERSION {
            return Err(HeaderError::Version(bytes[2]));
        }
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let header = Self {
            flags: bytes[3],
            partition: u16_at(4),
            count: u16_at(6),
            client: u64_at(8),
            sequence: u64_at(16),
            timestamp: u64_at(24),
            limit: u16_at(32),
        };
        Ok((header, rest))
    }

    /// Returns `true` if the datagram has answers, not requests.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.flags & ANSWER != 0
    }
}
