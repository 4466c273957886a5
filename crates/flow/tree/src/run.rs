//! Files of nodes: Parquet, sorted by id and time, in leaves; Arrow IPC streams above them.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_tables::pack::{Codec, CodecPool};

use overside_flow_files::{FileFormat, FileReader, FileWriter, ReadOptions, WriteOptions};
use overside_flow_operators::{Error, SortColumn, parts, sort};

/// Maximum number of rows of a batch, and minimum that is read from Parquet for one id.
const BATCH_ROWS: usize = 64 << 10;
/// Rows of a row group of a leaf, which is what a query of one object reads at least.
const GROUP_ROWS: usize = 16 << 10;
const BUFFER_BYTES: usize = 256 << 10;

/// Returns the format and compression of a node's files.
pub(super) fn options(is_leaf: bool) -> WriteOptions {
    WriteOptions {
        format: match is_leaf {
            true => FileFormat::Parquet,
            false => FileFormat::ArrowStream,
        },
        // Files above the leaves are soon read again; those of leaves stay.
        codec: match is_leaf {
            true => Codec::Zstd(1),
            false => Codec::Lz4,
        },
        outer: None,
        row_group_rows: Some(GROUP_ROWS),
    }
}

/// Writes a new file. It is on the disk when this returns.
pub(super) fn write(
    path: &Path,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    options: WriteOptions,
    pool: &Arc<CodecPool>,
) -> Result<(), Error> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let output = BufWriter::with_capacity(BUFFER_BYTES, file);
    let mut writer = FileWriter::new(output, schema, options, pool)?;
    for batch in batches {
        parts(batch, BATCH_ROWS).try_for_each(|part| writer.write(&part))?;
    }
    let (output, _) = writer.finish()?;
    let file = output.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

/// Returns the rows sorted by id and time.
pub(super) fn sorted(batches: &[RecordBatch], id: &str, time: &str) -> Result<RecordBatch, Error> {
    sort(batches, &[SortColumn::ascending(id), SortColumn::ascending(time)])
}

/// Opens a file of a node.
pub(super) fn open(
    path: &Path,
    options: &ReadOptions,
    pool: &Arc<CodecPool>,
) -> Result<FileReader, Error> {
    FileReader::open(File::open(path)?, options, pool)
}
