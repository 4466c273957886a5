//! The store against the oracle.

use std::collections::{BTreeMap, HashMap};

use overside_base::Random;
use overside_kv::persistence::Snapshots;
use overside_kv::request::{CounterChange, SortedRangeBy};
use overside_kv::store::{Semantics, Store, StoreOptions};
use overside_kv::{
    Answer, Condition, Element, Expiry, KeyHasher, Metadata, Operation, ProcessingEngine, Refusal,
    Request, ScanPosition, SetOptions, SortedRange, Transaction, codec,
};
use proptest::prelude::*;

use crate::oracle::{Content, Item, Oracle};
use crate::requests::Requests;

mod limits;
mod parts;
mod scans;

const START_MS: u64 = 1_000_000;

fn hasher() -> KeyHasher {
    KeyHasher::with_seeds([1, 2, 3, 4])
}

pub(crate) fn store(semantics: Semantics, memory_bytes: usize) -> Store {
    let options = StoreOptions { memory_bytes, semantics, hasher: hasher(), huge_pages: false };
    Store::new(options).expect("address space")
}

fn request<'a>(key: &'a [u8], operation: Operation<'a>) -> Request<'a> {
    Request::new(key, &hasher(), operation)
}

fn set(value: &[u8]) -> Operation<'_> {
    Operation::set(value)
}

/// Versions of the store by those of the oracle: each of one is always the same of the other.
#[derive(Default)]
struct Versions {
    of_store: HashMap<u64, u64>,
    of_oracle: HashMap<u64, u64>,
}

impl Versions {
    fn is_same(&mut self, store: u64, oracle: u64) -> bool {
        store != 0
            && *self.of_store.entry(oracle).or_insert(store) == store
            && *self.of_oracle.entry(store).or_insert(oracle) == oracle
    }
}

/// An answer without borrows; versions are kept apart.
fn owned(answer: Answer<'_>) -> (String, Option<u64>) {
    match answer {
        Answer::Value(mut value) => {
            let version = std::mem::take(&mut value.version);
            // An empty part of a missing string has no version.
            (format!("{value:?}"), (version != 0).then_some(version))
        }
        Answer::Stored { version } => ("Stored".to_owned(), Some(version)),
        Answer::Counter { value, version } => (format!("Counter {value}"), Some(version)),
        Answer::Metadata(metadata) => {
            let (text, version) = owned_metadata(metadata);
            (text, Some(version))
        }
        Answer::List(list) => {
            let elements: Vec<Element<'_>> = list.iter().collect();
            (format!("{elements:?}"), None)
        }
        other => (format!("{other:?}"), None),
    }
}

fn owned_metadata(metadata: Metadata) -> (String, u64) {
    let version = metadata.version;
    let text = format!("{:?}", Metadata { version: 0, memory_bytes: 0, ..metadata });
    (text, version)
}

type Answers = Vec<(usize, String, Option<u64>)>;

fn answers_of(engine: &mut dyn ProcessingEngine, batch: &[Request<'_>], now_ms: u64) -> Answers {
    let mut answers = Vec::new();
    engine.execute(batch, now_ms, &mut |index, answer| {
        let (text, version) = owned(answer);
        answers.push((index, text, version));
    });
    answers
}

fn answer_of(engine: &mut dyn ProcessingEngine, request: &Request<'_>, now_ms: u64) -> String {
    let mut answers = answers_of(engine, std::slice::from_ref(request), now_ms);
    assert_eq!(answers.len(), 1);
    answers.remove(0).1
}

fn assert_same(store: &Answers, oracle: &Answers, versions: &mut Versions) {
    assert_eq!(store.len(), oracle.len());
    for (ours, theirs) in store.iter().zip(oracle) {
        assert_eq!((ours.0, &ours.1), (theirs.0, &theirs.1));
        match (ours.2, theirs.2) {
            (Some(ours), Some(theirs)) => assert!(versions.is_same(ours, theirs)),
            (ours, theirs) => assert_eq!(ours, theirs),
        }
    }
}

/// Returns `true` if the store and the oracle must give the same answer to the request.
fn is_defined(request: &Request<'_>, oracle: &Oracle) -> bool {
    let content = oracle.items.get(request.key).map(|item| &item.content);
    match (&request.operation, content) {
        // The oracle has 38 digits.
        (Operation::IncrementFloat { .. }, Some(Content::String(text))) => text.len() <= 18,
        (Operation::HashIncrementFloat { field, .. }, Some(Content::Hash(fields))) => {
            fields.get(*field).is_none_or(|text| text.len() <= 18)
        }
        // By member only where scores are equal.
        (
            Operation::SortedRange(SortedRange { by: SortedRangeBy::Member { .. }, .. })
            | Operation::SortedCount(SortedRange { by: SortedRangeBy::Member { .. }, .. })
            | Operation::SortedRemoveRange(SortedRange { by: SortedRangeBy::Member { .. }, .. }),
            Some(Content::Sorted(set)),
        ) => set.values().all(|score| Some(score) == set.values().next()),
        _ => true,
    }
}

/// The same request to the store, with the version that the store has for the oracle's.
fn for_store<'a>(request: &Request<'a>, versions: &Versions) -> Request<'a> {
    let mut request = request.clone();
    let of_store = |version: u64| versions.of_store.get(&version).copied().unwrap_or(version);
    match &mut request.operation {
        Operation::Set {
            options: SetOptions { condition: Condition::IfVersion(version), .. },
            ..
        }
        | Operation::Delete { version: Some(version) } => *version = of_store(*version),
        _ => {}
    }
    request
}

fn contents(oracle: &Oracle) -> BTreeMap<Vec<u8>, Item> {
    let item = |item: &Item| Item { version: 0, ..item.clone() };
    let items = oracle.items.iter();
    items.map(|(key, i)| (key.clone(), item(i))).collect()
}

/// Two engines that get the same requests, and a running snapshot.
struct Pair {
    store: Store,
    oracle: Oracle,
    versions: Versions,
    now_ms: u64,
    random: Random,
    snapshot: Option<(Oracle, Vec<u8>)>,
    snapshots: usize,
}

impl Pair {
    fn new(store: Store, seed: u64) -> Self {
        Self {
            store,
            oracle: Oracle::default(),
            versions: Versions::default(),
            now_ms: START_MS,
            random: Random::new(seed),
            snapshot: None,
            snapshots: 0,
        }
    }

    fn batch(&mut self, requests: &mut Requests) {
        // Versions that are asked for are those of keys now and then.
        let len = 1 + self.random.below(100);
        let mut batch: Vec<Request<'_>> = Vec::new();
        let mut state = self.oracle.clone();
        for _ in 0..len {
            let mut request = requests.next(self.now_ms);
            if !is_defined(&request, &state) {
                continue;
            }
            let current = state.items.get(request.key).map_or(1, |item| item.version);
            match &mut request.operation {
                Operation::Set {
                    options: SetOptions { condition: Condition::IfVersion(version), .. },
                    ..
                }
                | Operation::Delete { version: Some(version) } => {
                    let is_known = |version| self.versions.of_store.contains_key(version);
                    if self.random.chance(0.5) {
                        *version = current;
                    }
                    // What the oracle gives in this batch, the store does not know.
                    if !is_known(version) {
                        *version = u64::MAX;
                    }
                }
                _ => {}
            }
            answers_of(&mut state, std::slice::from_ref(&request), self.now_ms);
            batch.push(request);
        }
        let ours: Vec<_> = batch.iter().map(|r| for_store(r, &self.versions)).collect();
        let ours = answers_of(&mut self.store, &ours, self.now_ms);
        let theirs = answers_of(&mut self.oracle, &batch, self.now_ms);
        assert_same(&ours, &theirs, &mut self.versions);
    }

    fn transaction(&mut self, requests: &mut Requests) {
        let request = requests.next(self.now_ms);
        if !is_defined(&request, &self.oracle) {
            return;
        }
        self.oracle.expire(self.now_ms);
        let keys = [request.key, requests.next(self.now_ms).key];
        // Some transactions watch what nobody has seen.
        let is_stale = keys.map(|_| u64::from(self.random.chance(0.2)));
        let watched = |engine: &mut dyn ProcessingEngine, now_ms| {
            let mut watched = Vec::new();
            for (key, stale) in keys.iter().zip(is_stale) {
                let watch = super::store::request(key, Operation::Watch);
                engine.execute(&[watch], now_ms, &mut |_, answer| match answer {
                    Answer::Number(version) => {
                        watched.push((*key, hasher().hash(key), version as u64 + stale));
                    }
                    other => panic!("{other:?}"),
                });
            }
            watched
        };
        let ours = Transaction {
            watched: watched(&mut self.store, self.now_ms),
            requests: vec![for_store(&request, &self.versions)],
        };
        let theirs = Transaction {
            watched: watched(&mut self.oracle, self.now_ms),
            requests: vec![request],
        };
        let (mut our_answers, mut their_answers) = (Vec::new(), Vec::new());
        let is_ours = (self.store).execute_transaction(&ours, self.now_ms, &mut |index, answer| {
            let (text, version) = owned(answer);
            our_answers.push((index, text, version));
        });
        let is_theirs =
            (self.oracle).execute_transaction(&theirs, self.now_ms, &mut |index, answer| {
                let (text, version) = owned(answer);
                their_answers.push((index, text, version));
            });
        assert_eq!(is_ours, is_theirs);
        assert_same(&our_answers, &their_answers, &mut self.versions);
    }

    /// The keys of a whole scan.
    fn scan(&mut self) {
        let scan = |engine: &mut dyn ProcessingEngine, now_ms| {
            let mut keys = BTreeMap::new();
            let mut position = ScanPosition(0);
            loop {
                position = engine
                    .scan(position, 3, now_ms, &mut |key, metadata| {
                        let before = keys.insert(key.to_vec(), owned_metadata(metadata));
                        assert_eq!(before, None, "a key is seen once");
                    })
                    .expect("keys");
                if position == ScanPosition(0) {
                    return keys;
                }
            }
        };
        let ours = scan(&mut self.store, self.now_ms);
        let theirs = scan(&mut self.oracle, self.now_ms);
        assert!(ours.keys().eq(theirs.keys()));
        for (ours, theirs) in ours.values().zip(theirs.values()) {
            assert_eq!(ours.0, theirs.0);
            assert!(self.versions.is_same(ours.1, theirs.1));
        }
    }

    /// Some more of a snapshot, or the first of the next.
    fn snapshot(&mut self) {
        let Some((_, bytes)) = &mut self.snapshot else {
            self.oracle.expire(self.now_ms);
            self.store.begin_snapshot();
            self.snapshot = Some((self.oracle.clone(), Vec::new()));
            return;
        };
        let max = self.random.below(2000) as usize;
        if self.store.snapshot_step(bytes, max) {
            let (mut expected, bytes) = self.snapshot.take().expect("it is there");
            self.snapshots += 1;
            expected.expire(self.now_ms);
            assert_eq!(contents(&replay(&bytes, self.now_ms)), contents(&expected));
        }
    }

    fn flush(&mut self) {
        self.sweep();
        self.store.flush().expect("it takes writes");
        self.oracle.flush().expect("it takes writes");
        self.snapshot = None;
        assert!(self.store.snapshot_step(&mut Vec::new(), 1));
    }

    fn sweep(&mut self) {
        self.oracle.expire(self.now_ms);
        self.store.expire_some(self.now_ms, usize::MAX);
    }

    fn compare_counts(&mut self) {
        self.sweep();
        let (ours, theirs) = (self.store.statistics(), self.oracle.statistics());
        assert!(ours.memory_bytes >= ours.payload_bytes);
        assert!(ours.memory_bytes <= ours.memory_limit_bytes || self.snapshot.is_some());
        let theirs = overside_kv::Statistics {
            memory_bytes: ours.memory_bytes,
            memory_limit_bytes: ours.memory_limit_bytes,
            ..theirs
        };
        assert_eq!(ours, theirs);
    }
}

/// An oracle that has executed the encoded requests.
fn replay(mut bytes: &[u8], now_ms: u64) -> Oracle {
    let mut oracle = Oracle::default();
    while !bytes.is_empty() {
        let request = codec::decode(&mut bytes, &hasher()).expect("it is encoded");
        answers_of(&mut oracle, &[request], now_ms);
    }
    oracle
}

fn run(semantics: Semantics, seed: u64, steps: usize) -> usize {
    let mut pair = Pair::new(store(semantics, 64 << 20), seed);
    let mut requests = Requests::new(seed);
    for _ in 0..steps {
        match pair.random.below(20) {
            0 => pair.scan(),
            1 => drop(pair.store.expire_some(pair.now_ms, 3)),
            2..=5 => pair.snapshot(),
            6 | 7 => pair.transaction(&mut requests),
            8 if pair.random.chance(0.1) => pair.flush(),
            9 => pair.compare_counts(),
            _ => pair.batch(&mut requests),
        }
        pair.now_ms += pair.random.below(200);
    }
    pair.compare_counts();
    pair.scan();
    pair.snapshots
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_store_with_ample_memory_answers_as_the_oracle(seed: u64, steps in 1..150_usize) {
        run(Semantics::Store, seed, steps);
    }

    #[test]
    fn a_cache_with_ample_memory_answers_as_the_oracle(seed: u64, steps in 1..150_usize) {
        run(Semantics::Cache, seed, steps);
    }
}

#[test]
fn snapshots_complete_during_the_comparison() {
    assert!(run(Semantics::Store, 1, 1000) >= 5);
}
