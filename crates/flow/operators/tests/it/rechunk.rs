//! Tests of batches of one size.

use std::sync::Arc;

use arrow_array::{Int32Array, RecordBatch};
use arrow_select::concat::concat_batches;
use overside_base::Random;
use overside_flow_operators::{RechunkOptions, Rechunker};
use proptest::prelude::*;

use crate::random::{KINDS, table};

proptest! {
    #[test]
    fn rows_stay_and_sizes_are_kept(seed: u64, kind in 0..KINDS, rows in 0..300_usize, of in 1..120_usize) {
        let mut random = Random::new(seed);
        let table = table(&mut random, kind, rows);
        let options = RechunkOptions { rows: of, ..RechunkOptions::default() };
        let mut rechunker = Rechunker::new(table.schema(), options);
        let (mut out, mut begin) = (Vec::new(), 0);
        while begin < rows {
            let len = (random.below(90) as usize).min(rows - begin);
            out.extend(rechunker.push(&table.slice(begin, len)).expect("batches"));
            begin += len;
        }
        out.extend(rechunker.finish().expect("the rest"));
        let sizes: Vec<usize> = out.iter().map(RecordBatch::num_rows).collect();
        let mut expected = vec![of; rows / of];
        expected.extend((rows % of > 0).then_some(rows % of));
        prop_assert_eq!(sizes, expected);
        let joined = concat_batches(table.schema_ref(), &out).expect("one schema");
        for (joined, column) in joined.columns().iter().zip(table.columns()) {
            prop_assert_eq!(joined.as_ref(), column.as_ref());
        }
    }
}

#[test]
fn bytes_bound_a_batch() {
    let column = Int32Array::from_iter_values(0..1000);
    let table = RecordBatch::try_from_iter([("a", Arc::new(column) as _)]).expect("a table");
    let options = RechunkOptions { rows: 10_000, bytes: 400 };
    let mut rechunker = Rechunker::new(table.schema(), options);
    let out = rechunker.push(&table).expect("batches");
    let sizes: Vec<usize> = out.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes, [100; 10]);
    let options = RechunkOptions { rows: 10, bytes: 0 };
    let mut rechunker = Rechunker::new(table.schema(), options);
    assert_eq!(rechunker.push(&table.slice(0, 3)).expect("batches").len(), 3);
}
