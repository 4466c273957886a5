//! Writer of the output, which counts its bytes and limits them.

use std::io::{self, IoSlice, Write};

use crate::Error;

/// A writer, and the number of bytes written to it.
pub(crate) struct Output<W> {
    writer: W,
    written: u64,
    limit: Option<u64>,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(writer: W, limit: Option<u64>) -> Self {
        Self { writer, written: 0, limit }
    }

    /// Writes all of the parts, at once where the writer can.
    pub(crate) fn write(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let written = self.written + bytes as u64;
        if let Some(limit) = self.limit.filter(|limit| written > *limit) {
            return Err(Error::TooLong { limit });
        }
        match parts {
            [one] => self.writer.write_all(one),
            several => self.write_vectored(several),
        }
        .map_err(Error::Write)?;
        self.written = written;
        Ok(())
    }

    fn write_vectored(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.writer.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => IoSlice::advance_slices(&mut left, len),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(Error::Write)
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn get_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    pub(crate) fn into_inner(self) -> W {
        self.writer
    }
}

/// Reads once, however often the system is interrupted.
pub(crate) fn read(reader: &mut impl io::Read, room: &mut [u8]) -> Result<usize, Error> {
    loop {
        match reader.read(room) {
            Ok(len) if len > room.len() => {
                return Err(Error::Read(io::Error::other("a reader took more than there is")));
            }
            Ok(len) => return Ok(len),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::Read(error)),
        }
    }
}
