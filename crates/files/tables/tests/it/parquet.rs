//! Parquet files.

use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat_batches;
use overside_tables::memory::RowGroupMemory;
use overside_tables::pack::CodecPool;
use overside_tables::{
    Between, Columns, Error, Format, ParquetOptions, ParquetWriter, ROW_GROUP_ROWS, Storage,
    Strings, Table,
};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A file with one row group, or with one for each batch.
pub(crate) fn written(batches: &[RecordBatch], is_split: bool) -> File {
    let file = tempfile::tempfile().unwrap();
    let mut writer =
        ArrowWriter::try_new(file.try_clone().unwrap(), batches[0].schema(), None).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        if is_split {
            writer.flush().unwrap();
        }
    }
    writer.close().unwrap();
    file
}

fn options(strings: Strings, bounds: &[Between]) -> ParquetOptions<'_> {
    ParquetOptions { strings, bounds, written: None, pool: None }
}

fn all(_: &Schema) -> Result<Columns, Error> {
    Ok(Columns::All)
}

/// The file has the value once; copies for all rows that are decoded at once would be 512 MiB.
#[test]
fn long_strings_that_repeat_make_short_batches() {
    let value = "v".repeat(64 << 10);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..128).map(|_| &value)));
    let batch = RecordBatch::try_from_iter([("s", texts)]).unwrap();
    let table =
        Table::parquet(written(&vec![batch; 64], false), options(Strings::AsWritten, &[]), all)
            .unwrap();
    assert_eq!(table.schema().field(0).data_type(), &DataType::Utf8);
    let mut rows = 0;
    for batch in table {
        let batch = batch.unwrap();
        assert!(batch.num_rows() <= 1024, "{}", batch.num_rows());
        let texts = batch.column(0).as_string::<i32>();
        assert!(texts.iter().all(|text| text == Some(&*value)));
        rows += batch.num_rows();
    }
    assert_eq!(rows, 8192);
}

#[test]
fn nested_strings_come_as_they_were_written() {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..100 {
        for at in 0..row % 5 {
            lists.values().append_value(format!("{row}.{at}"));
        }
        lists.append(row % 7 != 0);
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    let batch = RecordBatch::try_from_iter([("lists", lists)]).unwrap();
    let table = Table::parquet(
        written(std::slice::from_ref(&batch), false),
        options(Strings::AsWritten, &[]),
        all,
    )
    .unwrap();
    let read: Vec<_> = table.map(Result::unwrap).collect();
    assert_eq!(read, [batch]);
}

#[test]
fn columns_are_chosen_by_name() {
    let numbers: ArrayRef = Arc::new(arrow_array::Int32Array::from_iter_values(0..10));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..10).map(|at| at.to_string())));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("s", texts)]).unwrap();
    let table = |names: &'static [&str], strings| {
        let choose = move |schema: &Schema| Columns::named(schema, names);
        Table::parquet(written(std::slice::from_ref(&batch), false), options(strings, &[]), choose)
    };
    let read = table(&["s"], Strings::Views).unwrap();
    assert_eq!(read.schema().field(0).data_type(), &DataType::Utf8View);
    assert_eq!(read.schema().fields().len(), 1);
    assert_eq!(read.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 10);
    let error = table(&["x"], Strings::Views).err().expect("an error").to_string();
    assert_eq!(error, "there is no column \"x\"; there are: n, s");
}

#[test]
fn row_groups_outside_of_bounds_are_not_read() {
    let group = |begin: i64| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(begin..begin + 10));
        let names = (begin..begin + 10).map(|number| format!("n{number:03}"));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None; 10]));
        RecordBatch::try_from_iter([("number", numbers), ("name", names), ("null", nulls)]).unwrap()
    };
    let batches = [group(0), group(10), group(20), group(30)];
    let numbers = |bounds: &[Between]| -> Vec<i64> {
        let table =
            Table::parquet(written(&batches, true), options(Strings::AsWritten, bounds), all)
                .unwrap();
        let begins = table.flat_map(|batch| {
            let batch = batch.unwrap();
            let numbers = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
            numbers.into_iter().step_by(10)
        });
        begins.collect()
    };
    let number = |value: i64| -> Option<ArrayRef> { Some(Arc::new(Int64Array::from(vec![value]))) };
    let name = |value: &str| -> Option<ArrayRef> { Some(Arc::new(StringArray::from(vec![value]))) };
    let between = |column, least, most| Between { column, least, most };
    assert_eq!(numbers(&[]), [0, 10, 20, 30]);
    assert_eq!(numbers(&[between(0, number(19), number(20))]), [10, 20]);
    assert_eq!(numbers(&[between(0, number(29), None)]), [20, 30]);
    assert_eq!(numbers(&[between(1, None, name("n009x"))]), [0]);
    let both = [between(0, number(5), None), between(1, None, name("n015"))];
    assert_eq!(numbers(&both), [0, 10]);
    // What the statistics cannot tell is read: no values, another type, no such column.
    assert_eq!(numbers(&[between(2, number(1), number(1))]), [0, 10, 20, 30]);
    assert_eq!(numbers(&[between(0, name("x"), None)]), [0, 10, 20, 30]);
    assert_eq!(numbers(&[between(9, number(1), None)]), [0, 10, 20, 30]);
}

/// Batches of one value for many rows, values of their own, text, and lists.
fn mixed(rows: i64, count: i64) -> Vec<RecordBatch> {
    let batch = |at: i64| {
        let ids = at * rows..(at + 1) * rows;
        let text = ids.clone().map(|id| (id % 3 > 0).then(|| format!("{}", id % 100)));
        let lists = ids.clone().map(|id| Some((0..id % 4).map(|value| Some(value as i32))));
        let columns: [(&str, ArrayRef); 4] = [
            ("object", Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id % 1000)))),
            ("x", Arc::new(Float64Array::from_iter_values(ids.map(|id| (id as f64).sqrt())))),
            ("text", Arc::new(text.collect::<StringArray>())),
            ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ];
        let columns = columns.map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    (0..count).map(batch).collect()
}

#[test]
fn files_share_the_memory_of_their_row_groups_and_come_back() {
    let batches = mixed(5000, 40);
    let schema = batches[0].schema();
    let whole = concat_batches(&schema, &batches).unwrap();
    let pools =
        [1, 2].map(|threads| Arc::new(CodecPool::new(threads.try_into().unwrap()).unwrap()));
    for (pool, memory, codec) in [
        (&pools[0], 1 << 30, "none"),
        (&pools[1], 1 << 30, "zstd"),
        (&pools[0], 1 << 20, "lz4"),
        (&pools[1], 1 << 20, "zstd"),
    ] {
        let shared = RowGroupMemory::new(memory);
        let mut files = Vec::new();
        for _ in 0..3 {
            let file = tempfile::tempfile().unwrap();
            let storage = Storage::new(Format::Parquet, &schema).unwrap();
            let output = file.try_clone().unwrap();
            let codec = codec.parse().unwrap();
            let writer =
                ParquetWriter::new(output, storage, codec, ROW_GROUP_ROWS, &shared, pool).unwrap();
            files.push((file, writer));
        }
        for batch in &batches {
            for (_, writer) in &mut files {
                writer.write(batch, batch.get_array_memory_size()).unwrap();
            }
        }
        for (file, writer) in files {
            let (_, cpu_ns) = writer.finish().unwrap();
            assert!(cpu_ns > 0);
            let reader = ParquetRecordBatchReaderBuilder::try_new(file.try_clone().unwrap());
            let groups = reader.unwrap().metadata().row_groups().to_vec();
            match memory > 1 << 20 {
                true => assert_eq!(groups.len(), 2),
                false => assert!((10..=40).contains(&groups.len()), "{}", groups.len()),
            }
            let has_dictionary =
                |column: usize| groups[0].column(column).dictionary_page_offset().is_some();
            assert!(has_dictionary(0) && !has_dictionary(1) && has_dictionary(2));
            let options = ParquetOptions { pool: Some(pool), ..options(Strings::AsWritten, &[]) };
            let table = Table::parquet(file, options, all).unwrap();
            assert_eq!(*table.schema(), schema);
            let again = table.collect::<Result<Vec<_>, _>>().unwrap();
            assert_eq!(concat_batches(&schema, &again).unwrap(), whole);
        }
    }
}
