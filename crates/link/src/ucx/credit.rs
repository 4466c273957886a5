//! How much may be sent to somebody who has not received it yet.

/// What a message costs beside its bytes.
pub(crate) const MESSAGE_BYTES: usize = 32;
/// The least room for messages that nobody has received, in bytes.
const MIN_ROOM_BYTES: u64 = 256 << 10;
/// The most, unless four of the longest messages need more.
const MAX_ROOM_BYTES: u64 = 8 << 20;

/// What a message costs its sender: its bytes and a header, so that short ones are bounded in
/// number.
pub(crate) fn cost(len: usize) -> u64 {
    (len + MESSAGE_BYTES) as u64
}

/// What the two ends have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) depth: usize,
    pub(crate) max_message_bytes: usize,
}

impl Limits {
    /// Room for messages that nobody has received, in bytes as [`cost`] counts them. Credit is
    /// returned by the quarter, so that there is always enough for the longest message once all
    /// have been received.
    pub(crate) fn room(&self) -> u64 {
        let longest = cost(self.max_message_bytes);
        let wanted = longest.saturating_mul(self.depth as u64);
        wanted
            .clamp(MIN_ROOM_BYTES, MAX_ROOM_BYTES)
            .max(4 * longest)
    }
}
