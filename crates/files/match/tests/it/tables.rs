//! Rows of a column: each is one record with arbitrary content.

use crate::common;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, Int64Array, LargeStringArray, RecordBatch,
    StringArray, StringViewArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use common::{Kept, Oracle, bluefield, options, placements};
use overside_match::{Answer, Error, Search, SearchSummary};
use overside_testkit::assert_contains;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use proptest::prelude::*;

const PATTERNS: [&str; 2] = ["a.b", r"^b\nb|c$"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn rows_are_never_mixed_up(
        rows in prop::collection::vec(
            prop::option::of(prop::collection::vec(prop::sample::select(b"aabbc\n".to_vec()), 0..30)),
            0..60,
        ),
        invert in any::<bool>(),
        chunk in prop::sample::select(vec![1usize, 8, 20, 1000]),
    ) {
        let expected = Oracle::new(&PATTERNS).rows(&rows, invert);
        let array = BinaryArray::from_iter(rows.iter().map(Option::as_ref));
        let search = |answer| {
            let mut options = options(&PATTERNS, answer);
            options.invert = invert;
            options.chunk_bytes = chunk;
            Search::new(options).unwrap()
        };
        let mut kept = Kept::default();
        let tally = search(Answer::Records).array(&array, &mut kept).unwrap();
        prop_assert_eq!(&kept.records, &expected);
        prop_assert_eq!(tally.selected, expected.len() as u64);
        prop_assert_eq!(tally.without_value, array.null_count() as u64);
        let count = search(Answer::Count).array(&array, &mut ()).unwrap();
        prop_assert_eq!(count.selected, expected.len() as u64);
        let mask = search(Answer::Records).mask(&array).unwrap();
        let set = mask.values().set_indices().map(|index| index as u64 + 1);
        prop_assert!(set.eq(expected.iter().map(|record| record.0)));
    }
}

/// More rows than a batch has, with line feeds, without values, and longer than a card takes.
fn rows() -> Vec<Option<String>> {
    let row = |number: usize| match number % 50 {
        3 => None,
        7 => Some(format!("left\nright {number}")),
        11 => Some(String::new()),
        13 if number % 1000 == 13 => Some("y".repeat(20_000) + "left"),
        _ => Some(format!("row {number} right left {}", number % 7)),
    };
    (0..70_000).map(row).collect()
}

/// A table with the rows in a column of text, of one type or another.
fn table(kind: &DataType) -> RecordBatch {
    let rows = rows();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
    let texts: ArrayRef = match kind {
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from(rows)),
        DataType::Utf8View => Arc::new(rows.into_iter().collect::<StringViewArray>()),
        DataType::Dictionary(..) => {
            let rows: Vec<Option<&str>> = rows.iter().map(Option::as_deref).collect();
            Arc::new(rows.into_iter().collect::<DictionaryArray<Int32Type>>())
        }
        _ => Arc::new(StringArray::from(rows)),
    };
    let schema = Schema::new(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("text", texts.data_type().clone(), true),
    ]);
    RecordBatch::try_new(Arc::new(schema), vec![numbers, texts]).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Parquet,
    ArrowFile,
    ArrowStream,
}

const KINDS: [Kind; 3] = [Kind::Parquet, Kind::ArrowFile, Kind::ArrowStream];

fn write(kind: Kind, batch: &RecordBatch) -> File {
    let mut file = tempfile::tempfile().unwrap();
    let schema = batch.schema();
    match kind {
        Kind::Parquet => {
            let mut writer = ArrowWriter::try_new(&mut file, schema, None).unwrap();
            writer.write(batch).unwrap();
            writer.close().unwrap();
        }
        Kind::ArrowFile => {
            let mut writer = FileWriter::try_new(&mut file, &schema).unwrap();
            writer.write(batch).unwrap();
            writer.finish().unwrap();
        }
        Kind::ArrowStream => {
            let mut writer = StreamWriter::try_new(&mut file, &schema).unwrap();
            writer.write(batch).unwrap();
            writer.finish().unwrap();
        }
    }
    file.seek(SeekFrom::Start(0)).unwrap();
    file
}

fn search_file(
    search: &mut Search,
    kind: Kind,
    mut file: File,
    column: &str,
    kept: &mut Kept,
) -> Result<SearchSummary, Error> {
    match kind {
        Kind::Parquet => search.parquet(file, column, kept),
        Kind::ArrowFile => search.arrow_file(file, column, kept),
        Kind::ArrowStream => search.arrow_stream(&mut file, column, kept),
    }
}

/// Searches bytes as such a file.
fn attempt(kind: Kind, bytes: &[u8]) -> Result<SearchSummary, Error> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut search = Search::new(options(&["row 1"], Answer::Count)).unwrap();
    search_file(&mut search, kind, file, "text", &mut Kept::default())
}

/// A table of 500 rows, of which 111 have `row 1`.
fn small_table() -> RecordBatch {
    let schema = Schema::new(vec![Field::new("text", DataType::Utf8, true)]);
    let rows = StringArray::from_iter_values((0..500).map(|number| format!("row {number}")));
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(rows)]).unwrap()
}

fn expected(patterns: &[&str]) -> Vec<common::Record> {
    let rows: Vec<_> = rows().into_iter().map(|row| row.map(String::into_bytes)).collect();
    Oracle::new(patterns).rows(&rows, false)
}

#[test]
fn columns_of_text_are_searched_in_every_format_and_type() {
    let patterns = ["right left 3", "^right", "left$"];
    let expected = expected(&patterns);
    let dictionary = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    for (kind, text) in [
        (Kind::Parquet, DataType::Utf8),
        (Kind::Parquet, dictionary.clone()),
        (Kind::ArrowFile, DataType::LargeUtf8),
        (Kind::ArrowFile, dictionary),
        (Kind::ArrowStream, DataType::Utf8View),
    ] {
        let file = write(kind, &table(&text));
        let mut search = Search::new(options(&patterns, Answer::Records)).unwrap();
        let mut kept = Kept::default();
        let tally = search_file(&mut search, kind, file, "text", &mut kept).unwrap();
        assert!(kept.records == expected, "{kind:?} {text}");
        assert_eq!(tally.without_value, 1400);
    }
}

#[test]
fn devices_find_the_same_rows() {
    let patterns = ["right left 3", "^right", "left$"];
    let expected = expected(&patterns);
    let batch = table(&DataType::Utf8);
    for policy in placements() {
        let mut options = options(&patterns, Answer::Records);
        options.devices = vec![bluefield()];
        options.policy = policy;
        let mut search = Search::new(options).unwrap();
        let mut kept = Kept::default();
        let tally = search.array(batch.column(1), &mut kept).unwrap();
        assert!(kept.records == expected, "{policy}");
        assert_eq!(tally.long, if policy.uses_device() { 70 } else { 0 }, "{policy}");
    }
}

#[test]
fn a_column_that_cannot_be_searched_is_named_with_what_there_is() {
    for kind in KINDS {
        let search = |column: &str| {
            let file = write(kind, &table(&DataType::Utf8));
            let mut search = Search::new(options(&["a"], Answer::Count)).unwrap();
            search_file(&mut search, kind, file, column, &mut Kept::default()).unwrap_err()
        };
        let absent = search("txt").to_string();
        assert_contains(&absent, "\"txt\"");
        assert_contains(&absent, "number, text");
        assert!(matches!(search("number"), Error::ColumnType { .. }));
    }
    let mut csv = Search::new(options(&["a"], Answer::Count)).unwrap();
    let twice = csv.csv(&mut &b"x,x\n1,2\n"[..], "x", b',', &mut ()).unwrap_err();
    assert!(
        matches!(twice, Error::Table(overside_tables::Error::SameColumns { count: 2, .. })),
        "{twice}"
    );
}

#[test]
fn damaged_files_are_errors() {
    let rows = small_table();
    for kind in KINDS {
        let mut whole = Vec::new();
        write(kind, &rows).read_to_end(&mut whole).unwrap();
        let attempt = |bytes: &[u8]| attempt(kind, bytes);
        assert_eq!(attempt(&whole).unwrap().selected, 111);
        for len in (0..whole.len()).step_by(whole.len() / 20) {
            let cut = attempt(&whole[..len]);
            // A stream without its end is as long as it is.
            let is_whole = matches!(kind, Kind::ArrowStream) && cut.is_ok();
            assert!(is_whole || cut.is_err(), "{kind:?} {len}");
        }
        // Whatever the bytes are, there is an answer.
        for place in (0..whole.len()).step_by(whole.len() / 150) {
            let mut flipped = whole.clone();
            flipped[place] ^= 0x55;
            let _ = attempt(&flipped);
        }
    }
}

/// Trusting these lengths would require more memory than any machine has.
#[test]
fn lengths_that_a_file_has_not_are_errors() {
    let attempt = |kind, bytes: &[u8]| attempt(kind, bytes).unwrap_err().to_string();
    // A message of 4 GiB, of which nothing comes.
    let error = attempt(Kind::ArrowStream, &[0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff]);
    assert!(error.contains("ends in the middle"), "{error}");
    let error = attempt(Kind::ArrowFile, b"ARROW1\0\0\xff\xff\xff\x7fARROW1");
    assert!(error.contains("longer than the file"), "{error}");
    // Version 1, no schema elements, no rows, and 2^31 - 1 row groups.
    let footer = b"\x15\x02\x19\x0c\x16\x00\x19\xfc\xff\xff\xff\xff\x07";
    let mut bytes = b"PAR1".to_vec();
    bytes.extend_from_slice(footer);
    bytes.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    bytes.extend_from_slice(b"PAR1");
    let error = attempt(Kind::Parquet, &bytes);
    assert!(error.contains("2147483647 row groups"), "{error}");
}

/// Every length in a file in turn becomes absurd: of the bodies of messages, blocks, buffers, and
/// the lengths that compressed buffers declare.
#[test]
fn absurd_lengths_in_arrow_files_are_errors() {
    let rows = small_table();
    let compressed =
        IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let mut whole = Vec::new();
    let mut writer =
        FileWriter::try_new_with_options(&mut whole, &rows.schema(), compressed).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let mut refused = 0;
    for place in (0..whole.len() - 8).step_by(8) {
        let mut bytes = whole.clone();
        bytes[place..place + 8].copy_from_slice(&(1_i64 << 50).to_le_bytes());
        refused += usize::from(attempt(Kind::ArrowFile, &bytes).is_err());
    }
    assert!(refused > 20, "{refused}");
}

const CSV: &str = "\u{feff}id,\"what, where\",note
1,\"Accident\non I-70\",x
2,Road closed,\"a \"\"quoted\"\" note\"
3
4,\"on I-71\",
";

#[test]
fn csv_rows_may_have_commas_quotes_and_line_feeds() {
    let search = |patterns: &[&str], column| {
        let mut kept = Kept::default();
        let mut search = Search::new(options(patterns, Answer::Records)).unwrap();
        let tally = search.csv(&mut CSV.as_bytes(), column, b',', &mut kept).unwrap();
        let numbers: Vec<u64> = kept.records.iter().map(|record| record.0).collect();
        (numbers, tally.without_value, kept)
    };
    let (numbers, without, kept) = search(&["on I-7"], "what, where");
    assert_eq!((numbers, without), (vec![1, 4], 1));
    assert_eq!(kept.records[0].2.as_deref(), Some(&b"Accident\non I-70"[..]));
    assert_eq!(search(&["^on I-7"], "what, where").0, [4], "a row is one record");
    assert_eq!(search(&["quoted\" note$"], "note").0, [2]);
    assert_eq!(search(&["^$"], "note").0, [4]);
    assert_eq!(search(&["[0-9]"], "id").0, [1, 2, 3, 4]);
}

#[test]
fn a_quote_that_is_never_closed_is_bounded() {
    let mut options = options(&["a"], Answer::Count);
    options.record_bytes_max = 1 << 20;
    let mut search = Search::new(options).unwrap();
    let mut endless = io::Cursor::new(b"text\n\"").chain(io::repeat(b'a'));
    let error = search.csv(&mut endless, "text", b',', &mut ()).unwrap_err();
    assert!(error.to_string().contains("row 1"), "{error}");
    let mut header = io::repeat(b'a');
    let error = search.csv(&mut header, "text", b',', &mut ()).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    assert!(search.csv(&mut &b""[..], "text", b',', &mut ()).is_err());
}

/// A file of some hundred bytes in which all rows have the same text of 4 MB.
#[test]
fn rows_that_share_a_value_in_a_file_share_it_in_memory() {
    let long = "x".repeat(4 << 20) + "a.b";
    let rows = 2000;
    let values = StringArray::from(vec![long.as_str()]);
    let keys = arrow_array::Int32Array::from(vec![0; rows]);
    let texts: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values)));
    let schema = Schema::new(vec![Field::new("text", texts.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![texts]).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_page_size_limit(64 << 20)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(file.metadata().unwrap().len() < 10_000);
    let mut options = options(&["a[.]b$"], Answer::Count);
    options.engine = "literal".into();
    let tally = Search::new(options).unwrap().parquet(file, "text", &mut ()).unwrap();
    assert_eq!(tally.selected, rows as u64);
}

/// Memory is not taken for more than compressed bytes can become.
#[test]
fn a_length_that_compressed_bytes_cannot_become_is_refused() {
    for compression in [CompressionType::ZSTD, CompressionType::LZ4_FRAME] {
        let text = "abc ".repeat(20_000) + "d";
        let array: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
        let schema = Schema::new(vec![Field::new("text", DataType::Utf8, false)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap();
        let options = IpcWriteOptions::default();
        let options = options.try_with_compression(Some(compression)).unwrap();
        let mut bytes = Vec::new();
        let mut writer =
            StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let search = |bytes: &[u8]| {
            let options = self::options(&["d$"], Answer::Count);
            Search::new(options).unwrap().arrow_stream(&mut &bytes[..], "text", &mut ())
        };
        assert_eq!(search(&bytes).unwrap().selected, 1);
        let said = (text.len() as u64).to_le_bytes();
        let at = bytes.windows(8).rposition(|eight| eight == said).unwrap();
        bytes[at..at + 8].copy_from_slice(&(4_u64 << 30).to_le_bytes());
        let error = search(&bytes).unwrap_err().to_string();
        assert_contains(&error, "compressed bytes cannot become 4294967296");
    }
}
