//! Tests of types across formats; `tests/python/flow/test_flow_types.py` tests each of them with other
//! readers.

use std::io::{Seek, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    TimestampMicrosecondArray,
};
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use overside_flow_files::{FileFormat, FileReader, FileWriter, ReadOptions, WriteOptions};
use overside_flow_operators::{SortColumn, sort};
use overside_tables::pack::CodecPool;

fn to_csv(batch: &RecordBatch) -> String {
    let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("threads"));
    let options = WriteOptions { format: FileFormat::Csv, ..WriteOptions::default() };
    let mut writer =
        FileWriter::new(Vec::new(), &batch.schema(), options, &pool).expect("a writer");
    writer.write(batch).expect("rows");
    String::from_utf8(writer.finish().expect("CSV").0).expect("text")
}

fn of_csv(text: &str) -> RecordBatch {
    let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("threads"));
    let mut file = tempfile::tempfile().expect("a file");
    (file.write_all(text.as_bytes()).and_then(|()| file.rewind())).expect("room");
    let reader = FileReader::open(file, &ReadOptions::default(), &pool).expect("a table");
    let schema = Arc::clone(reader.schema());
    let batches = reader.collect::<Result<Vec<_>, _>>().expect("rows");
    concat_batches(&schema, &batches).expect("a batch")
}

/// Written values are read again and written as the same text.
#[test]
fn random_values_come_back_from_csv() {
    let mut random = overside_base::Random::new(23);
    for round in 0..40_u64 {
        let floats: Vec<f64> = (0..50)
            .map(|_| match round % 4 {
                0 => f64::from_bits(random.next_u64()),
                1 => random.below(1 << 40) as f64 / 1024.0,
                2 => random.below(100) as f64 * 10_f64.powi(random.below(40) as i32 - 20),
                _ => random.below(1000) as f64 / 10.0,
            })
            .map(|float| if float.is_nan() { f64::NAN } else { float })
            .collect();
        let times: Vec<i64> = (0..50)
            .map(|_| {
                let time = random.below(4_000_000_000) as i64 * 1_000_000;
                time + (round % 3) as i64 * random.below(1_000_000) as i64
            })
            .collect();
        let zone = ["", "UTC", "+02:00"][(round % 3) as usize];
        let times = TimestampMicrosecondArray::from(times);
        let times = times.with_timezone_opt((!zone.is_empty()).then(|| zone.to_owned()));
        let decimals = Decimal128Array::from_iter_values((0..50).map(|_| random.next_u64().into()));
        let decimals = decimals.with_precision_and_scale(38, (round % 20) as i8);
        let columns: [(&str, ArrayRef, bool); 4] = [
            ("x", Arc::new(Float64Array::from(floats.clone())), true),
            ("t", Arc::new(times), true),
            ("d", Arc::new(decimals.expect("a type")), true),
            (
                "n",
                Arc::new(Int64Array::from_iter_values((0..50).map(|_| random.next_u64() as i64))),
                true,
            ),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
        let text = to_csv(&batch);
        let again = of_csv(&text);
        let found = again.column(0).as_primitive::<Float64Type>().values();
        let bits = |floats: &[f64]| floats.iter().map(|float| float.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(found), bits(&floats), "{text}");
        assert_eq!(again.column(3), batch.column(3));
        assert!(again.column(2).data_type().is_numeric());
        let unit = again.column(1).data_type();
        assert!(matches!(unit, DataType::Timestamp(..)), "{unit}");
        assert_eq!(to_csv(&again), text);
    }
}

#[test]
fn floats_have_one_order() {
    let values =
        vec![Some(1.0), Some(-f64::NAN), Some(-0.0), Some(0.0), Some(f64::NAN), Some(-1.0)];
    let ids = Int64Array::from_iter_values(0..values.len() as i64);
    for nulls in [false, true] {
        let mut values = values.clone();
        if nulls {
            values[0] = None;
        }
        let columns: [(&str, ArrayRef, bool); 2] = [
            ("x", Arc::new(Float64Array::from(values)), true),
            ("row", Arc::new(ids.clone()), true),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
        let sorted = sort(&[batch], &[SortColumn::ascending("x")]).expect("rows");
        let rows = sorted.column(1).as_primitive::<Int64Type>().values().to_vec();
        let wanted = if nulls { [5, 2, 3, 1, 4, 0] } else { [5, 2, 3, 0, 1, 4] };
        assert_eq!(rows, wanted);
    }
}
