//! Decodes messages to columns: decompresses their buffers, and keeps the dictionaries of the stream.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::{BodyCompressionMethod, CompressionType, Message, MessageHeader, RecordBatch};
use arrow_schema::SchemaRef;
use overside_ops::Format;

use super::arrays::{Arrays, ROWS_MAX};
use super::buffers::{self, Frame, LZ4_RATIO_MAX, NOT_COMPRESSED, PREFIX_BYTES, ZSTD_RATIO_MAX};
use super::dictionaries::Dictionaries;
use super::message::{self, Compression, guarded};
use super::messages::Raw;
use super::placed;
use super::pool::CodecPool;
use super::schema::DictionaryTypes;
use super::threads::Pending;
use super::{outer, schema};
use crate::{Columns, Error};

/// Decoder of the messages of one stream, with its schemas and the dictionaries so far.
pub(super) struct Decoder {
    /// Schema of the messages, with all columns.
    stored: SchemaRef,
    /// Schema of the batches, with only the wanted columns.
    schema: SchemaRef,
    columns: Columns,
    outer: Option<Format>,
    types: DictionaryTypes,
    dictionaries: Dictionaries,
    pool: Arc<CodecPool>,
    message_bytes_max: u64,
    /// CPU time of the threads so far.
    pub cpu_ns: u64,
}

/// Message whose buffers are being decompressed.
pub(super) struct Incoming {
    header: Buffer,
    /// Buffers that need no decompression; `None` in place of each other one.
    buffers: Vec<Option<Buffer>>,
    /// Results for the other buffers, in order.
    pending: Pending<Vec<Buffer>>,
    pub bytes: u64,
}

/// Buffer in a body.
enum Stored {
    Plain(Buffer),
    Compressed(Frame),
}

impl Decoder {
    pub(super) fn new(
        schema: &SchemaRef,
        message_bytes_max: u64,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let stored = outer::without_key(schema);
        Ok(Self {
            outer: outer::format_of(schema.metadata())?,
            types: schema::dictionary_types(schema)?,
            schema: Arc::clone(&stored),
            stored,
            columns: Columns::All,
            dictionaries: Dictionaries::new(message_bytes_max),
            pool: Arc::clone(pool),
            message_bytes_max,
            cpu_ns: 0,
        })
    }

    /// Returns the schema of the batches.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Selects the columns that are decoded from now on.
    pub(super) fn select(&mut self, columns: &Columns) -> Result<(), Error> {
        self.schema = match columns {
            Columns::All => Arc::clone(&self.stored),
            Columns::Only(indices) => Arc::new(self.stored.project(indices)?),
        };
        self.columns = columns.clone();
        Ok(())
    }

    /// Returns, for each buffer of a message, `true` if it belongs to a wanted column.
    fn wanted(&self, message: &Message<'_>, batch: &RecordBatch<'_>) -> Result<Vec<bool>, Error> {
        let count = batch.buffers().map_or(0, |buffers| buffers.len());
        if self.columns == Columns::All || message.header_type() != MessageHeader::RecordBatch {
            return Ok(vec![true; count]);
        }
        let buffers = vec![Buffer::default(); count];
        let mut arrays = Arrays::new(batch, buffers, &self.dictionaries, message.version());
        let mut wanted = Vec::with_capacity(count);
        for (index, field) in self.stored.fields().iter().enumerate() {
            let buffers = arrays.skip(field.data_type())?;
            wanted.resize(wanted.len() + buffers, self.columns.has(index));
        }
        arrays.finish()?;
        Ok(wanted)
    }

    /// Waits for the buffers of a message. Returns its batch; `None` if it was a dictionary.
    pub(super) fn finish(
        &mut self,
        incoming: Incoming,
    ) -> Result<Option<arrow_array::RecordBatch>, Error> {
        let Incoming { header, mut buffers, pending, .. } = incoming;
        let (decompressed, cpu_ns) = self.pool.threads.wait(pending)?;
        self.cpu_ns += cpu_ns;
        let missing = buffers.iter_mut().filter(|buffer| buffer.is_none());
        missing.zip(decompressed.into_iter().flatten()).for_each(|(to, from)| *to = Some(from));
        self.decode(&header, buffers.into_iter().flatten().collect())
    }

    /// Checks a message's header against its body, and starts decompression.
    pub(super) fn start(&mut self, Raw { header, body }: Raw) -> Result<Incoming, Error> {
        let parsed = message::parse(&header)?;
        let batch = message::batch_of(&parsed)
            .ok_or_else(|| Error::Damaged("a message that is no batch".into()))?;
        let compression = message::compression_of(&batch);
        let (body, compression) = match (self.outer, compression) {
            (Some(format), Some(outer::COMPRESSION)) => {
                let bytes_max = self.message_bytes_max;
                let (body, cpu_ns) = outer::decompress(&self.pool, format, &body, bytes_max)?;
                self.cpu_ns += cpu_ns;
                (body, None)
            }
            _ => (body, compression),
        };
        let wanted = self.wanted(&parsed, &batch)?;
        let ranges = batch.buffers().into_iter().flatten().zip(wanted);
        let stored = ranges
            .map(|(range, is_wanted)| stored(&body, range, compression.filter(|_| is_wanted)));
        let stored = stored.collect::<Result<Vec<_>, _>>()?;
        let bytes = (stored.iter()).fold(0_u64, |sum, stored| sum.saturating_add(stored.len()));
        if bytes > self.message_bytes_max {
            let bytes_max = self.message_bytes_max;
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
        Ok(Incoming { header, buffers, pending, bytes })
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

    /// Makes a batch from a message. Returns `None` if it was a dictionary.
    fn decode(
        &mut self,
        header: &Buffer,
        buffers: Vec<Buffer>,
    ) -> Result<Option<arrow_array::RecordBatch>, Error> {
        let parsed = message::parse(header)?;
        let Some(batch) = message::batch_of(&parsed) else {
            return Ok(None);
        };
        self.dictionaries.join()?;
        let version = parsed.version();
        let mut arrays = Arrays::new(&batch, buffers, &self.dictionaries, version);
        if parsed.header_type() == MessageHeader::DictionaryBatch {
            let dictionary = parsed.header_as_dictionary_batch();
            let (number, is_delta) =
                dictionary.map_or((0, false), |batch| (batch.id(), batch.isDelta()));
            let kind = (self.types.get(&number))
                .ok_or_else(|| Error::Damaged(format!("no column has dictionary {number}")))?;
            let values = guarded(|| {
                let values = arrays.values(kind)?;
                arrays.finish()?;
                Ok(values)
            })?;
            self.dictionaries.add(number, values, is_delta)?;
            return Ok(None);
        }
        let rows = batch.length();
        if !(0..=ROWS_MAX).contains(&rows) {
            return Err(Error::Damaged(format!("a batch of {rows} rows")));
        }
        guarded(|| {
            let mut columns: Vec<ArrayRef> = Vec::new();
            for (index, field) in self.stored.fields().iter().enumerate() {
                match self.columns.has(index) {
                    true => columns.push(arrays.column(field)?),
                    false => drop(arrays.skip(field.data_type())?),
                }
            }
            arrays.finish()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
            let schema = Arc::clone(&self.schema);
            let batch = arrow_array::RecordBatch::try_new_with_options(schema, columns, &options)?;
            Ok(Some(batch))
        })
    }
}

/// Returns the buffer that a header declares.
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
