//! Logs and snapshots, around the oracle.

mod damage;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use overside_kv::persistence::{
    LoggedEngine, PersistenceError, PersistenceOptions, Recovery, Snapshots, SyncPolicy,
};
use overside_kv::request::SortedRangeBy;
use overside_kv::server::StorageBackend;
use overside_kv::store::{Store, StoreOptions};
use overside_kv::{
    Answer, Expiry, Metadata, Operation, ProcessingEngine, Request, ScanPosition, SetOptions,
    SortedRange, Transaction, Value, forward_to,
};

use crate::oracle::{Content, Item, Oracle, recreate};
use crate::requests::Requests;

/// The oracle, with snapshots that are made at once and handed out in parts.
#[derive(Debug, Default)]
struct Engine {
    oracle: Oracle,
    snapshot: Vec<Vec<u8>>,
}

impl Snapshots for Engine {
    fn begin_snapshot(&mut self) -> bool {
        let items = self.oracle.items.iter();
        self.snapshot = items.map(|(key, item)| recreate(key, item).concat()).collect();
        true
    }

    fn snapshot_step(&mut self, out: &mut Vec<u8>, _: usize) -> bool {
        let part = self.snapshot.len().saturating_sub(3);
        self.snapshot.drain(part..).for_each(|bytes| out.extend(bytes));
        self.snapshot.is_empty()
    }

    fn cancel_snapshot(&mut self) {
        self.snapshot.clear();
    }

    fn keep_expired(&mut self, _: bool) {}
}

impl ProcessingEngine for Engine {
    forward_to!(oracle: execute, execute_transaction, scan, expire_some, flush, statistics);
}

type Opened = Result<(LoggedEngine<Engine>, Recovery), PersistenceError>;

fn open_with(directory: &Path, log: Option<SyncPolicy>, now_ms: u64) -> Opened {
    let options = PersistenceOptions {
        log,
        log_bytes_max: 1 << 20,
        ..PersistenceOptions::new(directory.into())
    };
    let hasher = Requests::new(0).hasher;
    LoggedEngine::open(options, Engine::default(), &hasher, now_ms)
}

fn open(directory: &Path, now_ms: u64) -> Opened {
    open_with(directory, Some(SyncPolicy::EverySecond), now_ms)
}

/// Keys and their values; versions differ after a start.
#[derive(Clone, Default, PartialEq)]
struct Items(Vec<(Vec<u8>, Item)>);

impl std::fmt::Debug for Items {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut list = f.debug_list();
        for (key, item) in &self.0 {
            let mut text = format!("{}: {item:?}", key.escape_ascii());
            text.truncate(200);
            list.entry(&text);
        }
        list.finish()
    }
}

fn state(engine: &LoggedEngine<Engine>, now_ms: u64) -> Items {
    let mut oracle = engine.engine().oracle.clone();
    oracle.expire(now_ms);
    let without_version = |item| Item { version: 0, ..item };
    let items = oracle.items.into_iter();
    Items(items.map(|(key, item)| (key, without_version(item))).collect())
}

/// A round of random requests, as a server's turn executes them.
fn round(engine: &mut LoggedEngine<Engine>, requests: &mut Requests, now_ms: u64) {
    let count = requests.random.below(20) as usize;
    let batch: Vec<_> = (0..count).map(|_| requests.next(now_ms)).collect();
    match requests.random.below(40) {
        0 => engine.flush().unwrap(),
        1..=4 => {
            let watched = Vec::new();
            let requests = batch;
            let transaction = Transaction { watched, requests };
            engine.execute_transaction(&transaction, now_ms, &mut |_, _| {});
        }
        _ => engine.execute(&batch, now_ms, &mut |_, _| {}),
    }
    engine.before_replies().unwrap();
}

fn files(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(prefix)
    };
    files.retain(is_one);
    files.sort();
    files
}

#[test]
fn a_server_that_is_killed_at_any_time_has_everything_afterwards() {
    for policy in [SyncPolicy::EverySecond, SyncPolicy::Never] {
        let directory = tempfile::tempdir().unwrap();
        let mut requests = Requests::new(5);
        let mut now_ms = 1_000_000;
        let mut expected = Items::default();
        for _ in 0..25 {
            let (mut engine, _) = open_with(directory.path(), Some(policy), now_ms).unwrap();
            assert_eq!(state(&engine, now_ms), expected);
            for _ in 0..requests.random.below(60) {
                now_ms += requests.random.below(500);
                round(&mut engine, &mut requests, now_ms);
                if requests.random.chance(0.1) {
                    // One that is under way refuses another.
                    let _ = engine.save(requests.random.chance(0.7));
                }
                engine.tick(now_ms);
            }
            expected = state(&engine, now_ms);
            // Dropped as it is, as a killed process leaves it.
        }
    }
}

#[test]
fn old_files_go_when_a_snapshot_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let (mut engine, _) = open(directory.path(), 1000).unwrap();
    let mut requests = Requests::new(6);
    for turn in 0..4000 {
        round(&mut engine, &mut requests, 1000 + turn);
        engine.tick(1000 + turn);
    }
    // One that was begun by itself is still being synced, perhaps.
    while engine.save(false).is_err() {
        engine.tick(9000);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let logs = files(directory.path(), "log-");
    let snapshots = files(directory.path(), "snapshot-");
    assert_eq!((logs.len(), snapshots.len()), (1, 1));
    assert!(logs[0].to_str().unwrap() > directory.path().join("log-0000000003").to_str().unwrap());
    let expected = state(&engine, 9000);
    drop(engine);
    assert_eq!(state(&open(directory.path(), 9000).unwrap().0, 9000), expected);
}

#[test]
fn a_log_that_is_cut_anywhere_has_whole_rounds() {
    let directory = tempfile::tempdir().unwrap();
    let mut requests = Requests::new(7);
    let (mut engine, _) = open(directory.path(), 1000).unwrap();
    let log = files(directory.path(), "log-").remove(0);
    let len = || fs::metadata(&log).unwrap().len() as usize;
    let mut states = vec![(len(), state(&engine, 1000))];
    for turn in 0..30 {
        round(&mut engine, &mut requests, 1000 + turn);
        states.push((len(), state(&engine, 1000 + turn)));
    }
    drop(engine);
    let bytes = fs::read(&log).unwrap();
    let stride = 1 + bytes.len() / 500;
    for len in (0..=bytes.len()).rev().step_by(stride) {
        for name in files(directory.path(), "") {
            fs::remove_file(name).unwrap();
        }
        fs::write(&log, &bytes[..len]).unwrap();
        let (engine, recovered) = open(directory.path(), 2000).unwrap();
        let whole = states.iter().rfind(|(end, _)| *end <= len);
        let (end, expected) = whole.cloned().unwrap_or_default();
        let mut expected = expected;
        expected.0.retain(|(_, item)| item.expires_at_ms.is_none_or(|at| at > 2000));
        assert_eq!(state(&engine, 2000), expected, "cut at {len}");
        assert_eq!(recovered.cut_bytes, (len - end) as u64);
        drop(engine);
        // What was cut off is cut off for good.
        assert_eq!(open(directory.path(), 2000).unwrap().1.cut_bytes, 0);
    }
}

#[test]
fn a_directory_has_one_server() {
    let directory = tempfile::tempdir().unwrap();
    let _engine = open(directory.path(), 1000).unwrap();
    let error = open(directory.path(), 1000).unwrap_err();
    assert!(matches!(error, PersistenceError::InUse { .. }), "{error}");
}

#[test]
fn without_a_log_the_end_and_saves_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut requests = Requests::new(10);
    let mut expected = Items::default();
    for turn in 0..6 {
        let (mut engine, _) = open_with(directory.path(), None, 1000).unwrap();
        assert_eq!(state(&engine, 1000), expected);
        (0..10).for_each(|_| round(&mut engine, &mut requests, 1000));
        match turn % 3 {
            0 => engine.finish().unwrap(),
            1 => engine.save(false).unwrap(),
            _ => {
                engine.save(true).unwrap();
                engine.finish().unwrap();
            }
        }
        expected = state(&engine, 1000);
    }
    assert!(files(directory.path(), "log-").is_empty());
    // A log begins with what is there.
    let (mut engine, _) = open(directory.path(), 1000).unwrap();
    round(&mut engine, &mut requests, 1000);
    let expected = state(&engine, 1000);
    drop(engine);
    assert_eq!(state(&open(directory.path(), 1000).unwrap().0, 1000), expected);
}

#[test]
fn times_that_have_passed_by_the_clock_of_the_log_have_passed() {
    let directory = tempfile::tempdir().unwrap();
    let hasher = Requests::new(0).hasher;
    let (mut engine, _) = open(directory.path(), 10_000).unwrap();
    let set = |value, expiry, condition| {
        Request::new(
            b"k",
            &hasher,
            Operation::Set {
                value,
                options: SetOptions { expiry, condition, ..SetOptions::default() },
            },
        )
    };
    let first = set(b"old", Expiry::At(10_500), overside_kv::Condition::Always);
    let second = set(b"new", Expiry::Never, overside_kv::Condition::IfAbsent);
    engine.execute(&[first], 10_000, &mut |_, _| {});
    let mut stored = false;
    engine.execute(&[second], 11_000, &mut |_, answer| {
        stored = matches!(answer, Answer::Stored { .. });
    });
    assert!(stored);
    engine.before_replies().unwrap();
    drop(engine);
    // The clock was set back meanwhile.
    let (engine, _) = open(directory.path(), 9000).unwrap();
    assert_eq!(state(&engine, 9000).0[0].1.content, Content::String(b"new".into()));
}

/// Returns the value of a key as text, taken from the engine's answers to the reads of all kinds of
/// values.
fn ask(engine: &mut impl ProcessingEngine, key: &[u8], now_ms: u64) -> String {
    let range = SortedRange {
        by: SortedRangeBy::Rank { start: 0, end: -1 },
        reverse: false,
        offset: 0,
        count: u64::MAX,
        with_scores: true,
    };
    let reads = [Operation::Get, Operation::HashGetAll, Operation::SortedRange(range)];
    let hash = Requests::new(0).hasher.hash(key);
    let mut text = String::new();
    for operation in reads {
        let request = Request { key, hash, operation };
        engine.execute(&[request], now_ms, &mut |_, answer| match answer {
            Answer::Value(value) => text += &format!("{:?}", Value { version: 0, ..value }),
            Answer::List(list) => {
                let mut elements: Vec<_> = list.iter().map(|e| format!("{e:?}")).collect();
                // Fields of a hash are in any order.
                elements.sort_unstable();
                text += &elements.concat();
            }
            _ => {}
        });
    }
    text
}

fn contents(engine: &mut impl ProcessingEngine, now_ms: u64) -> BTreeMap<Vec<u8>, String> {
    let mut keys = Vec::new();
    let mut position = ScanPosition(0);
    loop {
        let mut take = |key: &[u8], found: Metadata| keys.push((key.to_vec(), found));
        position = engine.scan(position, 100, now_ms, &mut take).expect("keys");
        if position == ScanPosition(0) {
            break;
        }
    }
    let keys = keys.into_iter().map(|(key, found)| {
        let text = ask(engine, &key, now_ms);
        let text = format!("{:?} {:?} {text}", found.kind, found.expires_at_ms);
        (key, text)
    });
    keys.collect()
}

#[test]
fn a_partition_that_is_killed_has_everything_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let mut requests = Requests::new(11);
    let mut now_ms = 1_000_000;
    let mut expected = BTreeMap::new();
    for _ in 0..20 {
        let store = Store::new(StoreOptions::new(64 << 20, &requests.hasher));
        let options = PersistenceOptions {
            log_bytes_max: 100_000,
            ..PersistenceOptions::new(directory.path().into())
        };
        let hasher = requests.hasher.clone();
        let opened = LoggedEngine::open(options, store.unwrap(), &hasher, now_ms);
        let (mut engine, _) = opened.unwrap();
        assert_eq!(contents(&mut engine, now_ms), expected);
        for _ in 0..requests.random.below(100) {
            now_ms += requests.random.below(200);
            let batch: Vec<_> = (0..20).map(|_| requests.next(now_ms)).collect();
            engine.execute(&batch, now_ms, &mut |_, _| {});
            engine.before_replies().unwrap();
            // While writes go on a snapshot is taken in small steps.
            engine.tick(now_ms);
        }
        expected = contents(&mut engine, now_ms);
    }
    assert!(!files(directory.path(), "snapshot-").is_empty());
}

#[test]
fn a_log_of_more_than_ever_fitted_at_once_is_executed_again() {
    let directory = tempfile::tempdir().unwrap();
    let hasher = Requests::new(0).hasher;
    let open = |now_ms| {
        let store = Store::new(StoreOptions::new(2 << 20, &hasher));
        let options = PersistenceOptions::new(directory.path().into());
        LoggedEngine::open(options, store.unwrap(), &hasher, now_ms)
    };
    let mut now_ms = 1_000_000;
    let (mut engine, _) = open(now_ms).unwrap();
    let value = [b'v'; 1000];
    for number in 0..10_000_u64 {
        now_ms += 10;
        let key = number.to_le_bytes();
        let operation = Operation::Set {
            value: &value,
            options: SetOptions { expiry: Expiry::At(now_ms + 1000), ..SetOptions::default() },
        };
        let hash = hasher.hash(&key);
        let request = Request { key: &key, hash, operation };
        engine.execute(&[request], now_ms, &mut |_, answer| {
            assert!(matches!(answer, Answer::Stored { .. }), "{answer:?}");
        });
        engine.before_replies().unwrap();
        engine.tick(now_ms);
    }
    drop(engine);
    let (engine, recovered) = open(now_ms).unwrap();
    assert_eq!(recovered.requests, 10_000);
    assert!(engine.statistics().items >= 100);
}

#[test]
fn files_are_their_owners_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("state");
    let (mut engine, _) = open(&inner, 1000).unwrap();
    engine.save(false).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inner), 0o700);
    for name in files(&inner, "log-").iter().chain(&files(&inner, "snapshot-")) {
        assert_eq!(mode(name), 0o600, "{}", name.display());
    }
}
