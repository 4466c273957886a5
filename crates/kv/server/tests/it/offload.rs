//! The two engines with a link of shared memory between them.

mod agent_checks;
mod checks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use overside_kv::server::Memory;
use overside_kv::{
    Answer, Expiry, Metadata, Operation, ProcessingEngine, Refusal, Request, ScanPosition,
    SetOptions, Statistics, Transaction,
};
use overside_kv_offload::{
    Batching, Channel, ChannelOptions, OffloadError, Optimizations, RemoteEngine, Responder,
};

use crate::oracle::Oracle;
use crate::requests::{Requests, answers, corpus};

const SMALL: ChannelOptions = ChannelOptions { slot_bytes: 4096, slots: 2 };

/// The ends of the DPU and of the host.
fn channels() -> (Channel, Channel) {
    let [dpu, host] = Channel::pairs(1, SMALL).unwrap().remove(0);
    (dpu, host)
}

/// A processing engine on a thread of its own.
struct Host {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Responder, Result<(), OffloadError>)>,
}

impl Host {
    fn start(channel: Channel) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut engine = Memory::new(Oracle::default(), 1000);
            let mut responder = Responder::new(channel, Requests::new(0).hasher);
            let mut result = Ok(());
            while result.is_ok() && !stopped.load(Ordering::Relaxed) {
                result = match responder.poll(&mut engine, 1_000_000) {
                    Ok(true) => Ok(()),
                    Ok(false) => responder.check(),
                    Err(error) => Err(error),
                };
                thread::yield_now();
            }
            (responder, result)
        });
        Self { stop, thread }
    }

    fn end(self) -> (Responder, Result<(), OffloadError>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Request<'a> {
    Request::new(
        key,
        &Requests::new(0).hasher,
        Operation::Set { value, options: SetOptions { flags: 3, ..SetOptions::default() } },
    )
}

fn get(key: &[u8]) -> Request<'_> {
    Request { operation: Operation::Get, ..set(key, b"") }
}

#[test]
fn what_expires_by_the_clock_of_who_asks_is_gone_at_once() {
    let (dpu, host) = channels();
    let host = Host::start(host);
    let mut remote = RemoteEngine::new(dpu, Batching::Batch);
    let until = |key, at_ms| Request {
        operation: Operation::Set {
            value: b"x",
            options: SetOptions { expiry: Expiry::At(at_ms), ..SetOptions::default() },
        },
        ..get(key)
    };
    let mut found = |now_ms: u64, batch: &[Request<'_>]| {
        let mut all = Vec::new();
        remote.execute(batch, now_ms, &mut |_, answer| all.push(format!("{answer:?}")));
        all.pop().unwrap()
    };
    // The other side's clock says 1,000,000 ms all the time.
    let gone = found(1_000_020, &[until(b"a", 1_000_020), get(b"a")]);
    assert_eq!(gone, format!("{:?}", Answer::Missing));
    // Its clock goes on from there, and does not go back.
    let gone = found(1_000_000, &[until(b"b", 1_000_010), get(b"b")]);
    assert_eq!(gone, format!("{:?}", Answer::Missing));
    // A clock that is years ahead would make everything expire.
    let kept = found(u64::MAX, &[until(b"c", 1_002_000), get(b"c")]);
    assert_ne!(kept, format!("{:?}", Answer::Missing));
    host.end().1.unwrap();
}

#[test]
fn a_remote_engine_answers_as_one_here() {
    for batching in [Batching::Batch, Batching::Request] {
        let (dpu, host) = channels();
        let host = Host::start(host);
        let mut remote = RemoteEngine::new(dpu, batching);
        let mut oracle = Oracle::default();
        let mut requests = Requests::new(21);
        for turn in 0..400 {
            let count = 1 + requests.random.below(40);
            let batch: Vec<_> = (0..count).map(|_| requests.next(1_000_000)).collect();
            if turn % 10 == 0 {
                let transaction = Transaction {
                    watched: vec![(b"a", 0, u64::from(turn % 20 == 0))],
                    requests: batch,
                };
                let mut ours = Vec::new();
                let mut theirs = Vec::new();
                let executed = remote.execute_transaction(&transaction, 1_000_000, &mut |_, a| {
                    ours.push(format!("{a:?}"));
                });
                let expected = oracle.execute_transaction(&transaction, 1_000_000, &mut |_, a| {
                    theirs.push(format!("{a:?}"));
                });
                assert_eq!((executed, ours), (expected, theirs));
                continue;
            }
            assert_eq!(answers(&mut remote, &batch), answers(&mut oracle, &batch));
        }
        let mut keys = [Vec::new(), Vec::new()];
        let take = |keys: &mut Vec<(Vec<u8>, Metadata)>, engine: &mut dyn ProcessingEngine| {
            let mut position = ScanPosition(0);
            loop {
                let mut take = |key: &[u8], found| keys.push((key.to_vec(), found));
                position = (engine.scan(position, 3, 1_000_000, &mut take)).expect("keys");
                if position == ScanPosition(0) {
                    return;
                }
            }
        };
        take(&mut keys[0], &mut remote);
        take(&mut keys[1], &mut oracle);
        assert!(!keys[0].is_empty());
        assert_eq!(keys[0], keys[1]);
        remote.refresh();
        assert_eq!(remote.statistics(), oracle.statistics());
        remote.flush().unwrap();
        remote.refresh();
        assert_eq!(remote.statistics().items, 0);
        assert!(remote.failure().is_none());
        host.end().1.unwrap();
    }
}

#[test]
fn a_batch_is_one_write_in_each_direction() {
    for (batching, expected) in [(Batching::Batch, 1), (Batching::Request, 64)] {
        let (dpu, host) = channels();
        let host = Host::start(host);
        let mut remote = RemoteEngine::new(dpu, batching);
        let keys: Vec<String> = (0..64).map(|number| format!("key:{number}")).collect();
        let batch: Vec<_> = keys.iter().map(|key| get(key.as_bytes())).collect();
        answers(&mut remote, &batch);
        assert_eq!(remote.traffic().writes, expected);
        assert_eq!(remote.requests(), 64);
        let (responder, result) = host.end();
        result.unwrap();
        assert_eq!(responder.traffic().writes, expected);
        assert_eq!(responder.requests(), 64);
    }
}

#[test]
fn messages_are_as_long_as_they_may_be() {
    let keys: Vec<String> = (1000..1200).map(|number| format!("key:{number}")).collect();
    let mut batch: Vec<_> = keys.iter().map(|key| get(key.as_bytes())).collect();
    let value = [b'v'; 1000];
    batch.push(set(b"long", &value));
    // A get has 10 bytes, and a message 24 beside its requests.
    for (bytes, per_message) in [(256, 23), (1024, 100), (4096, 200)] {
        let (dpu, host) = channels();
        let host = Host::start(host);
        let optimizations =
            Optimizations { message_bytes: Some(bytes), ..Optimizations::default() };
        let mut remote = RemoteEngine::with(dpu, optimizations);
        assert_eq!(answers(&mut remote, &batch).len(), batch.len());
        let writes = 200_u64.div_ceil(per_message);
        let traffic = remote.traffic();
        // One that is longer alone is a message nevertheless, and is not fetched.
        assert_eq!(traffic.writes, writes + u64::from(bytes < 4096), "{bytes}");
        assert_eq!(traffic.rendezvous, 0);
        assert!(traffic.written_bytes <= writes * u64::from(bytes) + 1100);
        host.end().1.unwrap();
    }
}

#[test]
fn values_longer_than_a_slot_are_fetched() {
    let (dpu, host) = channels();
    let host = Host::start(host);
    let mut remote = RemoteEngine::new(dpu, Batching::Batch);
    let values: Vec<Vec<u8>> = [4000, 5000, 100_000, 3 << 20, 17].map(|len| vec![b'v'; len]).into();
    let keys: Vec<Vec<u8>> = (0..values.len()).map(|key| vec![b'a' + key as u8]).collect();
    let sets: Vec<_> = keys.iter().zip(&values).map(|(key, value)| set(key, value)).collect();
    assert!(answers(&mut remote, &sets).iter().all(|answer| answer.starts_with("Stored")));
    let gets: Vec<_> = keys.iter().cycle().take(20).map(|key| get(key)).collect();
    let mut seen = 0;
    remote.execute(&gets, 1_000_000, &mut |index, answer| match answer {
        Answer::Value(value) => {
            assert_eq!(value.data, values[index % values.len()]);
            assert_eq!(value.flags, 3);
            seen += 1;
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(seen, 20);
    assert!(remote.traffic().rendezvous > 0);
    assert!(remote.traffic().read_bytes > 12 << 20);
    host.end().1.unwrap();
}

#[test]
fn when_the_host_is_lost_everything_is_answered() {
    let (dpu, host) = channels();
    let host = Host::start(host);
    let mut remote = RemoteEngine::new(dpu, Batching::Batch);
    assert_eq!(answers(&mut remote, &[get(b"k")]), ["Missing"]);
    drop(host.end());
    let refused = format!("{:?}", Answer::Refused(Refusal::Unreachable));
    let three = [get(b"a"), set(b"b", b"1"), get(b"c")];
    assert_eq!(answers(&mut remote, &three), vec![refused; 3]);
    assert!(remote.failure().is_some());
    assert!(remote.traffic().writes > 0, "what was counted stays");
    assert_eq!(remote.flush(), Err(Refusal::Unreachable));
    // No keys would read as an empty store.
    let scanned = remote.scan(ScanPosition(0), 10, 1_000_000, &mut |_, _| {});
    assert_eq!(scanned, Err(Refusal::Unreachable));
    let transaction = Transaction { watched: Vec::new(), requests: three.into() };
    let mut count = 0;
    assert!(remote.execute_transaction(&transaction, 1000, &mut |_, _| count += 1));
    assert_eq!(count, 3);
    assert_eq!(remote.statistics(), Statistics::default());
}

#[test]
fn a_peer_that_sends_anything_else_is_found_out() {
    let mut random = overside_base::Random::new(3);
    for _ in 0..60 {
        let (mut dpu, host) = channels();
        let host = Host::start(host);
        let len = random.below(200) as usize;
        let mut body = random.bytes(len);
        if let Some(first) = body.first_mut() {
            *first %= 8;
        }
        // Refused, or by chance a valid message.
        let sent = dpu.send(random.below(5) as u16, &body);
        if sent.is_ok() {
            let _ = dpu.wait(Duration::from_millis(20)).map(|(count, _)| count);
        }
        let (_, result) = host.end();
        if let Err(error) = result {
            let is_known = matches!(error, OffloadError::Violation(_) | OffloadError::Decode(_));
            assert!(is_known, "{error}");
        }
    }
}

#[test]
fn an_engine_that_has_given_up_lets_the_host_know() {
    let (dpu, mut host) = channels();
    let lying = thread::spawn(move || {
        assert_eq!(host.wait(Duration::from_secs(20)).unwrap().0, 1);
        // Five answers to one request.
        host.send(5, &[1; 5]).unwrap();
        let begin = Instant::now();
        while host.check().is_ok() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it is not told");
            thread::sleep(Duration::from_millis(5));
        }
    });
    let mut remote = RemoteEngine::new(dpu, Batching::Batch);
    let refused = format!("{:?}", Answer::Refused(Refusal::Unreachable));
    assert_eq!(answers(&mut remote, &[get(b"k")]), [refused]);
    lying.join().unwrap();
    assert!(remote.failure().is_some());
    assert_eq!(remote.traffic().writes, 1, "what was counted stays");
}

/// The files of a fuzz target's corpus that are right.
fn right_of(target: &str, is_right: impl Fn(&[u8]) -> bool) -> Vec<String> {
    let right = corpus(target, 0).into_iter();
    let right = right.filter(|(_, content)| is_right(content));
    right.map(|(name, _)| name).collect()
}

#[test]
fn the_corpus_of_messages_is_answered_or_refused() {
    // What begins from a refusal finds little.
    let answered = [
        "answers",
        "answers-all",
        "answers-fetched",
        "answers-left-over",
        "answers-parts",
        "answers-scan",
        "answers-statistics",
        "answers-statistics-lie",
        "answers-transaction-not",
        "anywhere",
        "questions",
        "requests",
        "requests-fetched",
        "rest-not-asked-for",
        "rest-of-answers",
        "transaction",
    ];
    assert_eq!(right_of("kv_link", |data| checks::session(data) > 0), answered);
}

#[test]
fn the_corpus_of_what_is_said_about_a_server_is_read_or_refused() {
    let read = [
        "card",
        "card-found",
        "card-none",
        "failed",
        "listening",
        "open",
        "open-small",
        "status",
        "status-by-client",
        "status-failed",
        "status-none",
    ];
    assert_eq!(right_of("kv_agent", agent_checks::agent_message), read);
}
