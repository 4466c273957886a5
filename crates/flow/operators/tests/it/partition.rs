//! Tests of partitioning, compared with Arrow's `take` of the rows of a partition.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use overside_base::Random;
use overside_flow_operators::Error;
use overside_flow_operators::{
    PartitionKey, PartitionMethod, PartitionOptions, Partitioner, partition, partition_by_filters,
    partitions_of_rows,
};
use proptest::prelude::*;

use crate::random::{KINDS, table};

fn ids(values: Vec<Option<i64>>) -> RecordBatch {
    let rows = Int32Array::from_iter_values(0..values.len() as i32);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("row", DataType::Int32, false),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(values)), Arc::new(rows)];
    RecordBatch::try_new(Arc::new(schema), columns).expect("a table")
}

fn rows_of(batch: &RecordBatch, key: &PartitionKey) -> Result<Vec<Vec<i32>>, Error> {
    let options = PartitionOptions::default();
    let tables = partition(batch.schema_ref(), [batch], key, options)?.tables;
    let rows = |table: Vec<RecordBatch>| {
        let all = concat_batches(batch.schema_ref(), &table).expect("one schema");
        let rows = all.column(1).as_any().downcast_ref::<Int32Array>();
        rows.expect("rows").values().to_vec()
    };
    Ok(tables.into_iter().map(rows).collect())
}

#[test]
fn low_bits_choose_and_order_stays() {
    let batch = ids(vec![Some(0), Some(5), None, Some(4), Some(-1), Some(2), Some(1)]);
    let key = PartitionKey::parse("id", "bits:2").expect("a key");
    let rows = rows_of(&batch, &key).expect("tables");
    assert_eq!(rows, [vec![0, 3], vec![1, 6], vec![5], vec![4], vec![2]]);
}

#[test]
fn bits_are_counted_from_the_lowest() {
    let batch = ids(vec![Some(0b1_0000), Some(0b11_0000), Some(0b100_0000), Some(0b1111)]);
    let key = PartitionKey::parse("id", "bits:4..6").expect("a key");
    let rows = rows_of(&batch, &key).expect("tables");
    assert_eq!(rows, [vec![2, 3], vec![0], vec![], vec![1], vec![]]);
}

#[test]
fn bounds_are_the_lowest_of_their_partition() {
    let batch = ids(vec![Some(9), Some(10), Some(11), Some(20), None, Some(-5)]);
    let key = PartitionKey::parse("id", "ranges:10,20").expect("a key");
    let rows = rows_of(&batch, &key).expect("tables");
    assert_eq!(rows, [vec![0, 5], vec![1, 2], vec![3], vec![4]]);
}

/// Reserving this length for every value of a batch would exceed the memory of any machine.
#[test]
fn long_values_take_no_more_memory_than_they_need() {
    let rows = 64;
    let long = |row: i64| vec![row as u8; 1 << 20];
    let texts: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..rows).map(long)));
    let fixed = FixedSizeBinaryArray::try_from_iter((0..rows).map(long)).expect("one width");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let columns = [("id", numbers), ("texts", texts), ("fixed", Arc::new(fixed) as ArrayRef)];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let key = PartitionKey::parse("id", "bits:6").expect("a key");
    let mut partitioner =
        Partitioner::new(batch.schema(), &key, PartitionOptions::default()).expect("a key");
    let mut pieces = partitioner.push(&batch).expect("a batch");
    let (rest, report) = partitioner.finish().expect("the rest");
    pieces.extend(rest);
    assert_eq!(report.rows(), rows as u64);
    for (partition, piece) in pieces {
        assert_eq!(piece, batch.slice(partition, 1));
    }
}

/// Nodes with other versions must compute the same partitions.
#[test]
fn hashes_never_change() {
    let batch = ids((0..12).map(Some).collect());
    let key = PartitionKey::parse("id", "hash:3").expect("a key");
    let rows = rows_of(&batch, &key).expect("tables");
    let expected = |partition: u64| -> Vec<i32> {
        let belongs = |id: &i32| {
            let bytes = i64::from(*id).to_le_bytes();
            xxhash_rust::xxh3::xxh3_64(&bytes) % 3 == partition
        };
        (0..12).filter(belongs).collect()
    };
    assert_eq!(rows, [expected(0), expected(1), expected(2), vec![]]);
    assert_eq!(rows[0], [4, 6, 8, 9]);
}

/// Files with the types Int64 and Int32 are split alike.
#[test]
fn hashes_do_not_depend_on_the_width_of_a_column() {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let rows = |from: &RecordBatch, kind: &DataType| {
        let key = PartitionKey::parse("id", "hash:7").expect("a key");
        let cast = arrow_cast::cast(from.column(0), kind).expect("it fits");
        let columns = [("id", cast), ("row", from.column(1).clone())];
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        rows_of(&batch, &key).expect("tables")
    };
    let whole = ids((0..100).map(|id| (id % 9 != 0).then_some(id)).collect());
    for kind in [Int8, Int16, Int32, UInt8, UInt16, UInt32, UInt64] {
        assert_eq!(rows(&whole, &kind), rows(&whole, &Int64), "{kind}");
    }
    let negative = ids((-50..0).map(Some).collect());
    for kind in [Int8, Int16, Int32] {
        assert_eq!(rows(&negative, &kind), rows(&negative, &Int64), "{kind}");
    }
    assert_eq!(rows(&whole, &Float32), rows(&whole, &Float64));
}

#[test]
fn methods_read_as_they_are_written() {
    for text in ["bits:2", "bits:4..7", "hash:16", "ranges:a,b,c", "bits:10"] {
        let method: PartitionMethod = text.parse().expect(text);
        assert_eq!(method.to_string(), text);
    }
    assert_eq!("bits:0..2".parse::<PartitionMethod>().expect("bits"), PartitionMethod::low_bits(2));
    for text in ["bits", "bits:0", "bits:7..4", "hash:x", "ranges:a,,b", "modulo:3", "bits:-1", ""]
    {
        assert!(matches!(text.parse::<PartitionMethod>(), Err(Error::Method { .. })), "{text}");
    }
    for text in ["bits:11", "bits:0..64", "bits:3..99", "hash:1", "hash:0", "hash:1025"] {
        assert!(matches!(text.parse::<PartitionMethod>(), Err(Error::Partitions { .. })), "{text}");
    }
}

#[test]
fn keys_that_a_method_cannot_take_are_refused() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("x", DataType::Float64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("small", DataType::Int8, true),
        Field::new("list", DataType::new_list(DataType::Int8, true), true),
    ]));
    let refusal = |column: &str, method: &str| {
        let key = PartitionKey::parse(column, method).expect("a key");
        Partitioner::new(schema.clone(), &key, PartitionOptions::default())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert_eq!(
        refusal("x", "bits:2"),
        "column \"x\" of type Float64 cannot be partitioned by bits:2: its values have no order of \
         bits; use hash:N or ranges:A,B,..."
    );
    assert!(refusal("name", "bits:2").contains("no order of bits"));
    assert!(refusal("small", "bits:6..9").contains("bits 0 to 7"));
    assert!(refusal("list", "hash:2").contains("choose another column"));
    assert!(refusal("small", "ranges:1,300").contains("values of that type"));
    assert!(refusal("small", "ranges:3,1").contains("bound 1 is not above 3"));
    assert!(refusal("nowhere", "hash:2").contains("x, name, small, list"));
    assert_eq!(refusal("x", "ranges:-1.5,2"), "");
}

#[test]
fn another_schema_in_the_middle_is_refused() {
    let first = ids(vec![Some(1)]);
    let key = PartitionKey::parse("id", "bits:1").expect("a key");
    let options = PartitionOptions::default();
    let mut partitioner = Partitioner::new(first.schema(), &key, options).expect("a partitioner");
    partitioner.push(&first).expect("a batch");
    let other = first.project(&[0]).expect("a column");
    let error = partitioner.push(&other).expect_err("another schema").to_string();
    assert!(error.ends_with("there is no column \"row\""), "{error}");
    let (pieces, report) = partitioner.finish().expect("the rest");
    assert_eq!((pieces.len(), report.rows()), (1, 1));
}

#[test]
fn sizes_are_counted() {
    let batch = ids(vec![Some(0), Some(2), None, Some(4), Some(1)]);
    let key = PartitionKey::parse("id", "bits:1").expect("a key");
    let options = PartitionOptions::default();
    let tables = partition(batch.schema_ref(), [&batch], &key, options).expect("tables");
    let rows: Vec<u64> = tables.report.partitions.iter().map(|size| size.rows).collect();
    assert_eq!((rows, tables.report.null_keys.rows), (vec![3, 1], 1));
    assert_eq!(tables.report.imbalance(), 1.5);
    assert_eq!(tables.report.empty_partitions(), 0);
    assert!(tables.report.partitions[0].bytes >= 3 * 12);
}

/// Returns a random method that supports a column of that kind.
fn method(random: &mut Random, key: u64) -> String {
    match (key, random.below(2)) {
        (0..=3 | 5..=8, 0) => format!("bits:{}", 1 + random.below(6)),
        (10..=13, 0) => "ranges:b,banana,pear".to_owned(),
        (4, 0) => "ranges:-20,0,1.5,30".to_owned(),
        _ => format!("hash:{}", 2 + random.below(40)),
    }
}

proptest! {
    #[test]
    fn outputs_are_what_take_makes(seed: u64, key in 0..18_u64, rows in 0..400_usize, pushes in 1..4) {
        let mut random = Random::new(seed);
        let table = table(&mut random, key, rows);
        let key = PartitionKey::parse("id", &method(&mut random, key));
        let key = key.expect("a key");
        let batch_rows = [0, 1, 50, 100_000][random.below(4) as usize];
        let options = PartitionOptions { batch_rows, ..PartitionOptions::default() };
        let whole = partition(table.schema_ref(), [&table], &key, options);
        // Dictionaries of values without ordered bits.
        if matches!(whole, Err(Error::KeyType { .. })) {
            return Ok(());
        }
        let step = rows / pushes as usize + 1;
        let parts: Vec<RecordBatch> = (0..rows).step_by(step)
            .map(|begin| table.slice(begin, step.min(rows - begin)))
            .collect();
        let tables = partition(table.schema_ref(), &parts, &key, options).expect("tables");
        let mut all = vec![Vec::new(); key.method.partitions() as usize + 1];
        for (row, at) in rows_by_one(&table, &key).into_iter().enumerate() {
            all[at].push(row as u32);
        }
        let filtered = partition_by_filters(table.schema_ref(), &parts, &key).expect("tables");
        let sizes = |tables: &[Vec<RecordBatch>]| -> Vec<usize> {
            tables.iter().map(|table| table.iter().map(RecordBatch::num_rows).sum()).collect()
        };
        prop_assert_eq!(sizes(&filtered), sizes(&tables.tables));
        prop_assert_eq!(tables.tables.len(), all.len());
        let total: u64 = tables.report.rows();
        prop_assert_eq!(total, rows as u64);
        for (made, rows) in tables.tables.iter().zip(all) {
            let made = concat_batches(table.schema_ref(), made).expect("one schema");
            let taken = take_record_batch(&table, &UInt32Array::from(rows)).expect("rows");
            for (made, taken) in made.columns().iter().zip(taken.columns()) {
                made.to_data().validate_full().expect("a column");
                prop_assert_eq!(made.as_ref(), taken.as_ref());
            }
        }
    }
}

/// Computes the partition of each row, one key at a time.
fn rows_by_one(table: &RecordBatch, key: &PartitionKey) -> Vec<usize> {
    let one = |row| usize::from(partitions_of_rows(&table.slice(row, 1), key).expect("a key")[0]);
    (0..table.num_rows()).map(one).collect()
}

#[test]
fn every_kind_of_column_is_partitioned() {
    for kind in 0..KINDS {
        let mut random = Random::new(kind);
        let column = crate::random::column(&mut random, kind, 100);
        let key: ArrayRef = Arc::new(Int32Array::from_iter_values((0..100).map(|row| row % 3)));
        let table =
            RecordBatch::try_from_iter_with_nullable([("id", key, true), ("c", column, true)]);
        let table = table.expect("a table");
        let key = PartitionKey::parse("id", "bits:2").expect("a key");
        let tables = partition(table.schema_ref(), [&table], &key, PartitionOptions::default());
        let tables = tables.expect("tables").tables;
        let sizes: Vec<usize> =
            tables.iter().map(|table| table.iter().map(|batch| batch.num_rows()).sum()).collect();
        assert_eq!(sizes, [34, 33, 33, 0, 0], "kind {kind}");
    }
}

/// Arrow's `take` does not support them.
#[test]
fn values_of_no_bytes_are_counted() {
    let mut empty = builder::FixedSizeBinaryBuilder::new(0);
    (0..9).for_each(|_| empty.append_value([]).expect("no bytes"));
    let key: ArrayRef = Arc::new(Int32Array::from_iter_values(0..9));
    let table = RecordBatch::try_from_iter([("id", key), ("c", Arc::new(empty.finish()))]);
    let table = table.expect("a table");
    let key = PartitionKey::parse("id", "bits:1").expect("a key");
    let tables = partition(table.schema_ref(), [&table], &key, PartitionOptions::default());
    let sizes: Vec<usize> = (tables.expect("tables").tables.iter())
        .map(|table| table.iter().map(RecordBatch::num_rows).sum())
        .collect();
    assert_eq!(sizes, [5, 4, 0]);
}
