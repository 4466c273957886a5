//! Decompression as a reader.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::{Error, Options, decompress};

/// The longest block that is handed over, in bytes, and how many may wait.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS_MAX: usize = 4;

/// Reader of a compressed stream's content. A thread of its own decompresses, a few blocks ahead;
/// it ends when this is dropped.
///
/// Bytes that are read are as verified as those that [`crate::Decompressor`] writes. After it an
/// [`Error`] comes as an [`io::Error`] that contains it.
pub struct DecompressReader {
    blocks: Receiver<Result<Vec<u8>, Error>>,
    block: Vec<u8>,
    at: usize,
}

impl DecompressReader {
    /// Begins to decompress.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(source: impl Read + Send + 'static, options: Options) -> io::Result<Self> {
        let (sender, blocks) = sync_channel(BLOCKS_MAX);
        let run = move || {
            let result = decompress(source, Blocks(&sender), &options);
            if let Err(error) = result {
                // The receiver may be gone.
                let _ = sender.send(Err(error));
            }
        };
        thread::Builder::new().name("decompress".into()).spawn(run)?;
        Ok(Self { blocks, block: Vec::new(), at: 0 })
    }
}

impl Read for DecompressReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            self.at = 0;
            self.block = match self.blocks.recv() {
                Ok(Ok(block)) => block,
                Ok(Err(Error::Read(error))) => return Err(error),
                Ok(Err(error)) => return Err(io::Error::other(error)),
                // The end.
                Err(_) => Vec::new(),
            };
        }
        let rest = &self.block[self.at..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

/// Writer that sends its bytes to the reader.
struct Blocks<'a>(&'a SyncSender<Result<Vec<u8>, Error>>);

impl Write for Blocks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let block = &bytes[..bytes.len().min(BLOCK_BYTES)];
        if block.is_empty() {
            return Ok(0);
        }
        let sent = self.0.send(Ok(block.to_vec()));
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
