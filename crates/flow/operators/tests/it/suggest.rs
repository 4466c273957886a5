//! Tests with tables whose low bits are uneven.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use overside_base::Random;
use overside_flow_operators::Error;
use overside_flow_operators::{KeyCandidate, KeySuggester, PartitionMethod};

fn suggest(columns: Vec<(&str, ArrayRef)>, partitions: usize, sample: usize) -> Vec<KeyCandidate> {
    let table = RecordBatch::try_from_iter(columns).expect("a table");
    let mut suggester = KeySuggester::new(table.schema(), partitions, sample).expect("partitions");
    for begin in (0..table.num_rows()).step_by(1000) {
        let rows = 1000.min(table.num_rows() - begin);
        suggester.push(&table.slice(begin, rows)).expect("a batch");
    }
    suggester.finish().expect("keys")
}

fn candidate<'a>(all: &'a [KeyCandidate], method: &str) -> &'a KeyCandidate {
    let found = all.iter().find(|one| one.key.method.to_string() == method);
    found.expect(method)
}

/// Ids like those of simulated particles: the four low bits encode the particle's kind and have
/// only three values.
#[test]
fn low_bits_that_are_mostly_unused_are_seen() {
    let mut random = Random::new(1);
    let ids = (0..30_000)
        .map(|_| (random.below(1 << 20) as i64) << 4 | [0, 1, 8][random.below(3) as usize]);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let all = suggest(vec![("particle_id", ids)], 16, 1 << 16);
    let low = candidate(&all, "bits:4");
    assert_eq!(low.empty_partitions, 13);
    assert!(low.imbalance > 5.0, "{low:?}");
    assert_eq!(all[0].key.to_string(), "particle_id by bits:4..8");
    assert!(all[0].imbalance < 1.1, "{:?}", all[0]);
    assert!(candidate(&all, "hash:16").imbalance < 1.2);
}

/// Ids like ship numbers that are multiples of 10, so that the lowest bit is always 0.
#[test]
fn uneven_bits_come_after_a_hash() {
    let mut random = Random::new(2);
    let numbers: Vec<i32> =
        (0..2000).map(|_| 200_000_000 + 10 * random.below(50_000_000) as i32).collect();
    let ids = (0..50_000).map(|_| numbers[random.below(2000) as usize]);
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(ids));
    let all = suggest(vec![("MMSI", ids)], 4, 1 << 16);
    let low = candidate(&all, "bits:2");
    assert_eq!(low.empty_partitions, 2);
    assert!(all[0].imbalance < 1.15, "{:?}", all[0]);
    assert!(all.iter().any(|one| matches!(one.key.method, PartitionMethod::Ranges { .. })));
}

/// Rows that come from producers in turns must not be sampled in the same turns.
#[test]
fn a_sample_does_not_follow_the_order_of_rows() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200_000));
    let all = suggest(vec![("id", ids)], 8, 4000);
    let low = candidate(&all, "bits:3");
    assert_eq!(low.empty_partitions, 0);
    assert!(low.imbalance < 1.25, "{low:?}");
    assert_eq!(all[0].key.method, PartitionMethod::low_bits(3));
}

#[test]
fn columns_that_cannot_divide_come_last() {
    let mut random = Random::new(5);
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; 5000]));
    let nulls = (0..5000).map(|row| (row % 10 == 0).then(|| format!("w{}", random.below(900))));
    let words: ArrayRef = Arc::new(nulls.collect::<StringArray>());
    let names = (0..5000).map(|_| format!("w{}", random.below(900)));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let table = vec![("flag", flags, true), ("words", words, true), ("names", names, true)];
    let table = RecordBatch::try_from_iter_with_nullable(table).expect("a table");
    let mut suggester = KeySuggester::new(table.schema(), 4, 10_000).expect("partitions");
    suggester.push(&table).expect("a batch");
    let all = suggester.finish().expect("keys");
    assert_eq!(all[0].key.column, "names");
    assert_eq!(all.last().expect("a key").key.column, "flag");
    let words = all.iter().find(|one| one.key.column == "words").expect("a key");
    assert!((words.null_share - 0.9).abs() < 0.01, "{words:?}");
}

#[test]
fn bounds_of_partitions_are_kept() {
    let table: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let schema = RecordBatch::try_from_iter([("a", table)]).expect("a table").schema();
    for partitions in [0, 1, 1025] {
        let refused = KeySuggester::new(schema.clone(), partitions, 10);
        assert!(matches!(refused.err(), Some(Error::Partitions { .. })));
    }
    let empty = KeySuggester::new(schema, 4, 10).expect("partitions").finish();
    assert!(empty.expect("keys").iter().all(|one| one.imbalance == 1.0));
}
