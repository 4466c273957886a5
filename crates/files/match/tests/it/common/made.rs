//! Tables made of arbitrary bytes: a writer's output with some bytes changed. Bytes that are
//! arbitrary from the first on hardly ever get beyond a table's metadata.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BinaryViewArray, DictionaryArray, LargeBinaryArray, RecordBatch, StringArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::COLUMN;

/// Maximum number of rows of a table, and the longest value.
const ROWS_MAX: usize = 40;
const VALUE_BYTES_MAX: usize = 12;
/// Maximum number of bytes that are changed.
const CHANGES_MAX: usize = 4;

/// Takes numbers off the front of the bytes; 0 when there are none left.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        (*first).into()
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() % end
    }
}

/// A table's rows, its bytes, and whether they are as the writer made them.
pub(super) struct Table {
    pub rows: Vec<Option<Vec<u8>>>,
    pub bytes: Vec<u8>,
    pub is_whole: bool,
}

/// The formats of tables, as [`super::searched`] numbers them.
pub(super) const PARQUET: u8 = 2;
pub(super) const ARROW_FILE: u8 = 3;

/// Makes a table of that format.
pub(super) fn table(format: u8, data: &[u8]) -> Table {
    let mut numbers = Numbers(data);
    let how = numbers.next();
    let changes: Vec<(usize, usize)> = (0..numbers.below(CHANGES_MAX + 1))
        .map(|_| (numbers.next() << 8 | numbers.next(), numbers.next()))
        .collect();
    let rows: Vec<Option<Vec<u8>>> = (0..numbers.below(ROWS_MAX))
        .map(|_| {
            let len = numbers.below(VALUE_BYTES_MAX + 2).checked_sub(1)?;
            Some((0..len).map(|_| b"aabbcx\n,"[numbers.below(8)]).collect())
        })
        .collect();
    let batch = batch(how & 3, &rows);
    let mut bytes = match format {
        PARQUET => parquet(how >> 2, &batch),
        ARROW_FILE => file(how >> 2, &batch),
        _ => stream(how >> 2, &batch),
    };
    let len = bytes.len();
    let before = bytes.clone();
    for (at, byte) in changes {
        // Both ends count: metadata stand at either.
        let at = if at & 1 == 0 { at % len } else { len - 1 - at % len };
        bytes[at] = byte as u8;
    }
    Table { is_whole: bytes == before, rows, bytes }
}

fn batch(kind: usize, rows: &[Option<Vec<u8>>]) -> RecordBatch {
    let slices = rows.iter().map(Option::as_deref);
    let texts = rows.iter().map(|row| row.as_deref().and_then(|row| std::str::from_utf8(row).ok()));
    let array: ArrayRef = match kind {
        0 => Arc::new(texts.collect::<StringArray>()),
        1 => Arc::new(slices.collect::<LargeBinaryArray>()),
        2 => Arc::new(texts.collect::<DictionaryArray<Int8Type>>()),
        _ => Arc::new(slices.collect::<BinaryViewArray>()),
    };
    let field = Field::new(COLUMN, array.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).expect("one column")
}

fn parquet(how: usize, batch: &RecordBatch) -> Vec<u8> {
    let compression = match how & 7 {
        0 => Compression::SNAPPY,
        1 => Compression::LZ4_RAW,
        2 => Compression::ZSTD(ZstdLevel::default()),
        _ => Compression::UNCOMPRESSED,
    };
    let version = match how & 8 {
        0 => WriterVersion::PARQUET_1_0,
        _ => WriterVersion::PARQUET_2_0,
    };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_writer_version(version)
        .set_dictionary_enabled(how & 16 == 0)
        .set_data_page_row_count_limit(7)
        .set_max_row_group_row_count(Some(25))
        .build();
    let mut bytes = Vec::new();
    let writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties));
    let mut writer = writer.expect("a schema");
    writer.write(batch).expect("memory");
    writer.close().expect("memory");
    bytes
}

fn options(how: usize) -> IpcWriteOptions {
    let compression = match how & 3 {
        0 => Some(CompressionType::LZ4_FRAME),
        1 => Some(CompressionType::ZSTD),
        _ => None,
    };
    let options = IpcWriteOptions::default();
    options.try_with_compression(compression).expect("this version has it")
}

fn file(how: usize, batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let writer = FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options(how));
    let mut writer = writer.expect("a schema");
    for part in parts(batch) {
        writer.write(&part).expect("memory");
    }
    writer.finish().expect("memory");
    drop(writer);
    bytes.into_inner()
}

fn stream(how: usize, batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let writer = StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options(how));
    let mut writer = writer.expect("a schema");
    for part in parts(batch) {
        writer.write(&part).expect("memory");
    }
    writer.finish().expect("memory");
    drop(writer);
    bytes
}

/// The rows in two batches.
fn parts(batch: &RecordBatch) -> [RecordBatch; 2] {
    let half = batch.num_rows() / 2;
    [batch.slice(0, half), batch.slice(half, batch.num_rows() - half)]
}
