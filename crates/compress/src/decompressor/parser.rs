//! Where members begin and end, and who decompresses them.

mod deflate;
mod frames;

use std::io::Write;

use overside_device::Slice;
use overside_ops::{Step, lz4_frame};
use overside_placement::Buffer;

use super::parallel::{Parallel, Place};
use super::pieces::{Pieces, Progress};
use crate::output::Output;
use crate::{Container, Error, Ignored, Options, Original, Summary, lz4};

/// How many bytes tell every format from the others.
const MAGIC_BYTES: usize = 4;

/// What became of the bytes at hand.
pub(super) enum Next {
    /// So many were taken; come again.
    Took(usize),
    /// So many that were taken before are to be looked at again; come again.
    TookBack(usize),
    /// So many are needed at once, counted from the first that was not taken.
    Wants(usize),
    /// The input is over.
    End,
}

/// Where the stream is.
enum State {
    /// Before a member or a frame, or at the end.
    Between,
    /// Inside a skippable frame, with so many bytes to go.
    Skipping(u64),
    /// Inside a stream that is decompressed in pieces.
    InPieces,
    /// Behind such a stream, before its checksum.
    Trailer,
    /// Between two independent blocks of an LZ4 frame.
    Blocks(lz4_frame::Header),
    /// Behind the last member.
    Ignoring(Ignored),
}

/// Takes a compressed stream apart.
pub(super) struct Parser<W: Write> {
    options: Options,
    output: Output<W>,
    parallel: Parallel,
    pieces: Option<Pieces>,
    state: State,
    container: Option<Container>,
    /// Where the current member begins, and how far the input has been taken, in bytes.
    begin: u64,
    offset: u64,
    members: u64,
    stored: u64,
    in_pieces: u64,
    original: Option<Original>,
}

impl<W: Write> Parser<W> {
    pub(super) fn new(output: Output<W>, options: &Options) -> Self {
        Self {
            container: options.container,
            options: options.clone(),
            output,
            parallel: Parallel::default(),
            pieces: None,
            state: State::Between,
            begin: 0,
            offset: 0,
            members: 0,
            stored: 0,
            in_pieces: 0,
            original: None,
        }
    }

    /// Takes what it can of `bytes` from `at` on. `last`: no more will come.
    pub(super) fn next(&mut self, bytes: &Slice, at: usize, last: bool) -> Result<Next, Error> {
        if at == bytes.len() && last {
            self.end()?;
            return Ok(Next::End);
        }
        let next = match &mut self.state {
            State::Between => self.between(bytes, at, last)?,
            State::Skipping(left) => {
                let len = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len() - at);
                *left -= len as u64;
                if *left == 0 {
                    self.state = State::Between;
                }
                took_or_more(len)
            }
            State::InPieces => self.in_pieces(&bytes[at..])?,
            State::Trailer => self.trailer(&bytes[at..])?,
            State::Blocks(header) => {
                let header = *header;
                self.block(header, bytes, at)?
            }
            State::Ignoring(ignored) => {
                let rest = &bytes[at..];
                ignored.bytes += rest.len() as u64;
                ignored.padding &= rest.iter().all(|byte| *byte == 0);
                took_or_more(rest.len())
            }
        };
        match next {
            Next::Took(len) => self.offset += len as u64,
            Next::TookBack(len) => self.offset = self.offset.saturating_sub(len as u64),
            Next::Wants(wanted) if last && wanted > bytes.len() - at => {
                return Err(self.place().truncated());
            }
            Next::Wants(_) | Next::End => {}
        }
        Ok(next)
    }

    /// The input is over, and everything was taken.
    fn end(&self) -> Result<(), Error> {
        match self.state {
            State::Ignoring(_) => Ok(()),
            State::Between if self.offset > 0 => Ok(()),
            State::Between => Err(Error::Empty),
            _ => Err(self.place().truncated()),
        }
    }

    /// Before a member, or behind the last.
    fn between(&mut self, bytes: &Slice, at: usize, last: bool) -> Result<Next, Error> {
        self.begin = self.offset;
        let rest = &bytes[at..];
        let Some(container) = self.container else {
            return self.recognize(rest, last);
        };
        if rest.len() < MAGIC_BYTES && !last {
            return Ok(Next::Wants(MAGIC_BYTES));
        }
        match container {
            Container::Gzip => self.gzip(bytes, at),
            Container::Zlib => self.zlib(rest),
            Container::Lz4 => self.lz4(rest),
            Container::Zstd => self.zstd(bytes, at),
        }
    }

    /// Finds out what the input is.
    fn recognize(&mut self, rest: &[u8], last: bool) -> Result<Next, Error> {
        if rest.len() < MAGIC_BYTES && !last {
            return Ok(Next::Wants(MAGIC_BYTES));
        }
        if lz4::begins_skippable(rest) {
            return Ok(self.skip(rest));
        }
        self.container = Some(Container::detect(rest).ok_or(Error::Unrecognized)?);
        Ok(Next::Took(0))
    }

    /// Skips a skippable frame, which begins here.
    fn skip(&mut self, rest: &[u8]) -> Next {
        match lz4::skippable_bytes(rest) {
            Some(len) => {
                self.state = State::Skipping(len);
                Next::Took(0)
            }
            None => Next::Wants(lz4::SKIPPABLE_HEADER_BYTES),
        }
    }

    /// Begins to ignore what follows.
    fn ignore(&mut self) -> Next {
        self.state = State::Ignoring(Ignored {
            bytes: 0,
            padding: true,
        });
        Next::Took(0)
    }

    /// Begins to decompress a stream in pieces. What the legs have comes first.
    fn begin_pieces(&mut self, container: Container) -> Result<(), Error> {
        self.emit_all()?;
        let pieces = match &mut self.pieces {
            Some(pieces) => pieces,
            none => none.insert(Pieces::new(container)?),
        };
        pieces.begin()?;
        self.state = State::InPieces;
        Ok(())
    }

    fn in_pieces(&mut self, rest: &[u8]) -> Result<Next, Error> {
        let place = self.place();
        let pieces = self.pieces.as_mut().ok_or(Error::Spent)?;
        match pieces.decode(rest, &mut self.output)? {
            Ok(Progress::Took(len)) => Ok(took_or_more(len)),
            Ok(Progress::Ended(taken, unread)) => {
                self.state = match place.container {
                    Container::Gzip | Container::Zlib => State::Trailer,
                    Container::Lz4 | Container::Zstd => {
                        self.members += 1;
                        self.in_pieces += 1;
                        State::Between
                    }
                };
                Ok(match taken.checked_sub(unread) {
                    Some(len) => Next::Took(len),
                    None => Next::TookBack(unread - taken),
                })
            }
            Err(overside_ops::Error::Corrupt(reason)) => Err(place.corrupt(reason)),
            Err(error) => Err(error.into()),
        }
    }

    /// Which member this is.
    fn place(&self) -> Place {
        Place {
            container: self.container.unwrap_or(Container::Gzip),
            member: self.members + 1,
            offset: self.begin,
        }
    }

    /// How many bytes before those that were not taken may be looked at again.
    pub(super) fn looks_back(&self) -> usize {
        match self.state {
            State::InPieces => Step::MAX_UNREAD,
            _ => 0,
        }
    }

    /// The length of the buffers that the legs reach, if there are legs.
    pub(super) fn room_bytes(&self) -> Option<usize> {
        self.parallel.room_bytes()
    }

    pub(super) fn buffer(&mut self) -> Result<Option<Buffer>, Error> {
        self.parallel.buffer(&mut self.output)
    }

    /// Writes everything that the legs have.
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
            container: self.container.ok_or(Error::Unrecognized)?,
            bytes_in,
            bytes_out: self.output.written(),
            members: self.members,
            stored: self.stored,
            in_pieces: self.in_pieces,
            ignored: match self.state {
                State::Ignoring(ignored) => Some(ignored),
                _ => None,
            },
            original: self.original,
            report: self.parallel.close(),
        };
        Ok((self.output.into_inner(), summary))
    }
}

/// Bytes were taken, or more are wanted.
fn took_or_more(len: usize) -> Next {
    match len {
        0 => Next::Wants(1),
        len => Next::Took(len),
    }
}
