//! Parser of the stream that a replica receives: it checks every frame.

use crate::persistence::frame::{Kind, StreamFrame, parse_stream};

/// Longest payload of a frame: the longest transaction that a client can make.
pub const FRAME_MAX_BYTES: usize = 256 << 20;

/// Reason why the rest of a stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A checksum is wrong, or there is no frame.
    #[error("the stream is damaged")]
    Damaged,
    /// A frame is missing or comes twice.
    #[error("a frame of the stream is missing")]
    OutOfOrder,
}

/// A frame that is whole.
#[derive(Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Kind of the payload.
    pub kind: Kind,
    /// Time at which the primary executed the requests, by its clock, in milliseconds since 1970.
    pub now_ms: u64,
    /// Requests.
    pub payload: Vec<u8>,
    /// Number of bytes by which the frame advances the offset in the history; 0 for frames of a
    /// copy.
    pub history_bytes: u64,
}

/// Finds frames in received bytes.
#[derive(Debug)]
pub struct StreamParser {
    identity: [u8; 8],
    /// Number of the next frame of the history. `copy_number` is that of the copy.
    number: u64,
    copy_number: u64,
    buffer: Vec<u8>,
    done: usize,
}

impl StreamParser {
    /// Makes a parser for a history whose next frame has `number`.
    #[must_use]
    pub fn new(identity: [u8; 8], number: u64) -> Self {
        Self { identity, number, copy_number: 1, buffer: Vec::new(), done: 0 }
    }

    /// The number of the history's next frame.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.done);
        self.done = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next frame, if it is complete.
    ///
    /// # Errors
    /// [`StreamError`]; nothing more can be read then.
    #[expect(clippy::should_implement_trait, reason = "it can go on after none")]
    pub fn next(&mut self) -> Result<Option<ReceivedFrame>, StreamError> {
        let bytes = &self.buffer[self.done..];
        match parse_stream(self.identity, bytes, FRAME_MAX_BYTES) {
            StreamFrame::Missing(_) => Ok(None),
            StreamFrame::Invalid => Err(StreamError::Damaged),
            StreamFrame::Whole { kind, number, now_ms, payload, len } => {
                let is_history = matches!(kind, Kind::Requests | Kind::Flush | Kind::Time);
                let is_copy = matches!(kind, Kind::CopyBegin | Kind::Copy | Kind::CopyEnd);
                let expected = match (is_history, is_copy) {
                    (true, _) => &mut self.number,
                    (_, true) => &mut self.copy_number,
                    _ => return Err(StreamError::Damaged),
                };
                if number != *expected {
                    return Err(StreamError::OutOfOrder);
                }
                *expected += 1;
                self.done += len;
                Ok(Some(ReceivedFrame {
                    kind,
                    now_ms,
                    payload: payload.to_vec(),
                    history_bytes: if is_history { len as u64 } else { 0 },
                }))
            }
        }
    }
}

/// The identity of frames in the history with this id, 40 hexadecimal digits.
pub(super) fn identity(id: &str) -> Option<[u8; 8]> {
    let digits = id.as_bytes();
    if digits.len() != 40 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut identity = [0; 8];
    for (byte, at) in identity.iter_mut().zip((0..16).step_by(2)) {
        *byte = u8::from_str_radix(&id[at..at + 2], 16).ok()?;
    }
    Some(identity)
}
