//! Writer of tables in any format.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_csv::Writer as CsvWriter;
use arrow_schema::SchemaRef;
use overside_base::lock;
use overside_tables::memory::RowGroupMemory;
use overside_tables::pack::{Codec, CodecPool, Layout, Outer, PackOptions, Packer, StageTime};
use overside_tables::{Conversion, Format, ParquetWriter, ROW_GROUP_ROWS, Storage};

use crate::FileFormat;
use overside_flow_operators::Error;
use overside_flow_operators::values_bytes;

/// Format and compression of a file to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// The file's format.
    pub format: FileFormat,
    /// Codec that compresses buffers, or Parquet's pages.
    pub codec: Codec,
    /// Codec that compresses each message as a whole; for Arrow IPC only.
    pub outer: Option<Outer>,
    /// Maximum number of rows of a row group; for Parquet only. [`ROW_GROUP_ROWS`] unless set.
    pub row_group_rows: Option<usize>,
}

impl WriteOptions {
    /// Checks that the format supports the requested compression.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn check(&self) -> Result<(), Error> {
        let is_ipc = matches!(self.format, FileFormat::Arrow | FileFormat::ArrowStream);
        let refused = |reason: String| Err(Error::Refused(reason));
        let format = self.format;
        match self {
            Self { outer: Some(_), .. } if !is_ipc => {
                refused(format!("{format} has no outer compression; arrow and arrow-stream have"))
            }
            Self { outer: Some(_), codec, .. } if *codec != Codec::None => {
                refused("codec and outer exclude each other".into())
            }
            Self { format: FileFormat::Csv, codec, .. } if *codec != Codec::None => {
                refused("csv has no compression inside; use `overside compress`".into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses columns that the format does not have, and returns what is to be said of those that it converts.
    ///
    /// # Errors
    /// [`Error::Table`].
    pub fn check_columns(&self, schema: &SchemaRef) -> Result<Vec<Conversion>, Error> {
        Ok(self.storage(schema)?.conversions())
    }

    /// Returns how the format stores the columns.
    pub fn storage(&self, schema: &SchemaRef) -> Result<Storage, Error> {
        let format = match self.format {
            FileFormat::Arrow | FileFormat::ArrowStream => Format::Arrow,
            FileFormat::Parquet => Format::Parquet,
            FileFormat::Csv => Format::Csv,
        };
        Ok(Storage::new(format, schema)?)
    }
}

/// Table that is being written.
pub struct FileWriter<W: Write + Send + 'static> {
    batches: Batches<W>,
    time: StageTime,
    failure: Failure,
}

enum Batches<W: Write + Send + 'static> {
    /// Arrow IPC, which counts its own time.
    Ipc(Box<Packer<W>>),
    Parquet(Box<ParquetWriter<Counted<W>>>),
    Csv(Box<CsvWriter<Counted<W>>>, Box<Storage>),
}

impl<W: Write + Send + 'static> FileWriter<W> {
    /// Starts a table. Row groups of Parquet wait in the memory that the pool has for them.
    ///
    /// # Errors
    /// [`Error::Refused`] for options that the format does not have, and [`Error`].
    pub fn new(
        output: W,
        schema: &SchemaRef,
        options: WriteOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        Self::with_memory(output, schema, options, pool.row_groups(), pool)
    }

    /// Starts a table whose row groups, those of Parquet, wait in `memory`.
    ///
    /// # Errors
    /// As [`FileWriter::new`].
    pub fn with_memory(
        output: W,
        schema: &SchemaRef,
        options: WriteOptions,
        memory: &Arc<RowGroupMemory>,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let schema = SchemaRef::clone(schema);
        let failure = Failure::default();
        let counted = |output| Counted { output, bytes: 0, failure: failure.clone() };
        let layout = match options.format {
            FileFormat::ArrowStream => Layout::Stream,
            _ => Layout::File,
        };
        options.check()?;
        let storage = options.storage(&schema)?;
        let batches = match options.format {
            FileFormat::Arrow | FileFormat::ArrowStream => {
                let options = PackOptions { layout, codec: options.codec, outer: options.outer };
                Batches::Ipc(Box::new(Packer::new(output, schema, options, pool)?))
            }
            FileFormat::Parquet => {
                let output = counted(output);
                let rows = options.row_group_rows.unwrap_or(ROW_GROUP_ROWS);
                let writer =
                    ParquetWriter::new(output, storage, options.codec, rows, memory, pool)?;
                Batches::Parquet(Box::new(writer))
            }
            FileFormat::Csv => {
                Batches::Csv(Box::new(CsvWriter::new(counted(output))), Box::new(storage))
            }
        };
        Ok(Self { batches, time: StageTime::default(), failure })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// [`Error`]; then nothing more can be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let bytes = values_bytes(batch);
        let work = || match &mut self.batches {
            Batches::Ipc(packer) => Ok::<_, Error>(packer.write(batch)?),
            Batches::Parquet(writer) => Ok(writer.write(batch, bytes)?),
            Batches::Csv(writer, storage) => Ok(writer.write(&storage.store(batch)?)?),
        };
        let written = self.time.measure(work);
        written.map_err(|error| self.failure.or(error))?;
        self.time.bytes_in += bytes as u64;
        Ok(())
    }

    /// Completes the table. Returns the flushed output, and the time and bytes of writing.
    ///
    /// # Errors
    /// [`Error`].
    pub fn finish(self) -> Result<(W, StageTime), Error> {
        let finished = Self::end(self.batches, self.time);
        finished.map_err(|error| self.failure.or(error))
    }

    fn end(batches: Batches<W>, mut time: StageTime) -> Result<(W, StageTime), Error> {
        match batches {
            Batches::Ipc(packer) => Ok(packer.finish()?),
            Batches::Parquet(writer) => {
                let (output, cpu_ns) = time.measure(|| writer.finish())?;
                time.cpu_ns += cpu_ns;
                time.bytes_out = output.bytes;
                Ok((output.output, time))
            }
            Batches::Csv(writer, _) => {
                let output = time.measure(|| {
                    let mut output = writer.into_inner();
                    output.flush().map(|()| output)
                })?;
                time.bytes_out = output.bytes;
                Ok((output.output, time))
            }
        }
    }
}

/// I/O error of the output, stored when it occurs. Format libraries report it only as text, or together with
/// other errors.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    fn note(&self, error: &io::Error) {
        *lock(&self.0) = Some(io::Error::new(error.kind(), error.to_string()));
    }

    /// Returns the I/O error if there was one, otherwise the format library's error.
    fn or(&self, error: Error) -> Error {
        lock(&self.0).take().map_or(error, Error::Io)
    }
}

/// Writer that counts its bytes.
struct Counted<W> {
    output: W,
    bytes: u64,
    failure: Failure,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes);
        let written = written.inspect_err(|error| self.failure.note(error))?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.output.flush();
        flushed.inspect_err(|error| self.failure.note(error))
    }
}
