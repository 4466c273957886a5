//! Decoders that take a stream in pieces, for streams that are too long to be held at once.

use crate::Error;

/// Result of one step of a [`StreamDecoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the source that were taken.
    pub taken: usize,
    /// Bytes written at the beginning of the room.
    pub made: usize,
    /// The stream is over; what was not taken follows it.
    pub ended: bool,
    /// Number of the last bytes taken, in this step and earlier ones, that belong to what follows
    /// the stream. At most [`Step::MAX_UNREAD`], and 0 before the end.
    pub unread: usize,
}

impl Step {
    /// The most bytes that a decoder reads beyond the end of its stream.
    pub const MAX_UNREAD: usize = 8;
}

/// Decodes one stream after the other, each in pieces.
pub trait StreamDecoder: Send {
    /// Goes on with `source` as far as there is `room`. Without room a decoder may take nothing;
    /// a step that takes nothing and makes nothing, with room, wants more of the source.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Library`]; then only [`StreamDecoder::reset`] helps.
    fn step(&mut self, source: &[u8], room: &mut [u8]) -> Result<Step, Error>;

    /// Forgets everything, and begins another stream.
    ///
    /// # Errors
    /// [`Error::Library`].
    fn reset(&mut self) -> Result<(), Error>;
}

/// The largest window of a Zstandard frame, as a power of two: 128 MiB, as for the command-line
/// tool. A frame that asks for more is refused.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;
