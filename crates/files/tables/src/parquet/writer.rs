//! Parquet that is written under a thread budget.
//!
//! 1. Batches wait until they have [`ENCODED_ROWS`], or make a row group where many files are written. Then each column
//!    of them is a task, which converts, encodes and compresses it. Where a sample says that a dictionary would hold
//!    about one value for each other row, the column gets none.
//! 2. A row group ends with [`ROW_GROUP_ROWS`] rows, or fewer where the row groups of all files together have no memory
//!    left. The task of it that is done last writes it, while rows of the next one gather and are encoded.

use std::io::Write;
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use overside_base::lock;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions,
    compute_leaves,
};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;

use super::distinct::is_mostly_distinct;
use crate::memory::{HeldBytes, RowGroupMemory};
use crate::pack::{Codec, CodecPool, Pending};
use crate::{Error, Storage, check_schema};

/// Rows of a group unless the caller says another number: a reader leaves out whole groups, and about as many are common.
pub const ROW_GROUP_ROWS: usize = 128 << 10;
/// Rows that are encoded before their row group is complete, so that threads have work early and batches do not wait for
/// it; with so many columns of all files at most, as each has an encoder then, which takes some 100 KiB.
const ENCODED_ROWS: usize = 8 << 10;
const EARLY_COLUMNS_MAX: usize = 512;
/// A row group that is closed for want of memory has at least so many bytes a column, which is some times what is kept of
/// it for the footer, and this part of what was written before: a file has at most 32,767.
const CLOSED_COLUMN_BYTES: usize = 8 << 10;
const CLOSED_SHARE: usize = 1 << 10;

/// Writes batches as Parquet.
pub struct ParquetWriter<W: Write + Send + 'static> {
    /// `None` if writing failed.
    file: Arc<Mutex<Option<SerializedFileWriter<W>>>>,
    /// Makers of encoders with dictionaries, and without.
    factories: [ArrowRowGroupWriterFactory; 2],
    /// Number of encoders of each column: one for each primitive type within it.
    leaves: Vec<usize>,
    storage: Arc<Storage>,
    pool: Arc<CodecPool>,
    memory: Arc<RowGroupMemory>,
    /// Maximum number of rows of a row group.
    rows_max: usize,
    /// Rows of the row group that gathers.
    rows: usize,
    /// The last of them, which encoders do not have yet.
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// By column, if there are rows before those that wait, and none of these is being encoded.
    encoders: Vec<Encoders>,
    held: HeldBytes,
    /// Bytes of all row groups before, as Arrow has them.
    bytes: usize,
    /// Encoders at work on rows of the row group that gathers, and on the last rows of the one before.
    encoding: Option<Pending<Encoders>>,
    closing: Option<Pending<Encoders>>,
    cpu_ns: u64,
}

/// Encoders of a column, one for each primitive type within it; none of a complete row group.
type Encoders = Vec<ArrowColumnWriter>;

/// A complete row group.
struct RowGroup<W: Write> {
    file: Arc<Mutex<Option<SerializedFileWriter<W>>>>,
    /// By column; `None` before all of it is encoded.
    chunks: Mutex<Vec<Option<Vec<ArrowColumnChunk>>>>,
    /// Memory of the batches.
    _held: HeldBytes,
}

impl<W: Write + Send + 'static> ParquetWriter<W> {
    /// Begins a file. Its row groups have at most `rows_max` rows and wait in `memory`.
    ///
    /// # Errors
    /// [`Error`]: Parquet cannot have the schema, or the codec has no such level.
    pub fn new(
        output: W,
        storage: Storage,
        codec: Codec,
        rows_max: usize,
        memory: &Arc<RowGroupMemory>,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let compression = match codec {
            Codec::None => Compression::UNCOMPRESSED,
            Codec::Lz4 => Compression::LZ4_RAW,
            Codec::Zstd(level) => {
                let level = ZstdLevel::try_new(level as i32);
                Compression::ZSTD(level.map_err(Error::format)?)
            }
        };
        let schema = storage.stored_schema();
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_key_value_metadata(key_values(schema));
        let writer = arrow_writer(output, &storage, properties.clone())?;
        let (file, with) = writer.into_serialized_writer().map_err(Error::format)?;
        let plain = properties.set_dictionary_enabled(false);
        let writer = arrow_writer(std::io::sink(), &storage, plain)?;
        let (_, without) = writer.into_serialized_writer().map_err(Error::format)?;
        let parquet = file.schema_descr();
        let mut leaves = vec![0; schema.fields().len()];
        for leaf in 0..parquet.num_columns() {
            leaves[parquet.get_column_root_idx(leaf)] += 1;
        }
        Ok(Self {
            file: Arc::new(Mutex::new(Some(file))),
            factories: [with, without],
            leaves,
            storage: Arc::new(storage),
            pool: Arc::clone(pool),
            memory: Arc::clone(memory),
            rows_max,
            rows: 0,
            waiting: Vec::new(),
            waiting_rows: 0,
            encoders: Vec::new(),
            held: HeldBytes::new(&memory.bytes),
            bytes: 0,
            encoding: None,
            closing: None,
            cpu_ns: 0,
        })
    }

    /// Takes a batch, whose values have so many bytes. It is encoded and written by a later call at the latest.
    ///
    /// # Errors
    /// [`Error`]; then nothing more can be written.
    pub fn write(&mut self, batch: &RecordBatch, bytes: usize) -> Result<(), Error> {
        check_schema(self.storage.schema(), batch.schema_ref())?;
        let mut begin = 0;
        while begin < batch.num_rows() {
            let rows = (batch.num_rows() - begin).min(self.rows_max - self.rows);
            self.waiting.push(batch.slice(begin, rows));
            self.held.add(bytes / batch.num_rows() * rows);
            self.rows += rows;
            self.waiting_rows += rows;
            begin += rows;
            let own = self.held.own();
            let floor = (CLOSED_COLUMN_BYTES * self.leaves.len()).max(self.bytes / CLOSED_SHARE);
            let is_last = self.rows == self.rows_max || (own >= floor && self.memory.is_short(own));
            let columns = self.memory.files() * self.leaves.len();
            let is_early = self.waiting_rows >= ENCODED_ROWS && columns <= EARLY_COLUMNS_MAX;
            if is_last || is_early {
                self.encode(is_last)?;
            }
        }
        if self.memory.is_full() {
            self.settle()?;
            self.close()?;
        }
        Ok(())
    }

    /// Writes what is left and the footer. The output back, and the CPU time of encoding and writing, in nanoseconds.
    ///
    /// # Errors
    /// [`Error`].
    pub fn finish(mut self) -> Result<(W, u64), Error> {
        if self.rows > 0 {
            self.encode(true)?;
        }
        self.close()?;
        let file = lock(&self.file).take().ok_or(Error::Spent)?;
        Ok((file.into_inner().map_err(Error::format)?, self.cpu_ns))
    }

    /// Waits for the encoders of the row group that gathers.
    fn settle(&mut self) -> Result<(), Error> {
        if let Some(encoding) = self.encoding.take() {
            let (encoders, cpu_ns) = self.pool.wait(encoding)?;
            self.encoders = encoders;
            self.cpu_ns += cpu_ns;
        }
        Ok(())
    }

    /// Waits until the row group before that is written.
    fn close(&mut self) -> Result<(), Error> {
        if let Some(closing) = self.closing.take() {
            self.cpu_ns += self.pool.wait(closing)?.1;
        }
        Ok(())
    }

    /// Begins to encode the rows that wait, the last of their row group or not.
    fn encode(&mut self, is_last: bool) -> Result<(), Error> {
        // Values keep their order, and row groups theirs.
        self.settle()?;
        if is_last {
            self.close()?;
        }
        let batches = std::mem::take(&mut self.waiting);
        let columns: Vec<Vec<ArrayRef>> = (0..self.leaves.len())
            .map(|at| (batches.iter().map(|batch| ArrayRef::clone(batch.column(at)))).collect())
            .collect();
        if std::mem::take(&mut self.waiting_rows) == self.rows {
            let rows = if is_last { self.rows } else { self.rows_max };
            self.encoders = self.begin(&columns, rows)?;
        }
        let group = is_last.then(|| {
            self.rows = 0;
            self.bytes += self.held.own();
            let next = HeldBytes::new(&self.memory.bytes);
            Arc::new(RowGroup {
                file: Arc::clone(&self.file),
                chunks: Mutex::new(self.leaves.iter().map(|_| None).collect()),
                _held: std::mem::replace(&mut self.held, next),
            })
        });
        let columns = columns.into_iter().zip(std::mem::take(&mut self.encoders));
        let tasks = columns.enumerate().map(|(at, (arrays, encoders))| {
            let (storage, group) = (Arc::clone(&self.storage), group.clone());
            move || {
                let encoders = encoded(&storage, at, &arrays, encoders)?;
                match group {
                    None => Ok(encoders),
                    Some(group) => group.take(at, encoders).map(|()| Vec::new()),
                }
            }
        });
        let started = Some(self.pool.start_tasks(tasks));
        *(if is_last { &mut self.closing } else { &mut self.encoding }) = started;
        if self.pool.threads() == 1 {
            self.settle()?;
            self.close()?;
        }
        Ok(())
    }

    /// Encoders of a row group of so many rows, whose first are these.
    fn begin(&self, columns: &[Vec<ArrayRef>], rows: usize) -> Result<Vec<Encoders>, Error> {
        let [with, without] = &self.factories;
        let both = encoders(with, &self.leaves)?.into_iter().zip(encoders(without, &self.leaves)?);
        let chosen = columns.iter().zip(both).map(|(arrays, (with, without))| {
            if is_mostly_distinct(arrays, rows) { without } else { with }
        });
        Ok(chosen.collect())
    }
}

impl<W: Write + Send> RowGroup<W> {
    /// Takes an encoded column. The last one has the row group written.
    fn take(&self, at: usize, encoders: Encoders) -> Result<(), Error> {
        let column = encoders.into_iter().map(ArrowColumnWriter::close);
        let column = column.collect::<Result<_, ParquetError>>().map_err(Error::format)?;
        let mut chunks = lock(&self.chunks);
        chunks[at] = Some(column);
        if chunks.iter().any(Option::is_none) {
            return Ok(());
        }
        let chunks = std::mem::take(&mut *chunks);
        let mut file = lock(&self.file);
        // One that failed is not used again.
        let mut open = file.take().ok_or(Error::Spent)?;
        let write = || {
            let mut group = open.next_row_group()?;
            for chunk in chunks.into_iter().flatten().flatten() {
                chunk.append_to_row_group(&mut group)?;
            }
            group.close().map(drop)
        };
        write().map_err(Error::format)?;
        *file = Some(open);
        Ok(())
    }
}

fn arrow_writer<W: Write + Send>(
    output: W,
    storage: &Storage,
    properties: WriterPropertiesBuilder,
) -> Result<ArrowWriter<W>, Error> {
    let mut options = ArrowWriterOptions::new().with_properties(properties.build());
    if let Some(schema) = storage.parquet_schema()? {
        options = options.with_parquet_schema(schema);
    }
    let schema = Arc::clone(storage.stored_schema());
    ArrowWriter::try_new_with_options(output, schema, options).map_err(Error::format)
}

/// Encoders of a row group, by column.
fn encoders(
    factory: &ArrowRowGroupWriterFactory,
    leaves: &[usize],
) -> Result<Vec<Encoders>, Error> {
    // The number of the row group matters to encrypted files only.
    let all = factory.create_column_writers(0).map_err(Error::format)?;
    let mut all = all.into_iter();
    let columns = leaves.iter().map(|count| all.by_ref().take(*count).collect());
    Ok(columns.collect())
}

/// Encodes arrays of the column in that place.
fn encoded(
    storage: &Storage,
    at: usize,
    arrays: &[ArrayRef],
    mut encoders: Encoders,
) -> Result<Encoders, Error> {
    let field = storage.stored_schema().field(at);
    for array in arrays {
        let stored = storage.store_column(at, array)?;
        let leaves = compute_leaves(field, &stored).map_err(Error::format)?;
        for (encoder, leaf) in encoders.iter_mut().zip(&leaves) {
            encoder.write(leaf).map_err(Error::format)?;
        }
    }
    Ok(encoders)
}

/// Metadata of the table, which other readers look for beside Arrow's schema: those of GeoParquet, pandas, Spark.
fn key_values(schema: &Schema) -> Option<Vec<KeyValue>> {
    let entries = schema.metadata().iter().filter(|(key, _)| *key != ARROW_SCHEMA_META_KEY);
    let entries = entries.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    let mut entries: Vec<KeyValue> = entries.collect();
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    (!entries.is_empty()).then_some(entries)
}
