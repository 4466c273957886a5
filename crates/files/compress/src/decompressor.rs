//! Decompression of a stream.

mod input;
mod parallel;
mod parser;
mod streaming;

use std::io::{Read, Write};

use overside_device::{ExternalBytes, Slice};

use crate::output::{Output, read};
use crate::{Container, Error, Options, Summary};
use input::Input;
use parser::{ParseStep, Parser};

/// Decompresses its input and writes it to `W`.
///
/// Members with their length in the header, and independent parts, are decompressed side by side on
/// the targets: those of Overside's and BGZF's gzip files, the independent blocks of LZ4 frames,
/// Zstandard frames. Everything else is streamed, on the caller's thread. No byte of a gzip member
/// or a Zstandard frame that went to the targets is written before its checksum is found to be
/// right.
pub struct Decompressor<W: Write> {
    input: Input,
    parser: Parser<W>,
    bytes_in: u64,
    failed: bool,
}

impl<W: Write> Decompressor<W> {
    /// Makes everything ready. The targets are set up when the first part for them is there.
    ///
    /// # Errors
    /// [`Error::Executor`] if there is no memory.
    pub fn new(writer: W, options: &Options) -> Result<Self, Error> {
        let output = Output::new(writer, options.max_output_bytes);
        Ok(Self {
            input: Input::new()?,
            parser: Parser::new(output, options),
            bytes_in: 0,
            failed: false,
        })
    }

    /// Takes all of `bytes`. Waits where the targets or the writer do not keep up.
    ///
    /// # Errors
    /// [`Error`]; then the stream cannot be continued.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        self.guarded(|this| {
            while !bytes.is_empty() {
                let room = this.input.room();
                let len = room.len().min(bytes.len());
                room[..len].copy_from_slice(&bytes[..len]);
                bytes = &bytes[len..];
                this.took(len)?;
            }
            Ok(())
        })
    }

    /// Takes memory of the caller's, which is read where it is, as far as it follows nothing that
    /// waits for more; it is kept until its last part is decompressed.
    ///
    /// # Errors
    /// [`Error`]; then the stream cannot be continued.
    pub fn lend(&mut self, bytes: ExternalBytes) -> Result<(), Error> {
        if !self.input.is_empty() {
            return self.write(bytes.as_bytes());
        }
        self.guarded(|this| {
            let bytes = Slice::from_external(bytes, None);
            this.bytes_in += bytes.len() as u64;
            this.take_apart(bytes, 0, false)
        })
    }

    /// Reads once from `reader`, directly into memory that the targets reach. Returns the number of bytes;
    /// 0 at the reader's end.
    ///
    /// # Errors
    /// [`Error`]; then the stream cannot be continued.
    pub fn fill(&mut self, reader: &mut impl Read) -> Result<usize, Error> {
        self.guarded(|this| {
            let len = read(reader, this.input.room())?;
            this.took(len)?;
            Ok(len)
        })
    }

    /// Decompresses and writes its input so far, as far as possible.
    ///
    /// # Errors
    /// [`Error`]; then the stream cannot be continued.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.guarded(|this| {
            this.turn(false)?;
            this.parser.emit_all()?;
            this.parser.output().flush()
        })
    }

    /// Decompresses and writes the rest; no more input may follow. After an error the writer has all complete
    /// output.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Truncated`] if the stream is incomplete.
    pub fn complete(&mut self) -> Result<(), Error> {
        self.guarded(|this| {
            this.turn(true)?;
            this.parser.emit_all()?;
            this.parser.output().flush()
        })
    }

    /// Completes the stream. Gives the writer back, flushed.
    ///
    /// # Errors
    /// As [`Decompressor::complete`].
    pub fn finish(mut self) -> Result<(W, Summary), Error> {
        self.complete()?;
        self.parser.finish(self.bytes_in)
    }

    /// The format, once it is known.
    pub fn container(&self) -> Option<Container> {
        self.parser.container()
    }

    /// Bytes taken so far.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    /// Bytes written so far.
    pub fn bytes_out(&self) -> u64 {
        self.parser.written()
    }

    /// The writer.
    pub fn get_mut(&mut self) -> &mut W {
        self.parser.output().get_mut()
    }

    /// Does something unless the stream has failed, and remembers if it fails.
    fn guarded<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.failed {
            return Err(Error::Spent);
        }
        let result = run(self);
        self.failed = result.is_err();
        result
    }

    /// Counts `len` bytes that were put into the room.
    fn took(&mut self, len: usize) -> Result<(), Error> {
        self.bytes_in += len as u64;
        if self.input.took(len) {
            self.turn(false)?;
        }
        Ok(())
    }

    /// Parses the buffered input. `last`: no more will come.
    fn turn(&mut self, last: bool) -> Result<(), Error> {
        match self.input.share() {
            Some((bytes, at)) => self.take_apart(bytes, at, last),
            None => Ok(()),
        }
    }

    /// Parses bytes from `at` on, and begins a new buffer with the rest.
    fn take_apart(&mut self, bytes: Slice, mut at: usize, last: bool) -> Result<(), Error> {
        loop {
            match self.parser.next(&bytes, at, last) {
                Ok(ParseStep::Consumed(len)) => at += len,
                Ok(ParseStep::PutBack(len)) => at = at.saturating_sub(len),
                Ok(ParseStep::Needs(wanted)) => {
                    let keep = self.parser.looks_back().min(at);
                    return self.input.renew(bytes, at, keep, wanted, &mut self.parser);
                }
                Ok(ParseStep::End) => return Ok(()),
                Err(error) => {
                    // What stands before the mistake is as good as if it were not there.
                    self.parser.emit_all()?;
                    return Err(error);
                }
            }
        }
    }
}
