//! Tests with damaged and malicious files and streams.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use overside_base::Random;
use overside_ops::Format;
use overside_tables::Error;
use overside_tables::pack::{Codec, Layout, Outer, PackOptions, UnpackOptions, Unpacker};

use crate::pack::{self, pool, unpacked};
use crate::pack_checks;
use crate::random::{KINDS, table};

fn packed(batch: &RecordBatch, options: PackOptions) -> Vec<u8> {
    pack::packed(std::slice::from_ref(batch), options, &pool(1))
}

fn error(bytes: Vec<u8>) -> Option<Error> {
    let options = UnpackOptions { message_bytes_max: 1 << 20 };
    match Unpacker::bytes(bytes.into(), options, &pool(1)) {
        Ok(unpacker) => unpacker.filter_map(Result::err).next(),
        Err(error) => Some(error),
    }
}

fn all_options() -> Vec<PackOptions> {
    let layouts = [Layout::Stream, Layout::File];
    let ways = [
        (Codec::None, None),
        (Codec::Lz4, None),
        (Codec::Zstd(1), None),
        (Codec::None, Some(Outer::new(Format::Deflate, None))),
    ];
    let with = |layout| ways.map(|(codec, outer)| PackOptions { layout, codec, outer });
    layouts.into_iter().flat_map(with).collect()
}

fn words() -> RecordBatch {
    let ids = Arc::new(Int64Array::from_iter_values(0..200)) as ArrayRef;
    let words = (0..200).map(|row| format!("word {}", row % 9));
    let words = Arc::new(StringArray::from_iter_values(words)) as ArrayRef;
    RecordBatch::try_from_iter([("id", ids), ("word", words)]).expect("a table")
}

#[test]
fn what_is_cut_off_is_refused_or_ends_between_messages() {
    for options in all_options() {
        let layout = options.layout;
        let bytes = packed(&words(), options);
        for len in 0..bytes.len() - 8 {
            let cut = bytes[..len].to_vec();
            let options = UnpackOptions::default();
            let read = Unpacker::bytes(cut.into(), options, &pool(1))
                .and_then(|unpacker| unpacker.collect::<Result<Vec<_>, _>>());
            if let Ok(batches) = read {
                assert_eq!(layout, Layout::Stream, "{len}");
                assert!(batches == [words()] || batches.is_empty(), "{len}");
            }
        }
    }
}

#[test]
fn any_change_of_bytes_is_read_or_refused() {
    let mut random = Random::new(7);
    for options in all_options() {
        for _ in 0..12 {
            let (key, rows) = (random.below(KINDS), random.below(100) as usize);
            let batch = table(&mut random, key, rows);
            let bytes = packed(&batch, options);
            for _ in 0..60 {
                let mut changed = bytes.clone();
                for _ in 0..=random.below(4) {
                    let at = random.below(bytes.len() as u64) as usize;
                    changed[at] = match random.below(3) {
                        0 => random.next_u64() as u8,
                        1 => changed[at] ^ (1 << random.below(8)),
                        _ => [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
                    };
                }
                pack_checks::ipc(&changed);
            }
        }
    }
}

#[test]
fn what_fuzzing_found_stays_found() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/flow_ipc");
    let mut files = 0;
    for file in std::fs::read_dir(corpus).expect("a corpus") {
        pack_checks::ipc(&std::fs::read(file.expect("a file").path()).expect("bytes"));
        files += 1;
    }
    assert!(files >= 8, "{files}");
}

/// Changes the number of 64 bits before the first LZ4 frame.
fn with_length(mut bytes: Vec<u8>, len: i64) -> Vec<u8> {
    let magic = overside_ops::lz4_frame::MAGIC;
    let at = bytes.windows(4).position(|four| four == magic).expect("a frame");
    bytes[at - 8..at].copy_from_slice(&len.to_le_bytes());
    bytes
}

#[test]
fn lengths_that_cannot_be_are_refused_before_memory_is_taken() {
    let options = PackOptions { layout: Layout::Stream, codec: Codec::Lz4, outer: None };
    let bytes = packed(&words(), options);
    for len in [i64::MAX, i64::MIN, -2, 1 << 40, 1 << 22] {
        let error = error(with_length(bytes.clone(), len)).expect("a refusal").to_string();
        assert!(error.contains("cannot become"), "{len}: {error}");
    }
    for len in [1, 1599, 1601, 10_000] {
        let error = error(with_length(bytes.clone(), len)).expect("a refusal").to_string();
        assert!(error.contains("bytes has"), "{len}: {error}");
    }
}

#[test]
fn a_message_longer_than_the_limit_is_refused() {
    let zeros = Arc::new(Int64Array::from(vec![0; 200_000])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("zeros", zeros)]).expect("a table");
    for options in all_options() {
        let error = error(packed(&batch, options));
        assert!(matches!(error, Some(Error::TooLong { .. })), "{options:?}: {error:?}");
    }
}

#[test]
fn the_other_byte_order_is_refused() {
    use arrow_ipc::{Endianness, MessageBuilder, MessageHeader, MetadataVersion, SchemaBuilder};
    let mut fbb = flatbuffers::FlatBufferBuilder::new();
    let fields = fbb.create_vector::<flatbuffers::ForwardsUOffset<arrow_ipc::Field<'_>>>(&[]);
    let mut schema = SchemaBuilder::new(&mut fbb);
    schema.add_endianness(Endianness::Big);
    schema.add_fields(fields);
    let schema = schema.finish();
    let mut message = MessageBuilder::new(&mut fbb);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_header(schema.as_union_value());
    let root = message.finish();
    fbb.finish(root, None);
    let header = fbb.finished_data();
    let mut bytes = u32::MAX.to_le_bytes().to_vec();
    bytes.extend((header.len() as u32).to_le_bytes());
    bytes.extend(header);
    assert!(matches!(error(bytes), Some(Error::ByteOrder)));
}

#[test]
fn random_tables_come_back() {
    let mut random = Random::new(23);
    for _ in 0..150 {
        let (key, rows) = (random.below(KINDS), random.below(300) as usize);
        let batch = table(&mut random, key, rows);
        for options in all_options() {
            let bytes = packed(&batch, options);
            let is_same =
                unpacked(&bytes, &pool(1)).expect("a batch") == std::slice::from_ref(&batch);
            assert!(is_same, "{options:?} {}", batch.schema());
        }
    }
}
