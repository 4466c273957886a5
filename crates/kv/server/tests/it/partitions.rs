//! Several workers, each with its partition.

mod failing;
mod histories;
mod serving;
mod simulation;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use overside_kv::server::{Memory, StorageBackend};
use overside_kv::{Operation, ProcessingEngine, Request, ScanPosition, Transaction, partition_of};
use overside_kv_offload::partitions::{self, Partitioned};

use crate::oracle::Oracle;
use crate::requests::{Requests, answers};

const NOW_MS: u64 = 1_000_000;

fn workers(count: usize) -> Vec<Partitioned> {
    let backing =
        || Box::new(Memory::new(Oracle::default(), NOW_MS)) as Box<dyn StorageBackend + Send>;
    let partitions = (0..count).map(|_| backing()).collect();
    partitions::connect(partitions, &Requests::new(0).hasher).unwrap()
}

/// Runs `work` on a thread for each worker; those that are done serve the others until all are.
fn run(workers: Vec<Partitioned>, work: impl Fn(usize, &mut Partitioned) + Sync) {
    let (done, count) = (AtomicUsize::new(0), workers.len());
    thread::scope(|scope| {
        for (number, mut worker) in workers.into_iter().enumerate() {
            let (work, done) = (&work, &done);
            scope.spawn(move || {
                // A worker that fails must not keep the others waiting.
                let _done = Done(done);
                work(number, &mut worker);
                done.fetch_add(1, Ordering::SeqCst);
                while done.load(Ordering::SeqCst) < count {
                    worker.serve_others(NOW_MS);
                    thread::yield_now();
                }
            });
        }
    });
}

struct Done<'d>(&'d AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fetch_add(usize::MAX / 2, Ordering::SeqCst);
        }
    }
}

fn executed(engine: &mut dyn ProcessingEngine, transaction: &Transaction<'_>) -> Vec<String> {
    let mut all = Vec::new();
    let done =
        engine.execute_transaction(transaction, NOW_MS, &mut |_, a| all.push(format!("{a:?}")));
    all.push(format!("{done}"));
    all
}

fn all_keys(engine: &mut dyn ProcessingEngine) -> Vec<Vec<u8>> {
    let (mut keys, mut position) = (Vec::new(), ScanPosition(0));
    loop {
        position =
            engine.scan(position, 3, NOW_MS, &mut |key, _| keys.push(key.to_vec())).expect("keys");
        if position == ScanPosition(0) {
            keys.sort();
            return keys;
        }
    }
}

#[test]
fn several_partitions_answer_as_one() {
    for count in [1, 2, 3, 5] {
        run(workers(count), |number, worker| {
            if number > 0 {
                return;
            }
            let mut oracles = vec![Oracle::default(); count];
            let mut requests = Requests::new(count as u64);
            for turn in 0..300 {
                let len = 1 + requests.random.below(100);
                let batch: Vec<_> = (0..len).map(|_| requests.next(NOW_MS)).collect();
                if turn % 10 == 0 {
                    // All of one partition, as all keys with one tag are.
                    let partition = partition_of(batch[0].key, count);
                    let is_there = |r: &Request<'_>| partition_of(r.key, count) == partition;
                    let transaction = Transaction {
                        watched: vec![(batch[0].key, batch[0].hash, u64::from(turn % 20 == 0))],
                        requests: batch.into_iter().filter(is_there).collect(),
                    };
                    let expected = executed(&mut oracles[partition], &transaction);
                    assert_eq!(executed(worker, &transaction), expected);
                    continue;
                }
                let mut expected = Vec::new();
                for request in &batch {
                    let oracle = &mut oracles[partition_of(request.key, count)];
                    expected.extend(answers(oracle, std::slice::from_ref(request)));
                }
                assert_eq!(answers(worker, &batch), expected);
            }
            let keys = oracles.iter().flat_map(|o| o.items.keys().cloned());
            let mut keys: Vec<_> = keys.collect();
            keys.sort();
            assert!(!keys.is_empty());
            assert_eq!(all_keys(worker), keys);
            worker.refresh();
            assert_eq!(worker.statistics().items, keys.len() as u64);
            worker.flush().unwrap();
            assert_eq!(all_keys(worker), Vec::<Vec<u8>>::new());
            worker.refresh();
            assert_eq!(worker.statistics().items, 0);
        });
    }
}

#[test]
fn a_transaction_over_several_partitions_is_refused() {
    run(workers(2), |number, worker| {
        if number > 0 {
            return;
        }
        let mut requests = Requests::new(1);
        let all: Vec<_> = (0..100).map(|_| requests.next(NOW_MS)).collect();
        let both: Vec<_> = [0, 1]
            .map(|partition| all.iter().find(|r| partition_of(r.key, 2) == partition))
            .map(|request| request.unwrap().clone())
            .into();
        let transaction = Transaction { watched: Vec::new(), requests: both };
        let refused = "Refused(Unreachable)";
        assert_eq!(executed(worker, &transaction), [refused, refused, "true"]);
        worker.refresh();
        assert_eq!(worker.statistics().items, 0);
    });
}

/// Each worker has keys of its own in all partitions, and none waits for ever.
#[test]
fn workers_that_ask_each_other_all_the_time_go_on() {
    let hasher = Requests::new(0).hasher;
    let count = 3;
    run(workers(count), |number, worker| {
        let keys: Vec<_> = (0..64).map(|key| format!("{number}:{key}")).collect();
        // Longer than a slot, so that some messages have to be fetched.
        let long = vec![b'v'; 40_000];
        for round in 0..200 {
            let batch: Vec<_> = (keys.iter().enumerate())
                .map(|(at, key)| {
                    Request::new(
                        key.as_bytes(),
                        &hasher,
                        match (round + at) % 50 {
                            49 => Operation::Append {
                                value: &long[..1 + 39_999 * usize::from(at == 7)],
                                front: false,
                                create: true,
                            },
                            _ => Operation::Length,
                        },
                    )
                })
                .collect();
            for (at, answer) in answers(worker, &batch).into_iter().enumerate() {
                let turns = (0..=round).filter(|round| (round + at) % 50 == 49).count();
                let each = if at == 7 { 40_000 } else { 1 };
                assert_eq!(answer, format!("Number({})", turns * each));
            }
        }
        assert!(worker.partition_work().forwarded > worker.partition_work().own);
    });
}

#[test]
fn a_worker_that_is_gone_is_found_out() {
    let mut workers = workers(2);
    drop(workers.pop());
    let mut left = workers.pop().unwrap();
    let hasher = Requests::new(0).hasher;
    let keys: Vec<_> = (0..20).map(|key| format!("key:{key}")).collect();
    let request = |key: &'static str| Request::new(key.as_bytes(), &hasher, Operation::Get);
    let batch: Vec<_> = keys.iter().map(|key| request(key.clone().leak())).collect();
    for (key, answer) in keys.iter().zip(answers(&mut left, &batch)) {
        match partition_of(key.as_bytes(), 2) {
            0 => assert_eq!(answer, "Missing"),
            _ => assert_eq!(answer, "Refused(Unreachable)"),
        }
    }
    left.refresh();
    assert_eq!(left.statistics().items, 0);
}

#[test]
fn a_sleeping_worker_is_woken() {
    let mut all = workers(2);
    let (mut other, mut asking) = (all.pop().unwrap(), all.pop().unwrap());
    let waker = other.waker().unwrap();
    assert!(!waker.arm(|| other.serve_others(NOW_MS)), "nothing to do");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let thread = thread::spawn(move || {
        asking.refresh();
        counted.store(1, Ordering::SeqCst);
    });
    let waiting = &mut [rustix::event::PollFd::new(&*waker, rustix::event::PollFlags::IN)];
    let most = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(waiting, Some(&most)).unwrap(), 1);
    assert_eq!(asked.load(Ordering::SeqCst), 0, "it waits for the answer");
    assert!(waker.arm(|| other.serve_others(NOW_MS)), "something to do");
    thread.join().unwrap();
}
