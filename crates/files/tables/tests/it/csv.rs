//! Tests of comma-separated values.

use std::io::{Cursor, Read, repeat};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_schema::DataType;
use overside_tables::{CsvOptions, Error, Table};

fn read(text: &str) -> Result<(Vec<DataType>, Vec<RecordBatch>), Error> {
    let table = Table::csv(Cursor::new(text.to_owned()), CsvOptions::default())?;
    let fields = table.schema().fields();
    let types = fields.iter().map(|field| field.data_type().clone()).collect();
    Ok((types, table.collect::<Result<_, _>>()?))
}

#[test]
fn types_are_inferred_and_values_parsed() {
    let text = "\u{feff}id,at,name,seen\n1,1.5,\"a,\nb\",2024-01-02T03:04:05\n-2,,c,\n";
    let (types, batches) = read(text).unwrap();
    assert_eq!(types[..3], [DataType::Int64, DataType::Float64, DataType::Utf8]);
    assert!(matches!(types[3], DataType::Timestamp(..)), "{types:?}");
    let [batch] = &batches[..] else { panic!("{batches:?}") };
    assert_eq!(batch.schema().field(0).name(), "id");
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values()[..], [1, -2]);
    let at = batch.column(1).as_primitive::<Float64Type>();
    assert_eq!(at.iter().collect::<Vec<_>>(), [Some(1.5), None]);
    assert_eq!(batch.column(2).as_string::<i32>().value(0), "a,\nb");
}

#[test]
fn the_last_row_needs_no_line_feed_and_many_rows_become_batches() {
    let rows = 20_000;
    let mut text = String::from("n\n");
    for row in 0..rows {
        text += &format!("{row}\n");
    }
    let (_, batches) = read(text.trim_end()).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
    assert!(batches.len() > 1);
    let mut all = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    assert!((0..rows as i64).all(|row| all.next() == Some(row)));
}

#[test]
fn what_is_inferred_from_the_first_rows_need_not_hold() {
    let mut text = String::from("n\n");
    text += &"1\n".repeat(3 << 20);
    text += "one\n";
    let error = read(&text).unwrap_err().to_string();
    assert!(error.contains("one"), "{error}");
}

#[test]
fn a_row_has_as_many_values_as_the_header() {
    assert!(matches!(read("a,b\n1,2\n3\n"), Err(Error::Format(_))));
    assert!(matches!(read(""), Err(Error::Format(_))));
    let (types, batches) = read("a,b\n").unwrap();
    assert_eq!((types.len(), batches.len()), (2, 0));
}

/// The result is an error instead of an exhausted memory.
#[test]
fn an_open_quote_does_not_take_all_memory() {
    let head = Cursor::new(b"a,b\n1,2\n".to_vec());
    let endless = head.chain(Cursor::new(b"3,\"".to_vec())).chain(repeat(b'x'));
    let error = match Table::csv(endless, CsvOptions::default()) {
        Ok(mut table) => table.find_map(Result::err).expect("an error"),
        Err(error) => error,
    };
    assert!(error.to_string().contains("quote"), "{error}");
    let error = Table::csv(repeat(b'x'), CsvOptions::default()).err().expect("an error");
    assert!(error.to_string().contains("first row"), "{error}");
}
