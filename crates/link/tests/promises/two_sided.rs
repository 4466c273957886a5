//! Messages.

use std::collections::VecDeque;
use std::time::Instant;

use super::driver::{
    Link, ROLES, patience, pattern, post_one, receive_until, region, run_one, send_all, slice,
    write,
};
use crate::Factory;
use overside_link::verbs::{Access, Inbox, Messages, Verb, Work, WorkError};

/// Small messages come complete and in order, in whatever batches.
pub fn messages_come_in_order(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    for (sender, receiver) in ROLES {
        for (each, count) in [(1, 1), (32, 7), (32, 1000), (100, 333)] {
            let bytes = pattern(each * count, count as u8);
            let [first, second] = &mut link.pairs;
            let (from, to) = if sender < receiver {
                (first, second)
            } else {
                (second, first)
            };
            let mut inbox = Inbox::new();
            let messages = Messages::packed(&bytes, each).expect("whole messages");
            send_all(&mut **from, messages, || {
                to.receive(&mut inbox, 16).expect("the link lives");
            });
            receive_until(&mut **to, &mut inbox, count);
            assert!(inbox.as_bytes() == bytes, "{count} of {each}");
            assert!(inbox.iter().eq(bytes.chunks(each)));
            assert_eq!(to.receive(&mut inbox, 1), Ok(0));
        }
    }
}

/// Messages of different lengths up to the longest, sent in either way, come in order.
pub fn messages_of_any_length(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let lengths = [1usize, 4096, 55, 56, 57, 64, 2, 2000, 4095, 3];
    let mut inbox = Inbox::new();
    let [from, to] = &mut link.pairs;
    for (at, len) in lengths.into_iter().enumerate() {
        let bytes = pattern(len, at as u8);
        if at % 2 == 0 {
            let message = Messages::one(&bytes).expect("not empty");
            send_all(&mut **from, message, || {});
        } else {
            let source = slice(&link.ends[0], &bytes);
            let work = Work::new(at as u64, Verb::Send { from: source });
            let done = run_one(&mut **from, work);
            assert_eq!((done.tag, done.result), (at as u64, Ok(len as u64)));
            assert_eq!(done.source.as_deref(), Some(&bytes[..]));
        }
        receive_until(&mut **to, &mut inbox, at + 1);
    }
    for (at, message) in inbox.iter().enumerate() {
        assert!(message == pattern(lengths[at], at as u8), "message {at}");
    }
}

/// A peer that does not receive makes the link take less, then nothing; all that was taken comes.
pub fn a_full_link_takes_less_and_loses_nothing(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let bytes = pattern(4096, 3);
    let message = Messages::one(&bytes).expect("not empty");
    let [from, to] = &mut link.pairs;
    let mut sent = 0;
    let begin = Instant::now();
    let mut full_since: Option<Instant> = None;
    // Full is what takes nothing for a while.
    while full_since.is_none_or(|since| since.elapsed().as_millis() < 50) {
        let taken = from.send(message).expect("the link lives");
        sent += taken;
        full_since = (taken == 0).then(|| full_since.unwrap_or_else(Instant::now));
        patience(begin);
        assert!(sent < 100_000, "queues are bounded");
    }
    assert!(sent > 0);
    let mut inbox = Inbox::new();
    receive_until(&mut **to, &mut inbox, sent);
    assert!(inbox.iter().all(|message| message == bytes));
    assert_eq!(to.receive(&mut inbox, 1), Ok(0));
    send_all(&mut **from, message, || {});
    receive_until(&mut **to, &mut inbox, sent + 1);
}

/// Receives that were posted get the messages in the order of both; the rest is there for
/// `receive`.
pub fn posted_receives_come_first(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let mut work: VecDeque<Work> = (0..3)
        .map(|tag| {
            let into = region(&link.ends[1], &[0; 100]);
            Work::new(tag, Verb::Receive { into })
        })
        .collect();
    let [from, to] = &mut link.pairs;
    assert_eq!(to.post(&mut work), Ok(3));
    let mut inbox = Inbox::new();
    for at in 0..5 {
        let bytes = pattern(10 + at, at as u8);
        let message = Messages::one(&bytes).expect("not empty");
        send_all(&mut **from, message, || {});
    }
    let (mut done, begin) = (Vec::new(), Instant::now());
    while done.len() < 3 {
        // None of those that belong to the memory that waits, which is seen below.
        to.receive(&mut inbox, 8).expect("the link lives");
        to.poll(&mut done, 8).expect("the link lives");
        patience(begin);
    }
    for (at, done) in done.iter().enumerate() {
        let expected = pattern(10 + at, at as u8);
        assert_eq!((done.tag, &done.result), (at as u64, &Ok(10 + at as u64)));
        let got = done.destination.as_ref().expect("handed back");
        assert_eq!(got[..expected.len()], expected);
        assert!(got[expected.len()..].iter().all(|byte| *byte == 0));
    }
    receive_until(&mut **to, &mut inbox, 2);
    assert!(inbox.iter().eq([pattern(13, 3), pattern(14, 4)]));
}

/// A message longer than the memory that waits for it is reported and gone; the next one is fine.
pub fn a_message_that_does_not_fit(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let into = |len| region(&link.ends[1], &vec![0; len]);
    let [from, to] = &mut link.pairs;
    let mut work: VecDeque<Work> = [(1, 10), (2, 20)]
        .into_iter()
        .map(|(tag, len)| Work::new(tag, Verb::Receive { into: into(len) }))
        .collect();
    assert_eq!(to.post(&mut work), Ok(2));
    let bytes = pattern(20, 1);
    for _ in 0..2 {
        let message = Messages::one(&bytes).expect("not empty");
        send_all(&mut **from, message, || {});
    }
    let (mut done, begin) = (Vec::new(), Instant::now());
    while done.len() < 2 {
        to.poll(&mut done, 8).expect("the link lives");
        patience(begin);
    }
    let truncated = WorkError::Truncated {
        len: 20,
        capacity: 10,
    };
    assert_eq!((done[0].tag, &done[0].result), (1, &Err(truncated)));
    assert!(done[0].destination.is_some());
    assert_eq!((done[1].tag, &done[1].result), (2, &Ok(20)));
    assert_eq!(done[1].destination.as_deref(), Some(&bytes[..]));
}

/// A message that is sent when a write has completed finds the write's bytes in place.
pub fn a_write_is_there_when_the_message_is(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let exported = link.ends[1]
        .export(1 << 16, Access::Write)
        .expect("an export");
    let remote = link.ends[0].import(exported.token()).expect("an import");
    let [from, to] = &mut link.pairs;
    let mut inbox = Inbox::new();
    std::thread::scope(|scope| {
        let end = &link.ends[0];
        scope.spawn(move || {
            for round in 0..50u8 {
                let source = slice(end, &pattern(1 << 16, round));
                run_one(&mut **from, write(1, source, &remote, 0));
                send_all(&mut **from, Messages::one(&[round]).expect("a byte"), || {});
                // The peer looks before the next write.
                let into = end.alloc(1, 1).expect("memory");
                let receive = Work::new(2, Verb::Receive { into });
                assert_eq!(run_one(&mut **from, receive).result, Ok(1));
            }
        });
        let mut there = vec![0; 1 << 16];
        for round in 0..50u8 {
            inbox.clear();
            receive_until(&mut **to, &mut inbox, 1);
            exported.read(0, &mut there).expect("within");
            assert!(there == pattern(1 << 16, round), "round {round}");
            let answer = Work::new(
                3,
                Verb::Send {
                    from: slice(&link.ends[1], &[round]),
                },
            );
            assert_eq!(post_one(&mut **to, answer), Ok(1));
            let (mut done, begin) = (Vec::new(), Instant::now());
            while done.is_empty() {
                to.poll(&mut done, 1).expect("the link lives");
                patience(begin);
            }
        }
    });
}
