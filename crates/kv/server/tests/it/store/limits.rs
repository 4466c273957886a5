//! Tests of stores and caches whose memory is full.

use super::*;

const KEYS: u64 = 3000;

fn key(random: &mut Random) -> Vec<u8> {
    format!("key:{}", random.below(KEYS)).into_bytes()
}

/// Requests of many keys that take much memory.
fn operation<'a>(random: &mut Random, value: &'a [u8]) -> Operation<'a> {
    let value = &value[..random.below(value.len() as u64) as usize];
    match random.below(16) {
        0 => Operation::Delete { version: None },
        1 => Operation::Append { value, front: random.chance(0.5), create: true },
        2 => Operation::SetRange { offset: 100, value },
        3 => Operation::HashSet { fields: [[&value[..value.len() / 2], value]].into() },
        4 => Operation::SortedAdd {
            members: [(random.below(9) as f64, value), (1.0, b"one")].into(),
            options: Default::default(),
        },
        5 => Operation::HashDelete { fields: [value].into() },
        6 => Operation::Expire {
            expiry: Expiry::At(START_MS + random.below(100_000)),
            condition: Default::default(),
        },
        7 => Operation::Count(CounterChange {
            delta: 1,
            down: false,
            initial: Some((9, Expiry::Never)),
            expiry: Expiry::Keep,
        }),
        8 => Operation::Get,
        9 => Operation::HashGetAll,
        _ => Operation::Set {
            value,
            options: SetOptions {
                flags: random.below(2) as u32,
                return_old: random.chance(0.2),
                ..SetOptions::default()
            },
        },
    }
}

fn out_of_memory() -> String {
    format!("{:?}", Answer::Refused(Refusal::OutOfMemory))
}

#[test]
fn a_full_store_refuses_writes_and_loses_nothing() {
    let value = vec![b'v'; 3000];
    for seed in 0..4 {
        let mut pair = Pair::new(store(Semantics::Store, 1 << 20), seed);
        for step in 0..20_000_u64 {
            pair.now_ms += step % 2;
            let key = key(&mut pair.random);
            let question = request(&key, operation(&mut pair.random, &value));
            let ours = answer_of(&mut pair.store, &question, pair.now_ms);
            if ours != out_of_memory() {
                let theirs = answer_of(&mut pair.oracle, &question, pair.now_ms);
                assert_eq!(ours, theirs);
            }
            if step % 50 == 0 {
                pair.snapshot();
            }
            let statistics = pair.store.statistics();
            let pending = pair.snapshot.is_some();
            assert!(pending || statistics.memory_bytes <= statistics.memory_limit_bytes);
        }
        assert!(pair.snapshots > 3);
        assert!(pair.store.statistics().refusals > 100);
        assert_eq!(pair.store.statistics().evictions, 0);
        pair.store.cancel_snapshot();
        pair.sweep();
        pair.store.begin_snapshot();
        let mut bytes = Vec::new();
        while !pair.store.snapshot_step(&mut bytes, 1 << 20) {}
        assert_eq!(contents(&replay(&bytes, pair.now_ms)), contents(&pair.oracle));
        let (ours, theirs) = (pair.store.statistics(), pair.oracle.statistics());
        assert_eq!(ours.items, theirs.items);
        assert_eq!(ours.items_with_expiry, theirs.items_with_expiry);
        assert_eq!(ours.payload_bytes, theirs.payload_bytes);
    }
}

#[test]
fn memory_of_what_is_removed_is_used_again() {
    let mut store = store(Semantics::Store, 8 << 20);
    let value = vec![b'v'; 3 << 20];
    for round in 0..200_u32 {
        let value = &value[..(round as usize % 30 + 1) * 100_000];
        for number in 0..2 {
            let key = [number];
            let answer = answer_of(&mut store, &request(&key, set(value)), START_MS);
            assert_eq!(answer, "Stored", "round {round}");
        }
        for number in 0..2 {
            let delete = Operation::Delete { version: None };
            answer_of(&mut store, &request(&[number], delete), START_MS);
        }
        // Sizes of all classes, in between.
        for number in 0..1000_u32 {
            let value = &value[..(number * round) as usize % 40_000];
            let key = number.to_le_bytes();
            if answer_of(&mut store, &request(&key, set(value)), START_MS) != "Stored" {
                break;
            }
        }
        for number in 0..1000_u32 {
            let delete = Operation::Delete { version: None };
            answer_of(&mut store, &request(&number.to_le_bytes(), delete), START_MS);
        }
    }
    let statistics = store.statistics();
    assert_eq!((statistics.items, statistics.payload_bytes), (0, 0));
    assert!(statistics.memory_bytes < 100_000);
}

#[test]
fn a_full_cache_drops_the_oldest_and_what_is_there_is_right() {
    let value = vec![b'v'; 3000];
    for seed in 0..4 {
        let mut pair = Pair::new(store(Semantics::Cache, 1 << 20), seed);
        for step in 0..20_000_u64 {
            pair.now_ms += step % 2;
            let key = key(&mut pair.random);
            let question = request(&key, operation(&mut pair.random, &value));
            // What was dropped is missing; the oracle learns that first.
            let inspect = request(&key, Operation::Inspect);
            if answer_of(&mut pair.store, &inspect, pair.now_ms) == "Missing" {
                pair.oracle.items.remove(&key);
            }
            pair.oracle.expire(pair.now_ms);
            let before = pair.oracle.items.get(&key).cloned();
            let ours = answer_of(&mut pair.store, &question, pair.now_ms);
            let mut theirs = answer_of(&mut pair.oracle, &question, pair.now_ms);
            if ours != theirs && before.is_some() {
                // Making room for this very request dropped it.
                pair.oracle.items.remove(&key);
                theirs = answer_of(&mut pair.oracle, &question, pair.now_ms);
            }
            assert_eq!(ours, theirs);
            let is_there = answer_of(&mut pair.store, &inspect, pair.now_ms) != "Missing";
            let should_be = answer_of(&mut pair.oracle, &inspect, pair.now_ms) != "Missing";
            assert!(is_there == should_be || !question.operation.is_write());
            let statistics = pair.store.statistics();
            assert!(statistics.memory_bytes <= statistics.memory_limit_bytes);
        }
        let mut keys = Vec::new();
        let end = pair.store.scan(ScanPosition(0), usize::MAX, pair.now_ms, &mut |key, _| {
            keys.push(key.to_vec());
        });
        assert_eq!(end, Ok(ScanPosition(0)));
        pair.oracle.items.retain(|key, _| keys.contains(key));
        pair.oracle.expire(pair.now_ms);
        pair.store.expire_some(pair.now_ms, usize::MAX);
        assert!(pair.oracle.items.keys().all(|key| keys.contains(key)));
        let (ours, theirs) = (pair.store.statistics(), pair.oracle.statistics());
        assert!(ours.evictions > 1000 && ours.refusals == 0);
        assert_eq!(ours.items, theirs.items);
        assert_eq!(ours.items_with_expiry, theirs.items_with_expiry);
        assert_eq!(ours.payload_bytes, theirs.payload_bytes);
        // Most of the memory is used.
        assert!(ours.memory_bytes > ours.memory_limit_bytes * 9 / 10);
    }
}

#[test]
fn a_cache_keeps_what_was_written_last_and_what_is_written_again_and_again() {
    let mut store = store(Semantics::Cache, 4 << 20);
    let value = [7; 100];
    let hot = request(b"hot", set(&value));
    for number in 0..200_000_u64 {
        let key = number.to_le_bytes();
        answer_of(&mut store, &request(&key, set(&value)), START_MS);
        if number % 1000 == 0 {
            answer_of(&mut store, &hot, START_MS);
        }
    }
    assert_ne!(answer_of(&mut store, &request(b"hot", Operation::Get), START_MS), "Missing");
    let statistics = store.statistics();
    assert_eq!(statistics.items + statistics.evictions, 200_001);
    // The newest are there without a gap, all others are not.
    let items = statistics.items - 1;
    assert!(items > (4 << 20) / 200);
    for number in 0..200_000_u64 {
        let key = number.to_le_bytes();
        let answer = answer_of(&mut store, &request(&key, Operation::Inspect), START_MS);
        assert_eq!(answer == "Missing", number < 200_000 - items, "{number}");
    }
}

#[test]
fn values_up_to_the_limit_are_stored_and_longer_ones_refused() {
    let mut largest = vec![1; overside_kv::VALUE_MAX_BYTES];
    let key = vec![2; overside_kv::KEY_MAX_BYTES];
    for semantics in [Semantics::Store, Semantics::Cache] {
        let mut store = store(semantics, 160 << 20);
        for _ in 0..4 {
            let answer = answer_of(&mut store, &request(&key, set(&largest)), START_MS);
            assert_eq!(answer, "Stored");
        }
        store.execute(&[request(&key, Operation::Get)], START_MS, &mut |_, answer| {
            assert!(matches!(answer, Answer::Value(value) if value.data == largest));
        });
        let too_large = format!("{:?}", Answer::Refused(Refusal::TooLarge));
        let append = Operation::Append { value: b"x", front: false, create: true };
        assert_eq!(answer_of(&mut store, &request(&key, append), START_MS), too_large);
        largest.push(1);
        let longer = request(b"k", set(&largest));
        assert_eq!(answer_of(&mut store, &longer, START_MS), too_large);
        largest.pop();
        let longer = vec![2; overside_kv::KEY_MAX_BYTES + 1];
        let longer = request(&longer, set(b""));
        assert_eq!(answer_of(&mut store, &longer, START_MS), too_large);
    }
    // A cache that is smaller than the value refuses it, and drops nothing for it.
    let mut small = store(Semantics::Cache, 1 << 20);
    answer_of(&mut small, &request(b"k", set(b"v")), START_MS);
    assert_eq!(answer_of(&mut small, &request(b"big", set(&largest)), START_MS), out_of_memory());
    assert_eq!(small.statistics().items, 1);
}
