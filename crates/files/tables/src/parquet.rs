//! Parquet files.

mod distinct;
mod footer;
mod groups;
mod logical;
mod positioned;
mod side_by_side;
mod strings;
mod writer;

pub use groups::Between;
pub(crate) use logical::parquet_schema;
pub use writer::{ParquetWriter, ROW_GROUP_ROWS};

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{RecordBatch, make_array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as Physical;
use parquet::file::metadata::ParquetMetaData;

use positioned::Positioned;
use side_by_side::{Group, SideBySide};

use crate::pack::CodecPool;
use crate::types::{stored_type, with_type};
use crate::{Columns, Error, Format};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 8192;
/// Rows that are decoded at once by several threads, where so many have no more than so many bytes.
const LONG_BATCH_ROWS: usize = 64 << 10;
const LONG_BATCH_BYTES: usize = 32 << 20;
/// Groups of columns that are decoded side by side.
const GROUPS_MAX: usize = 16;

/// Arrow types of the strings and bytes of a Parquet file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strings {
    /// The types that the file's schema has. Batches become shorter if their values are long.
    AsWritten,
    /// View types, which share equal values in memory.
    Views,
}

/// Options for reading a Parquet file.
#[derive(Clone, Copy)]
pub struct ParquetOptions<'a> {
    /// Arrow types of strings and bytes.
    pub strings: Strings,
    /// Row groups that cannot have a row within all of these bounds are left out.
    pub bounds: &'a [Between],
    /// Schema that the file was written with: what a writer converted gets its type back.
    pub written: Option<&'a SchemaRef>,
    /// Threads that decode columns side by side; `None`: the caller's only.
    pub pool: Option<&'a Arc<CodecPool>>,
}

/// Opens a Parquet file; the schema is that of the batches. CPU time of other threads is added to `cpu_ns`. Strings are decoded as views: rows that
/// have the same value in the file's dictionary share it in memory. A copy for each would be
/// gigabytes where the file has bytes.
pub(crate) fn open<E: From<Error>>(
    file: File,
    options: ParquetOptions<'_>,
    choose: impl FnOnce(&Schema) -> Result<Columns, E>,
    cpu_ns: &Arc<AtomicU64>,
) -> Result<(ParquetBatches, SchemaRef), E> {
    let mut opened = Opened::new(&file)?;
    let columns = choose(&opened.declared)?;
    opened.settle_times(&file, &columns)?;
    if let Some(written) = options.written {
        opened.give_back(written);
    }
    Ok(opened.build(file, options, &columns, cpu_ns)?)
}

/// A file whose footer has been read.
struct Opened {
    stored: ArrowReaderMetadata,
    /// Metadata as the file has them.
    file: ParquetMetaData,
    /// Schema that Arrow's reader decodes by, but for views.
    decoded: SchemaRef,
    /// Schema of the batches: with the types that Arrow's reader does not know.
    declared: SchemaRef,
}

impl Opened {
    fn new(file: &File) -> Result<Self, Error> {
        let file = footer::read(file)?;
        let plain = logical::intervals_as_bytes(&file).map_err(Error::format)?;
        let stored = ArrowReaderMetadata::try_new(Arc::new(plain), ArrowReaderOptions::new());
        let stored = stored.map_err(Error::format)?;
        let decoded = SchemaRef::clone(stored.schema());
        Ok(Self {
            declared: logical::declared(&decoded, file.file_metadata().schema_descr()),
            decoded,
            stored,
            file,
        })
    }

    /// Times in INT96 after 2262, or before 1677, are none of nanoseconds, and Arrow's reader would wrap them: a file
    /// that has one gives microseconds.
    fn settle_times(&mut self, file: &File, columns: &Columns) -> Result<(), Error> {
        let parquet = self.file.file_metadata().schema_descr();
        let is_int96 = |leaf: &usize| parquet.column(*leaf).physical_type() == Physical::INT96;
        let roots = (0..parquet.num_columns()).filter(is_int96);
        let roots = roots.map(|leaf| parquet.get_column_root_idx(leaf));
        let roots: Vec<usize> = roots.filter(|root| columns.has(*root)).collect();
        if roots.is_empty() {
            return Ok(());
        }
        let microseconds = logical::with_int96_as(&self.decoded, parquet, TimeUnit::Microsecond);
        if microseconds == self.decoded {
            // Arrow's schema in the file says that there are no nanoseconds.
            return Ok(());
        }
        let only = Columns::Only(roots);
        let file = Positioned::new(file.try_clone()?);
        for batch in self.reader(file, &microseconds, &only, &[], BATCH_ROWS)? {
            if batch?.columns().iter().any(|column| is_late(column.to_data())) {
                tracing::warn!("times in INT96 are read as microseconds: nanoseconds end in 2262");
                self.declared = logical::declared(&microseconds, parquet);
                self.decoded = microseconds;
                break;
            }
        }
        Ok(())
    }

    /// Takes the types of the schema that the file was written with, where a writer makes the file's of them.
    fn give_back(&mut self, written: &SchemaRef) {
        if self.declared.fields().len() != written.fields().len() {
            return;
        }
        let stored = |field: &FieldRef| {
            stored_type(Format::Parquet, field.data_type(), &mut Vec::new()).ok()
        };
        let fields = self.declared.fields().iter().zip(written.fields());
        let fields = fields.map(|(field, own)| match (stored(field), stored(own)) {
            (Some(one), Some(other)) if one.equals_datatype(&other) => {
                with_type(field, own.data_type().clone())
            }
            _ => FieldRef::clone(field),
        });
        let metadata = self.declared.metadata().clone();
        let fields: Vec<_> = fields.collect();
        self.declared = Arc::new(Schema::new_with_metadata(fields, metadata));
    }

    fn reader(
        &self,
        file: Positioned,
        schema: &SchemaRef,
        columns: &Columns,
        bounds: &[Between],
        rows: usize,
    ) -> Result<ParquetRecordBatchReader, Error> {
        let options = ArrowReaderOptions::new().with_schema(Arc::clone(schema));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(self.stored.metadata()), options);
        let metadata = metadata.map_err(Error::format)?;
        let mask = match columns {
            Columns::All => ProjectionMask::all(),
            Columns::Only(indices) => {
                ProjectionMask::roots(metadata.parquet_schema(), indices.iter().copied())
            }
        };
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_projection(mask)
            .with_batch_size(rows);
        if !bounds.is_empty() {
            builder = builder.with_row_groups(groups::wanted(&self.stored, bounds));
        }
        builder.build().map_err(Error::format)
    }

    fn build(
        &self,
        file: File,
        options: ParquetOptions<'_>,
        columns: &Columns,
        cpu_ns: &Arc<AtomicU64>,
    ) -> Result<(ParquetBatches, SchemaRef), Error> {
        let views = strings::with_views(&self.decoded, columns);
        let schema = match options.strings {
            Strings::AsWritten => &self.declared,
            Strings::Views => &views,
        };
        let schema = match columns {
            Columns::All => SchemaRef::clone(schema),
            Columns::Only(indices) => SchemaRef::new(schema.project(indices)?),
        };
        let indices: Vec<usize> = match columns {
            Columns::All => (0..views.fields().len()).collect(),
            Columns::Only(indices) => indices.clone(),
        };
        let file = Positioned::new(file);
        let reader = |columns: &Columns, rows| {
            self.reader(file.clone(), &views, columns, options.bounds, rows)
        };
        let decoding = match options.pool {
            Some(pool) if pool.threads() > 1 && indices.len() > 1 => {
                let size = indices.len().div_ceil(GROUPS_MAX);
                let groups = indices.chunks(size).enumerate().map(|(at, group)| {
                    let wanted: Vec<usize> = (at * size..at * size + group.len()).collect();
                    Ok::<_, Error>(Group {
                        reader: reader(&Columns::Only(group.to_vec()), self.batch_rows())?,
                        schema: Arc::new(schema.project(&wanted)?),
                        string_bytes_max: strings::BATCH_BYTES_MAX / GROUPS_MAX,
                    })
                });
                let groups = groups.collect::<Result<_, _>>()?;
                Decoding::SideBySide(SideBySide::new(groups, &schema, pool, cpu_ns))
            }
            _ => Decoding::Here(reader(columns, BATCH_ROWS)?),
        };
        let batches =
            ParquetBatches { decoding, schema: SchemaRef::clone(&schema), pending: Vec::new() };
        Ok((batches, schema))
    }

    /// Rows that are decoded at once by several threads.
    fn batch_rows(&self) -> usize {
        let groups = self.file.row_groups().iter();
        let (rows, bytes) = groups.fold((0, 0), |(rows, bytes), group| {
            (rows + group.num_rows(), bytes + group.total_byte_size())
        });
        let row_bytes = (bytes / rows.max(1)).max(1) as usize;
        (LONG_BATCH_BYTES / row_bytes).clamp(BATCH_ROWS, LONG_BATCH_ROWS)
    }
}

/// `true` if an array has microseconds that are no nanoseconds of 64 bits.
fn is_late(data: ArrayData) -> bool {
    if let DataType::Timestamp(TimeUnit::Microsecond, _) = data.data_type() {
        let times = make_array(data);
        let mut times = times.as_primitive::<TimestampMicrosecondType>().iter();
        return times.any(|time| time.is_some_and(|time| time.checked_mul(1000).is_none()));
    }
    data.child_data().iter().any(|child| is_late(child.clone()))
}

/// The bytes of each row group: from the first of its columns' to the last.
pub(crate) fn row_groups(file: &File) -> Result<Vec<Range<u64>>, Error> {
    let stored = footer::read(file)?;
    let bytes = stored.row_groups().iter().map(|group| {
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
    decoding: Decoding,
    /// Schema of the batches that come out.
    schema: SchemaRef,
    /// Rows that were decoded and are not out yet, last first.
    pending: Vec<RecordBatch>,
}

enum Decoding {
    Here(ParquetRecordBatchReader),
    SideBySide(SideBySide),
}

impl Decoding {
    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self {
            Self::Here(reader) => Ok(reader.next().transpose()?),
            Self::SideBySide(columns) => columns.next(),
        }
    }
}

impl Iterator for ParquetBatches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.pending.pop() {
            Some(batch) => batch,
            None => match self.decoding.next().transpose()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            },
        };
        if batch.schema_ref() == &self.schema {
            return Some(Ok(batch));
        }
        let mut batch = batch;
        while batch.num_rows() > 1 && strings::bytes(&batch) > strings::BATCH_BYTES_MAX {
            let half = batch.num_rows() / 2;
            self.pending.push(batch.slice(half, batch.num_rows() - half));
            batch = batch.slice(0, half);
        }
        Some(strings::as_written(&batch, &self.schema))
    }
}
