//! Topics of messages.

/// Topic of a message: the first byte of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// Requests to be answered in order.
    Requests = 0,
    /// A transaction.
    Transaction = 1,
    /// Keys from a position on.
    Scan = 2,
    /// Removes all keys.
    Flush = 3,
    /// Counts and sizes.
    Statistics = 4,
    /// The rest of the answers.
    Continue = 5,
    /// Writes all keys to disk, in the background.
    Save = 6,
}

impl Topic {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Requests,
            Self::Transaction,
            Self::Scan,
            Self::Flush,
            Self::Statistics,
            Self::Continue,
            Self::Save,
        ]
        .into_iter()
        .find(|topic| *topic as u8 == byte)
    }
}
