//! Items in, bytes out.

use std::collections::VecDeque;
use std::io::IoSlice;

use overside_device::{Region, Slice, Source};

use super::frame::{HEADER, numbered};
use super::{AnswerHead, Frame, JobHead, Usage};
use crate::codec::Message;

/// The longest head of a frame that comes once a job.
const HEAD: usize = HEADER + AnswerHead::BYTES;

enum Chunk {
    Head {
        bytes: [u8; HEAD],
        len: u8,
    },
    Text(Vec<u8>),
    Slice(Slice),
    /// The first bytes of a region.
    Region(Region, usize),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Head { bytes, len } => &bytes[..usize::from(*len)],
            Self::Text(text) => text,
            Self::Slice(slice) => slice,
            Self::Region(region, len) => &region[..*len],
        }
    }
}

/// Queue of the bytes to be sent, in order. Sources and results of jobs are not copied: they stay
/// in their own memory until they have been sent.
#[derive(Default)]
pub struct Outbox {
    chunks: VecDeque<Chunk>,
    /// Bytes of the first one that have been sent.
    sent: usize,
}

impl Outbox {
    /// Returns `true` if nothing is left to be sent.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the number of pieces that have not been sent completely.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Adds a request or a reply.
    pub fn control(&mut self, message: &impl Message) {
        self.frame(super::control(message));
    }

    /// Adds a frame that is whole.
    pub fn frame(&mut self, frame: Vec<u8>) {
        self.chunks.push_back(Chunk::Text(frame));
    }

    /// Adds a job with its source.
    pub fn job(&mut self, head: JobHead, source: &Source) {
        self.head(&head.encode(source.len()));
        let filled = source.segments().iter().filter(|slice| !slice.is_empty());
        self.chunks.extend(filled.map(|slice| Chunk::Slice(slice.clone())));
    }

    /// Adds an answer with the beginning of a destination, `len` bytes of it.
    pub fn result(&mut self, head: AnswerHead, destination: Region, len: usize) {
        self.head(&head.encode(len));
        self.chunks.push_back(Chunk::Region(destination, len));
    }

    /// Adds an answer with a text.
    pub fn failure(&mut self, head: AnswerHead, text: &str) {
        self.head(&head.encode(text.len()));
        if !text.is_empty() {
            self.chunks.push_back(Chunk::Text(text.into()));
        }
    }

    /// Adds a report of CPU time.
    pub fn usage(&mut self, usage: Usage) {
        self.head(&usage.encode());
    }

    /// Adds a ping.
    pub fn ping(&mut self, number: u64) {
        self.head(&numbered(Frame::Ping, number));
    }

    /// Adds a pong.
    pub fn pong(&mut self, number: u64) {
        self.head(&numbered(Frame::Pong, number));
    }

    /// Fills `pieces` with the next bytes to send. Returns the number of pieces.
    pub fn gather<'a>(&'a self, pieces: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.sent;
        let count = pieces.len().min(self.chunks.len());
        for (piece, chunk) in pieces.iter_mut().zip(&self.chunks) {
            *piece = IoSlice::new(&chunk.bytes()[skip..]);
            skip = 0;
        }
        count
    }

    /// Removes `count` bytes that were sent. Regions that were sent completely are passed to
    /// `spent`.
    pub fn advance(&mut self, mut count: usize, mut spent: impl FnMut(Region)) {
        while let Some(first) = self.chunks.front() {
            let left = first.bytes().len() - self.sent;
            if count < left {
                self.sent += count;
                return;
            }
            count -= left;
            self.sent = 0;
            if let Some(Chunk::Region(region, _)) = self.chunks.pop_front() {
                spent(region);
            }
        }
        debug_assert_eq!(count, 0, "more was sent than there was");
    }

    fn head(&mut self, from: &[u8]) {
        let mut bytes = [0; HEAD];
        bytes[..from.len()].copy_from_slice(from);
        let len = from.len() as u8;
        self.chunks.push_back(Chunk::Head { bytes, len });
    }
}
