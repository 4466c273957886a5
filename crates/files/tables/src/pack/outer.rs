//! Outer compression: the body of a message as a whole, by any codec, in chunks that devices accept.
//!
//! The key `overside.outer.format` in a schema's metadata marks a stream of such messages. Each message
//! declares a codec that Arrow does not have, so readers without outer compression refuse it. Ranges of
//! buffers in its header refer to the uncompressed body. The compressed body is, in little-endian numbers:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | length of the uncompressed body |
//! | 4 | uncompressed length of each chunk except the last |
//! | 4 each | compressed length of each chunk; the highest bit marks an uncompressed one |
//! | | the chunks, then zeros to a multiple of 8 |

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::{BodyCompressionMethod, CompressionType};
use arrow_schema::{Schema, SchemaRef};
use overside_ops::{Config, Error as OpsError, Format, Operation, prepare};

use super::executors::{Executors, Job};
use super::message::Compression;
use super::placed;
use super::pool::CodecPool;
use super::threads::{Kernels, Pending};
use crate::Error;
use crate::memory::BufferPool;

/// Key of the schema's metadata.
pub const OUTER_FORMAT_KEY: &str = "overside.outer.format";
/// Compression that the headers of messages declare. Arrow has the codecs 0 and 1 and the method 0.
pub(super) const COMPRESSION: Compression =
    Compression { codec: CompressionType(100), method: BodyCompressionMethod(100) };
/// Length in bytes of written chunks: all engines with published limits accept it.
const CHUNK_BYTES: usize = 1 << 20;
/// Maximum length in bytes of chunks that are read.
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// Number of bytes before the lengths of the chunks.
const HEADER_BYTES: usize = 12;
const LENGTH_BYTES: usize = 4;
const STORED: u32 = 1 << 31;
const ALIGN_BYTES: usize = 8;

/// Compression of the bodies of messages as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    format: Format,
    level: Option<u32>,
}

/// Chunks that are being compressed: each becomes a piece of the body or is stored.
pub(super) struct Compressing {
    body_len: usize,
    pending: Pending<Vec<Chunk>>,
}

struct Chunk {
    bytes: Buffer,
    is_stored: bool,
}

impl Outer {
    /// Supported formats.
    pub const FORMATS: [Format; 6] =
        [Format::Deflate, Format::Gzip, Format::Zlib, Format::Lz4Block, Format::Lz4, Format::Zstd];

    /// Returns outer compression in that format and at that level; `None` is the library's default.
    pub fn new(format: Format, level: Option<u32>) -> Self {
        Self { format, level }
    }

    /// Returns the format.
    pub fn format(self) -> Format {
        self.format
    }

    /// Returns the level if one is set.
    pub fn level(self) -> Option<u32> {
        self.level
    }

    /// Checks that a library supports the format at that level.
    ///
    /// # Errors
    /// [`Error::Codec`].
    pub fn check(self) -> Result<(), Error> {
        let config = Config { level: self.level, ..Config::new(Operation::Compress(self.format)) };
        prepare(&config)?;
        Ok(())
    }

    /// Returns the schema with the key for this format.
    pub(super) fn announce(self, schema: &Schema) -> Result<SchemaRef, Error> {
        let mut metadata = schema.metadata().clone();
        metadata.insert(OUTER_FORMAT_KEY.into(), name(self.format));
        Ok(Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata)))
    }

    pub(super) fn start(self, pool: &CodecPool, body: &Buffer) -> Compressing {
        let operation = Operation::Compress(self.format);
        let pending = match pool.placed(operation) {
            Some(executors) => {
                pool.start(executors.shares(chunks(body)).into_iter().map(|share| {
                    let executors = Arc::clone(executors);
                    move |_: &mut Kernels| {
                        executors.submitting(|| self.compress_placed(&executors, share))
                    }
                }))
            }
            None => pool.start(chunks(body).map(|source| {
                let memory = Arc::clone(&pool.memory);
                move |kernels: &mut Kernels| Ok(vec![self.compress(kernels, &memory, source)?])
            })),
        };
        Compressing { body_len: body.len(), pending }
    }

    fn compress(
        self,
        kernels: &mut Kernels,
        memory: &Arc<BufferPool>,
        source: Buffer,
    ) -> Result<Chunk, Error> {
        let kernel = kernels.get(Operation::Compress(self.format), self.level)?;
        let mut region = memory.take(source.len())?;
        match kernel.run(&[&source], &mut region[..source.len()]) {
            Ok(output) if output.written < source.len() => {
                Ok(Chunk { bytes: memory.lend(region, output.written), is_stored: false })
            }
            Ok(_) | Err(OpsError::OutputTooSmall { .. }) => {
                Ok(Chunk { bytes: source, is_stored: true })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn compress_placed(
        self,
        executors: &Executors,
        sources: Vec<Buffer>,
    ) -> Result<Vec<Chunk>, Error> {
        let jobs =
            sources.iter().map(|source| Job { capacity: source.len(), source: source.clone() });
        let operation = Operation::Compress(self.format);
        let results = executors.run(operation, self.level, jobs.collect())?;
        let chunk = |(source, result): (Buffer, _)| {
            let bytes = placed::output(result)?;
            let is_stored = bytes.is_none();
            let bytes = bytes.map_or(source, Buffer::from);
            Ok(Chunk { bytes, is_stored })
        };
        sources.into_iter().zip(&results).map(chunk).collect()
    }
}

fn chunks(body: &Buffer) -> impl Iterator<Item = Buffer> + '_ {
    (0..body.len())
        .step_by(CHUNK_BYTES)
        .map(|begin| body.slice_with_length(begin, CHUNK_BYTES.min(body.len() - begin)))
}

/// Returns the format's name: `deflate`, `zstd`, ...
fn name(format: Format) -> String {
    let operation = Operation::Compress(format).to_string();
    operation.trim_start_matches("compress-").into()
}

fn format_named(text: &str) -> Option<Format> {
    let mut formats = Outer::FORMATS.into_iter();
    formats.find(|format| name(*format) == text)
}

impl FromStr for Outer {
    type Err = Error;

    /// Parses `deflate` or `zstd:9`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::UnknownOuter(text.into());
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level.parse().map_err(|_| unknown())?)),
            None => (text, None),
        };
        let format = format_named(name).ok_or_else(unknown)?;
        Ok(Self::new(format, level))
    }
}

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self.format))?;
        self.level.map_or(Ok(()), |level| write!(f, ":{level}"))
    }
}

/// Returns the format in a schema's metadata.
pub(super) fn format_of(metadata: &HashMap<String, String>) -> Result<Option<Format>, Error> {
    let Some(name) = metadata.get(OUTER_FORMAT_KEY) else {
        return Ok(None);
    };
    let format = format_named(name);
    let unknown = || Error::Damaged(format!("no outer compression is called {name:?}"));
    format.map(Some).ok_or_else(unknown)
}

/// Returns the schema of the batches, without the key.
pub(super) fn without_key(schema: &SchemaRef) -> SchemaRef {
    if !schema.metadata().contains_key(OUTER_FORMAT_KEY) {
        return Arc::clone(schema);
    }
    let mut metadata = schema.metadata().clone();
    metadata.remove(OUTER_FORMAT_KEY);
    Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata))
}

impl Compressing {
    pub(super) fn is_done(&self) -> bool {
        self.pending.is_done()
    }

    /// Waits for the chunks. Returns the pieces of the body, and the CPU time that they took.
    pub(super) fn wait(self, pool: &CodecPool) -> Result<(Vec<Buffer>, u64), Error> {
        let (chunks, cpu_ns) = pool.threads.wait(self.pending)?;
        let chunks: Vec<Chunk> = chunks.into_iter().flatten().collect();
        let mut header = (self.body_len as u64).to_le_bytes().to_vec();
        header.extend((CHUNK_BYTES as u32).to_le_bytes());
        let mut len = HEADER_BYTES + LENGTH_BYTES * chunks.len();
        for chunk in &chunks {
            let stored = if chunk.is_stored { STORED } else { 0 };
            header.extend((chunk.bytes.len() as u32 | stored).to_le_bytes());
            len += chunk.bytes.len();
        }
        let mut pieces = vec![Buffer::from(header)];
        pieces.extend(chunks.into_iter().map(|chunk| chunk.bytes));
        let padding = len.next_multiple_of(ALIGN_BYTES) - len;
        pieces.push(Buffer::from(vec![0_u8; padding]));
        Ok((pieces, cpu_ns))
    }
}

/// Returns the maximum number of bytes that one compressed byte can stand for.
fn ratio_max(format: Format) -> u64 {
    match format {
        Format::Lz4 | Format::Lz4Block => super::buffers::LZ4_RATIO_MAX,
        Format::Zstd => super::buffers::ZSTD_RATIO_MAX,
        // One bit for a length and one for a distance make 258 bytes (RFC 1951).
        _ => 1032,
    }
}

/// Decompresses a body to at most `bytes_max` bytes.
pub(super) fn decompress(
    pool: &CodecPool,
    format: Format,
    body: &Buffer,
    bytes_max: u64,
) -> Result<(Buffer, u64), Error> {
    let plan = Plan::read(format, body, bytes_max)?;
    let operation = Operation::Decompress(format);
    let mut region = pool.memory.take(plan.body_len)?;
    let compressed = plan.chunks.iter().filter(|chunk| !chunk.is_stored);
    let jobs = compressed.map(|chunk| Job { source: chunk.bytes.clone(), capacity: chunk.len });
    let pending = match pool.placed(operation) {
        Some(executors) => pool.start(executors.shares(jobs).into_iter().map(|jobs| {
            let (executors, memory) = (Arc::clone(executors), Arc::clone(&pool.memory));
            move |_: &mut Kernels| {
                executors.submitting(|| decompress_placed(&executors, &memory, operation, jobs))
            }
        })),
        None => pool.start(jobs.map(|job| {
            let memory = Arc::clone(&pool.memory);
            move |kernels: &mut Kernels| {
                let mut region = memory.take(job.capacity)?;
                let kernel = kernels.get(operation, None)?;
                let output = kernel.run(&[&job.source], &mut region[..job.capacity]);
                let written = output.map_err(super::buffers::damaged)?.written;
                Ok(vec![memory.lend(region, written)])
            }
        })),
    };
    let (decompressed, cpu_ns) = pool.threads.wait(pending)?;
    let mut decompressed = decompressed.into_iter().flatten();
    let mut begin = 0;
    for chunk in &plan.chunks {
        let bytes = match chunk.is_stored {
            true => chunk.bytes.clone(),
            false => decompressed.next().unwrap_or_default(),
        };
        put(&mut region[begin..][..chunk.len], &bytes)?;
        begin += chunk.len;
    }
    Ok((pool.memory.lend(region, plan.body_len), cpu_ns))
}

fn decompress_placed(
    executors: &Executors,
    memory: &Arc<BufferPool>,
    operation: Operation,
    jobs: Vec<Job>,
) -> Result<Vec<Buffer>, Error> {
    let results = executors.run(operation, None, jobs)?;
    let copy = |result| {
        let bytes = placed::decompressed(result)?;
        let mut region = memory.take(bytes.len())?;
        region[..bytes.len()].copy_from_slice(bytes);
        Ok(memory.lend(region, bytes.len()))
    };
    results.iter().map(copy).collect()
}

fn put(room: &mut [u8], bytes: &[u8]) -> Result<(), Error> {
    if room.len() != bytes.len() {
        return Err(super::buffers::other_length(room.len(), bytes.len()));
    }
    room.copy_from_slice(bytes);
    Ok(())
}

/// Chunks of a body, as its header declares them, checked against the existing bytes.
struct Plan {
    body_len: usize,
    chunks: Vec<PlannedChunk>,
}

struct PlannedChunk {
    bytes: Buffer,
    is_stored: bool,
    /// Number of uncompressed bytes.
    len: usize,
}

impl Plan {
    fn read(format: Format, body: &Buffer, bytes_max: u64) -> Result<Self, Error> {
        let damaged = |what: &str| Error::Damaged(format!("an outer compressed body: {what}"));
        let cut = || damaged("it ends early");
        let (body_len, rest) = body.split_first_chunk().ok_or_else(cut)?;
        let (chunk_len, _) = rest.split_first_chunk().ok_or_else(cut)?;
        let body_len = u64::from_le_bytes(*body_len);
        let chunk_len = u32::from_le_bytes(*chunk_len) as usize;
        if body_len > bytes_max {
            return Err(Error::TooLong { bytes: body_len, bytes_max });
        }
        if !(1..=CHUNK_BYTES_MAX).contains(&chunk_len) {
            return Err(damaged("chunks of a length that is not used"));
        }
        let body_len = usize::try_from(body_len).map_err(|_| cut())?;
        let count = body_len.div_ceil(chunk_len);
        let lengths_len = count.checked_mul(LENGTH_BYTES).ok_or_else(cut)?;
        let lengths = (body.get(HEADER_BYTES..)).and_then(|rest| rest.get(..lengths_len));
        let mut begin = HEADER_BYTES + lengths_len;
        let mut chunks = Vec::with_capacity(count.min(body.len()));
        for (number, length) in lengths.ok_or_else(cut)?.chunks_exact(LENGTH_BYTES).enumerate() {
            let word = length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
            let (compressed_len, is_stored) = ((word & !STORED) as usize, word & STORED != 0);
            if body.len() - begin < compressed_len {
                return Err(cut());
            }
            let len = chunk_len.min(body_len - number * chunk_len);
            let ratio = if is_stored { 1 } else { ratio_max(format) };
            if len as u64 > (compressed_len as u64).saturating_mul(ratio) {
                let what = format!("{compressed_len} bytes cannot become {len}");
                return Err(damaged(&what));
            }
            chunks.push(PlannedChunk {
                bytes: body.slice_with_length(begin, compressed_len),
                is_stored,
                len,
            });
            begin += compressed_len;
        }
        Ok(Self { body_len, chunks })
    }
}
