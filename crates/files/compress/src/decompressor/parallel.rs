//! Parts that are decompressed side by side, and written in order.

use std::collections::VecDeque;
use std::io::Write;

use overside_device::{JobError, Slice};
use overside_ops::checksum::crc32;
use overside_placement::{Buffer, Checksum, Chunk, ChunkResult, Report, Submitters};
use xxhash_rust::xxh32::Xxh32;
use xxhash_rust::xxh64::xxh64;

use crate::compressor::WAIT;
use crate::error::MemberPosition;
use crate::output::Output;
use crate::{Container, Error, MAX_CHUNK_BYTES, Options};

/// Parts and marks that may wait for being written.
const MAX_PENDING: usize = 4096;
/// Minimum length of buffers in bytes: the longest result of the usual chunk, and several compressed ones.
const MIN_DESTINATION_BYTES: usize = 1 << 20;
const MIN_SOURCE_BYTES: usize = 1 << 20;
/// Maximum length of a part's source in bytes: that of an incompressible chunk.
pub(super) const MAX_SOURCE_BYTES: usize = MAX_CHUNK_BYTES + MAX_CHUNK_BYTES / 64;

/// Length and checksums that a part's content must have; `None` if the format does not declare
/// them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expected {
    pub(super) bytes: Option<usize>,
    pub(super) crc: Option<u32>,
    /// The low half of its XXH64, which who decompresses checks as well.
    pub(super) xxh64: Option<u32>,
}

impl Expected {
    /// Returns the checksum that a device's result is verified by; `None` if none is known.
    fn checksum(&self) -> Option<Checksum> {
        let crc = self.crc.map(|value| Checksum { of: |bytes| crc32(0, bytes), value });
        crc.or(self.xxh64.map(|value| Checksum { of: |bytes| xxh64(bytes, 0) as u32, value }))
    }
}

/// Output that waits to be written, in order.
pub(super) enum Pending {
    /// A part that the targets have.
    Part(MemberPosition, Expected),
    /// Bytes as they are.
    Bytes(Slice),
    /// Beginning of an LZ4 frame; `true` if its content has a checksum.
    Begin(bool),
    /// An LZ4 frame ends: its content's length and checksum, if it has them.
    End(MemberPosition, Option<u64>, Option<u32>),
}

/// The targets, and the parts that wait to be written.
#[derive(Default)]
pub(super) struct ParallelDecoder {
    executor: Option<Submitters>,
    source_bytes: usize,
    destination_bytes: usize,
    pending: VecDeque<Pending>,
    /// Content of the LZ4 frame that is being written, so far.
    content: Option<Xxh32>,
    content_bytes: u64,
}

impl ParallelDecoder {
    /// Returns `true` if the targets take a part whose result has up to `content_bytes`. Sets up
    /// the targets for parts of that kind if there are none yet.
    pub(super) fn takes(
        &mut self,
        options: &Options,
        container: Container,
        content_bytes: usize,
    ) -> Result<bool, Error> {
        let Some(operation) = container.decompress() else {
            return Ok(false);
        };
        if self.executor.is_none() && content_bytes <= MAX_CHUNK_BYTES {
            self.destination_bytes = content_bytes.max(MIN_DESTINATION_BYTES);
            // Of a part that gets no smaller, what is there of it can be copied once.
            let twice = 2 * content_bytes + content_bytes / 16;
            self.source_bytes = twice.clamp(MIN_SOURCE_BYTES, MAX_SOURCE_BYTES);
            let setup = options.setup(operation, self.source_bytes, self.destination_bytes)?;
            self.executor = Some(Submitters::open(setup, options.submitters)?);
        }
        Ok(content_bytes <= self.destination_bytes)
    }

    /// The length of the buffers that the targets reach; `None` before there are targets.
    pub(super) fn room_bytes(&self) -> Option<usize> {
        self.executor.is_some().then_some(self.source_bytes)
    }

    /// Returns a buffer that the targets reach, and waits for one if necessary. Returns `None` if there is
    /// none to wait for.
    pub(super) fn buffer<W: Write>(
        &mut self,
        output: &mut Output<W>,
    ) -> Result<Option<Buffer>, Error> {
        loop {
            let buffer = self.executor.as_mut().and_then(Submitters::buffer);
            if buffer.is_some() || self.pending.is_empty() {
                return Ok(buffer);
            }
            self.emit_or_wait(output)?;
        }
    }

    /// Submits a part that [`ParallelDecoder::takes`] has accepted to the targets.
    pub(super) fn part<W: Write>(
        &mut self,
        source: Slice,
        capacity: usize,
        place: MemberPosition,
        expected: Expected,
        output: &mut Output<W>,
    ) -> Result<(), Error> {
        // An empty destination is nothing that every device takes.
        let mut chunk = Chunk {
            checksum: expected.checksum(),
            ..Chunk::from(source).destination_bytes(capacity.max(1))
        };
        loop {
            let executor = self.executor.as_mut().ok_or(Error::Spent)?;
            match executor.push(chunk) {
                Ok(()) => break,
                Err(refused) => chunk = refused,
            }
            // An executor that takes nothing though it has nothing says why.
            if self.pending.is_empty() && executor.pull()?.is_none() {
                return Err(Error::Spent);
            }
            self.emit_or_wait(output)?;
        }
        self.enqueue(Pending::Part(place, expected), output)
    }

    /// Enqueues a part, to be written behind all earlier ones.
    pub(super) fn enqueue<W: Write>(
        &mut self,
        what: Pending,
        output: &mut Output<W>,
    ) -> Result<(), Error> {
        self.pending.push_back(what);
        while self.emit(output)? {}
        while self.pending.len() > MAX_PENDING {
            self.emit_or_wait(output)?;
        }
        Ok(())
    }

    /// Writes everything that was taken.
    pub(super) fn emit_all<W: Write>(&mut self, output: &mut Output<W>) -> Result<(), Error> {
        while !self.pending.is_empty() {
            self.emit_or_wait(output)?;
        }
        Ok(())
    }

    fn emit_or_wait<W: Write>(&mut self, output: &mut Output<W>) -> Result<(), Error> {
        if !self.emit(output)?
            && let Some(executor) = &mut self.executor
        {
            executor.wait(WAIT)?;
        }
        Ok(())
    }

    /// Writes the next part, if it is ready. `false`: it is not, or none waits.
    fn emit<W: Write>(&mut self, output: &mut Output<W>) -> Result<bool, Error> {
        let result = self.emit_next(output);
        if result.is_err() {
            // Nothing is written behind a gap.
            self.pending.clear();
        }
        result
    }

    fn emit_next<W: Write>(&mut self, output: &mut Output<W>) -> Result<bool, Error> {
        match self.pending.front() {
            None => return Ok(false),
            Some(Pending::Part(place, expected)) => {
                let (place, expected) = (*place, *expected);
                let executor = self.executor.as_mut().ok_or(Error::Spent)?;
                let Some(piece) = executor.pull()? else {
                    return Ok(false);
                };
                let content = verified(&piece, place, expected)?;
                self.write(content, output)?;
            }
            Some(Pending::Bytes(bytes)) => {
                let bytes = bytes.clone();
                self.write(&bytes, output)?;
            }
            Some(Pending::Begin(checksum)) => {
                self.content = checksum.then(|| Xxh32::new(0));
                self.content_bytes = 0;
            }
            Some(Pending::End(place, bytes, checksum)) => {
                if bytes.is_some_and(|bytes| bytes != self.content_bytes) {
                    return Err(place.corrupt("its content has another length than it says"));
                }
                let found = self.content.take().map(|content| content.digest());
                if found != *checksum {
                    return Err(place.corrupt("its content has a wrong checksum"));
                }
            }
        }
        self.pending.pop_front();
        Ok(true)
    }

    fn write<W: Write>(&mut self, bytes: &[u8], output: &mut Output<W>) -> Result<(), Error> {
        if let Some(content) = &mut self.content {
            content.update(bytes);
        }
        self.content_bytes += bytes.len() as u64;
        match bytes {
            [] => Ok(()),
            bytes => output.write(&[bytes]),
        }
    }

    /// Closes the targets and returns their report.
    pub(super) fn close(&mut self) -> Option<Report> {
        self.executor.take().map(Submitters::close)
    }
}

/// Returns the content of a part if length and checksum are right.
fn verified(
    piece: &ChunkResult,
    place: MemberPosition,
    expected: Expected,
) -> Result<&[u8], Error> {
    let other_length = || place.corrupt("its content has another length than it says");
    match &piece.result {
        Ok(_) => {}
        Err(JobError::Corrupt(reason)) => return Err(place.corrupt(reason)),
        // It had room for what the frame allows.
        Err(JobError::OutputTooSmall { .. }) => return Err(other_length()),
        Err(error) => return Err(Error::Job(error.clone())),
    }
    let content = piece.output().ok_or_else(|| {
        Error::Job(JobError::Failed("a device found nothing to decompress".into()))
    })?;
    if expected.bytes.is_some_and(|bytes| bytes != content.len()) {
        return Err(other_length());
    }
    if expected.crc.is_some_and(|crc| crc != crc32(0, content)) {
        return Err(place.corrupt("its content has a wrong checksum"));
    }
    Ok(content)
}
