//! Reader of tables in any format.

use std::fs::File;
use std::io::{Cursor, Read};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use overside_base::FileFormat;
use overside_tables::pack::{CodecPool, StageTime, UnpackOptions, Unpacker};
use overside_tables::{Between, Columns, CsvOptions, ParquetOptions, Strings, Table};

use overside_flow_operators::Error;
use overside_flow_operators::values_bytes;

/// Options for reading a file, by its format.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Options for comma-separated values.
    pub csv: CsvOptions,
    /// Options for Arrow IPC.
    pub unpack: UnpackOptions,
    /// Bounds for Parquet: row groups that have no rows within all of them are skipped.
    pub bounds: Vec<Between>,
    /// Schema that a Parquet file was written with: converted columns get their types back.
    pub written: Option<SchemaRef>,
}

/// Open table: an iterator over its batches.
pub struct FileReader {
    batches: Batches,
    time: StageTime,
}

enum Batches {
    /// Arrow IPC, which counts its own time.
    Ipc(Box<Unpacker<'static>>),
    Table(Table<'static>),
}

impl FileReader {
    /// Opens a file or a pipe of any format. The format is detected.
    ///
    /// # Errors
    /// [`Error`], also for Parquet from a pipe: it is read from its end.
    pub fn open(
        mut file: File,
        options: &ReadOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let mut head = Vec::new();
        (&mut file).take(FileFormat::HEAD_BYTES as u64).read_to_end(&mut head)?;
        let metadata = file.metadata()?;
        let len = metadata.is_file().then_some(metadata.len());
        let format = FileFormat::of(&head);
        let whole = Cursor::new(head);
        let mut time = StageTime::default();
        let batches = time.measure(|| match format {
            FileFormat::ArrowFile | FileFormat::ArrowStream if len.is_some() => {
                let unpacker = Unpacker::file(file, options.unpack, pool)?;
                Ok(Batches::Ipc(Box::new(unpacker)))
            }
            FileFormat::ArrowFile | FileFormat::ArrowStream => {
                let unpacker = Unpacker::stream(whole.chain(file), options.unpack, pool)?;
                Ok(Batches::Ipc(Box::new(unpacker)))
            }
            FileFormat::Parquet if len.is_some() => {
                let all = |_: &Schema| Ok::<_, Error>(Columns::All);
                let options = ParquetOptions {
                    strings: Strings::AsWritten,
                    bounds: &options.bounds,
                    written: options.written.as_ref(),
                    pool: Some(pool),
                };
                Table::parquet(file, options, all).map(Batches::Table)
            }
            FileFormat::Parquet => Err(Error::Refused("Parquet must be a file, not a pipe".into())),
            FileFormat::Text => {
                let table = Table::csv(whole.chain(file), options.csv.clone())?;
                Ok(Batches::Table(table))
            }
            FileFormat::Compressed(program) => {
                Err(Error::Refused(format!("compressed by {program}; decompress it first")))
            }
        })?;
        time.bytes_in = len.unwrap_or(0);
        Ok(Self { batches, time })
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        match &self.batches {
            Batches::Ipc(unpacker) => unpacker.schema(),
            Batches::Table(table) => table.schema(),
        }
    }

    /// Returns sentences for the user about how the table is read.
    pub fn notes(&self) -> &[String] {
        match &self.batches {
            Batches::Ipc(_) => &[],
            Batches::Table(table) => table.notes(),
        }
    }

    /// Returns the time that reading has taken so far, and the bytes that were read.
    pub fn time(&self) -> StageTime {
        match &self.batches {
            Batches::Ipc(unpacker) => unpacker.time(),
            Batches::Table(table) => {
                StageTime { cpu_ns: self.time.cpu_ns + table.cpu_ns(), ..self.time }
            }
        }
    }
}

impl Iterator for FileReader {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.batches {
            Batches::Ipc(unpacker) => Some(unpacker.next()?.map_err(Error::from)),
            Batches::Table(table) => {
                let batch = self.time.measure(|| table.next())?;
                if let Ok(batch) = &batch {
                    self.time.bytes_out += values_bytes(batch) as u64;
                }
                Some(batch.map_err(Error::from))
            }
        }
    }
}
