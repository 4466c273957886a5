//! Encodes record batches as messages.
//!
//! 1. Arrow's own encoder lays out the message without compression and without copying.
//! 2. Each of its buffers is compressed on the pool, and the header is written again with their new offsets.
//! 3. Messages are written in order (`sink`). The caller continues while they are compressed and written.

use std::collections::{HashSet, VecDeque};
use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_ipc::{BodyCompressionMethod, Message, MessageHeader};
use arrow_schema::{Schema, SchemaRef};

use super::buffers::{self, Encoded, NOT_COMPRESSED};
use super::codec::{Codec, Layout};
use super::compact::compact;
use super::footer::{Footer, MAGIC};
use super::input::cut;
use super::message::{self, Compression, PREFIX_BYTES, Pieces};
use super::outer::{self, Outer};
use super::placed;
use super::pool::CodecPool;
use super::sink::Sink;
use super::stages::StageTime;
use super::threads::Pending;
use crate::Error;
use crate::check_schema;

/// Multiple in bytes to which the buffers of a compressed body are padded.
const COMPRESSED_ALIGN_BYTES: usize = 8;

/// Options for writing batches. The default is an uncompressed file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackOptions {
    /// Stream or file.
    pub layout: Layout,
    /// Codec of each buffer, supported by every reader of Arrow IPC.
    pub codec: Codec,
    /// Compression of the bodies of messages as a whole, which only this crate's readers support.
    /// Cannot be combined with a codec.
    pub outer: Option<Outer>,
}

/// Writer of record batches as Arrow IPC.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
/// use arrow_array::{Int64Array, RecordBatch};
/// use overside_tables::pack::{CodecPool, PackOptions, Packer, UnpackOptions, Unpacker};
/// let column = Arc::new(Int64Array::from_iter_values(0..1000));
/// let batch = RecordBatch::try_from_iter([("id", column as _)])?;
/// let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN)?);
/// let options = PackOptions { codec: "lz4".parse()?, ..PackOptions::default() };
/// let mut packer = Packer::new(Vec::new(), batch.schema(), options, &pool)?;
/// packer.write(&batch)?;
/// let (file, _) = packer.finish()?;
/// assert!(file.len() < 8000);
/// let back = Unpacker::bytes(file.into(), UnpackOptions::default(), &pool)?;
/// assert_eq!(back.collect::<Result<Vec<_>, _>>()?, [batch]);
/// # Ok::<(), overside_tables::Error>(())
/// ```
pub struct Packer<W> {
    sink: Sink<W>,
    options: PackOptions,
    schema: SchemaRef,
    encoder: StreamEncoder,
    pool: Arc<CodecPool>,
    /// Messages that are not written yet, in order.
    pending: VecDeque<Outgoing>,
    footer: Footer,
    /// Numbers of the dictionaries that were written.
    dictionaries: HashSet<i64>,
    time: StageTime,
    failed: bool,
}

/// Message that is not written yet.
struct Outgoing {
    header: Buffer,
    body: Body,
}

enum Body {
    /// Pieces of the complete message, including its header.
    Ready(Vec<Buffer>),
    /// For each buffer `true` if it has bytes, and the results of compressing those.
    Compressing(Vec<bool>, Pending<Vec<Encoded>>),
    Outer(outer::Compressing),
}

impl<W: Write + Send + 'static> Packer<W> {
    /// Writes the beginning of the stream or file, up to the first batch.
    ///
    /// # Errors
    /// [`Error::Format`] for a schema that the format does not have, [`Error::Options`], [`Error::Io`].
    pub fn new(
        mut writer: W,
        schema: SchemaRef,
        options: PackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let schema = match &options.outer {
            Some(_) if options.codec != Codec::None => {
                let reason = "messages are compressed either buffer by buffer or as a whole";
                return Err(Error::Options(reason.into()));
            }
            Some(outer) => outer.announce(&schema)?,
            None => schema,
        };
        let encoder = StreamEncoder::try_new_with_options(&schema, IpcWriteOptions::default())?;
        let mut footer = Footer::default();
        if options.layout == Layout::File {
            writer.write_all(&MAGIC)?;
            footer.position = MAGIC.len() as u64;
        }
        Ok(Self {
            sink: Sink::new(writer, pool),
            options,
            schema,
            encoder,
            pool: Arc::clone(pool),
            pending: VecDeque::new(),
            footer,
            dictionaries: HashSet::new(),
            time: StageTime::default(),
            failed: false,
        })
    }

    /// Takes a batch. It is compressed in the background, and a later call writes it.
    ///
    /// # Errors
    /// [`Error`]; then nothing more can be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Spent);
        }
        let mut time = StageTime::default();
        let result = time.measure(|| self.pack(batch));
        self.time += time;
        self.failed = result.is_err();
        result
    }

    /// Writes all batches so far, but not the end of the stream or the file.
    ///
    /// # Errors
    /// Those of [`Packer::write`].
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Spent);
        }
        let mut time = StageTime::default();
        let result = time.measure(|| {
            while let Some(outgoing) = self.pending.pop_front() {
                self.put(outgoing)?;
            }
            Ok::<_, Error>(self.get_mut()?.flush()?)
        });
        self.time += time;
        self.failed = result.is_err();
        result
    }

    /// Writes the remaining messages and the end of the stream or the file. Returns the flushed writer,
    /// and the time and bytes of the work.
    ///
    /// # Errors
    /// [`Error`].
    pub fn finish(mut self) -> Result<(W, StageTime), Error> {
        if self.failed {
            return Err(Error::Spent);
        }
        let mut time = StageTime::default();
        let schema = Arc::clone(&self.schema);
        // The replacement is never used.
        let empty = StreamEncoder::try_new(&Schema::empty())?;
        let encoder = std::mem::replace(&mut self.encoder, empty);
        time.measure(|| {
            let mut end = encoder.finish()?;
            while let Some(outgoing) = self.pending.pop_front() {
                self.put(outgoing)?;
            }
            self.footer.position += end.iter().map(|piece| piece.len() as u64).sum::<u64>();
            if self.options.layout == Layout::File {
                let footer = self.footer.write(&schema)?;
                self.footer.position += footer.len() as u64;
                end.push(footer.into());
            }
            self.time.cpu_ns += self.sink.put(&self.pool, end)?;
            Ok::<_, Error>(self.get_mut()?.flush()?)
        })?;
        time += self.time;
        time.bytes_out = self.footer.position;
        Ok((self.sink.into_writer()?, time))
    }

    /// Returns the time and the bytes of its work so far.
    pub fn time(&self) -> StageTime {
        StageTime { bytes_out: self.footer.position, ..self.time }
    }

    /// Returns the writer. The last batches may not be written yet.
    ///
    /// # Errors
    /// [`Error`]: an earlier batch could not be written.
    pub fn get_mut(&mut self) -> Result<&mut W, Error> {
        let (writer, cpu_ns) = self.sink.writer(&self.pool)?;
        self.time.cpu_ns += cpu_ns;
        Ok(writer)
    }

    fn pack(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        check_schema(&self.schema, batch.schema_ref())?;
        let batch = compact(batch)?;
        let mut pieces = Pieces::new(self.encoder.encode(&batch)?);
        while !pieces.is_empty() {
            self.start(&mut pieces)?;
        }
        // One message more than there are threads, so that all threads have work while this one writes.
        while self.pending.len() > self.pool.threads() || self.is_first_done() {
            if let Some(outgoing) = self.pending.pop_front() {
                self.put(outgoing)?;
            }
        }
        Ok(())
    }

    fn is_first_done(&self) -> bool {
        self.pending.front().is_some_and(|first| match &first.body {
            Body::Ready(_) => true,
            Body::Compressing(_, pending) => pending.is_done(),
            Body::Outer(outer) => outer.is_done(),
        })
    }

    /// Starts to compress the encoder's next message.
    fn start(&mut self, pieces: &mut Pieces) -> Result<(), Error> {
        let prefix = pieces.take(PREFIX_BYTES);
        let len = prefix.get(4..).and_then(|len| len.first_chunk());
        let len = u32::from_le_bytes(*len.ok_or_else(cut)?) as usize;
        let header = pieces.take(len);
        let parsed = message::parse(&header)?;
        let body_len = parsed.bodyLength() as usize;
        self.time.bytes_in += body_len as u64;
        if parsed.header_type() == MessageHeader::DictionaryBatch {
            self.check_dictionary(&parsed)?;
        }
        let body = match (message::batch_of(&parsed), self.options.outer) {
            (Some(_), Some(outer)) => Body::Outer(outer.start(&self.pool, &pieces.take(body_len))),
            (Some(batch), None) if self.options.codec != Codec::None => {
                let ranges = batch.buffers().into_iter().flatten();
                let (mut sources, mut position) = (Vec::new(), 0);
                for range in ranges {
                    let (offset, len) = (range.offset() as usize, range.length() as usize);
                    pieces.take(offset - position);
                    sources.push(pieces.take(len));
                    position = offset + len;
                }
                pieces.take(body_len - position);
                self.compress(sources)
            }
            _ => {
                let mut body = vec![prefix, header.clone()];
                body.extend(pieces.take_pieces(body_len));
                Body::Ready(body)
            }
        };
        self.pending.push_back(Outgoing { header, body });
        Ok(())
    }

    fn compress(&self, sources: Vec<Buffer>) -> Body {
        let (codec, pool) = (self.options.codec, &self.pool);
        let has_bytes = sources.iter().map(|source| !source.is_empty()).collect();
        let sources = sources.into_iter().filter(|source| !source.is_empty());
        let placed = pool.placed(placed::COMPRESS);
        let pending = match placed.filter(|_| codec == Codec::Lz4) {
            Some(executors) => placed::start_compressing(pool, executors, sources),
            None => pool.start(sources.map(|source| {
                let memory = Arc::clone(&pool.memory);
                move |kernels: &mut _| Ok(vec![buffers::compress(kernels, &memory, codec, source)?])
            })),
        };
        Body::Compressing(has_bytes, pending)
    }

    /// Refuses a second dictionary for a field of a file; additions are allowed.
    fn check_dictionary(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let Some(dictionary) = message.header_as_dictionary_batch() else {
            return Ok(());
        };
        let is_new = self.dictionaries.insert(dictionary.id());
        match is_new || dictionary.isDelta() || self.options.layout == Layout::Stream {
            true => Ok(()),
            false => Err(Error::DictionaryReplaced),
        }
    }

    /// Writes a message.
    fn put(&mut self, Outgoing { header, body }: Outgoing) -> Result<(), Error> {
        let message = message::parse(&header)?;
        let (head_len, pieces) = match body {
            Body::Ready(pieces) => (PREFIX_BYTES + header.len(), pieces),
            Body::Compressing(has_bytes, pending) => {
                let (encoded, cpu_ns) = self.pool.threads.wait(pending)?;
                self.time.cpu_ns += cpu_ns;
                self.assemble(&message, &has_bytes, encoded.into_iter().flatten())?
            }
            Body::Outer(outer) => {
                let (pieces, cpu_ns) = outer.wait(&self.pool)?;
                self.time.cpu_ns += cpu_ns;
                let len = pieces.iter().map(Buffer::len).sum();
                let batch = message::batch_of(&message);
                let ranges = batch.and_then(|batch| batch.buffers()).into_iter().flatten();
                let ranges: Vec<_> = ranges.copied().collect();
                let header = message::with_buffers(&message, &ranges, len, outer::COMPRESSION)?;
                let header = message::framed(&header);
                (header.len(), [vec![Buffer::from(header)], pieces].concat())
            }
        };
        let len = pieces.iter().map(Buffer::len).sum::<usize>();
        self.footer.wrote(message.header_type(), head_len, len - head_len)?;
        self.time.cpu_ns += self.sink.put(&self.pool, pieces)?;
        Ok(())
    }

    /// Assembles a message from compressed buffers. Returns it with the length of its header.
    fn assemble(
        &self,
        message: &Message<'_>,
        has_bytes: &[bool],
        mut encoded: impl Iterator<Item = Encoded>,
    ) -> Result<(usize, Vec<Buffer>), Error> {
        let codec = self.options.codec.compression().unwrap_or_default();
        let compression = Compression { codec, method: BodyCompressionMethod::BUFFER };
        let (mut ranges, mut pieces, mut begin) = (Vec::new(), vec![Buffer::default()], 0);
        for &has_bytes in has_bytes {
            let len = match has_bytes.then(|| encoded.next()).flatten() {
                Some(Encoded::Compressed(buffer)) => {
                    pieces.push(buffer.clone());
                    buffer.len()
                }
                Some(Encoded::Stored(buffer)) => {
                    pieces.extend([Buffer::from(NOT_COMPRESSED.to_le_bytes()), buffer.clone()]);
                    buffers::PREFIX_BYTES + buffer.len()
                }
                None => 0,
            };
            ranges.push(arrow_ipc::Buffer::new(begin as i64, len as i64));
            let end = (begin + len).next_multiple_of(COMPRESSED_ALIGN_BYTES);
            if end > begin + len {
                pieces.push(Buffer::from(vec![0_u8; end - begin - len]));
            }
            begin = end;
        }
        let header = message::with_buffers(message, &ranges, begin, compression)?;
        let header = message::framed(&header);
        let len = header.len();
        pieces[0] = Buffer::from(header);
        Ok((len, pieces))
    }
}
