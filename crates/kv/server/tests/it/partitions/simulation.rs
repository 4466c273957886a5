//! Workers whose turns a seed decides: one runs at a time, and yields whenever it waits. A failure
//! names its seed, which repeats it.

use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use overside_base::{Random, lock};
use overside_kv::server::StorageBackend;
use overside_kv::{Answer, Condition, KeyHasher, Operation, ProcessingEngine, Request, SetOptions};
use overside_kv_offload::partitions::Partitioned;
use overside_testkit::linearizability::{Event, Record, check};

use super::{NOW_MS, workers};
use crate::requests::Requests;

const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
const TURNS: usize = 60;
/// Far more turns of all workers than are needed.
const PASSES_MAX: u64 = 1_000_000;

/// Says who runs.
struct Baton {
    state: Mutex<Turns>,
    passed: Condvar,
}

struct Turns {
    random: Random,
    current: usize,
    running: Vec<usize>,
    seed: u64,
    passes: u64,
    /// A worker has ended in its turn: no other will have one.
    has_failed: bool,
    /// Number of workers that have finished.
    done: usize,
    /// Counts calls and returns.
    now: u64,
    records: Vec<Record>,
}

impl Turns {
    fn check(&self) {
        let (seed, running) = (self.seed, &self.running);
        assert!(!self.has_failed, "seed {seed}: another worker has failed");
        let is_stuck = self.passes > PASSES_MAX;
        assert!(!is_stuck, "seed {seed}: somebody waits for ever, {running:?} are left");
    }
}

impl Baton {
    fn new(seed: u64, workers: usize) -> Arc<Self> {
        let mut random = Random::new(seed);
        let current = random.below(workers as u64) as usize;
        let state = Turns {
            random,
            current,
            running: (0..workers).collect(),
            seed,
            passes: 0,
            has_failed: false,
            done: 0,
            now: 0,
            records: Vec::new(),
        };
        Arc::new(Self { state: Mutex::new(state), passed: Condvar::new() })
    }

    fn wait(&self, own: usize) {
        let mut state = lock(&self.state);
        while state.current != own {
            state.check();
            state = self.passed.wait(state).unwrap();
        }
        state.check();
    }

    /// Makes the next worker run, and waits until this one is next.
    fn pass(&self, own: usize) {
        self.choose();
        self.wait(own);
    }

    fn choose(&self) {
        let mut state = lock(&self.state);
        state.passes += 1;
        let count = state.running.len() as u64;
        if count > 0 {
            let next = state.random.below(count) as usize;
            state.current = state.running[next];
        }
        self.passed.notify_all();
    }

    fn leave(&self, own: usize) {
        lock(&self.state).running.retain(|worker| *worker != own);
        self.choose();
    }

    fn now(&self) -> u64 {
        let mut state = lock(&self.state);
        state.now += 1;
        state.now
    }
}

/// Simulated worker: the engine of its partition, and the random requests that it makes for its
/// clients.
struct Worker<'b> {
    number: usize,
    engine: Partitioned,
    baton: &'b Baton,
    random: Random,
    hasher: KeyHasher,
    next_value: u64,
}

fn value_of(answer: &Answer<'_>) -> Option<u64> {
    match answer {
        Answer::Value(value) => Some(u64::from_le_bytes(value.data.try_into().unwrap())),
        Answer::Missing => None,
        other => panic!("{other:?}"),
    }
}

fn set(value: &[u8], condition: Condition, return_old: bool) -> Operation<'_> {
    Operation::Set { value, options: SetOptions { return_old, condition, ..SetOptions::default() } }
}

impl Worker<'_> {
    fn value(&mut self) -> [u8; 8] {
        self.next_value += 8;
        self.next_value.to_le_bytes()
    }

    fn request<'a>(&self, key: usize, operation: Operation<'a>) -> Request<'a> {
        Request::new(KEYS[key], &self.hasher, operation)
    }

    fn record(&self, key: usize, called: u64, event: Event) {
        let record = Record { key, called, returned: self.baton.now(), event };
        lock(&self.baton.state).records.push(record);
    }

    /// A batch of random requests.
    fn batch(&mut self) {
        let count = 1 + self.random.below(6) as usize;
        let choices: Vec<_> = (0..count)
            .map(|_| (self.random.below(4) as usize, self.random.below(6), self.value()))
            .collect();
        let mut batch = Vec::new();
        for (key, kind, value) in &choices {
            let operation = match kind {
                0 => set(value, Condition::Always, false),
                1 => set(value, Condition::IfAbsent, false),
                2 => set(value, Condition::Always, true),
                3 => Operation::Delete { version: None },
                _ => Operation::Get,
            };
            batch.push(self.request(*key, operation));
        }
        let called: Vec<_> = choices.iter().map(|_| self.baton.now()).collect();
        let mut events = Vec::new();
        self.engine.execute(&batch, NOW_MS, &mut |index, answer| {
            let value = u64::from_le_bytes(choices[index].2);
            events.push(match choices[index].1 {
                0 => Event::Set { value },
                1 => {
                    let done = matches!(answer, Answer::Stored { .. });
                    Event::SetIfAbsent { value, done }
                }
                2 => {
                    let found = value_of(&answer);
                    Event::Swap { value, found }
                }
                3 => {
                    let done = answer == Answer::Done;
                    Event::Delete { done }
                }
                _ => {
                    let found = value_of(&answer);
                    Event::Get { found }
                }
            });
        });
        for ((choice, called), event) in choices.iter().zip(called).zip(events) {
            self.record(choice.0, called, event);
        }
    }

    /// Compares and sets by the version.
    fn compare(&mut self) {
        let key = self.random.below(4) as usize;
        let called = self.baton.now();
        let mut found = None;
        let get = [self.request(key, Operation::Get)];
        self.engine.execute(&get, NOW_MS, &mut |_, answer| {
            if let Answer::Value(value) = answer {
                found = value_of(&answer).map(|number| (number, value.version));
            }
        });
        let Some((expected, version)) = found else {
            return self.record(key, called, Event::Get { found: None });
        };
        self.baton.pass(self.number);
        let value = self.value();
        let put = [self.request(key, set(&value, Condition::IfVersion(version), false))];
        let mut is_stored = false;
        self.engine.execute(&put, NOW_MS, &mut |_, answer| {
            is_stored = matches!(answer, Answer::Stored { .. });
        });
        if is_stored {
            let (expected, value) = (Some(expected), u64::from_le_bytes(value));
            self.record(key, called, Event::CompareAndSet { expected, value });
        }
    }

    fn run(mut self, workers: usize) {
        let _turn = Turn(self.baton);
        self.baton.wait(self.number);
        for _ in 0..TURNS {
            match self.random.below(8) {
                0 => self.compare(),
                1 | 2 => _ = self.engine.serve_others(NOW_MS),
                3 => self.engine.refresh(),
                _ => self.batch(),
            }
            self.baton.pass(self.number);
        }
        lock(&self.baton.state).done += 1;
        while lock(&self.baton.state).done < workers {
            self.engine.serve_others(NOW_MS);
            self.baton.pass(self.number);
        }
        self.baton.leave(self.number);
    }
}

/// Ends the others where a worker fails.
struct Turn<'b>(&'b Baton);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(&self.0.state).has_failed = true;
            self.0.passed.notify_all();
        }
    }
}

fn simulate(seed: u64, count: usize) -> Vec<Record> {
    let baton = Baton::new(seed, count);
    thread::scope(|scope| {
        for (number, mut engine) in workers(count).into_iter().enumerate() {
            let passing = Arc::clone(&baton);
            engine.pause_by(move || passing.pass(number));
            let worker = Worker {
                number,
                engine,
                baton: &baton,
                random: Random::new(seed << 8 | number as u64),
                hasher: Requests::new(0).hasher,
                next_value: number as u64,
            };
            scope.spawn(move || worker.run(count));
        }
    });
    std::mem::take(&mut lock(&baton.state).records)
}

#[test]
fn whoever_is_next_every_key_is_one_register_and_nobody_waits_for_ever() {
    for count in [2, 3, 5] {
        for seed in 0..8 {
            let records = simulate(seed, count);
            assert!(records.len() > TURNS * count / 2);
            let wrong = check(&records).err();
            assert!(wrong.is_none(), "{count} workers, seed {seed}: {wrong:#?}");
        }
    }
}

#[test]
fn a_seed_repeats_what_happened() {
    let [one, other] = [7, 7].map(|seed| format!("{:?}", simulate(seed, 3)));
    assert_eq!(one, other);
    assert_ne!(one, format!("{:?}", simulate(8, 3)));
}
