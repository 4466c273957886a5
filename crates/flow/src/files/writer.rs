//! Writes a table in any format.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_csv::Writer as CsvWriter;
use arrow_schema::{DataType, Schema, SchemaRef};
use overside_base::lock;
use overside_tables::pack::{Codec, CodecPool, Layout, Outer, PackOptions, Packer, StageTime};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::FileFormat;
use crate::operators::values_bytes;
use crate::{Error, column_of};

/// Rows of a group of Parquet: a reader leaves out whole groups, and about as many are common.
const ROW_GROUP_ROWS: usize = 128 << 10;

/// How a file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// The file's format.
    pub format: FileFormat,
    /// What buffers, or Parquet's pages, are compressed with.
    pub codec: Codec,
    /// What messages are compressed with as a whole; of Arrow IPC only.
    pub outer: Option<Outer>,
}

impl WriteOptions {
    /// Whether the format has what is asked for.
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

    /// Refuses columns that the format does not have.
    pub(crate) fn check_columns(&self, schema: &Schema) -> Result<(), Error> {
        let (column, what) = match self.format {
            FileFormat::Csv => (column_of(schema, DataType::is_nested), "values with parts"),
            FileFormat::Parquet => {
                let is_union = |kind: &DataType| matches!(kind, DataType::Union(..));
                (column_of(schema, is_union), "unions")
            }
            _ => return Ok(()),
        };
        let format = self.format;
        column.map_or(Ok(()), |name| {
            let reason = format!(
                "column {name:?} has {what}, which {format} cannot hold; leave it out, or write arrow"
            );
            Err(Error::Options(reason))
        })
    }
}

/// A table that is being written.
pub struct FileWriter<W: Write + Send + 'static> {
    batches: Batches<W>,
    time: StageTime,
    failure: Failure,
}

enum Batches<W: Write + Send + 'static> {
    /// Arrow IPC, which counts its time itself.
    Ipc(Box<Packer<W>>),
    Parquet(Box<ArrowWriter<Counted<W>>>),
    Csv(Box<CsvWriter<Counted<W>>>),
}

impl<W: Write + Send + 'static> FileWriter<W> {
    /// Begins a table.
    ///
    /// # Errors
    /// [`Error::Options`] for what the format does not have, and [`Error`].
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
        options.check_columns(&schema)?;
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
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
                let writer =
                    ArrowWriter::try_new(counted(output), schema, Some(properties.build()))?;
                Batches::Parquet(Box::new(writer))
            }
            FileFormat::Csv => Batches::Csv(Box::new(CsvWriter::new(counted(output)))),
        };
        Ok(Self {
            batches,
            time: StageTime::default(),
            failure,
        })
    }

    /// Takes a batch.
    ///
    /// # Errors
    /// [`Error`]; then nothing more can be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let work = || match &mut self.batches {
            Batches::Ipc(packer) => Ok::<_, Error>(packer.write(batch)?),
            Batches::Parquet(writer) => Ok(writer.write(batch)?),
            Batches::Csv(writer) => Ok(writer.write(batch)?),
        };
        let written = self.time.measure(work);
        written.map_err(|error| self.failure.or(error))?;
        self.time.bytes_in += values_bytes(batch) as u64;
        Ok(())
    }

    /// Ends the table. The output back, flushed, and what writing took.
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

/// Why the output took no more. Formats tell it as text, or among other things.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    fn note(&self, error: &io::Error) {
        *lock(&self.0) = Some(io::Error::new(error.kind(), error.to_string()));
    }

    /// It, if it is why, and otherwise what a format says.
    fn or(&self, error: Error) -> Error {
        lock(&self.0).take().map_or(error, Error::Io)
    }
}

/// Counts what is written.
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
