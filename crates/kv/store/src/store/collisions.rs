//! Keys with equal hashes, or with some equal bits of them, are different keys.

use std::collections::BTreeMap;

use overside_base::Random;

use super::{MEMORY_MIN_BYTES, Semantics, Store, StoreOptions};
use crate::{Answer, KeyHasher, Operation, ProcessingEngine, Request, ScanPosition};

const NOW_MS: u64 = 1_000_000;
/// Bits that hashes keep: none, so that all are equal; those of the tag; those of the first buckets; both, but few.
const KEPT: [u64; 4] = [0, 0xffff << 48, 0xf, 0x3 << 48 | 0x3];
const KEYS: usize = 200;
const SEMANTICS: [Semantics; 2] = [Semantics::Store, Semantics::Cache];

/// Keys and values that the store should have.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn store(semantics: Semantics, kept: u64, memory_bytes: usize) -> Store {
    Store::new(StoreOptions {
        memory_bytes,
        semantics,
        hasher: KeyHasher::with_seeds([1, 2, 3, 4]).keeping(kept),
        huge_pages: false,
    })
    .unwrap()
}

fn keys() -> Vec<Vec<u8>> {
    // Of one length, and of several.
    let key = |number| format!("{number:0width$}", width = 3 + number % 3).into_bytes();
    (0..KEYS).map(key).collect()
}

fn set(value: &[u8]) -> Operation<'_> {
    Operation::set(value)
}

/// Some requests, executed together: reads return the model's values, or nothing where the store may drop.
fn execute(store: &mut Store, model: &mut Model, batch: &[(&[u8], Operation<'_>)], drops: bool) {
    let hasher = store.hasher().clone();
    let requests: Vec<_> = (batch.iter())
        .map(|(key, operation)| Request::new(key, &hasher, operation.clone()))
        .collect();
    store.execute(&requests, NOW_MS, &mut |index, answer| {
        let (key, operation) = &batch[index];
        let before = model.get(*key);
        match operation {
            Operation::Set { value, .. } => {
                assert!(matches!(answer, Answer::Stored { .. }), "{answer:?}");
                model.insert(key.to_vec(), value.to_vec());
            }
            Operation::Delete { .. } => {
                let is_done = answer == Answer::Done;
                assert!(is_done == before.is_some() || drops && !is_done);
                model.remove(*key);
            }
            _ => match answer {
                Answer::Value(found) => assert_eq!(Some(found.data), before.map(Vec::as_slice)),
                other => assert!(other == Answer::Missing && (before.is_none() || drops)),
            },
        }
    });
}

/// Checks that a scan finds each key of the model once, or only some of them where the store may
/// drop keys.
fn scan(store: &mut Store, model: &Model, drops: bool) {
    let mut found = Vec::new();
    let mut position = ScanPosition(0);
    loop {
        let mut take = |key: &[u8], _| found.push(key.to_vec());
        position = ProcessingEngine::scan(store, position, 3, NOW_MS, &mut take).unwrap();
        if position == ScanPosition(0) {
            break;
        }
    }
    found.sort();
    let count = found.len();
    assert_eq!(store.statistics().items, count as u64);
    match drops {
        false => assert!(found.iter().eq(model.keys())),
        true => {
            found.dedup();
            assert_eq!(found.len(), count, "a key is seen once");
            assert!(found.iter().all(|key| model.contains_key(key)));
        }
    }
}

fn run(store: &mut Store, value_bytes: u64, drops: bool) -> Model {
    let keys = keys();
    let mut model = Model::default();
    let mut random = Random::new(7);
    for _ in 0..300 {
        let count = 1 + random.below(40);
        let values: Vec<_> = (0..count)
            .map(|_| {
                let len = random.below(value_bytes) as usize;
                random.bytes(len)
            })
            .collect();
        let batch: Vec<_> = (values.iter())
            .map(|value| {
                let key = &keys[random.below(KEYS as u64) as usize][..];
                let operation = match random.below(8) {
                    0 => Operation::Delete { version: None },
                    1..=3 => set(value),
                    _ => Operation::Get,
                };
                (key, operation)
            })
            .collect();
        execute(store, &mut model, &batch, drops);
        scan(store, &model, drops);
    }
    model
}

#[test]
fn keys_that_collide_are_kept_apart() {
    for semantics in SEMANTICS {
        for kept in KEPT {
            let mut store = store(semantics, kept, 64 << 20);
            let model = run(&mut store, 100, false);
            assert!(model.len() > KEYS / 2, "more than fit into a bucket");
            let all: Vec<_> =
                (model.keys()).map(|key| (&key[..], Operation::Delete { version: None })).collect();
            let mut rest = model.clone();
            for some in all.chunks(7) {
                execute(&mut store, &mut rest, some, false);
                scan(&mut store, &rest, false);
            }
            assert_eq!(store.statistics().items, 0);
        }
    }
}

#[test]
fn what_a_cache_drops_is_never_answered_for_a_key_that_collides() {
    for kept in KEPT {
        let mut store = store(Semantics::Cache, kept, MEMORY_MIN_BYTES);
        run(&mut store, 20_000, true);
        assert!(store.statistics().evictions > 0, "nothing was dropped");
    }
}
