//! Checks that must hold for any bytes that are read as a table, and for any text that is read as SQL or as a
//! key. Used by tests and the fuzzer.

use std::io::{Seek, Write};
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use arrow_array::*;
use overside_flow::files::{FileReader, ReadOptions};
use overside_flow::operators::{
    Filter, PartitionKey, PartitionMethod, PartitionOptions, Projection, SortColumn, partition,
    partitions_of_rows, sort,
};
use overside_flow::pack::{CodecPool, UnpackOptions};

/// Maximum number of batches that are read of a table, because a few bytes may be many rows. `ROWS_MAX` is
/// the maximum number of rows of a batch.
const BATCHES_MAX: usize = 16;
const ROWS_MAX: usize = 1 << 12;

/// Checks that any bytes are refused, or are a table that is partitioned and sorted without losing a row.
pub(crate) fn table(data: &[u8]) {
    static POOL: OnceLock<Arc<CodecPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("a pool")));
    let mut file = tempfile::tempfile().expect("a file");
    (file.write_all(data).and_then(|()| file.rewind())).expect("room for it");
    let options = ReadOptions {
        unpack: UnpackOptions { message_bytes_max: 4 << 20 },
        ..ReadOptions::default()
    };
    let Ok(reader) = FileReader::open(file, &options, pool) else {
        return;
    };
    let schema = Arc::clone(reader.schema());
    let batches: Vec<RecordBatch> = (reader.map_while(Result::ok))
        .take_while(|batch| batch.num_rows() <= ROWS_MAX)
        .take(BATCHES_MAX)
        .collect();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let Some(first) = schema.fields().first() else {
        return;
    };
    let hash = PartitionKey {
        column: first.name().clone(),
        method: PartitionMethod::Hash { partitions: 3 },
    };
    if let Ok(parts) = partition(&schema, &batches, &hash, PartitionOptions::default()) {
        let mut expected = vec![0; parts.tables.len()];
        for batch in &batches {
            let of_rows = partitions_of_rows(batch, &hash).expect("a key as before");
            of_rows.into_iter().for_each(|part| expected[usize::from(part)] += 1);
        }
        let of_table = |table: &Vec<RecordBatch>| table.iter().map(RecordBatch::num_rows).sum();
        let found: Vec<usize> = parts.tables.iter().map(of_table).collect();
        assert_eq!(found, expected);
    }
    if let Ok(sorted) = sort(&batches, &[SortColumn::ascending(first.name())]) {
        assert_eq!(sorted.num_rows(), rows);
    }
}

/// Checks that any text is refused, is an expression with the same result in a table and in its parts, or is
/// a key that is parsed again from its text. The first byte selects the kind.
pub(crate) fn text(data: &[u8]) {
    let Some((kind, Ok(text))) =
        (data.split_first()).map(|(kind, text)| (kind, std::str::from_utf8(text)))
    else {
        return;
    };
    let table = values();
    let parts = [table.slice(0, 2), table.slice(2, table.num_rows() - 2)];
    let check = |apply: &dyn Fn(&RecordBatch) -> Option<RecordBatch>| {
        // An error in a row refuses the whole table.
        let Some(whole) = apply(&table) else {
            return;
        };
        let [first, last] = parts.each_ref().map(|part| apply(part).expect("as all of it"));
        assert_eq!(whole.num_rows(), first.num_rows() + last.num_rows());
        assert_eq!(whole.slice(0, first.num_rows()), first);
        assert_eq!(whole.slice(first.num_rows(), last.num_rows()), last);
    };
    match kind % 4 {
        0 => {
            if let Ok(filter) = Filter::new(table.schema(), text) {
                check(&|batch| filter.apply(batch).ok());
            }
        }
        1 => {
            if let Ok(projection) = Projection::new(table.schema(), text) {
                check(&|batch| projection.apply(batch).ok());
            }
        }
        2 => {
            if let Ok(method) = text.parse::<PartitionMethod>() {
                assert_eq!(
                    method.to_string().parse::<PartitionMethod>().ok(),
                    Some(method.clone())
                );
                let column = text.len() % table.num_columns();
                let column = table.schema().field(column).name().clone();
                let key = PartitionKey { column, method };
                let schema = table.schema();
                let options = PartitionOptions::default();
                if let Ok(made) = partition(&schema, [&table], &key, options) {
                    let rows = made.tables.iter().flatten().map(RecordBatch::num_rows);
                    assert_eq!(rows.sum::<usize>(), table.num_rows());
                }
            }
        }
        _ => {
            if let Ok(column) = text.parse::<SortColumn>() {
                assert_eq!(column.to_string().parse::<SortColumn>().ok(), Some(column));
            }
        }
    }
}

/// Makes a few rows of many types with extreme values of each.
fn values() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![Some(150), None, Some(-275), Some(0), Some(1000)]);
    let decimals = decimals.with_precision_and_scale(10, 2).expect("a type");
    let times = [Some(i64::MAX), Some(0), None, Some(-1), Some(1_641_168_003_000_000)];
    let words = [Some("ISLAND"), Some("a%b"), None, Some(""), Some("é\n")];
    let port: DictionaryArray<types::Int8Type> = ["a", "b", "a", "c", "b"].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", create_array!(Int64, [Some(1), Some(i64::MIN), None, Some(i64::MAX), Some(0)])),
        ("u", create_array!(UInt8, [Some(1), Some(200), Some(3), None, Some(0)])),
        ("x", create_array!(Float64, [Some(0.5), Some(-0.0), None, Some(f64::NAN), Some(1e300)])),
        ("d", Arc::new(decimals)),
        ("day", Arc::new(Date32Array::from(vec![18_993, i32::MIN, 0, 1, i32::MAX]))),
        ("at", create_array!(TimestampMicrosecond, times.to_vec())),
        ("s", create_array!(Utf8, words.to_vec())),
        ("v", create_array!(Utf8View, words.to_vec())),
        ("ok", create_array!(Boolean, [Some(true), Some(false), None, Some(true), None])),
        ("port", Arc::new(port)),
    ];
    let nullable = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(nullable).expect("a table")
}
