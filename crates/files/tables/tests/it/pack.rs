//! Tests of packing and unpacking, compared with Arrow's own readers and writers.

use std::io::Cursor;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use overside_base::Random;
use overside_ops::Format;
use overside_tables::Error;
use overside_tables::pack::{
    Codec, CodecPool, Layout, Outer, PackOptions, Packer, UnpackOptions, Unpacker,
};

use crate::random::{KINDS, column};

const CODECS: [Codec; 4] = [Codec::None, Codec::Lz4, Codec::Zstd(1), Codec::Zstd(9)];
const LAYOUTS: [Layout; 2] = [Layout::Stream, Layout::File];

pub(crate) fn pool(threads: usize) -> Arc<CodecPool> {
    let threads = NonZeroUsize::new(threads).expect("a thread");
    Arc::new(CodecPool::new(threads).expect("threads"))
}

pub(crate) fn packed(
    batches: &[RecordBatch],
    options: PackOptions,
    pool: &Arc<CodecPool>,
) -> Vec<u8> {
    let mut packer = Packer::new(Vec::new(), batches[0].schema(), options, pool).expect("a packer");
    for batch in batches {
        packer.write(batch).expect("a batch");
    }
    let (bytes, time) = packer.finish().expect("the end");
    assert_eq!(time.bytes_out, bytes.len() as u64);
    bytes
}

pub(crate) fn unpacked(bytes: &[u8], pool: &Arc<CodecPool>) -> Result<Vec<RecordBatch>, Error> {
    let from_memory = Unpacker::bytes(bytes.to_vec().into(), UnpackOptions::default(), pool)?;
    let reader = Cursor::new(bytes.to_vec());
    let from_stream = Unpacker::stream(reader, UnpackOptions::default(), pool)?;
    let from_stream = from_stream.collect::<Result<Vec<_>, _>>()?;
    let from_memory = from_memory.collect::<Result<Vec<_>, _>>()?;
    assert_eq!(from_memory, from_stream);
    Ok(from_memory)
}

/// Makes a table with a column of each kind.
fn table(rows: usize, seed: u64) -> RecordBatch {
    let mut random = Random::new(seed);
    let columns =
        (0..KINDS).map(|kind| (format!("c{kind}"), column(&mut random, kind, rows), true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("a table")
}

fn all_options() -> impl Iterator<Item = PackOptions> {
    LAYOUTS.into_iter().flat_map(|layout| {
        CODECS.into_iter().map(move |codec| PackOptions { layout, codec, outer: None })
    })
}

#[test]
fn what_is_packed_is_unpacked_and_every_budget_writes_the_same_bytes() {
    let whole = table(5000, 1);
    let batches =
        [whole.slice(0, 0), whole.slice(3, 997), whole.slice(1000, 4000), whole.slice(17, 1)];
    for options in all_options() {
        let bytes = packed(&batches, options, &pool(1));
        for threads in [2, 5] {
            assert_eq!(packed(&batches, options, &pool(threads)), bytes, "{options:?}");
        }
        for threads in [1, 3] {
            assert_eq!(unpacked(&bytes, &pool(threads)).expect("batches"), batches, "{options:?}");
        }
    }
}

#[test]
fn arrows_own_readers_take_what_is_packed() {
    let whole = table(3000, 2);
    let batches = [whole.slice(5, 1995), whole.slice(2000, 1000)];
    for options in all_options() {
        let bytes = Cursor::new(packed(&batches, options, &pool(2)));
        let read: Result<Vec<RecordBatch>, _> = match options.layout {
            Layout::Stream => StreamReader::try_new(bytes, None).expect("a stream").collect(),
            Layout::File => FileReader::try_new(bytes, None).expect("a file").collect(),
        };
        assert_eq!(read.expect("batches"), batches, "{options:?}");
    }
}

#[test]
fn what_arrows_own_writers_write_is_unpacked() {
    let whole = table(3000, 3);
    let batches = [whole.slice(5, 1995), whole.slice(0, 0), whole.slice(2000, 1000)];
    for codec in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let options = IpcWriteOptions::default().try_with_compression(codec).expect("options");
        for bytes in written_by_arrow(&batches, &options) {
            assert_eq!(unpacked(&bytes, &pool(2)).expect("batches"), batches, "{codec:?}");
        }
    }
}

/// A stream and a file of Arrow's own writers.
fn written_by_arrow(batches: &[RecordBatch], options: &IpcWriteOptions) -> [Vec<u8>; 2] {
    let schema = batches[0].schema();
    let stream = StreamWriter::try_new_with_options(Vec::new(), &schema, options.clone());
    let file = FileWriter::try_new_with_options(Vec::new(), &schema, options.clone());
    let (mut stream, mut file) = (stream.expect("a writer"), file.expect("a writer"));
    for batch in batches {
        stream.write(batch).expect("a batch");
        file.write(batch).expect("a batch");
    }
    [stream.into_inner().expect("bytes"), file.into_inner().expect("bytes")]
}

#[test]
fn a_table_without_columns_and_one_without_batches_come_back() {
    let rows = RecordBatchOptions::new().with_row_count(Some(7));
    let empty =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &rows).expect("rows");
    for options in all_options() {
        let bytes = packed(std::slice::from_ref(&empty), options, &pool(1));
        assert_eq!(unpacked(&bytes, &pool(1)).expect("rows"), std::slice::from_ref(&empty));
        let schema = table(1, 1).schema();
        let packer =
            Packer::new(Vec::new(), Arc::clone(&schema), options, &pool(1)).expect("a packer");
        let (bytes, _) = packer.finish().expect("the end");
        let mut unpacker =
            Unpacker::bytes(bytes.into(), UnpackOptions::default(), &pool(1)).expect("a schema");
        assert_eq!(*unpacker.schema(), schema);
        assert!(unpacker.next().is_none());
    }
}

fn names(values: &[&str], dictionary: &[&str]) -> RecordBatch {
    let keys = values
        .iter()
        .map(|value| dictionary.iter().position(|name| name == value).expect("a known name") as i8);
    let dictionary = Arc::new(StringArray::from(dictionary.to_vec()));
    let array = DictionaryArray::<Int8Type>::try_new(keys.collect(), dictionary).expect("names");
    let schema = Schema::new(vec![Field::new("name", array.data_type().clone(), true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(array)]).expect("a table")
}

#[test]
fn a_stream_takes_another_dictionary_and_a_file_refuses_it() {
    let batches =
        [names(&["a", "b"], &["a", "b"]), names(&["c"], &["c", "b"]), names(&["b"], &["c", "b"])];
    for codec in CODECS {
        let mut options = PackOptions { layout: Layout::Stream, codec, outer: None };
        let bytes = packed(&batches, options, &pool(2));
        assert_eq!(unpacked(&bytes, &pool(2)).expect("batches"), batches);
        options.layout = Layout::File;
        let mut packer =
            Packer::new(Vec::new(), batches[0].schema(), options, &pool(1)).expect("a packer");
        packer.write(&batches[0]).expect("the first dictionary");
        assert!(matches!(packer.write(&batches[1]), Err(Error::DictionaryReplaced)));
        assert!(matches!(packer.finish(), Err(Error::Spent)));
    }
}

#[test]
fn what_is_added_to_a_dictionary_is_read() {
    let batches = [
        names(&["a"], &["a"]),
        names(&["b", "a"], &["a", "b"]),
        names(&["d"], &["a", "b", "c", "d"]),
    ];
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    for bytes in written_by_arrow(&batches, &options) {
        assert_eq!(unpacked(&bytes, &pool(1)).expect("batches"), batches);
    }
}

#[test]
fn lists_of_views_and_wide_numbers_survive_misaligned_memory() {
    let batch = table(500, 4);
    let bytes = packed(std::slice::from_ref(&batch), PackOptions::default(), &pool(1));
    for shift in 1..9 {
        let mut shifted = vec![0; shift];
        shifted.extend(&bytes);
        let buffer = Buffer::from_vec(shifted).slice(shift);
        let read = Unpacker::bytes(buffer, UnpackOptions::default(), &pool(1)).expect("a file");
        assert_eq!(
            read.collect::<Result<Vec<_>, _>>().expect("a batch"),
            std::slice::from_ref(&batch)
        );
    }
}

#[test]
fn a_part_of_a_table_of_views_does_not_take_the_rest_along() {
    let long: Vec<String> =
        (0..10_000).map(|row| format!("a long enough word, number {row}")).collect();
    let array = Arc::new(StringViewArray::from_iter_values(&long)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("view", array)]).expect("a table");
    let part = batch.slice(100, 50);
    let bytes = packed(std::slice::from_ref(&part), PackOptions::default(), &pool(1));
    assert!(bytes.len() < 10_000, "{}", bytes.len());
    assert_eq!(unpacked(&bytes, &pool(1)).expect("a batch"), [part]);
}

#[test]
fn outer_compression_comes_back_and_other_readers_refuse_it() {
    let ids = Arc::new(Int64Array::from_iter_values(0..40_000)) as ArrayRef;
    let whole = RecordBatch::try_from_iter([("id", ids)]).expect("a table");
    let batches = [whole.slice(0, 39_000), whole.slice(39_000, 0), whole.slice(39_000, 1000)];
    for format in
        [Format::Deflate, Format::Zlib, Format::Gzip, Format::Lz4Block, Format::Lz4, Format::Zstd]
    {
        for layout in LAYOUTS {
            let outer = Some(Outer::new(format, None));
            let options = PackOptions { layout, codec: Codec::None, outer };
            let bytes = packed(&batches, options, &pool(1));
            assert_eq!(packed(&batches, options, &pool(3)), bytes);
            assert_eq!(unpacked(&bytes, &pool(2)).expect("batches"), batches, "{format:?}");
            let plain = packed(&batches, PackOptions { outer: None, ..options }, &pool(1));
            assert!(
                bytes.len() < plain.len() * 9 / 10,
                "{format:?}: {} of {}",
                bytes.len(),
                plain.len()
            );
            let refusal = match layout {
                Layout::Stream => {
                    StreamReader::try_new(Cursor::new(bytes), None).expect("a schema").next()
                }
                Layout::File => match FileReader::try_new(Cursor::new(bytes), None) {
                    Ok(mut reader) => reader.next(),
                    Err(error) => Some(Err(error)),
                },
            };
            let refusal = refusal.expect("an answer").expect_err("a refusal").to_string();
            assert!(refusal.contains("not supported"), "{refusal}");
        }
    }
    let both = PackOptions {
        codec: Codec::Lz4,
        outer: Some(Outer::new(Format::Zstd, None)),
        ..PackOptions::default()
    };
    assert!(matches!(
        Packer::new(Vec::new(), whole.schema(), both, &pool(1)),
        Err(Error::Options(_))
    ));
}

#[test]
fn lz4_buffers_have_independent_blocks_of_bounded_size_and_short_ones_are_stored() {
    let zeros = Arc::new(Int64Array::from(vec![0; 100_000])) as ArrayRef;
    let short = RecordBatch::try_from_iter([("zeros", zeros)]).expect("a table");
    let options = PackOptions { layout: Layout::Stream, codec: Codec::Lz4, outer: None };
    let bytes = packed(&[short], options, &pool(1));
    let at =
        bytes.windows(4).position(|four| four == overside_ops::lz4_frame::MAGIC).expect("a frame");
    let (header, _) =
        overside_ops::lz4_frame::Header::parse(&bytes[at..]).expect("a header").expect("all of it");
    assert!(!header.linked);
    assert_eq!(header.block_max, 256 << 10);
    assert_eq!(bytes[at - 8..at], 800_000_i64.to_le_bytes());

    let mut random = Random::new(1);
    let noise = Int64Array::from_iter_values((0..1000).map(|_| random.next_u64() as i64));
    let noise =
        RecordBatch::try_from_iter([("noise", Arc::new(noise) as ArrayRef)]).expect("a table");
    let bytes = packed(&[noise], options, &pool(1));
    assert!(bytes.windows(8).any(|eight| eight == (-1_i64).to_le_bytes()));
    assert!(bytes.len() < 9000);
}

#[test]
fn another_schema_is_refused() {
    let batch = table(10, 1);
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Float64, true)]));
    let mut packer =
        Packer::new(Vec::new(), schema, PackOptions::default(), &pool(1)).expect("a packer");
    assert!(matches!(packer.write(&batch), Err(Error::SchemaChange { .. })));
    let options = PackOptions { layout: Layout::Stream, ..PackOptions::default() };
    let mut bytes = packed(&[batch], options, &pool(1));
    // The stream without its end, followed by the same stream from the schema on.
    bytes.truncate(bytes.len() - 8);
    let two = bytes.repeat(2);
    let mut unpacker =
        Unpacker::bytes(two.into(), UnpackOptions::default(), &pool(1)).expect("a schema");
    assert!(unpacker.next().is_some_and(|batch| batch.is_ok()));
    assert!(
        unpacker.find(Result::is_err).is_some_and(|error| matches!(error, Err(Error::Damaged(_))))
    );
}
