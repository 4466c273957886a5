//! Writer of tables in any format.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_csv::Writer as CsvWriter;
use arrow_schema::{Schema, SchemaRef};
use overside_base::lock;
use overside_tables::pack::{Codec, CodecPool, Layout, Outer, PackOptions, Packer, StageTime};
use overside_tables::{Format, Storage};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::FileFormat;
use overside_flow_operators::Error;
use overside_flow_operators::values_bytes;

/// Number of rows of a Parquet row group: readers skip whole groups, and this size is common.
const ROW_GROUP_ROWS: usize = 128 << 10;

/// Format and compression of a file to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// The file's format.
    pub format: FileFormat,
    /// Codec that compresses buffers, or Parquet's pages.
    pub codec: Codec,
    /// Codec that compresses each message as a whole; for Arrow IPC only.
    pub outer: Option<Outer>,
}

impl WriteOptions {
    /// Checks that the format supports the requested compression.
    ///
    /// # Errors
    /// [`Error::Options`].
    pub fn check(&self) -> Result<(), Error> {
        let is_ipc = matches!(self.format, FileFormat::Arrow | FileFormat::ArrowStream);
        let refused = |reason: String| Err(Error::Options(reason));
        let format = self.format;
        match self {
            Self { outer: Some(_), .. } if !is_ipc => refused(format!(
                "{format} has no outer compression; arrow and arrow-stream have"
            )),
            Self {
                outer: Some(_),
                codec,
                ..
            } if *codec != Codec::None => refused("codec and outer exclude each other".into()),
            Self {
                format: FileFormat::Csv,
                codec,
                ..
            } if *codec != Codec::None => {
                refused("csv has no compression inside; use `overside compress`".into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses columns that the format does not have, and warns about those that it converts.
    ///
    /// # Errors
    /// [`Error::Table`].
    pub fn check_columns(&self, schema: &SchemaRef) -> Result<(), Error> {
        for note in self.storage(schema)?.notes() {
            tracing::warn!("{note}");
        }
        Ok(())
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
    storage: Storage,
    time: StageTime,
    failure: Failure,
}

enum Batches<W: Write + Send + 'static> {
    /// Arrow IPC, which counts its own time.
    Ipc(Box<Packer<W>>),
    Parquet(Box<ArrowWriter<Counted<W>>>),
    Csv(Box<CsvWriter<Counted<W>>>),
}

impl<W: Write + Send + 'static> FileWriter<W> {
    /// Starts a table.
    ///
    /// # Errors
    /// [`Error::Options`] for options that the format does not have, and [`Error`].
    pub fn new(
        output: W,
        schema: &SchemaRef,
        options: WriteOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let schema = SchemaRef::clone(schema);
        let failure = Failure::default();
        let counted = |output| Counted {
            output,
            bytes: 0,
            failure: failure.clone(),
        };
        let layout = match options.format {
            FileFormat::ArrowStream => Layout::Stream,
            _ => Layout::File,
        };
        options.check()?;
        let storage = options.storage(&schema)?;
        let batches = match options.format {
            FileFormat::Arrow | FileFormat::ArrowStream => {
                let options = PackOptions {
                    layout,
                    codec: options.codec,
                    outer: options.outer,
                };
                Batches::Ipc(Box::new(Packer::new(output, schema, options, pool)?))
            }
            FileFormat::Parquet => {
                let compression = match options.codec {
                    Codec::None => Compression::UNCOMPRESSED,
                    Codec::Lz4 => Compression::LZ4_RAW,
                    Codec::Zstd(level) => Compression::ZSTD(ZstdLevel::try_new(level as i32)?),
                };
                let properties = WriterProperties::builder()
                    .set_compression(compression)
                    .set_key_value_metadata(key_values(&schema))
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
                let mut options = ArrowWriterOptions::new().with_properties(properties.build());
                if let Some(schema) = storage.parquet_schema()? {
                    options = options.with_parquet_schema(schema);
                }
                let schema = SchemaRef::clone(storage.stored_schema());
                let writer = ArrowWriter::try_new_with_options(counted(output), schema, options)?;
                Batches::Parquet(Box::new(writer))
            }
            FileFormat::Csv => Batches::Csv(Box::new(CsvWriter::new(counted(output)))),
        };
        Ok(Self {
            batches,
            storage,
            time: StageTime::default(),
            failure,
        })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// [`Error`]; then nothing more can be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let work = || match &mut self.batches {
            Batches::Ipc(packer) => Ok::<_, Error>(packer.write(batch)?),
            Batches::Parquet(writer) => Ok(writer.write(&self.storage.store(batch)?)?),
            Batches::Csv(writer) => Ok(writer.write(&self.storage.store(batch)?)?),
        };
        let written = self.time.measure(work);
        written.map_err(|error| self.failure.or(error))?;
        self.time.bytes_in += values_bytes(batch) as u64;
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
                let output = time.measure(|| writer.into_inner())?;
                time.bytes_out = output.bytes;
                Ok((output.output, time))
            }
            Batches::Csv(writer) => {
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

/// Returns metadata of the table that other readers expect outside of Arrow's schema: those of GeoParquet,
/// pandas and Spark.
fn key_values(schema: &Schema) -> Option<Vec<KeyValue>> {
    let entries = schema
        .metadata()
        .iter()
        .filter(|(key, _)| *key != ARROW_SCHEMA_META_KEY);
    let entries = entries.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    let mut entries: Vec<KeyValue> = entries.collect();
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    (!entries.is_empty()).then_some(entries)
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
