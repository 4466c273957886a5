//! Messages to record batches.
//!
//! 1. A message is read, and what it says of its buffers is compared with what is there.
//! 2. Its compressed buffers are decompressed on the pool, while the next messages are read and the
//!    caller works on the batch before. The others stay where they are.
//! 3. Arrow validates the columns that they make.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::{BodyCompressionMethod, CompressionType, MessageHeader};
use arrow_schema::SchemaRef;
use overside_base::quietly;
use overside_ops::Format;

use super::arrays::{Columns, ROWS_MAX};
use super::buffers::{self, Frame, NOT_COMPRESSED, PREFIX_BYTES};
use super::dictionaries::Dictionaries;
use super::input::{Input, Source};
use super::message::{self, Compression};
use super::messages::{Messages, Raw};
use super::placed;
use super::pool::CodecPool;
use super::schema::DictionaryTypes;
use super::stages::StageTime;
use super::threads::Pending;
use super::{outer, schema};
use crate::Error;

/// By how much a byte can become longer at most: an LZ4 length grows by 255 with each byte of it; a
/// block of Zstandard has at least 4 bytes, and holds at most 128 KiB.
pub(super) const LZ4_RATIO_MAX: u64 = 255;
pub(super) const ZSTD_RATIO_MAX: u64 = 32 << 10;

/// How batches are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackOptions {
    /// The most bytes that the buffers of one message may have, decompressed.
    pub message_bytes_max: u64,
}

impl Default for UnpackOptions {
    /// 4 GiB a message.
    fn default() -> Self {
        Self {
            message_bytes_max: 4 << 30,
        }
    }
}

/// Reads record batches out of Arrow IPC, a stream or a file, whatever it is compressed with.
pub struct Unpacker {
    messages: Messages,
    schema: SchemaRef,
    outer: Option<Format>,
    types: DictionaryTypes,
    dictionaries: Dictionaries,
    pool: Arc<CodecPool>,
    options: UnpackOptions,
    /// Messages that were read, in order.
    ahead: VecDeque<Incoming>,
    ahead_bytes: u64,
    time: StageTime,
    is_over: bool,
}

/// What is read ahead at most, decompressed, beside one message.
const AHEAD_BYTES_MAX: u64 = 256 << 20;

/// A message whose buffers are on their way.
struct Incoming {
    header: Buffer,
    /// Those that are there.
    buffers: Vec<Option<Buffer>>,
    /// The others, in order.
    pending: Pending<Vec<Buffer>>,
    bytes: u64,
}

/// A buffer as it is in a body.
enum Stored {
    Plain(Buffer),
    Compressed(Frame),
}

impl Unpacker {
    /// Reads a stream. A file is possible too, in the order in which it was written.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it does not begin with a schema; [`Error::Io`].
    pub fn stream(
        reader: impl Read + Send + 'static,
        options: UnpackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        Self::open(Source::Reader(Box::new(reader)), options, pool)
    }

    /// Reads what is in a file, from its beginning on; of what is no regular file, a pipe for
    /// instance, from where it is.
    ///
    /// # Errors
    /// As [`Unpacker::stream`].
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

    /// Reads what is in memory. What is not compressed there stays there.
    ///
    /// # Errors
    /// As [`Unpacker::stream`].
    pub fn bytes(
        bytes: Buffer,
        options: UnpackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        Self::open(Source::Memory(bytes), options, pool)
    }

    fn open(source: Source, options: UnpackOptions, pool: &Arc<CodecPool>) -> Result<Self, Error> {
        let mut time = StageTime::default();
        let (messages, schema) = time.measure(|| {
            let mut messages = Messages::open(Input::new(source, &pool.memory))?;
            let schema = messages.schema()?;
            Ok::<_, Error>((messages, schema))
        })?;
        Ok(Self {
            outer: outer::format_of(schema.metadata())?,
            types: schema::dictionary_types(&schema)?,
            schema: outer::without_key(&schema),
            messages,
            dictionaries: Dictionaries::default(),
            pool: Arc::clone(pool),
            options,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            time,
            is_over: false,
        })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What it took so far.
    pub fn time(&self) -> StageTime {
        StageTime {
            bytes_in: self.messages.bytes_read(),
            ..self.time
        }
    }

    /// Reads messages as long as there are threads for them.
    fn read_ahead(&mut self) -> Result<(), Error> {
        while self.ahead.is_empty()
            || (self.ahead.len() < self.pool.threads() && self.ahead_bytes < AHEAD_BYTES_MAX)
        {
            let Some(raw) = self.messages.next()? else {
                break;
            };
            let incoming = self.start(raw)?;
            self.ahead_bytes += incoming.bytes;
            self.ahead.push_back(incoming);
        }
        Ok(())
    }

    /// The next batch; `None` at the end.
    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            self.read_ahead()?;
            let Some(Incoming {
                header,
                mut buffers,
                pending,
                bytes,
            }) = self.ahead.pop_front()
            else {
                return Ok(None);
            };
            self.ahead_bytes -= bytes;
            let (decompressed, cpu_ns) = self.pool.threads.wait(pending)?;
            self.time.cpu_ns += cpu_ns;
            let missing = buffers.iter_mut().filter(|buffer| buffer.is_none());
            missing
                .zip(decompressed.into_iter().flatten())
                .for_each(|(to, from)| *to = Some(from));
            let buffers = buffers.into_iter().flatten().collect();
            self.time.bytes_out += bytes;
            if let Some(batch) = self.decode(&header, buffers)? {
                // So that threads have work while the caller is busy with the batch.
                if self.pool.threads() > 1 {
                    self.read_ahead()?;
                }
                return Ok(Some(batch));
            }
        }
    }

    /// Compares a message with its body, and begins to decompress.
    fn start(&mut self, Raw { header, body }: Raw) -> Result<Incoming, Error> {
        let parsed = message::parse(&header)?;
        let batch = message::batch_of(&parsed)
            .ok_or_else(|| Error::Damaged("a message that is no batch".into()))?;
        let compression = message::compression_of(&batch);
        let (body, compression) = match (self.outer, compression) {
            (Some(format), Some(outer::COMPRESSION)) => {
                let bytes_max = self.options.message_bytes_max;
                let (body, cpu_ns) = outer::decompress(&self.pool, format, &body, bytes_max)?;
                self.time.cpu_ns += cpu_ns;
                (body, None)
            }
            _ => (body, compression),
        };
        let ranges = batch.buffers().into_iter().flatten();
        let stored = ranges.map(|range| stored(&body, range, compression));
        let stored = stored.collect::<Result<Vec<_>, _>>()?;
        let bytes = (stored.iter()).fold(0_u64, |sum, stored| sum.saturating_add(stored.len()));
        if bytes > self.options.message_bytes_max {
            let bytes_max = self.options.message_bytes_max;
            return Err(Error::TooLong { bytes, bytes_max });
        }
        let (mut buffers, mut frames) = (Vec::new(), Vec::new());
        for stored in stored {
            match stored {
                Stored::Plain(buffer) => buffers.push(Some(buffer)),
                Stored::Compressed(frame) => {
                    buffers.push(None);
                    frames.push(frame);
                }
            }
        }
        let pending = self.decompress(frames);
        Ok(Incoming {
            header,
            buffers,
            pending,
            bytes,
        })
    }

    fn decompress(&self, frames: Vec<Frame>) -> Pending<Vec<Buffer>> {
        let pool = &self.pool;
        let is_lz4 = |frame: &Frame| frame.codec == CompressionType::LZ4_FRAME;
        let placed = pool.placed(placed::DECOMPRESS);
        if let Some(executors) = placed.filter(|_| frames.iter().all(is_lz4)) {
            return placed::start_decompressing(pool, executors, frames);
        }
        pool.start(frames.into_iter().map(|frame| {
            let memory = Arc::clone(&pool.memory);
            move |kernels: &mut _| Ok(vec![buffers::decompress(kernels, &memory, &frame)?])
        }))
    }

    /// Makes a batch of a message; `None` if it was a dictionary.
    fn decode(
        &mut self,
        header: &Buffer,
        buffers: Vec<Buffer>,
    ) -> Result<Option<RecordBatch>, Error> {
        let parsed = message::parse(header)?;
        let Some(batch) = message::batch_of(&parsed) else {
            return Ok(None);
        };
        self.dictionaries.join()?;
        let version = parsed.version();
        let mut columns = Columns::new(&batch, buffers, &self.dictionaries, version);
        if parsed.header_type() == MessageHeader::DictionaryBatch {
            let dictionary = parsed.header_as_dictionary_batch();
            let (number, is_delta) =
                dictionary.map_or((0, false), |batch| (batch.id(), batch.isDelta()));
            let kind = (self.types.get(&number))
                .ok_or_else(|| Error::Damaged(format!("no column has dictionary {number}")))?;
            let values = guarded(|| {
                let values = columns.values(kind)?;
                columns.finish()?;
                Ok(values)
            })?;
            self.dictionaries.add(number, values, is_delta)?;
            return Ok(None);
        }
        let rows = batch.length();
        if !(0..=ROWS_MAX).contains(&rows) {
            return Err(Error::Damaged(format!("a batch of {rows} rows")));
        }
        let schema = &self.schema;
        guarded(|| {
            let fields = schema.fields().iter();
            let arrays: Vec<ArrayRef> = fields
                .map(|field| columns.column(field))
                .collect::<Result<_, _>>()?;
            columns.finish()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
            let schema = Arc::clone(schema);
            Ok(Some(RecordBatch::try_new_with_options(
                schema, arrays, &options,
            )?))
        })
    }
}

/// Arrow's library panics at some things that it should refuse.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    quietly(work).unwrap_or_else(|panic| Err(Error::Damaged(panic)))
}

/// The buffer that a header says is there.
fn stored(
    body: &Buffer,
    range: &arrow_ipc::Buffer,
    compression: Option<Compression>,
) -> Result<Stored, Error> {
    let outside = || Error::Damaged("a buffer lies outside of its message".into());
    let begin = usize::try_from(range.offset()).map_err(|_| outside())?;
    let len = usize::try_from(range.length()).map_err(|_| outside())?;
    if begin.checked_add(len).is_none_or(|end| end > body.len()) {
        return Err(outside());
    }
    let bytes = body.slice_with_length(begin, len);
    let Some(Compression { codec, method }) = compression.filter(|_| len > 0) else {
        return Ok(Stored::Plain(bytes));
    };
    let ratio_max = match codec {
        _ if method != BodyCompressionMethod::BUFFER => {
            return Err(Error::UnknownCompression(format!("method {}", method.0)));
        }
        CompressionType::LZ4_FRAME => LZ4_RATIO_MAX,
        CompressionType::ZSTD => ZSTD_RATIO_MAX,
        other => return Err(Error::UnknownCompression(format!("codec {}", other.0))),
    };
    let prefix = bytes.first_chunk().ok_or_else(outside)?;
    let said = i64::from_le_bytes(*prefix);
    let bytes = bytes.slice(PREFIX_BYTES);
    if said == NOT_COMPRESSED || said == 0 {
        let len = if said == 0 { 0 } else { bytes.len() };
        return Ok(Stored::Plain(bytes.slice_with_length(0, len)));
    }
    let most = (bytes.len() as u64).saturating_mul(ratio_max);
    match usize::try_from(said) {
        Ok(len) if len as u64 <= most => Ok(Stored::Compressed(Frame { codec, bytes, len })),
        _ => {
            let what = format!("{} compressed bytes cannot become {said}", bytes.len());
            Err(Error::Damaged(what))
        }
    }
}

impl Stored {
    fn len(&self) -> u64 {
        match self {
            Self::Plain(buffer) => buffer.len() as u64,
            Self::Compressed(frame) => frame.len as u64,
        }
    }
}

impl Iterator for Unpacker {
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
