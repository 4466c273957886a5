//! Bytes in, items out.

use super::frame::{HEADER, word};
use super::{AnswerHead, Frame, JobHead, Usage, Violation};

/// Size of the read buffer in bytes. Only a message that is longer enlarges it for a while.
const BUFFER: usize = 64 << 10;

/// Side of the connection that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Gets replies, answers, reports, pongs and a probe's answers.
    Host,
    /// Reads requests, jobs, pings and a probe's requests.
    Agent,
}

impl Side {
    fn gets(self, frame: Frame) -> bool {
        match self {
            Self::Host => matches!(
                frame,
                Frame::Control | Frame::Answer | Frame::Usage | Frame::Pong | Frame::Probe
            ),
            Self::Agent => {
                matches!(frame, Frame::Control | Frame::Job | Frame::Ping | Frame::Probe)
            }
        }
    }
}

/// Item that a [`Reader`] has read from the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Encoded request or reply.
    Control(Vec<u8>),
    /// A job. Its source of that many bytes comes next: [`Reader::body`].
    Job(JobHead, usize),
    /// An answer. That many bytes of it come next: [`Reader::body`].
    Answer(AnswerHead, usize),
    /// CPU time.
    Usage(Usage),
    /// Ping that must be answered.
    Ping(u64),
    /// The answer.
    Pong(u64),
    /// Request of a probe or its answer.
    Probe(Vec<u8>),
}

/// Parser of a stream. The driver puts bytes into [`Reader::room`], reports their number to
/// [`Reader::filled`], and fetches items with [`Reader::item`] until there is none. The bytes of a job or an
/// answer are not stored here: the driver takes the available bytes with [`Reader::body`], and may read the
/// rest directly to its destination ([`Reader::body_passed_by`]).
#[derive(Debug)]
pub struct Reader {
    side: Side,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    body_left: usize,
}

impl Reader {
    /// Makes a reader for one side of a connection.
    pub fn new(side: Side) -> Self {
        Self { side, buffer: vec![0; BUFFER], start: 0, end: 0, body_left: 0 }
    }

    /// Returns the free part of the buffer, which is never empty. The driver puts the next bytes
    /// there.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            // A long message is over: its memory goes.
            if self.buffer.len() > BUFFER {
                self.buffer = vec![0; BUFFER];
            }
        }
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            // Only a message can be longer than the buffer, and is bounded. The buffer grows as
            // bytes come, not as a length says.
            self.buffer.resize(self.end * 2, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Memory for incoming bytes, in bytes.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Records that the driver put `count` bytes into [`Reader::room`].
    ///
    /// # Panics
    /// If there was no room for as many.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.end, "more than there was room for");
        self.end += count;
    }

    /// Returns the next item, once all of it (but for its body) has been received.
    ///
    /// # Errors
    /// [`Violation`]; nothing that comes afterwards means anything.
    pub fn item(&mut self) -> Result<Option<Item>, Violation> {
        if self.body_left > 0 {
            return Ok(None);
        }
        let there = &self.buffer[self.start..self.end];
        let Some((header, rest)) = there.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let (frame, len) = Frame::parse(*header)?;
        if !self.side.gets(frame) {
            return Err(Violation::Kind(frame as u8));
        }
        let (item, taken) = match frame {
            Frame::Job => {
                let Some((head, _)) = rest.split_first_chunk() else {
                    return Ok(None);
                };
                self.body_left = len - JobHead::BYTES;
                let head = JobHead::parse(head)?;
                (Item::Job(head, self.body_left), JobHead::BYTES)
            }
            Frame::Answer => {
                let Some((head, _)) = rest.split_first_chunk() else {
                    return Ok(None);
                };
                self.body_left = len - AnswerHead::BYTES;
                let head = AnswerHead::parse(head, self.body_left)?;
                (Item::Answer(head, self.body_left), AnswerHead::BYTES)
            }
            _ if rest.len() < len => return Ok(None),
            Frame::Control => (Item::Control(rest[..len].to_vec()), len),
            Frame::Usage => {
                let Some((fields, _)) = rest.split_first_chunk() else {
                    return Ok(None);
                };
                (Item::Usage(Usage::parse(fields)), len)
            }
            Frame::Ping => (Item::Ping(word(rest, 0)), len),
            Frame::Pong => (Item::Pong(word(rest, 0)), len),
            Frame::Probe => (Item::Probe(rest[..len].to_vec()), len),
        };
        self.start += HEADER + taken;
        Ok(Some(item))
    }

    /// Bytes of the current job or answer that have not been taken.
    pub fn body_left(&self) -> usize {
        self.body_left
    }

    /// Copies bytes of the body that have arrived, as many as fit. Returns their number.
    pub fn body(&mut self, into: &mut [u8]) -> usize {
        let count = self.here().min(into.len());
        into[..count].copy_from_slice(&self.buffer[self.start..self.start + count]);
        self.take(count);
        count
    }

    /// Throws bytes of the body away that are here already.
    pub fn drop_body(&mut self) {
        self.take(self.here());
    }

    /// Returns `true` if the driver can read bytes of the body without this buffer: some are still
    /// to come and none are in the buffer.
    pub fn can_pass_by(&self) -> bool {
        self.body_left > 0 && self.start == self.end
    }

    /// Records that the driver read `count` bytes of the body without this buffer.
    ///
    /// # Panics
    /// If that is more than there are.
    pub fn body_passed_by(&mut self, count: usize) {
        assert!(self.can_pass_by() && count <= self.body_left, "not of this body");
        self.body_left -= count;
    }

    /// Returns `true` in the middle of a frame, of which more bytes have to arrive.
    pub fn is_mid_frame(&self) -> bool {
        self.body_left > 0 || self.start < self.end
    }

    fn here(&self) -> usize {
        self.body_left.min(self.end - self.start)
    }

    fn take(&mut self, count: usize) {
        self.start += count;
        self.body_left -= count;
    }
}
