//! Header of a datagram.

/// First two bytes of a datagram.
pub const MAGIC: [u8; 2] = *b"KV";
/// Version of the datagram protocol.
pub const VERSION: u8 = 1;
/// Number of bytes of a header.
pub const HEADER_BYTES: usize = 34;
/// Flag of datagrams with answers.
pub const ANSWER: u8 = 1;
/// Flag of answers: datagrams to this port arrive at the worker of the partition in their header.
pub const STEERED: u8 = 2;

/// Header at the beginning of a datagram. All numbers are little-endian.
///
/// ```text
///   0 magic (2) | 2 version (1) | 3 flags (1) | 4 partition (2) | 6 count (2) | 8 client (8)
///   16 sequence (8) | 24 timestamp (8) | 32 limit (2) | 34 records
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Set of [`ANSWER`] and [`STEERED`].
    pub flags: u8,
    /// In requests: the partition of their keys, if the client knows it. In answers: the number of
    /// partitions.
    pub partition: u16,
    /// Number of requests or answers that follow.
    pub count: u16,
    /// Random number of the client.
    pub client: u64,
    /// Sequence number of the client's datagram; a copy has the same.
    pub sequence: u64,
    /// Timestamp of the client. Answers contain the timestamp of their request.
    pub timestamp: u64,
    /// In requests: the maximum length of an answer datagram in bytes. In answers: the index of the
    /// request of the first answer.
    pub limit: u16,
}

/// Reason why a datagram is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes are not a datagram of this protocol.
    #[error("not a datagram of this protocol")]
    Foreign,
    /// The datagram has another version.
    #[error("version {0} of the protocol is unknown")]
    Version(u8),
}

impl Header {
    /// Appends the header.
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

    /// Splits a datagram into its header and the rest.
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

    /// Returns `true` if the datagram contains answers, not requests.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.flags & ANSWER != 0
    }
}
