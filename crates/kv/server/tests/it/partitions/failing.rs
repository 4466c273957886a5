//! A partition that cannot keep the writes that it has executed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use overside_kv::server::{Memory, StorageBackend};
use overside_kv::{
    Answers, Operation, ProcessingEngine, Refusal, Request, Transaction, forward_to, partition_of,
};
use overside_kv_offload::partitions::{self, Partitioned};

use super::{NOW_MS, executed};
use crate::oracle::Oracle;
use crate::requests::Requests;
use crate::requests::answers;

/// A backing whose disk fails while a flag is set.
struct Failing {
    memory: Memory<Oracle>,
    fails: Arc<AtomicBool>,
    has_unanswered: bool,
}

impl ProcessingEngine for Failing {
    forward_to!(memory: scan, expire_some, statistics);

    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        self.has_unanswered |= batch.iter().any(|request| request.operation.is_write());
        self.memory.execute(batch, now_ms, answers);
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        self.has_unanswered = true;
        (self.memory).execute_transaction(transaction, now_ms, answers)
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.has_unanswered = true;
        self.memory.flush()
    }
}

impl StorageBackend for Failing {
    forward_to!(memory: tick, save, last_save_s, info, parameters, finish);

    fn before_replies(&mut self) -> io::Result<()> {
        let had_unanswered = std::mem::take(&mut self.has_unanswered);
        match had_unanswered && self.fails.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

fn set<'a>(key: &'a [u8]) -> Request<'a> {
    Request::new(key, &Requests::new(0).hasher, Operation::set(b"v"))
}

/// Two workers, and a key of each.
fn two(fails: &Arc<AtomicBool>) -> ([Partitioned; 2], [Vec<u8>; 2]) {
    let failing = || Failing {
        memory: Memory::new(Oracle::default(), NOW_MS),
        fails: Arc::clone(fails),
        has_unanswered: false,
    };
    let backings = (0..2).map(|_| Box::new(failing()) as Box<dyn StorageBackend + Send>);
    let workers = partitions::connect(backings.collect(), &Requests::new(0).hasher).unwrap();
    let keys = [0, 1].map(|partition| {
        let mut keys = (0..).map(|key| format!("key:{key}").into_bytes());
        keys.find(|key| partition_of(key, 2) == partition).unwrap()
    });
    (workers.try_into().unwrap(), keys)
}

/// Runs `work` while the other worker serves it, and gives that back.
fn beside(mut other: Partitioned, work: impl FnOnce()) -> Partitioned {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                other.serve_others(NOW_MS);
                thread::yield_now();
            }
        });
        work();
        is_done.store(true, Ordering::SeqCst);
        serving.join().unwrap();
    });
    other
}

#[test]
fn what_another_worker_cannot_keep_is_not_acknowledged() {
    let fails = Arc::new(AtomicBool::new(true));
    let ([mut asking, other], [own, others]) = two(&fails);
    beside(other, || {
        let refused = "Refused(Unreachable)";
        let batch = [set(&own), set(&others), set(&others)];
        let heard = answers(&mut asking, &batch);
        assert!(heard[0].starts_with("Stored"), "its replies are not sent yet");
        assert_eq!(heard[1..], [refused; 2]);
        assert!(asking.before_replies().is_err());
        let transaction = Transaction { watched: Vec::new(), requests: vec![set(&others)] };
        assert_eq!(executed(&mut asking, &transaction), [refused, "true"]);
        assert_eq!(asking.flush(), Err(Refusal::Unreachable));
        // The way there is still open.
        fails.store(false, Ordering::SeqCst);
        let heard = answers(&mut asking, &batch);
        assert!(heard.iter().all(|answer| answer.starts_with("Stored")));
        assert!(asking.before_replies().is_ok());
        asking.flush().unwrap();
    });
}

/// A request of another worker makes this one write its log; if that fails, its own clients' writes fail too.
#[test]
fn a_failure_that_another_worker_finds_counts_for_own_clients_too() {
    let fails = Arc::new(AtomicBool::new(true));
    let ([mut asking, mut other], [_, others]) = two(&fails);
    let heard = answers(&mut other, &[set(&others)]);
    assert!(heard[0].starts_with("Stored"));
    let mut other = beside(other, || {
        assert_eq!(answers(&mut asking, &[set(&others)]), ["Refused(Unreachable)"]);
    });
    assert!(other.before_replies().is_err());
    assert!(other.before_replies().is_ok(), "once");
}
