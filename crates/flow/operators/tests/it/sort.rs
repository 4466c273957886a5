//! Tests of sorting, compared with sorting values one by one.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt16Array,
};
use overside_base::Random;
use overside_flow_operators::{SortColumn, sort};

fn rows(batch: &RecordBatch) -> Vec<i32> {
    let column = batch.column_by_name("row").expect("rows");
    column.as_any().downcast_ref::<Int32Array>().expect("rows").values().to_vec()
}

fn with_rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let len = columns[0].1.len() as i32;
    let row: ArrayRef = Arc::new(Int32Array::from_iter_values(0..len));
    let columns = columns.into_iter().chain([("row", row)]);
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, one)| (name, one, true)))
        .expect("a table")
}

fn columns(texts: &[&str]) -> Vec<SortColumn> {
    texts.iter().map(|text| text.parse().expect("a column")).collect()
}

#[test]
fn by_key_and_time_and_stable() {
    let mut random = Random::new(3);
    let ids: Vec<i64> = (0..5000).map(|_| random.below(40) as i64 - 20).collect();
    let times: Vec<i64> = (0..5000).map(|_| random.below(60) as i64 - 30).collect();
    let table = with_rows(vec![
        ("id", Arc::new(Int64Array::from(ids.clone()))),
        ("time", Arc::new(TimestampMicrosecondArray::from(times.clone()))),
    ]);
    let halves = [table.slice(0, 2222), table.slice(2222, 2778)];
    let sorted = sort(&halves, &columns(&["id", "time desc"])).expect("a table");
    let mut expected: Vec<i32> = (0..5000).collect();
    expected.sort_by_key(|row| (ids[*row as usize], -times[*row as usize]));
    assert_eq!(rows(&sorted), expected);
}

#[test]
fn every_way_agrees_with_the_other() {
    let mut random = Random::new(4);
    let small: Vec<u16> = (0..900).map(|_| random.below(9) as u16).collect();
    let real: Vec<f64> = (0..900).map(|_| random.below(9) as f64 - 4.5).collect();
    let table = with_rows(vec![
        ("small", Arc::new(UInt16Array::from(small.clone()))),
        ("real", Arc::new(Float64Array::from(real.clone()))),
        ("same", Arc::new(StringArray::from_iter_values(vec!["x"; 900]))),
    ]);
    for order in ["", " desc"] {
        let (one, other) = (format!("small{order}"), format!("real{order}"));
        let keys = sort(std::slice::from_ref(&table), &columns(&[&one, &other])).expect("a table");
        let compared = sort(std::slice::from_ref(&table), &columns(&["same", &one, &other]));
        assert_eq!(keys, compared.expect("a table"));
        let mut expected: Vec<i32> = (0..900).collect();
        expected.sort_by(|a, b| {
            let (a, b) = (*a as usize, *b as usize);
            let order_of = small[a].cmp(&small[b]).then(real[a].total_cmp(&real[b]));
            if order.is_empty() { order_of } else { order_of.reverse() }
        });
        assert_eq!(rows(&keys), expected);
    }
}

#[test]
fn nulls_come_last_unless_asked() {
    let values = vec![Some(2), None, Some(1), None, Some(3)];
    let table = with_rows(vec![("a", Arc::new(Int64Array::from(values)))]);
    let order =
        |text| rows(&sort(std::slice::from_ref(&table), &columns(&[text])).expect("a table"));
    assert_eq!(order("a"), [2, 0, 4, 1, 3]);
    assert_eq!(order("a desc"), [4, 0, 2, 1, 3]);
    assert_eq!(order("a desc nulls first"), [1, 3, 4, 0, 2]);
    assert_eq!(order("a ASC NULLS LAST"), [2, 0, 4, 1, 3]);
}

#[test]
fn columns_are_read_as_they_are_written() {
    for text in ["id", "id desc", "a b desc nulls first", "desc"] {
        let column: SortColumn = text.parse().expect("a column");
        assert_eq!(column.to_string(), text);
    }
}

#[test]
fn unknown_columns_are_refused() {
    let table = with_rows(vec![("a", Arc::new(Int64Array::from(vec![1])))]);
    let error = sort(std::slice::from_ref(&table), &columns(&["b"])).expect_err("no column");
    assert!(error.to_string().contains("a, row"), "{error}");
    assert!(sort(&[table], &[]).is_err());
    assert!(sort(&[], &columns(&["a"])).is_err());
}
