//! Decoders that take a stream in pieces, for streams that are too long for memory.

use crate::Error;

/// Result of one step of a [`StreamDecoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Number of bytes of the source that were taken.
    pub taken: usize,
    /// Number of bytes written at the beginning of the room.
    pub made: usize,
    /// `true` if the stream has ended; the rest of the source follows it.
    pub ended: bool,
    /// Number of the last bytes taken, in this step and earlier ones, that lie behind the end of
    /// the stream. At most [`Step::MAX_UNREAD`], and 0 before the end.
    pub unread: usize,
}

impl Step {
    /// Maximum number of bytes that a decoder reads beyond the end of its stream.
    pub const MAX_UNREAD: usize = 8;
}

/// Decoder of one stream after the other, each in pieces.
pub trait StreamDecoder: Send {
    /// Decodes `source` as far as there is `room`. Without room a decoder may take nothing. A step that
    /// takes and writes nothing although it has room needs more of the source.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Library`]; then call [`StreamDecoder::reset`].
    fn step(&mut self, source: &[u8], room: &mut [u8]) -> Result<Step, Error>;

    /// Discards the state and starts another stream.
    ///
    /// # Errors
    /// [`Error::Library`].
    fn reset(&mut self) -> Result<(), Error>;
}

/// Largest window of a Zstandard frame, as a power of two: 128 MiB, as for the command-line tool.
/// Frames with a larger one are refused.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;
