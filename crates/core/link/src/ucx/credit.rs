//! Limit on how much may be sent to a peer that has not received it yet.

/// Cost of a message in addition to its bytes, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 32;
/// Smallest room for messages that the peer has not received, in bytes.
const MIN_ROOM_BYTES: u64 = 256 << 10;
/// The most, unless four of the longest messages need more.
const MAX_ROOM_BYTES: u64 = 8 << 20;

/// Returns the credit that a message of `len` bytes costs its sender: its bytes and a header, so
/// that short messages are bounded in number.
pub(crate) fn cost(len: usize) -> u64 {
    (len + MESSAGE_BYTES) as u64
}

/// Limits that the two ends have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) depth: usize,
    pub(crate) max_message_bytes: usize,
}

impl Limits {
    /// Returns the room for messages that the peer has not received, in bytes as [`cost`] counts them. Credit
    /// is returned in quarters, so there is always enough for the longest message once all have been
    /// received.
    pub(crate) fn room(&self) -> u64 {
        let longest = cost(self.max_message_bytes);
        let wanted = longest.saturating_mul(self.depth as u64);
        wanted.clamp(MIN_ROOM_BYTES, MAX_ROOM_BYTES).max(4 * longest)
    }
}
