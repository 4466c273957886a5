//! Decodes messages to record batches.
//!
//! 1. A message is read, and its header is checked against its body.
//! 2. Its compressed buffers are decompressed on the pool, while the next messages are read and the
//!    caller processes the previous batch. Uncompressed buffers are not copied.
//! 3. Arrow validates the columns.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::decoder::{Decoder, Incoming};
use super::input::{Input, Source};
use super::messages::Messages;
use super::pool::CodecPool;
use super::stages::StageTime;
use crate::{Columns, Error};

/// Options for reading batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackOptions {
    /// Maximum number of decompressed bytes of the buffers of one message.
    pub message_bytes_max: u64,
}

impl Default for UnpackOptions {
    /// Returns a limit of 4 GiB for each message.
    fn default() -> Self {
        Self { message_bytes_max: 4 << 30 }
    }
}

/// Reader of record batches from an Arrow IPC stream or file with any compression.
pub struct Unpacker<'a> {
    messages: Messages<'a>,
    decoder: Decoder,
    pool: Arc<CodecPool>,
    /// Messages that were read, in order.
    ahead: VecDeque<Incoming>,
    ahead_bytes: u64,
    time: StageTime,
    is_over: bool,
}

/// Maximum number of decompressed bytes that are read ahead, beyond one message.
const AHEAD_BYTES_MAX: u64 = 256 << 20;

impl<'a> Unpacker<'a> {
    /// Reads a stream. Also reads a file, in the order in which it was written.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the input does not begin with a schema; [`Error::Io`].
    pub fn stream(
        reader: impl Read + Send + 'a,
        options: UnpackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        Self::open(Source::Reader(Box::new(reader)), options, pool)
    }

    /// Reads a file from its beginning on. Anything but a regular file, such as a pipe, is read from its
    /// current position on.
    ///
    /// # Errors
    /// Those of [`Unpacker::stream`].
    pub fn file(
        mut file: File,
        options: UnpackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let source = match file.metadata()?.is_file() {
            true => {
                let len = file.seek(SeekFrom::End(0))?;
                Source::File(file, len)
            }
            false => Source::Reader(Box::new(file)),
        };
        Self::open(source, options, pool)
    }

    /// Reads a buffer. Uncompressed parts of it are not copied.
    ///
    /// # Errors
    /// Those of [`Unpacker::stream`].
    pub fn bytes(
        bytes: Buffer,
        options: UnpackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        Self::open(Source::Memory(bytes), options, pool)
    }

    fn open(
        source: Source<'a>,
        options: UnpackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let mut time = StageTime::default();
        let (messages, schema) = time.measure(|| {
            let mut messages = Messages::open(Input::new(source, &pool.memory))?;
            let schema = messages.schema()?;
            Ok::<_, Error>((messages, schema))
        })?;
        Ok(Self {
            decoder: Decoder::new(&schema, options.message_bytes_max, pool)?,
            pool: Arc::clone(pool),
            messages,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            time,
            is_over: false,
        })
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    /// Selects the columns of the remaining batches; buffers of other columns are not decompressed. Call
    /// it before the first batch.
    ///
    /// # Errors
    /// [`Error::Format`]: there is no such column.
    pub fn select(&mut self, columns: &Columns) -> Result<(), Error> {
        self.decoder.select(columns)
    }

    /// Returns the time and the bytes of its work so far.
    pub fn time(&self) -> StageTime {
        StageTime {
            bytes_in: self.messages.bytes_read(),
            cpu_ns: self.time.cpu_ns + self.decoder.cpu_ns,
            ..self.time
        }
    }

    /// Reads messages as long as threads are free.
    fn read_ahead(&mut self) -> Result<(), Error> {
        while self.ahead.is_empty()
            || (self.ahead.len() < self.pool.threads() && self.ahead_bytes < AHEAD_BYTES_MAX)
        {
            let Some(raw) = self.messages.next()? else {
                break;
            };
            let incoming = self.decoder.start(raw)?;
            self.ahead_bytes += incoming.bytes;
            self.ahead.push_back(incoming);
        }
        Ok(())
    }

    /// Returns the next batch; `None` at the end.
    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            self.read_ahead()?;
            let Some(incoming) = self.ahead.pop_front() else {
                return Ok(None);
            };
            self.ahead_bytes -= incoming.bytes;
            self.time.bytes_out += incoming.bytes;
            if let Some(batch) = self.decoder.finish(incoming)? {
                // The threads get work while the caller processes the batch.
                if self.pool.threads() > 1 {
                    self.read_ahead()?;
                }
                return Ok(Some(batch));
            }
        }
    }
}

impl Iterator for Unpacker<'_> {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let mut time = StageTime::default();
        let result = time.measure(|| self.batch()).transpose();
        self.time += time;
        self.is_over = !matches!(result, Some(Ok(_)));
        result
    }
}
