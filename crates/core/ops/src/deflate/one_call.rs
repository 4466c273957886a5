//! Whole buffers by libraries with zlib's interface: each call of the library reports the bytes it
//! took and wrote, and `true` if the stream ended.

use super::{LAST_BLOCK, MAX_LEN, ends_early, ends_with_source, no_room};
use crate::variant::{at_most, single, written};
use crate::{Error, Format, Kernel, Output};

/// Kind of end of a call's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// Writes all output for the source so far.
    Sync,
    /// Likewise, and later output refers to nothing before it.
    Full,
    /// Ends the stream.
    Finish,
}

/// Result of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of bytes of the source that were taken.
    pub taken: usize,
    /// Number of bytes that were written to the destination.
    pub made: usize,
    /// `true` if the stream has ended.
    pub ended: bool,
}

/// A compressor or decompressor with zlib's interface.
pub(super) trait Stream: Send {
    /// Starts another stream.
    fn reset(&mut self) -> Result<(), Error>;

    /// Continues with at most [`MAX_LEN`] bytes of the source and of the destination. Running out
    /// of either is no error.
    fn step(&mut self, source: &[u8], room: &mut [u8], flush: Flush) -> Result<Progress, Error>;
}

/// Compressor that writes one stream per call.
pub(super) struct Compressor<S> {
    stream: S,
    /// `true` if the stream is flushed instead of ended.
    part: bool,
}

impl<S: Stream> Compressor<S> {
    pub(super) fn new(stream: S, format: Format) -> Self {
        Self { stream, part: format == Format::DeflatePart }
    }
}

impl<S: Stream> Kernel for Compressor<S> {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, MAX_LEN)?;
        let flush = if self.part { Flush::Full } else { Flush::Finish };
        self.stream.reset()?;
        let done = self.stream.step(source, destination, flush)?;
        // A flush is complete if it leaves room behind it (zlib.h, deflate).
        let has_room = done.made < destination.len().min(MAX_LEN);
        match done.ended || self.part && has_room {
            true => Ok(written(done.made)),
            // It stopped before the end, so the destination was too short.
            false => Err(no_room(destination.len())),
        }
    }
}

/// Decompressor that takes one stream per call.
pub(super) struct Decompressor<S> {
    stream: S,
    /// `true` if the stream is flushed instead of ended.
    part: bool,
}

impl<S: Stream> Decompressor<S> {
    pub(super) fn new(stream: S, format: Format) -> Self {
        Self { stream, part: format == Format::DeflatePart }
    }

    /// Returns `true` if the decompressor has taken all of its source and is between two blocks.
    fn is_between_blocks(&mut self) -> bool {
        let end = (self.stream).step(&LAST_BLOCK, &mut [0; 1], Flush::Sync);
        let expected = Progress { taken: LAST_BLOCK.len(), made: 0, ended: true };
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
        // If one byte more of room lets it continue, the destination was too short.
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
