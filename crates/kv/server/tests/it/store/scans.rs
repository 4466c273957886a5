//! Many keys: growth, overhead, scans, large sorted sets.

use super::*;
use overside_kv::ValueKind;

/// A batch of new keys of eight bytes, with values of eight bytes.
fn add(store: &mut Store, numbers: std::ops::Range<u64>) {
    let keys: Vec<[u8; 8]> = numbers.map(u64::to_le_bytes).collect();
    for keys in keys.chunks(64) {
        let batch: Vec<_> = keys.iter().map(|key| request(key, set(key))).collect();
        store.execute(&batch, START_MS, &mut |_, answer| {
            assert!(matches!(answer, Answer::Stored { .. }));
        });
    }
}

#[test]
fn a_million_small_items_take_at_most_32_bytes_beyond_their_payload_at_any_number() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let mut store = store(semantics, 128 << 20);
        for step in 0..200_u64 {
            add(&mut store, step * 5000..(step + 1) * 5000);
            let counts = store.statistics();
            assert_eq!(counts.items, (step + 1) * 5000);
            assert_eq!(counts.payload_bytes, counts.items * 16);
            let overhead = (counts.memory_bytes - counts.payload_bytes) as f64;
            // A page of 64 KiB is not full.
            let per_item = (overhead - 65536.0) / counts.items as f64;
            assert!(per_item <= 32.0, "{per_item} bytes at {} items", counts.items);
        }
        let keys: Vec<[u8; 8]> = (0..1_000_000_u64).map(u64::to_le_bytes).collect();
        for keys in keys.chunks(1000) {
            let batch: Vec<_> = keys.iter().map(|key| request(key, Operation::Get)).collect();
            store.execute(&batch, START_MS, &mut |index, answer| {
                assert!(matches!(answer, Answer::Value(value) if value.data == keys[index]));
            });
        }
        assert_eq!(store.statistics().hits, 1_000_000);
    }
}

#[test]
fn a_scan_sees_each_key_that_stays_once_while_the_index_grows_and_others_go() {
    for per_call in [1, 10, 700] {
        let mut store = store(Semantics::Store, 64 << 20);
        add(&mut store, 0..3000);
        let mut seen = HashMap::new();
        let (mut position, mut next) = (ScanPosition(0), 3000);
        loop {
            let before = position;
            position = store
                .scan(position, per_call, START_MS, &mut |key, metadata| {
                    assert_eq!(metadata.len, 8);
                    *seen.entry(key.to_vec()).or_insert(0) += 1;
                })
                .expect("keys");
            if position == ScanPosition(0) {
                break;
            }
            assert!(position.0 > before.0);
            add(&mut store, next..next + per_call as u64);
            next += per_call as u64;
            if next.is_multiple_of(3) {
                let key = (next - 1).to_le_bytes();
                let delete = Operation::Delete { version: None };
                answer_of(&mut store, &request(&key, delete), START_MS);
            }
        }
        for number in 0..3000_u64 {
            assert_eq!(seen.get(number.to_le_bytes().as_slice()), Some(&1), "{number}");
        }
    }
}

#[test]
fn a_scan_of_empty_buckets_ends_soon_and_goes_on_where_it_ended() {
    let mut store = store(Semantics::Store, 64 << 20);
    add(&mut store, 0..200_000);
    for number in 3..200_000_u64 {
        let delete = Operation::Delete { version: None };
        let key = number.to_le_bytes();
        answer_of(&mut store, &request(&key, delete), START_MS);
    }
    let (mut position, mut calls, mut seen) = (ScanPosition(0), 0, 0);
    loop {
        position = (store.scan(position, 10, START_MS, &mut |_, _| seen += 1)).expect("keys");
        calls += 1;
        if position == ScanPosition(0) {
            break;
        }
    }
    assert_eq!(seen, 3);
    assert!((20..1000).contains(&calls), "{calls} calls");
}

#[test]
fn a_snapshot_under_writes_is_the_state_at_its_beginning() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        // Small enough that the cache has to drop items meanwhile.
        let memory_bytes = match semantics {
            Semantics::Store => 16 << 20,
            Semantics::Cache => 2 << 20,
        };
        let mut store = store(semantics, memory_bytes);
        let mut random = Random::new(5);
        add(&mut store, 0..30_000);
        store.begin_snapshot();
        let mut bytes = Vec::new();
        let mut steps = 0;
        while !store.snapshot_step(&mut bytes, 5000) {
            steps += 1;
            for _ in 0..200 {
                let key = random.below(200_000).to_le_bytes();
                let operation = match random.below(3) {
                    0 => Operation::Delete { version: None },
                    1 => set(&[9; 100]),
                    _ => Operation::Append { value: b"x", front: true, create: true },
                };
                answer_of(&mut store, &request(&key, operation), START_MS);
            }
        }
        assert!(steps > 20);
        assert_eq!(store.statistics().evictions > 0, semantics == Semantics::Cache);
        let found = replay(&bytes, START_MS);
        assert_eq!(found.items.len(), 30_000);
        for (key, item) in found.items {
            assert_eq!(item.content, Content::String(key));
        }
    }
}

#[test]
fn what_expires_is_removed_by_sweeping() {
    let mut store = store(Semantics::Store, 16 << 20);
    for number in 0..10_000_u64 {
        let expiry = match number % 2 {
            0 => Expiry::At(START_MS + number),
            _ => Expiry::Never,
        };
        let (key, operation) = (
            number.to_le_bytes(),
            Operation::Set { value: b"v", options: SetOptions { expiry, ..SetOptions::default() } },
        );
        answer_of(&mut store, &request(&key, operation), START_MS - 1);
    }
    let counts = store.statistics();
    assert_eq!((counts.items, counts.items_with_expiry), (10_000, 5000));
    let mut removed = 0;
    for _ in 0..1000 {
        removed += store.expire_some(START_MS + 5001, 10);
    }
    assert_eq!(removed, 2501);
    let counts = store.statistics();
    assert_eq!((counts.items, counts.items_with_expiry), (7499, 2499));
    assert_eq!(counts.expirations, 2501);
}

#[test]
fn a_large_sorted_set_has_the_order_of_the_oracle() {
    let mut store = store(Semantics::Store, 64 << 20);
    let mut oracle = Oracle::default();
    let mut random = Random::new(3);
    let mut both = |operation: Operation<'_>| {
        let question = request(b"set", operation);
        let ours = answer_of(&mut store, &question, START_MS);
        assert_eq!(ours, answer_of(&mut oracle, &question, START_MS));
    };
    let names: Vec<String> = (0..3000).map(|number| format!("m{number}")).collect();
    for names in names.chunks(100).chain(names.chunks(77)) {
        let members = names.iter().map(|name| {
            let score = random.below(500) as f64 / 4.0 - 50.0;
            (score, name.as_bytes())
        });
        both(Operation::SortedAdd { members: members.collect(), options: Default::default() });
        let removed = names.iter().step_by(7).map(String::as_bytes);
        both(Operation::SortedRemove { members: removed.collect() });
        both(Operation::Members(ValueKind::SortedSet));
        for reverse in [false, true] {
            let start = random.below(4000) as i64 - 2000;
            let min = random.below(100) as f64 - 50.0;
            let bound = |score, is_exclusive| overside_kv::ScoreBound { score, is_exclusive };
            let by_rank = SortedRangeBy::Rank { start, end: start + 40 };
            let by_score =
                SortedRangeBy::Score { min: bound(min, reverse), max: bound(min + 5.0, !reverse) };
            for by in [by_rank, by_score] {
                both(Operation::SortedRange(SortedRange {
                    by,
                    reverse,
                    offset: random.below(4),
                    count: 30,
                    with_scores: true,
                }));
            }
        }
    }
}
