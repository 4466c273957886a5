//! Engines that call each other on one thread, so that no call blocks.

use overside_kv::codec::encode;
use overside_kv::server::Memory;
use overside_kv::{
    Answer, Answers, KeyHasher, Operation, ProcessingEngine, Request, ScanPosition, Transaction,
};
use overside_kv_offload::{
    Batching, Channel, ChannelOptions, OffloadError, RemoteEngine, Responder,
};

use crate::oracle::Oracle;
use crate::requests::{request, set};

const OPTIONS: ChannelOptions = ChannelOptions { slot_bytes: 4096, slots: 4 };
const NOW_MS: u64 = 1_000_000;

/// An engine, and another one's way to it.
struct Pair {
    remote: RemoteEngine,
    responder: Responder,
    engine: Memory<Oracle>,
}

fn hasher() -> KeyHasher {
    crate::requests::Requests::new(0).hasher
}

fn pairs(count: usize) -> Vec<Pair> {
    let pair = |[asking, answering]: [Channel; 2]| Pair {
        remote: RemoteEngine::new(asking, Batching::Batch),
        responder: Responder::new(answering, hasher()),
        engine: Memory::new(Oracle::default(), NOW_MS),
    };
    let channels = Channel::pairs(count, OPTIONS).unwrap();
    channels.into_iter().map(pair).collect()
}

impl Pair {
    fn answer(&mut self) -> bool {
        self.responder.poll(&mut self.engine, NOW_MS).unwrap()
    }

    /// Executes a batch; the most messages that were under way.
    fn execute(&mut self, batch: &[Request<'_>], answers: Answers<'_>) -> u64 {
        self.remote.begin(batch, NOW_MS);
        let before = self.responder.traffic().writes;
        let most = self.remote.traffic().writes - before;
        while !self.remote.poll(batch, answers) {
            self.answer();
        }
        most
    }
}

#[test]
fn two_engines_that_ask_each_other_on_one_thread_both_have_their_answers() {
    let mut all = pairs(2);
    let keys: Vec<String> = (0..300).map(|number| format!("key:{number}")).collect();
    let value = vec![b'v'; 3000];
    let sets: Vec<_> = (keys.iter()).map(|key| set(key.as_bytes(), &value)).collect();
    let gets: Vec<_> = (keys.iter()).map(|key| request(key.as_bytes(), Operation::Get)).collect();
    for (batch, found) in [(&gets, false), (&sets, true), (&gets, true)] {
        all.iter_mut().for_each(|pair| pair.remote.begin(batch, NOW_MS));
        let mut counts = [0; 2];
        let mut finished = [false; 2];
        while finished != [true; 2] {
            for (index, pair) in all.iter_mut().enumerate() {
                pair.answer();
                let count = &mut counts[index];
                finished[index] = finished[index]
                    || pair.remote.poll(batch, &mut |at, answer| {
                        assert_eq!(at, *count, "answers come in order");
                        assert_eq!(answer != Answer::Missing, found);
                        *count += 1;
                    });
            }
        }
        assert_eq!(counts, [300; 2]);
    }
}

#[test]
fn answers_longer_than_a_message_come_in_parts_while_others_are_under_way() {
    let mut pair = pairs(1).remove(0);
    let value = vec![b'v'; 300_000];
    assert_eq!(pair.execute(&[set(b"long", &value)], &mut |_, _| {}), 1);
    assert_eq!(pair.execute(&[set(b"short", b"1")], &mut |_, _| {}), 1);
    // Long answers among short ones, in more messages than fit under way.
    let batch: Vec<_> = (0..64 * 7)
        .map(|number| match number % 9 {
            0 => request(b"long", Operation::Get),
            _ => request(b"short", Operation::Get),
        })
        .collect();
    for _ in 0..3 {
        let mut count = 0;
        let under_way = pair.execute(&batch, &mut |index, answer| {
            let Answer::Value(found) = answer else {
                panic!("{answer:?}");
            };
            let expected = if index % 9 == 0 { &value[..] } else { b"1" };
            assert!(found.data == expected, "answer {index} is another's");
            count += 1;
        });
        assert_eq!(count, batch.len());
        assert_eq!(under_way, 4, "every slot has a message");
    }
    assert!(pair.responder.traffic().rendezvous > 15);
}

#[test]
fn without_overlap_one_message_is_under_way() {
    let keys: Vec<String> = (0..300).map(|number| format!("key:{number}")).collect();
    let gets: Vec<_> = (keys.iter()).map(|key| request(key.as_bytes(), Operation::Get)).collect();
    for (overlaps, expected) in [(true, 4), (false, 1)] {
        let mut pair = pairs(1).remove(0);
        if !overlaps {
            pair.remote = pair.remote.without_overlap();
        }
        let mut count = 0;
        let under_way = pair.execute(&gets, &mut |_, _| count += 1);
        assert_eq!((count, under_way), (300, expected));
        // Messages are the same: 64 requests each.
        assert_eq!(pair.remote.traffic().writes, 5);
    }
}

#[test]
fn requests_that_must_be_fetched_go_alone() {
    let mut pair = pairs(1).remove(0);
    let long = vec![b'l'; 100_000];
    let keys: Vec<String> = (0..20).map(|number| format!("key:{number}")).collect();
    let batch: Vec<_> = (keys.iter().enumerate())
        .map(|(number, key)| match number % 3 {
            0 => set(key.as_bytes(), &long),
            _ => set(key.as_bytes(), b"short"),
        })
        .collect();
    let mut count = 0;
    let under_way = pair.execute(&batch, &mut |_, answer| {
        assert!(matches!(answer, Answer::Stored { .. }));
        count += 1;
    });
    assert_eq!((count, under_way), (20, 1));
    let gets: Vec<_> =
        (keys.iter()).map(|key| request(key.as_bytes(), Operation::Length)).collect();
    pair.execute(&gets, &mut |index, answer| {
        let expected = if index % 3 == 0 { 100_000 } else { 5 };
        assert_eq!(answer, Answer::Number(expected));
    });
}

#[test]
fn everything_else_can_be_begun_and_asked_for_later() {
    let mut pair = pairs(1).remove(0);
    pair.execute(&[set(b"a", b"1"), set(b"b", b"2")], &mut |_, _| {});
    let transaction = Transaction {
        watched: Vec::new(),
        requests: vec![request(b"a", Operation::Increment { delta: 4 })],
    };
    pair.remote.begin_transaction(&transaction, NOW_MS);
    let mut seen = Vec::new();
    let mut answer = |_: usize, answer: Answer<'_>| seen.push(format!("{answer:?}"));
    assert_eq!(pair.remote.poll_transaction(&transaction, &mut answer), None);
    assert!(pair.answer());
    assert_eq!(pair.remote.poll_transaction(&transaction, &mut answer), Some(true));
    assert_eq!(seen, ["Number(5)"]);

    pair.remote.begin_scan(ScanPosition(0), 10, NOW_MS);
    assert_eq!(pair.remote.poll_scan(&mut |_, _| {}), None);
    pair.answer();
    let mut keys = Vec::new();
    let next = (pair.remote).poll_scan(&mut |key, _| keys.push(key.to_vec()));
    assert_eq!(next, Some(Ok(ScanPosition(0))));
    assert_eq!(keys.len(), 2);

    pair.remote.begin_statistics();
    assert!(!pair.remote.poll_statistics());
    pair.answer();
    assert!(pair.remote.poll_statistics());
    assert_eq!(pair.remote.statistics().items, 2);

    pair.remote.begin_flush();
    assert_eq!(pair.remote.poll_flush(), None);
    pair.answer();
    assert_eq!(pair.remote.poll_flush(), Some(Ok(())));
    assert_eq!(pair.engine.statistics().items, 0);
}

/// Sends `messages` to a responder. Returns the error text if it refuses one of them, `None` if it
/// accepts all.
fn refusal(messages: &[(u16, Vec<u8>)], engine: &mut Memory<Oracle>) -> Option<String> {
    let [mut asking, answering] = Channel::pairs(1, OPTIONS).unwrap().remove(0);
    let mut responder = Responder::new(answering, hasher());
    for (count, body) in messages {
        asking.send(*count, body).unwrap();
        match responder.poll(engine, NOW_MS) {
            Ok(_) => {}
            Err(error @ (OffloadError::Violation(_) | OffloadError::Decode(_))) => {
                return Some(error.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
    None
}

#[test]
fn a_peer_cannot_make_the_other_hold_more_than_it_may() {
    let mut engine = Memory::new(Oracle::default(), NOW_MS);
    let long = vec![b'v'; 900_000];
    engine.execute(&[set(b"long", &long)], NOW_MS, &mut |_, _| {});
    let requests = |requests: &[Request<'_>]| {
        let mut body = vec![0, 0];
        requests.iter().for_each(|one| encode(one, &mut body));
        (requests.len() as u16, body)
    };

    // Once the length of answers is known, these need two messages, and the second is never requested.
    let question = requests(&[(); 4].map(|()| request(b"long", Operation::Get)));
    let many = vec![question; 8];
    let refused = refusal(&many, &mut engine).unwrap();
    assert!(refused.contains("more messages than slots"), "{refused}");

    // A long message behind one whose answer is not taken.
    let large = requests(&[set(b"large", &long)]);
    let both = [many[0].clone(), many[0].clone(), large.clone()];
    let refused = refusal(&both, &mut engine).unwrap();
    assert!(refused.contains("longer body"), "{refused}");
    assert_eq!(refusal(&[large], &mut engine), None);

    // Lists that take many times the memory of their bytes.
    let fields = vec![[&b""[..]; 2]; (1 << 19) + 1].into_boxed_slice();
    let hash = requests(&[request(b"hash", Operation::HashSet { fields })]);
    let refused = refusal(std::slice::from_ref(&hash), &mut engine).unwrap();
    assert!(refused.contains("too long"), "{refused}");

    // Transactions of them.
    let mut transaction = vec![1, 0, 0];
    let one = request(b"", Operation::Get);
    (0..(1 << 20) + 1).for_each(|_| encode(&one, &mut transaction));
    let refused = refusal(&[(0, transaction)], &mut engine).unwrap();
    assert!(refused.contains("too long a transaction"), "{refused}");
}
