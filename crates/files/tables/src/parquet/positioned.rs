//! A file that several readers read at once, each from a place of its own.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

/// The file, and where a reader of it is.
#[derive(Clone)]
pub(super) struct Positioned {
    file: Arc<File>,
    position: u64,
}

impl Positioned {
    pub(super) fn new(file: File) -> Self {
        Self { file: Arc::new(file), position: 0 }
    }
}

impl Length for Positioned {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl ChunkReader for Positioned {
    type T = BufReader<Self>;

    fn get_read(&self, position: u64) -> Result<Self::T> {
        let file = Arc::clone(&self.file);
        Ok(BufReader::new(Self { file, position }))
    }

    fn get_bytes(&self, position: u64, len: usize) -> Result<Bytes> {
        let mut bytes = Vec::with_capacity(len);
        let reader = self.get_read(position)?.into_inner();
        let read = reader.take(len as u64).read_to_end(&mut bytes)?;
        match read == len {
            true => Ok(bytes.into()),
            false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }
}
