//! Malformed bytes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use overside_base::Random;
use overside_flow_service::batch::Batch;

use crate::checks;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/flow_service");
    let mut count = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        checks::service(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10);
}

#[test]
fn damaged_records_are_refused() {
    let ids = Int64Array::from_iter_values(0..50);
    let names = StringArray::from_iter_values((0..50).map(|n| format!("name {n}")));
    let columns = [("id", Arc::new(ids) as _), ("name", Arc::new(names) as _)];
    let batch = Batch {
        producer: "p".into(),
        sequence: 3,
        partition: None,
        data: RecordBatch::try_from_iter(columns).unwrap(),
    };
    let mut record = Vec::new();
    batch.write_record(&mut record).unwrap();
    assert_eq!(Batch::from_record(&record).unwrap(), batch);
    for len in 0..record.len() {
        checks::service(&record[..len]);
    }
    let mut random = Random::new(1);
    for _ in 0..2000 {
        let mut damaged = record.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.next_u64() as u8;
        }
        checks::service(&damaged);
    }
}
