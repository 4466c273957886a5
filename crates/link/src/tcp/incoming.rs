//! What comes from a connection. No I/O.
//!
//! Bytes are read into a buffer and taken apart there. Of a long payload, what is still to come is
//! read to where it belongs, without going through the buffer.

use super::core::{Core, Sink};
use super::frame::{HEADER_BYTES, Header};
use crate::verbs::Cause;
use crate::window::Window;

/// The buffer's length in bytes.
const BUFFER_BYTES: usize = 128 << 10;
/// From this length on, what is left of a payload is read to where it belongs.
const DIRECT_BYTES: usize = 4 << 10;

/// The buffer, and how far it has been taken apart.
pub(crate) struct Incoming {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    state: State,
}

enum State {
    /// A header comes next.
    Header,
    /// `left` bytes of a payload come next. Of messages, `at` is how much of the one that has
    /// begun is there, and `target` where it goes.
    Payload {
        sink: Sink,
        left: usize,
        at: usize,
        target: Target,
    },
    /// Nothing is looked at any more.
    Stopped,
}

/// Where a message that has begun goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// To be received later.
    Inbox,
    /// To the memory that waits the longest, where it fits.
    Waiting,
    /// Nowhere: the memory that waits is too short.
    Nowhere,
}

/// Where the next bytes may be put.
pub(crate) enum Place<'a> {
    /// Memory of this process alone.
    Bytes(&'a mut [u8]),
    /// Memory that others may look at meanwhile.
    Shared(Window),
    /// Nowhere but in the buffer.
    Buffer,
}

impl Place<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Shared(window) => window.len(),
            Self::Buffer => 0,
        }
    }
}

impl Incoming {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            state: State::Header,
        }
    }

    pub(crate) fn stop(&mut self) {
        self.state = State::Stopped;
        (self.start, self.end) = (0, 0);
    }

    /// The next `len` bytes of the buffer, or what there is.
    fn next(&self, len: usize) -> &[u8] {
        &self.buffer[self.start..self.end.min(self.start + len)]
    }
}

impl Core {
    /// Where the next bytes go: first to the place, what is more to the buffer.
    pub(crate) fn room(&mut self) -> (Place<'_>, &mut [u8]) {
        let incoming = &mut self.incoming;
        if incoming.start == incoming.end {
            (incoming.start, incoming.end) = (0, 0);
        } else if incoming.buffer.len() - incoming.end < HEADER_BYTES {
            // Only a part of a header is ever left.
            incoming.buffer.copy_within(incoming.start..incoming.end, 0);
            incoming.end -= incoming.start;
            incoming.start = 0;
        }
        let place = match &mut incoming.state {
            State::Payload { left, .. } if *left < DIRECT_BYTES || incoming.end > 0 => {
                Place::Buffer
            }
            State::Payload {
                sink,
                left,
                at,
                target,
            } => match sink {
                Sink::Write { window, .. } => Place::Shared(*window),
                Sink::Read => {
                    let into = &mut self.reads[0].destination;
                    let from = into.len() - *left;
                    Place::Bytes(&mut into[from..])
                }
                Sink::Messages { each } if *target == Target::Waiting => {
                    Place::Bytes(&mut self.receives[0].destination[*at..*each])
                }
                Sink::Messages { .. } | Sink::Nowhere => Place::Buffer,
            },
            State::Header | State::Stopped => Place::Buffer,
        };
        (place, &mut incoming.buffer[incoming.end..])
    }

    /// `direct` bytes have come to the place of [`Core::room`], and then `buffered` to the buffer.
    ///
    /// # Errors
    /// The peer broke the protocol.
    pub(crate) fn came(&mut self, direct: usize, buffered: usize) -> Result<(), Cause> {
        if direct > 0 {
            self.placed(direct);
        }
        self.incoming.end += buffered;
        while self.step()? {}
        self.settle();
        Ok(())
    }

    /// Bytes of the payload have come to where they belong.
    fn placed(&mut self, count: usize) {
        let State::Payload { sink, left, at, .. } = &mut self.incoming.state else {
            return;
        };
        *left -= count;
        *at += count;
        if let Sink::Write { window, .. } = sink {
            let rest = window.part(count, window.len() - count);
            *window = rest.expect("no more than there was room for");
        }
        self.finish();
    }

    /// Takes one thing apart; whether there may be more.
    fn step(&mut self) -> Result<bool, Cause> {
        let incoming = &mut self.incoming;
        match &incoming.state {
            State::Stopped => {
                (incoming.start, incoming.end) = (0, 0);
                Ok(false)
            }
            State::Header => {
                let Some(bytes) = incoming.next(HEADER_BYTES).first_chunk() else {
                    return Ok(false);
                };
                let header = Header::parse(bytes);
                incoming.start += HEADER_BYTES;
                let header = header.map_err(|error| Cause::Protocol(error.to_string()))?;
                if let Some(sink) = self.handle(header)? {
                    let left = header.payload_bytes() as usize;
                    let target = self.target(&sink);
                    let at = 0;
                    self.incoming.state = State::Payload {
                        sink,
                        left,
                        at,
                        target,
                    };
                }
                Ok(true)
            }
            State::Payload { .. } if incoming.start == incoming.end => Ok(false),
            State::Payload { .. } => {
                self.payload();
                Ok(true)
            }
        }
    }

    /// Where the next message goes.
    fn target(&self, sink: &Sink) -> Target {
        let Sink::Messages { each } = sink else {
            return Target::Inbox;
        };
        match self.receives.front() {
            Some(receive) if receive.destination.len() >= *each => Target::Waiting,
            Some(_) => Target::Nowhere,
            None => Target::Inbox,
        }
    }

    /// Moves what the buffer has of a payload to where it belongs.
    fn payload(&mut self) {
        let incoming = &mut self.incoming;
        let State::Payload {
            sink,
            left,
            at,
            target,
        } = &mut incoming.state
        else {
            return;
        };
        let most = match (&*sink, *target) {
            // Each by itself, because the next may go elsewhere.
            (Sink::Messages { each }, Target::Waiting | Target::Nowhere) => *each - *at,
            // One that has begun may be waited for by now; whole ones are moved together.
            (Sink::Messages { each }, Target::Inbox) if *at > 0 => *each - *at,
            _ => *left,
        };
        let end = incoming.end.min(incoming.start + most);
        let bytes = &incoming.buffer[incoming.start..end];
        let count = bytes.len();
        match sink {
            Sink::Nowhere => {}
            Sink::Read => {
                let into = &mut self.reads[0].destination;
                let from = into.len() - *left;
                into[from..from + count].copy_from_slice(bytes);
            }
            Sink::Write { window, .. } => {
                window.copy_in(0, bytes).expect("no longer than the range");
            }
            Sink::Messages { each } => match target {
                Target::Inbox => {
                    self.arrived.push(*each, bytes);
                }
                Target::Waiting => {
                    self.receives[0].destination[*at..*at + count].copy_from_slice(bytes);
                }
                Target::Nowhere => {}
            },
        }
        incoming.start = end;
        self.placed(count);
    }

    /// What is complete is handed over.
    fn finish(&mut self) {
        let State::Payload {
            sink,
            left,
            at,
            target,
        } = &mut self.incoming.state
        else {
            return;
        };
        let (left, before) = (*left, *target);
        match sink {
            Sink::Messages { each } => {
                let each = *each;
                if *at < each {
                    return;
                }
                // In the inbox there may be several, and the beginning of one more.
                *at %= each;
                match before {
                    Target::Inbox => self.match_receives(),
                    Target::Waiting | Target::Nowhere => self.receive_done(each),
                }
                self.retarget();
            }
            Sink::Read if left == 0 => self.read_done(),
            Sink::Write { .. } if left == 0 => self.write_done(),
            Sink::Read | Sink::Write { .. } | Sink::Nowhere => {}
        }
        if left == 0
            && let State::Payload { .. } = self.incoming.state
        {
            self.incoming.state = State::Header;
        }
    }

    /// Where the message after the last one goes, if none has begun.
    fn retarget(&mut self) {
        let State::Payload { sink, at: 0, .. } = &self.incoming.state else {
            return;
        };
        let next = self.target(sink);
        if let State::Payload { target, .. } = &mut self.incoming.state {
            *target = next;
        }
    }

    /// Memory has begun to wait: a message of which nothing is there yet may go to it.
    pub(crate) fn waits(&mut self) {
        self.match_receives();
        self.retarget();
        // What was here already is received now, and nothing may come before the peer knows.
        self.settle();
    }
}
