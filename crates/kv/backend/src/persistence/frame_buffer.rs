//! Frames that are being made, before they are written or sent.

use super::frame::{FrameWriter, Kind};

/// A payload longer than this begins another frame, except within a transaction.
const FRAME_BYTES: usize = 1 << 20;

/// Gathers requests into frames.
#[derive(Debug)]
pub(crate) struct FrameBuffer {
    pub writer: FrameWriter,
    /// Whole frames.
    queue: Vec<u8>,
    /// Requests for the next frame, and when they were executed.
    payload: Vec<u8>,
    now_ms: u64,
}

impl FrameBuffer {
    /// Goes on behind the frames of `queue`.
    pub(crate) fn new(writer: FrameWriter, queue: Vec<u8>, now_ms: u64) -> Self {
        Self { writer, queue, payload: Vec::new(), now_ms }
    }

    /// Returns the time at which the last requests were executed, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the buffer to which requests executed at `now_ms` must be appended.
    pub(crate) fn payload(&mut self, now_ms: u64) -> &mut Vec<u8> {
        if now_ms != self.now_ms || self.payload.len() > FRAME_BYTES {
            self.end_frame();
        }
        self.now_ms = now_ms;
        &mut self.payload
    }

    fn end_frame(&mut self) {
        if !self.payload.is_empty() {
            let payload = &self.payload;
            (self.writer).append(Kind::Requests, self.now_ms, payload, &mut self.queue);
            self.payload.clear();
        }
    }

    /// Adds a frame without requests.
    pub(crate) fn mark(&mut self, kind: Kind, now_ms: u64) {
        self.end_frame();
        self.writer.append(kind, now_ms, &[], &mut self.queue);
    }

    /// Adds a frame without requests, at the time of the last ones.
    pub(crate) fn mark_now(&mut self, kind: Kind) {
        self.mark(kind, self.now_ms);
    }

    /// Adds a frame whose payload is made of these parts, of any length.
    pub(crate) fn add(&mut self, kind: Kind, now_ms: u64, parts: &[&[u8]]) {
        self.end_frame();
        self.now_ms = now_ms;
        parts.iter().for_each(|part| self.payload.extend_from_slice(part));
        (self.writer).append(kind, now_ms, &self.payload, &mut self.queue);
        self.payload.clear();
    }

    /// Returns `true` if there are neither frames nor requests.
    pub(crate) fn is_empty(&self) -> bool {
        self.payload.is_empty() && self.queue.is_empty()
    }

    /// The whole buffer as frames.
    pub(crate) fn frames(&mut self) -> &[u8] {
        self.end_frame();
        &self.queue
    }

    /// Removes the frames that [`Self::frames`] returned.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        // Values of 64 MiB are rare.
        self.queue.shrink_to(2 * FRAME_BYTES);
        self.payload.shrink_to(2 * FRAME_BYTES);
    }
}
