//! Parser of compressed streams. It finds where members begin and end, and decides if the targets
//! or the caller's thread decompress them.

mod deflate;
mod frames;

use std::io::Write;

use overside_device::Slice;
use overside_ops::{Step, lz4_frame};
use overside_placement::Buffer;

use super::parallel::ParallelDecoder;
use super::streaming::{Progress, StreamingDecoder};
use crate::error::MemberPosition;
use crate::gzip::{self, Sizes};
use crate::output::Output;
use crate::{Container, Error, GzipOriginal, Options, Summary, TrailingData, lz4};

/// Number of bytes that are enough to identify any of the formats.
const MAGIC_BYTES: usize = 4;

/// Result of one step of the parser.
pub(super) enum ParseStep {
    /// This number of bytes was taken; call again with more input.
    Consumed(usize),
    /// This number of the bytes taken before must be parsed again; call again.
    PutBack(usize),
    /// This number of bytes is needed at once, counted from the first that was not taken.
    Needs(usize),
    /// The input has ended.
    End,
}

/// Position of the parser in the stream.
enum ParserState {
    /// Before a member or a frame, or at the end of the input.
    Between,
    /// Inside a skippable frame, with this number of bytes left.
    Skipping(u64),
    /// Inside a stream that is streamed.
    Streaming,
    /// Behind such a stream, before its checksum.
    Trailer,
    /// Between two independent blocks of an LZ4 frame.
    Blocks(lz4_frame::Header),
    /// Behind the last member.
    Ignoring(TrailingData),
}

/// Takes a compressed stream apart.
pub(super) struct Parser<W: Write> {
    options: Options,
    output: Output<W>,
    parallel: ParallelDecoder,
    streaming: Option<StreamingDecoder>,
    state: ParserState,
    container: Option<Container>,
    /// Positions in the input in bytes: the beginning of the current member, and the end of the
    /// input taken so far.
    begin: u64,
    offset: u64,
    members: u64,
    stored: u64,
    streamed: u64,
    original: Option<GzipOriginal>,
    /// Lengths from the header of the gzip member that is being streamed, if it declares them.
    sizes: Option<Sizes>,
}

impl<W: Write> Parser<W> {
    pub(super) fn new(output: Output<W>, options: &Options) -> Self {
        Self {
            container: options.container,
            options: options.clone(),
            output,
            parallel: ParallelDecoder::default(),
            streaming: None,
            state: ParserState::Between,
            begin: 0,
            offset: 0,
            members: 0,
            stored: 0,
            streamed: 0,
            original: None,
            sizes: None,
        }
    }

    /// Parses `bytes` from `at` on, as far as possible. `last`: no more will come.
    pub(super) fn next(
        &mut self,
        bytes: &Slice,
        at: usize,
        last: bool,
    ) -> Result<ParseStep, Error> {
        if at == bytes.len() && last {
            self.end()?;
            return Ok(ParseStep::End);
        }
        let next = match &mut self.state {
            ParserState::Between => self.between(bytes, at, last)?,
            ParserState::Skipping(left) => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
                *left -= len as u64;
                if *left == 0 {
                    self.state = ParserState::Between;
                }
                consumed_or_needs(len)
            }
            ParserState::Streaming => self.stream(&bytes[at..])?,
            ParserState::Trailer => self.trailer(&bytes[at..])?,
            ParserState::Blocks(header) => {
                let header = *header;
                self.block(header, bytes, at)?
            }
            ParserState::Ignoring(ignored) => {
                let rest = &bytes[at..];
                ignored.bytes += rest.len() as u64;
                ignored.padding &= rest.iter().all(|byte| *byte == 0);
                consumed_or_needs(rest.len())
            }
        };
        match next {
            ParseStep::Consumed(len) => self.offset += len as u64,
            ParseStep::PutBack(len) => self.offset = self.offset.saturating_sub(len as u64),
            ParseStep::Needs(wanted) if last && wanted > bytes.len() - at => {
                let place = self.place();
                self.salvage(&bytes[at..])?;
                return Err(Error::Truncated { place });
            }
            ParseStep::Needs(_) | ParseStep::End => {}
        }
        Ok(next)
    }

    /// Checks that the stream is complete at the end of the input.
    fn end(&self) -> Result<(), Error> {
        match self.state {
            ParserState::Ignoring(_) => Ok(()),
            ParserState::Between if self.offset > 0 => Ok(()),
            ParserState::Between => Err(Error::Empty),
            _ => Err(Error::Truncated { place: self.place() }),
        }
    }

    /// Parses the beginning of a member, or bytes behind the last one.
    fn between(&mut self, bytes: &Slice, at: usize, last: bool) -> Result<ParseStep, Error> {
        self.begin = self.offset;
        let rest = &bytes[at..];
        let Some(container) = self.container else {
            return self.recognize(rest, last);
        };
        if rest.len() < MAGIC_BYTES && !last {
            return Ok(ParseStep::Needs(MAGIC_BYTES));
        }
        match container {
            Container::Gzip => self.gzip(bytes, at),
            Container::Zlib => self.zlib(rest),
            Container::Lz4 => self.lz4(rest),
            Container::Zstd => self.zstd(bytes, at),
        }
    }

    /// Detects the format of the input.
    fn recognize(&mut self, rest: &[u8], last: bool) -> Result<ParseStep, Error> {
        if rest.len() < MAGIC_BYTES && !last {
            return Ok(ParseStep::Needs(MAGIC_BYTES));
        }
        if lz4::begins_skippable(rest) {
            return Ok(self.skip(rest));
        }
        self.container = Some(Container::detect(rest).ok_or(Error::Unrecognized)?);
        Ok(ParseStep::Consumed(0))
    }

    /// Skips a skippable frame, which begins here.
    fn skip(&mut self, rest: &[u8]) -> ParseStep {
        match lz4::skippable_bytes(rest) {
            Some(len) => {
                self.state = ParserState::Skipping(len);
                ParseStep::Consumed(0)
            }
            None => ParseStep::Needs(lz4::SKIPPABLE_HEADER_BYTES),
        }
    }

    /// Begins to ignore trailing data.
    fn ignore(&mut self) -> ParseStep {
        self.state = ParserState::Ignoring(TrailingData { bytes: 0, padding: true });
        ParseStep::Consumed(0)
    }

    /// Starts decompressing a stream in pieces. Pending work of the targets is finished first.
    fn begin_streaming(&mut self, container: Container) -> Result<(), Error> {
        self.emit_all()?;
        let decoder = match &mut self.streaming {
            Some(decoder) => decoder,
            none => none.insert(StreamingDecoder::new(container)?),
        };
        decoder.begin()?;
        self.state = ParserState::Streaming;
        Ok(())
    }

    fn stream(&mut self, rest: &[u8]) -> Result<ParseStep, Error> {
        let place = self.place();
        let decoder = self.streaming.as_mut().ok_or(Error::Spent)?;
        match decoder.decode(rest, &mut self.output)? {
            Ok(Progress::Took(len)) => Ok(consumed_or_needs(len)),
            Ok(Progress::Ended(taken, unread)) => {
                self.state = match place.container {
                    Container::Gzip | Container::Zlib => ParserState::Trailer,
                    Container::Lz4 | Container::Zstd => {
                        self.members += 1;
                        self.streamed += 1;
                        ParserState::Between
                    }
                };
                Ok(match taken.checked_sub(unread) {
                    Some(len) => ParseStep::Consumed(len),
                    None => ParseStep::PutBack(unread - taken),
                })
            }
            Err(overside_ops::Error::Corrupt(reason)) => Err(place.corrupt(reason)),
            Err(error) => Err(error.into()),
        }
    }

    /// Decompresses as much as possible of a member whose end is missing, as gzip and zstd do. The
    /// caller gets an error that it is not whole.
    fn salvage(&mut self, rest: &[u8]) -> Result<(), Error> {
        let header_bytes = match (&self.state, self.container) {
            (ParserState::Between, Some(Container::Gzip)) => match gzip::Header::parse(rest) {
                Ok(Some(header)) => header.len,
                _ => return Ok(()),
            },
            (ParserState::Between, Some(Container::Zstd)) => 0,
            _ => return Ok(()),
        };
        let container = self.container.unwrap_or(Container::Gzip);
        self.begin_streaming(container)?;
        let decoder = self.streaming.as_mut().ok_or(Error::Spent)?;
        // A mistake in what is there ends it as well.
        let _ = decoder.decode(&rest[header_bytes..], &mut self.output)?;
        Ok(())
    }

    /// Returns the position of this member.
    fn place(&self) -> MemberPosition {
        MemberPosition {
            container: self.container.unwrap_or(Container::Gzip),
            member: self.members + 1,
            offset: self.begin,
        }
    }

    /// Returns the number of the last taken bytes that the parser may read again.
    pub(super) fn looks_back(&self) -> usize {
        match self.state {
            ParserState::Streaming => Step::MAX_UNREAD,
            _ => 0,
        }
    }

    /// The length of the buffers that the targets reach, if there are targets.
    pub(super) fn room_bytes(&self) -> Option<usize> {
        self.parallel.room_bytes()
    }

    pub(super) fn buffer(&mut self) -> Result<Option<Buffer>, Error> {
        self.parallel.buffer(&mut self.output)
    }

    /// Writes everything that the targets have.
    pub(super) fn emit_all(&mut self) -> Result<(), Error> {
        self.parallel.emit_all(&mut self.output)
    }

    pub(super) fn container(&self) -> Option<Container> {
        self.container
    }

    pub(super) fn written(&self) -> u64 {
        self.output.written()
    }

    pub(super) fn output(&mut self) -> &mut Output<W> {
        &mut self.output
    }

    pub(super) fn finish(mut self, bytes_in: u64) -> Result<(W, Summary), Error> {
        let summary = Summary {
            // Frames to be skipped, and no other, are Zstandard's as well as LZ4's.
            container: self.container.unwrap_or(Container::Zstd),
            bytes_in,
            bytes_out: self.output.written(),
            members: self.members,
            stored: self.stored,
            streamed: self.streamed,
            in_flight_bytes_max: None,
            joining: None,
            ignored: match self.state {
                ParserState::Ignoring(ignored) => Some(ignored),
                _ => None,
            },
            original: self.original,
            report: self.parallel.close(),
        };
        Ok((self.output.into_inner(), summary))
    }
}

/// Returns `Consumed` for bytes that were taken, or `Needs` if there were none.
fn consumed_or_needs(len: usize) -> ParseStep {
    match len {
        0 => ParseStep::Needs(1),
        len => ParseStep::Consumed(len),
    }
}
