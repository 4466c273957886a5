//! One table, whatever its format.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use crate::csv::{CsvBatches, CsvOptions};
use crate::error::guarded;
use crate::pack::{CodecPool, UnpackOptions, Unpacker};
use crate::parquet::ParquetOptions;
use crate::{Columns, Error, parquet};

type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, Error>> + 'a>;

/// Makes a pool that decompresses on the caller's thread only.
fn one_thread() -> Result<Arc<CodecPool>, Error> {
    Ok(Arc::new(CodecPool::new(NonZeroUsize::MIN)?))
}

/// A table that is being read: an iterator over its batches, which ends with the first error.
///
/// `choose` of its constructors is shown the file's schema and says which columns are wanted; no
/// other is decoded where the format allows it.
pub struct Table<'a> {
    schema: SchemaRef,
    batches: Option<Batches<'a>>,
    notes: Vec<String>,
    /// CPU time of tasks on the threads of a pool, in nanoseconds.
    cpu_ns: Arc<AtomicU64>,
}

impl<'a> Table<'a> {
    fn new(
        schema: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, Error>> + 'a,
    ) -> Self {
        Self {
            schema: SchemaRef::clone(schema),
            batches: Some(Box::new(batches)),
            notes: Vec::new(),
            cpu_ns: Arc::default(),
        }
    }

    /// An Arrow IPC file.
    ///
    /// # Errors
    /// [`Error`], and those of `choose`.
    pub fn arrow_file<E: From<Error>>(
        file: File,
        choose: impl FnOnce(&Schema) -> Result<Columns, E>,
    ) -> Result<Self, E> {
        guarded(|| {
            let unpacker = Unpacker::file(file, UnpackOptions::default(), &one_thread()?)?;
            Self::unpacked(unpacker, choose)
        })
    }

    /// An Arrow IPC stream.
    ///
    /// # Errors
    /// [`Error`], and those of `choose`.
    pub fn arrow_stream<E: From<Error>>(
        input: impl Read + Send + 'a,
        choose: impl FnOnce(&Schema) -> Result<Columns, E>,
    ) -> Result<Self, E> {
        guarded(|| {
            let unpacker = Unpacker::stream(input, UnpackOptions::default(), &one_thread()?)?;
            Self::unpacked(unpacker, choose)
        })
    }

    fn unpacked<E: From<Error>>(
        mut unpacker: Unpacker<'a>,
        choose: impl FnOnce(&Schema) -> Result<Columns, E>,
    ) -> Result<Self, E> {
        unpacker.select(&choose(unpacker.schema())?)?;
        let schema = SchemaRef::clone(unpacker.schema());
        Ok(Self::new(&schema, unpacker))
    }

    /// A Parquet file. Of row groups that are not left out rows outside of the bounds come, too.
    ///
    /// # Errors
    /// [`Error`], and those of `choose`.
    pub fn parquet<E: From<Error>>(
        file: File,
        options: ParquetOptions<'_>,
        choose: impl FnOnce(&Schema) -> Result<Columns, E>,
    ) -> Result<Self, E> {
        guarded(|| {
            let cpu_ns = Arc::default();
            let (batches, schema) = parquet::open(file, options, choose, &cpu_ns)?;
            Ok(Self { cpu_ns, ..Self::new(&schema, batches) })
        })
    }

    /// Comma-separated values, RFC 4180, with a header. The types of the columns are guessed from the first rows:
    /// those in which each value comes back as the same text.
    ///
    /// # Errors
    /// [`Error`].
    pub fn csv(input: impl Read + 'a, options: CsvOptions) -> Result<Self, Error> {
        guarded(|| {
            let (batches, schema, notes) = CsvBatches::open(input, &options)?;
            Ok(Self { notes, ..Self::new(&schema, batches) })
        })
    }

    /// The schema of the batches: that of the columns that are read.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the CPU time of decoding on the threads of a pool so far, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }

    /// Sentences for the user about how the table is read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Iterator for Table<'_> {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = self.batches.as_mut()?;
        let batch = guarded(|| batches.next().transpose()).transpose();
        if !matches!(batch, Some(Ok(_))) {
            self.batches = None;
        }
        batch
    }
}
