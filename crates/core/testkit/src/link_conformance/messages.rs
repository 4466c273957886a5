//! Messages: all of them, in order, once.

use std::time::{Duration, Instant};

use super::Factory;
use super::driver::{Link, PATIENCE, Pair, pattern, room, source};
use overside_link::verbs::{Messages, RecvBatch, Verb, WorkError};

/// Single ones and batches, of all lengths, from both ends.
pub fn messages_arrive_in_order(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    let lengths = [1, 8, 31, 32, 33, 64, 500, 4096];
    for (round, len) in lengths.into_iter().cycle().take(100).enumerate() {
        let batch = (len, 1 + round % 5);
        match round % 3 {
            0 => arrive_in_order(&mut dpu, &mut host, batch, round as u64),
            _ => arrive_in_order(&mut host, &mut dpu, batch, round as u64),
        }
    }
    // More than fit into the link at a time.
    for (round, batch) in [(32, 7), (32, 1000), (100, 333)].into_iter().enumerate() {
        arrive_in_order(&mut host, &mut dpu, batch, round as u64);
        arrive_in_order(&mut dpu, &mut host, batch, round as u64);
    }
}

/// Sends `count` messages of `len` bytes as one batch, and receives them two at a time.
fn arrive_in_order(from: &mut Pair, to: &mut Pair, (len, count): (usize, usize), seed: u64) {
    let bytes = pattern(seed, len * count);
    let mut messages = Messages::packed(&bytes, len).expect("whole messages");
    let (mut batch, deadline) = (RecvBatch::new(), Instant::now() + PATIENCE);
    while messages.count() > 0 || batch.len() < count {
        assert!(Instant::now() < deadline, "{count} of {len}");
        let taken = from.0.send(messages).expect("a live link");
        messages = messages.after(taken);
        let before = batch.len();
        let came = to.0.receive(&mut batch, 2).expect("a live link");
        assert!(came <= 2 && batch.len() == before + came);
    }
    assert!(batch.as_bytes() == bytes, "{count} of {len}");
    assert!(batch.iter().eq(bytes.chunks(len)));
    assert_eq!(to.0.receive(&mut batch, 1).expect("a live link"), 0);
}

/// Checks messages of different lengths up to the longest, including lengths that transports treat
/// differently, with both ways of sending.
pub fn messages_of_any_length(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    let lengths = [1, 4096, 55, 56, 57, 64, 2, 2000, 4095, 3];
    for (at, len) in lengths.into_iter().enumerate() {
        let bytes = pattern(at as u64, len);
        if at % 2 == 0 {
            host.send(&bytes);
            continue;
        }
        let from = source(&*link.host, &bytes);
        let sent = host.run(Verb::Send { from });
        assert_eq!(sent.result, Ok(len as u64));
        assert_eq!(sent.source.as_deref(), Some(&bytes[..]));
    }
    for (at, message) in dpu.receive(lengths.len()).into_iter().enumerate() {
        assert!(message == pattern(at as u64, lengths[at]), "message {at}");
    }
}

/// Messages are sent by both methods before any receive is posted, and received by both methods.
pub fn messages_wait_until_they_are_received(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    host.send(b"first");
    let from = source(&*link.host, b"second");
    let sent = host.run(Verb::Send { from });
    assert_eq!(sent.result, Ok(6));
    assert_eq!(&sent.source.expect("handed back")[..], b"second");
    host.send(b"third");
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(dpu.receive(1), [b"first"]);
    let into = room(&*link.dpu, 100);
    let received = dpu.run(Verb::Receive { into });
    assert_eq!(received.result, Ok(6));
    assert_eq!(&received.destination.expect("handed back")[..6], b"second");
    assert_eq!(dpu.receive(1), [b"third"]);
}

/// Checks that a sender whose peer does not receive is held back, and that no message is lost.
pub fn a_sender_is_held_back(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    let mut sent = 0u64;
    let mut message = vec![0; 4096];
    let deadline = Instant::now() + PATIENCE;
    let mut quiet = 0;
    // It is held back once nothing has been taken for a while.
    while quiet < 200 {
        assert!(Instant::now() < deadline && sent < 1_000_000, "{sent} messages are taken");
        message[..8].copy_from_slice(&sent.to_le_bytes());
        let messages = Messages::one(&message).expect("not empty");
        match host.0.send(messages).expect("a live link") {
            0 => {
                quiet += 1;
                std::thread::sleep(Duration::from_micros(100));
            }
            _ => {
                sent += 1;
                quiet = 0;
            }
        }
    }
    assert!(sent > 0);
    for number in 0..sent {
        let message = dpu.receive(1).remove(0);
        assert_eq!(message[..8], number.to_le_bytes());
        assert_eq!(message.len(), 4096);
    }
    host.send(b"goes on");
    assert_eq!(dpu.receive(1), [b"goes on"]);
}

/// Memory that waits for messages makes room as well.
pub fn waiting_memory_makes_room(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    let message = pattern(1, 4096);
    for round in 0..3 {
        let (mut sent, mut quiet, deadline) = (0, 0, Instant::now() + PATIENCE);
        while quiet < 100 || (sent == 0 && Instant::now() < deadline) {
            let messages = Messages::one(&message).expect("not empty");
            match host.0.send(messages).expect("a live link") {
                0 => {
                    quiet += 1;
                    std::thread::sleep(Duration::from_micros(100));
                }
                _ => (sent, quiet) = (sent + 1, 0),
            }
        }
        assert!(sent > 0, "round {round}: no room has been made");
        for tag in 0..sent {
            let into = room(&*link.dpu, 4096);
            let completion = dpu.run(Verb::Receive { into });
            assert_eq!(completion.result, Ok(4096), "round {round}, message {tag}");
            assert!(completion.destination.expect("handed back")[..] == message);
        }
    }
}

/// Memory that waits gets the messages sent first, and nothing is received past it.
pub fn memory_that_waits_comes_first(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    for tag in 0..3 {
        let into = room(&*link.dpu, 4096);
        dpu.post(tag, Verb::Receive { into });
    }
    let mut batch = RecvBatch::new();
    assert_eq!(dpu.0.receive(&mut batch, 1).expect("a live link"), 0);
    let bytes = pattern(5, 40);
    for message in bytes.chunks(10) {
        host.send(message);
    }
    for (number, completion) in dpu.complete(3).into_iter().enumerate() {
        assert_eq!((completion.tag, completion.result), (number as u64, Ok(10)));
        let there = completion.destination.expect("handed back");
        assert_eq!(there[..10], bytes[10 * number..10 * number + 10]);
        assert!(there[10..].iter().all(|byte| *byte == 0));
    }
    assert_eq!(dpu.receive(1), [&bytes[30..]]);
    // A long one, of which parts come one after the other.
    let long = pattern(6, 4096);
    let into = room(&*link.dpu, 4096);
    dpu.post(9, Verb::Receive { into });
    host.send(&long);
    let completion = dpu.complete(1).remove(0);
    assert!(completion.destination.expect("handed back")[..] == long);
}

/// A message that is longer than the memory that waits for it fails only that receive.
pub fn messages_that_do_not_fit(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    for waiting in [true, false] {
        if waiting {
            dpu.post(1, Verb::Receive { into: room(&*link.dpu, 10) });
        }
        host.send(&[1; 11]);
        host.send(&[2; 10]);
        if !waiting {
            std::thread::sleep(Duration::from_millis(5));
            dpu.post(1, Verb::Receive { into: room(&*link.dpu, 10) });
        }
        let truncated = WorkError::Truncated { len: 11, capacity: 10 };
        assert_eq!(dpu.complete(1)[0].result, Err(truncated));
        assert_eq!(dpu.receive(1), [[2; 10]]);
    }
}
