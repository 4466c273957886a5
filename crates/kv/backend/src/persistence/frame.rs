//! Kinds of frames in logs, snapshots and replication. [`overside_frames`] defines how frames are
//! written.

use std::ops::RangeInclusive;

use overside_frames::FrameKind;
pub use overside_frames::{more, parse_stream, previous};

/// Version of the format. 2 has data for replicas, 3 links files with each other; 1 and 2 can be read as well.
pub const FORMAT: u8 = 3;

/// Writes frames into memory.
pub type FrameWriter = overside_frames::FrameWriter<Kind>;
/// A frame at the beginning of some bytes.
pub type StreamFrame<'b> = overside_frames::StreamFrame<'b, Kind>;
/// A frame that was read and whose checksum is right.
pub type Frame<'r> = overside_frames::Frame<'r, Kind>;
/// Result of reading the next frame of a file.
pub type Next<'r> = overside_frames::Next<'r, Kind>;
/// Reads frames from a file.
pub type FrameReader = overside_frames::FrameReader<Kind>;

/// Kind of a frame, which defines its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file's beginning: identity and format.
    Begin = 0,
    /// Requests, executed at the frame's time. A transaction lies in one frame.
    Requests = 1,
    /// All keys were removed.
    Flush = 2,
    /// The end of a snapshot.
    End = 3,
    /// The time, of a replica's primary.
    Time = 4,
    /// All keys were removed, and another server's state follows, which is complete at [`Kind::CopyEnd`].
    CopyBegin = 5,
    /// Requests that recreate a part of the state as it was at the frame's time.
    Copy = 6,
    /// The state is complete.
    CopyEnd = 7,
    /// A position in a primary's history, and the requests that lead there from the one before. Whatever
    /// else changes something, but a copy, ends the position.
    Followed = 8,
}

impl FrameKind for Kind {
    const MAGIC: [u8; 4] = *b"OvKv";
    const FORMATS: RangeInclusive<u8> = 1..=FORMAT;
    const BEGIN: Self = Self::Begin;

    fn byte(self) -> u8 {
        self as u8
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Begin,
            Self::Requests,
            Self::Flush,
            Self::End,
            Self::Time,
            Self::CopyBegin,
            Self::Copy,
            Self::CopyEnd,
            Self::Followed,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}
