//! Whole buffers by libraries with zlib's interface: each call of the library says how much it took
//! and made, and whether that was the stream's end.

use super::{LAST_BLOCK, MAX_LEN, ends_early, ends_with_source, no_room};
use crate::variant::{at_most, single, written};
use crate::{Error, Format, Kernel, Output};

/// Way in which a call ends its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// With what can be made of the source so far.
    Sync,
    /// So that what follows refers to nothing before it.
    Full,
    /// With the end of the stream.
    Finish,
}

/// Result of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes of the source that were taken.
    pub taken: usize,
    /// Bytes that were written to the destination.
    pub made: usize,
    /// The stream is at its end.
    pub ended: bool,
}

/// A compressor or decompressor with zlib's interface.
pub(super) trait Stream: Send {
    /// Begins another stream.
    fn reset(&mut self) -> Result<(), Error>;

    /// Goes on with at most [`MAX_LEN`] bytes of the source and of the destination. To stop for
    /// want of either is no error.
    fn step(&mut self, source: &[u8], room: &mut [u8], flush: Flush) -> Result<Progress, Error>;
}

/// Makes one stream a call.
pub(super) struct Compressor<S> {
    stream: S,
    /// The stream is not ended but flushed.
    part: bool,
}

impl<S: Stream> Compressor<S> {
    pub(super) fn new(stream: S, format: Format) -> Self {
        Self {
            stream,
            part: format == Format::DeflatePart,
        }
    }
}

impl<S: Stream> Kernel for Compressor<S> {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, MAX_LEN)?;
        let flush = if self.part {
            Flush::Full
        } else {
            Flush::Finish
        };
        self.stream.reset()?;
        let done = self.stream.step(source, destination, flush)?;
        // A flush is complete if it leaves room behind it (zlib.h, deflate).
        let has_room = done.made < destination.len().min(MAX_LEN);
        match done.ended || self.part && has_room {
            true => Ok(written(done.made)),
            // It stopped before the end, so it stopped for want of room.
            false => Err(no_room(destination.len())),
        }
    }
}

/// Takes one stream a call.
pub(super) struct Decompressor<S> {
    stream: S,
    /// The stream is not ended but flushed.
    part: bool,
}

impl<S: Stream> Decompressor<S> {
    pub(super) fn new(stream: S, format: Format) -> Self {
        Self {
            stream,
            part: format == Format::DeflatePart,
        }
    }

    /// Returns `true` if the decompressor, after it has taken all of its source, would accept a
    /// stream's last block now and nothing else before it.
    fn is_between_blocks(&mut self) -> bool {
        let end = (self.stream).step(&LAST_BLOCK, &mut [0; 1], Flush::Sync);
        let expected = Progress {
            taken: LAST_BLOCK.len(),
            made: 0,
            ended: true,
        };
        end == Ok(expected)
    }
}

impl<S: Stream> Kernel for Decompressor<S> {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, MAX_LEN)?;
        self.stream.reset()?;
        let done = self.stream.step(source, destination, Flush::Finish)?;
        let rest = &source[done.taken..];
        if done.ended {
            ends_with_source(rest.len())?;
            return match self.part {
                true => Err(Error::Corrupt("one of its blocks is the last one".into())),
                false => Ok(written(done.made)),
            };
        }
        // It stopped for want of room if it goes on with a byte more.
        let more = self.stream.step(rest, &mut [0; 1], Flush::Sync)?;
        if more.made > 0 {
            Err(no_room(destination.len()))
        } else if self.part && self.is_between_blocks() {
            Ok(written(done.made))
        } else {
            Err(ends_early())
        }
    }
}
