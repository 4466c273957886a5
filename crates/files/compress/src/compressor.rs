//! Compression of a stream.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use overside_device::ExternalBytes;
use overside_placement::{Buffer, Chunk, ChunkResult, Submitters};

use crate::framing::{Content, Framing};
use crate::output::{Output, read};
use crate::{Container, Error, Options, Summary};

/// Longest single wait for the targets, after which the wait begins again.
pub(crate) const WAIT: Duration = Duration::from_secs(1);

/// Compresses its input in parallel chunks and writes it to `W`.
///
/// ```
/// use overside_compress::{Compressor, Options, decompress};
/// let mut compressor = Compressor::new(Vec::new(), &Options::default())?;
/// compressor.write(b"what is said three times is true")?;
/// let (gzip, summary) = compressor.finish()?;
/// assert_eq!(summary.members, 1);
/// let mut back = Vec::new();
/// decompress(&gzip[..], &mut back, &Options::default())?;
/// assert_eq!(back, b"what is said three times is true");
/// # Ok::<(), overside_compress::Error>(())
/// ```
pub struct Compressor<W: Write> {
    container: Container,
    executor: Submitters,
    output: Output<W>,
    framing: Framing,
    /// The length of the chunk that is being filled, or of the next one.
    chunk_bytes: usize,
    /// The chunk that is being filled, and how far it is.
    current: Option<Buffer>,
    filled: usize,
    /// Length and checksum of each chunk that is being compressed, in order.
    chunks: VecDeque<Content>,
    /// Bytes of the chunks in flight, now and at most.
    in_flight_bytes: usize,
    in_flight_bytes_max: usize,
    bytes_in: u64,
    announced: Option<u64>,
    members: u64,
    stored: u64,
    failed: bool,
}

impl<W: Write> Compressor<W> {
    /// Sets up the targets. Nothing is written yet.
    ///
    /// # Errors
    /// [`Error::Option`], [`Error::Executor`].
    pub fn new(writer: W, options: &Options) -> Result<Self, Error> {
        let container = options.container.unwrap_or(Container::Gzip);
        let chunk_bytes = options.geometry(container)?;
        let operation = options.compress_operation(container);
        let framing = Framing::new(container, options, (operation, chunk_bytes))?;
        let setup = options.setup(operation, chunk_bytes, chunk_bytes)?;
        let executor = Submitters::open(setup, options.submitters)?;
        Ok(Self {
            container,
            chunk_bytes: executor.chunk_bytes(),
            executor,
            output: Output::new(writer, None),
            framing,
            current: None,
            filled: 0,
            chunks: VecDeque::new(),
            in_flight_bytes: 0,
            in_flight_bytes_max: 0,
            bytes_in: 0,
            announced: options.content_bytes.filter(|_| container == Container::Lz4),
            members: 0,
            stored: 0,
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
                let room = this.room()?;
                let len = room.len().min(bytes.len());
                room[..len].copy_from_slice(&bytes[..len]);
                bytes = &bytes[len..];
                this.took(len)?;
            }
            Ok(())
        })
    }

    /// Compresses memory of the caller's without a copy; it is kept until its last chunk is compressed.
    /// Earlier data end with a chunk of their own.
    ///
    /// # Errors
    /// [`Error`]; then the stream cannot be continued.
    pub fn lend(&mut self, bytes: ExternalBytes) -> Result<(), Error> {
        self.guarded(|this| {
            this.seal()?;
            let all = this.executor.register(bytes);
            let mut begin = 0;
            while begin < all.len() {
                this.chunk_bytes = this.executor.chunk_bytes();
                let end = all.len().min(begin + this.chunk_bytes);
                let slice = all.slice(begin..end);
                this.framing.took(&slice);
                this.counted(slice.len())?;
                this.push(slice.len(), Chunk::from(slice))?;
                begin = end;
            }
            Ok(())
        })
    }

    /// Reads once from `reader`, directly into memory that the targets reach. Returns the number of bytes;
    /// 0 at the reader's end.
    ///
    /// # Errors
    /// [`Error`]; then the stream cannot be continued.
    pub fn fill(&mut self, reader: &mut impl Read) -> Result<usize, Error> {
        self.guarded(|this| {
            let len = read(reader, this.room()?)?;
            this.took(len)?;
            Ok(len)
        })
    }

    /// Waits until `input` has data for [`Compressor::fill`], or has ended. Chunks in flight make progress
    /// meanwhile, and finished ones are written, so a slow input delays nothing else.
    ///
    /// # Errors
    /// [`Error`]; then the stream cannot be continued.
    pub fn wait_for(&mut self, input: BorrowedFd<'_>) -> Result<(), Error> {
        self.guarded(|this| {
            while !this.executor.wait_for_input(input)? {
                while this.pull()? {}
            }
            Ok(())
        })
    }

    /// Compresses its input so far, as a chunk of its own, and writes everything.
    ///
    /// # Errors
    /// [`Error`]; then the stream cannot be continued.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.guarded(|this| {
            this.seal()?;
            this.drain()?;
            this.output.flush()
        })
    }

    /// Compresses and writes the rest, and ends the stream. Returns the writer, flushed.
    ///
    /// # Errors
    /// [`Error`].
    pub fn finish(mut self) -> Result<(W, Summary), Error> {
        self.flush()?;
        self.check_announced(|announced, found| announced == found)?;
        self.members += self.framing.end(&mut self.output)?;
        self.output.flush()?;
        let summary = Summary {
            container: self.container,
            bytes_in: self.bytes_in,
            bytes_out: self.output.written(),
            members: self.members,
            stored: self.stored,
            streamed: 0,
            in_flight_bytes_max: Some(self.in_flight_bytes_max),
            joining: self.framing.joining(),
            ignored: None,
            original: None,
            report: Some(self.executor.close()),
        };
        Ok((self.output.into_inner(), summary))
    }

    /// Bytes taken so far.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    /// Bytes written so far.
    pub fn bytes_out(&self) -> u64 {
        self.output.written()
    }

    /// Chunks that are being compressed, or wait for being written.
    pub fn in_flight(&self) -> usize {
        self.executor.in_flight()
    }

    /// The length of the chunk that is being filled, in bytes, as the format and the device allow.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// The writer.
    pub fn get_mut(&mut self) -> &mut W {
        self.output.get_mut()
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

    /// Room for more of the current chunk; never empty.
    fn room(&mut self) -> Result<&mut [u8], Error> {
        while self.current.is_none() {
            match self.executor.buffer() {
                Some(buffer) => {
                    self.current = Some(buffer);
                    self.filled = 0;
                    self.chunk_bytes = self.executor.chunk_bytes();
                }
                None => self.pull_or_wait()?,
            }
        }
        let filled = self.filled;
        let buffer = self.current.as_deref_mut().unwrap_or_default();
        Ok(&mut buffer[filled..self.chunk_bytes])
    }

    /// Counts `len` bytes that were put into the room.
    fn took(&mut self, len: usize) -> Result<(), Error> {
        if let Some(buffer) = &self.current {
            self.framing.took(&buffer[self.filled..self.filled + len]);
        }
        self.filled += len;
        self.counted(len)?;
        if self.filled == self.chunk_bytes {
            self.seal()?;
        }
        Ok(())
    }

    fn counted(&mut self, len: usize) -> Result<(), Error> {
        self.bytes_in += len as u64;
        self.check_announced(|announced, found| announced >= found)
    }

    fn check_announced(&self, is_right: impl Fn(u64, u64) -> bool) -> Result<(), Error> {
        let found = self.bytes_in;
        match self.announced {
            Some(announced) if !is_right(announced, found) => {
                Err(Error::ContentBytes { announced, found })
            }
            _ => Ok(()),
        }
    }

    /// Pushes the current chunk.
    fn seal(&mut self) -> Result<(), Error> {
        if self.filled == 0 {
            return Ok(());
        }
        let len = std::mem::take(&mut self.filled);
        let Some(mut buffer) = self.current.take() else {
            return Ok(());
        };
        buffer.set_len(len);
        self.push(len, Chunk::from(buffer))
    }

    fn push(&mut self, len: usize, chunk: Chunk) -> Result<(), Error> {
        self.chunks.push_back(self.framing.sealed(len));
        // What would be longer is stored.
        let mut chunk = chunk.destination_bytes(len);
        while let Err(refused) = self.executor.push(chunk) {
            chunk = refused;
            self.pull_or_wait()?;
        }
        self.in_flight_bytes += len;
        self.in_flight_bytes_max = self.in_flight_bytes_max.max(self.in_flight_bytes);
        while self.pull()? {}
        Ok(())
    }

    /// Writes everything that was handed over.
    fn drain(&mut self) -> Result<(), Error> {
        while self.executor.in_flight() > 0 {
            self.pull_or_wait()?;
        }
        Ok(())
    }

    fn pull_or_wait(&mut self) -> Result<(), Error> {
        if !self.pull()? {
            self.executor.wait(WAIT)?;
        }
        Ok(())
    }

    /// Writes the next chunk, if it is done.
    fn pull(&mut self) -> Result<bool, Error> {
        let Some(piece) = self.executor.pull()? else {
            return Ok(false);
        };
        let Some(content) = self.chunks.pop_front() else {
            return Ok(false);
        };
        self.in_flight_bytes -= content.len();
        let compressed = compressed(&piece)?;
        self.stored += u64::from(compressed.is_none());
        let source = piece.source.segments().first().map_or(&[][..], |slice| slice);
        self.members += self.framing.chunk(&mut self.output, &content, source, compressed)?;
        Ok(true)
    }
}

/// The compressed bytes; `None` if they are not shorter than the chunk.
fn compressed(piece: &ChunkResult) -> Result<Option<&[u8]>, Error> {
    match &piece.result {
        Ok(_) => Ok(piece.output()),
        Err(error) => Err(Error::Job(error.clone())),
    }
}
