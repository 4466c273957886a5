//! Streams that are streamed, on the caller's thread.

use std::io::Write;

use overside_ops::checksum::{adler32, crc32};
use overside_ops::{Format, Step, StreamDecoder, stream_decoder};

use crate::output::Output;
use crate::{Container, Error};

/// Bytes that are made at once: long enough that keeping the window between two steps costs
/// little, short enough to stay in the cache until they are written.
const ROOM_BYTES: usize = 256 << 10;

/// A decoder of one format, and its progress in the current stream.
pub(super) struct StreamingDecoder {
    container: Container,
    decoder: Box<dyn StreamDecoder>,
    room: Vec<u8>,
    check: u32,
    made: u64,
}

/// Result of decompressing a piece of a stream.
pub(super) enum Progress {
    /// This number of bytes was taken, and more are wanted.
    Took(usize),
    /// The stream has ended. Number of bytes that were taken, and number of those, or of earlier ones, that
    /// lie behind the stream.
    Ended(usize, usize),
}

impl StreamingDecoder {
    pub(super) fn new(container: Container) -> Result<Self, Error> {
        let format = match container {
            Container::Gzip | Container::Zlib => Format::Deflate,
            Container::Lz4 => Format::Lz4,
            Container::Zstd => Format::Zstd,
        };
        Ok(Self {
            container,
            decoder: stream_decoder(format)?,
            room: vec![0; ROOM_BYTES],
            check: 0,
            made: 0,
        })
    }

    /// Begins a stream.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        self.made = 0;
        self.check = u32::from(self.container == Container::Zlib);
        Ok(self.decoder.reset()?)
    }

    /// Decompresses all of `bytes`, or up to the stream's end. An inner error is the stream's.
    pub(super) fn decode<W: Write>(
        &mut self,
        bytes: &[u8],
        output: &mut Output<W>,
    ) -> Result<Result<Progress, overside_ops::Error>, Error> {
        let mut taken = 0;
        loop {
            let step = match self.decoder.step(&bytes[taken..], &mut self.room) {
                Ok(step) => step,
                Err(error) => return Ok(Err(error)),
            };
            taken += step.taken;
            self.write(&step, output)?;
            if step.ended {
                return Ok(Ok(Progress::Ended(taken, step.unread)));
            }
            // What is still inside a decoder comes out only if there is room for it.
            if step.made < self.room.len() && (step.taken, step.made) == (0, 0) {
                return Ok(Ok(Progress::Took(taken)));
            }
        }
    }

    fn write<W: Write>(&mut self, step: &Step, output: &mut Output<W>) -> Result<(), Error> {
        let made = &self.room[..step.made];
        match self.container {
            Container::Gzip => self.check = crc32(self.check, made),
            Container::Zlib => self.check = adler32(self.check, made),
            // Their decoders know their checksums.
            Container::Lz4 | Container::Zstd => {}
        }
        self.made += step.made as u64;
        match made {
            [] => Ok(()),
            made => output.write(&[made]),
        }
    }

    /// Checksum and length of the output of the stream.
    pub(super) fn made(&self) -> (u32, u64) {
        (self.check, self.made)
    }
}
