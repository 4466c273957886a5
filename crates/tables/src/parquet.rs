//! Parquet files.

mod footer;
mod groups;
mod strings;

pub use groups::Between;

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};

use crate::{Columns, Error};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 8192;

/// How strings and bytes of a Parquet file come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strings {
    /// As the file's schema says. Batches become shorter where their values are long.
    AsWritten,
    /// As views.
    Views,
}

/// Opens a Parquet file; the schema is that of the batches. Strings are decoded as views: rows that
/// have the same value in the file's dictionary share it in memory. A copy for each would be
/// gigabytes where the file has bytes.
pub(crate) fn open<E: From<Error>>(
    file: File,
    strings: Strings,
    bounds: &[Between],
    choose: impl FnOnce(&Schema) -> Result<Columns, E>,
) -> Result<(ParquetBatches, SchemaRef), E> {
    footer::check(&file)?;
    let stored = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
    let stored = stored.map_err(Error::format)?;
    let columns = choose(stored.schema())?;
    Ok(build(file, &stored, strings, &columns, bounds)?)
}

fn build(
    file: File,
    stored: &ArrowReaderMetadata,
    strings: Strings,
    columns: &Columns,
    bounds: &[Between],
) -> Result<(ParquetBatches, SchemaRef), Error> {
    let written = stored.schema();
    let views = strings::with_views(written, columns);
    let options = ArrowReaderOptions::new().with_schema(Arc::clone(&views));
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(stored.metadata()), options);
    let metadata = metadata.map_err(Error::format)?;
    let mask = match columns {
        Columns::All => ProjectionMask::all(),
        Columns::Only(indices) => {
            ProjectionMask::roots(metadata.parquet_schema(), indices.iter().copied())
        }
    };
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS);
    if !bounds.is_empty() {
        builder = builder.with_row_groups(groups::wanted(stored, bounds));
    }
    let reader = builder.build().map_err(Error::format)?;
    let schema = match strings {
        Strings::AsWritten => written,
        Strings::Views => &views,
    };
    let schema = match columns {
        Columns::All => SchemaRef::clone(schema),
        Columns::Only(indices) => SchemaRef::new(schema.project(indices)?),
    };
    let batches = ParquetBatches {
        reader,
        schema: SchemaRef::clone(&schema),
        pending: Vec::new(),
    };
    Ok((batches, schema))
}

/// The bytes of each row group: from the first of its columns' to the last.
pub(crate) fn row_groups(file: &File) -> Result<Vec<Range<u64>>, Error> {
    footer::check(file)?;
    let stored = ArrowReaderMetadata::load(file, ArrowReaderOptions::new());
    let stored = stored.map_err(Error::format)?;
    let bytes = stored.metadata().row_groups().iter().map(|group| {
        let columns = group.columns().iter().map(|column| column.byte_range());
        let columns = columns.map(|(start, len)| start..start.saturating_add(len));
        columns
            .reduce(|all, column| all.start.min(column.start)..all.end.max(column.end))
            .unwrap_or_default()
    });
    Ok(bytes.collect())
}

/// The batches of a file.
pub(crate) struct ParquetBatches {
    reader: ParquetRecordBatchReader,
    /// Of the batches that come out.
    schema: SchemaRef,
    /// Rows that were decoded and are not out yet, last first.
    pending: Vec<RecordBatch>,
}

impl Iterator for ParquetBatches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.pending.pop() {
            Some(batch) => batch,
            None => match self.reader.next()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error.into())),
            },
        };
        if batch.schema_ref() == &self.schema {
            return Some(Ok(batch));
        }
        let mut batch = batch;
        while batch.num_rows() > 1 && strings::bytes(&batch) > strings::BATCH_BYTES_MAX {
            let half = batch.num_rows() / 2;
            self.pending
                .push(batch.slice(half, batch.num_rows() - half));
            batch = batch.slice(0, half);
        }
        Some(strings::as_written(&batch, &self.schema))
    }
}
