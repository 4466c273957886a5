//! One table, whatever its format.

use std::fs::File;
use std::io::Read;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use crate::csv::{CsvBatches, CsvOptions};
use crate::error::guarded;
use crate::ipc::{FileBatches, StreamBatches};
use crate::parquet::{Between, Strings};
use crate::{Columns, Error, parquet};

type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, Error>> + 'a>;

/// A table that is being read: an iterator over its batches, which ends with the first error.
///
/// `choose` of its constructors is shown the file's schema and says which columns are wanted; no
/// other is decoded where the format allows it.
pub struct Table<'a> {
    schema: SchemaRef,
    batches: Option<Batches<'a>>,
}

impl<'a> Table<'a> {
    fn new<B>(schema: &SchemaRef, columns: &Columns, batches: B) -> Result<Self, Error>
    where
        B: Iterator<Item = Result<RecordBatch, Error>> + 'a,
    {
        let schema = match columns {
            Columns::All => SchemaRef::clone(schema),
            Columns::Only(indices) => SchemaRef::new(schema.project(indices)?),
        };
        Ok(Self {
            schema,
            batches: Some(Box::new(batches)),
        })
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
            let (batches, schema, columns) = FileBatches::open(file, choose)?;
            let batches = batches.map(|batch| Ok(batch?));
            Ok(Self::new(&schema, &columns, batches)?)
        })
    }

    /// An Arrow IPC stream.
    ///
    /// # Errors
    /// [`Error`], and those of `choose`.
    pub fn arrow_stream<E: From<Error>>(
        input: impl Read + 'a,
        choose: impl FnOnce(&Schema) -> Result<Columns, E>,
    ) -> Result<Self, E> {
        guarded(|| {
            let (batches, schema) = StreamBatches::open(input).map_err(Error::from)?;
            let columns = choose(&schema)?;
            let chosen = columns.clone();
            let batches = batches.map(move |batch| match &chosen {
                Columns::All => Ok(batch?),
                Columns::Only(indices) => Ok(batch?.project(indices)?),
            });
            Ok(Self::new(&schema, &columns, batches)?)
        })
    }

    /// A Parquet file. Row groups that cannot have a row within all of `bounds` are left out; rows
    /// outside of them come nevertheless.
    ///
    /// # Errors
    /// [`Error`], and those of `choose`.
    pub fn parquet<E: From<Error>>(
        file: File,
        strings: Strings,
        bounds: &[Between],
        choose: impl FnOnce(&Schema) -> Result<Columns, E>,
    ) -> Result<Self, E> {
        guarded(|| {
            let (batches, schema) = parquet::open(file, strings, bounds, choose)?;
            Ok(Self::new(&schema, &Columns::All, batches)?)
        })
    }

    /// Comma-separated values, RFC 4180, with a header. The types of the columns are inferred from
    /// the first rows.
    ///
    /// # Errors
    /// [`Error`].
    pub fn csv(input: impl Read + 'a, options: CsvOptions) -> Result<Self, Error> {
        guarded(|| {
            let (batches, schema) = CsvBatches::open(input, options)?;
            Self::new(&schema, &Columns::All, batches)
        })
    }

    /// The schema of the batches: that of the columns that are read.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
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
