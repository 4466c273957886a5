//! Queue pairs: several, closed, dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::driver::{
    Link, PATIENCE, config, patience, pattern, post_one, receive_until, region, run_one, send_all,
    slice, until_lost, write,
};
use crate::Factory;
use overside_link::verbs::{
    Access, Cause, ConnectError, Inbox, Messages, PostError, Side, Verb, Work,
};

/// Each queue pair is handed out once, and there are no others.
pub fn queue_pairs_are_opened_once(factory: Factory<'_>) {
    let mut host = config(Side::Host);
    host.queue_pairs = 2;
    let ends = factory([&host, &config(Side::Dpu)]);
    for end in &ends {
        assert_eq!(end.capabilities().queue_pairs, 2, "the first end decides");
        let _first = end.open(1).expect("a queue pair");
        let _second = end.open(0).expect("a queue pair");
        for index in [0, 1, 2, usize::MAX] {
            let outcome = end.open(index).err();
            assert!(
                matches!(outcome, Some(ConnectError::QueuePair { count: 2, .. })),
                "{outcome:?}"
            );
        }
    }
}

/// Queue pairs in threads of their own work side by side, and each is connected with its own.
pub fn queue_pairs_do_not_mix(factory: Factory<'_>) {
    let mut host = config(Side::Host);
    host.queue_pairs = 4;
    let ends = factory([&host, &config(Side::Dpu)]);
    let exported = ends[1]
        .export(4 * 4096, Access::ReadWrite)
        .expect("an export");
    let remote = ends[0].import(exported.token()).expect("an import");
    std::thread::scope(|scope| {
        for index in 0..4usize {
            let [mut ours, mut theirs] = [0, 1].map(|end| ends[end].open(index).expect("a pair"));
            let (ends, remote) = (&ends, &remote);
            scope.spawn(move || {
                let mut inbox = Inbox::new();
                for round in 0..50 {
                    let bytes = pattern(4096, (index * 50 + round) as u8);
                    let from = slice(&ends[0], &bytes);
                    let at = 4096 * index as u64;
                    run_one(&mut *ours, write(1, from, remote, at));
                    let message = [index as u8, round as u8];
                    let message = Messages::one(&message).expect("two bytes");
                    send_all(&mut *theirs, message, || {});
                    inbox.clear();
                    receive_until(&mut *ours, &mut inbox, 1);
                    assert_eq!(inbox.as_bytes(), [index as u8, round as u8]);
                }
            });
        }
    });
    let mut there = vec![0; 4096];
    for index in 0..4 {
        exported.read(4096 * index, &mut there).expect("within");
        assert!(there == pattern(4096, (index * 50 + 49) as u8));
    }
}

/// What was sent before closing arrives; then the other end learns that it was closed.
pub fn what_was_sent_before_closing_arrives(factory: Factory<'_>) {
    let link = Link::new(factory);
    let [mut from, mut to] = link.pairs;
    let bytes = pattern(320, 4);
    let messages = Messages::packed(&bytes, 32).expect("whole messages");
    send_all(&mut *from, messages, || {});
    let closed = from.close(Instant::now() + PATIENCE);
    assert!(closed.completions.is_empty() && closed.abandoned.is_empty());
    let mut inbox = Inbox::new();
    receive_until(&mut *to, &mut inbox, 10);
    assert_eq!(inbox.as_bytes(), bytes);
    let lost = until_lost(&mut *to);
    assert_eq!((lost.cause, lost.tags), (Cause::Closed, vec![]));
    assert!(to.receive(&mut inbox, 1).is_err());
}

/// Closing does not wait for messages that nobody sends; the rest completes.
pub fn closing_gives_up_receives(factory: Factory<'_>) {
    let link = Link::new(factory);
    let exported = link.ends[1]
        .export(1 << 20, Access::Write)
        .expect("an export");
    let remote = link.ends[0].import(exported.token()).expect("an import");
    let [mut ours, _theirs] = link.pairs;
    let into = region(&link.ends[0], &[0; 64]);
    let from = slice(&link.ends[0], &pattern(1 << 20, 6));
    let receive = Work::new(5, Verb::Receive { into });
    let mut work = VecDeque::from([receive, write(6, from, &remote, 0)]);
    let begin = Instant::now();
    while !work.is_empty() {
        ours.post(&mut work).expect("the link takes it");
        patience(begin);
    }
    let begin = Instant::now();
    let closed = ours.close(begin + PATIENCE);
    assert!(begin.elapsed() < PATIENCE / 2);
    assert_eq!(closed.abandoned, [5]);
    assert_eq!(closed.completions.len(), 1);
    assert_eq!(
        (closed.completions[0].tag, &closed.completions[0].result),
        (6, &Ok(1 << 20))
    );
    let mut there = vec![0; 1 << 20];
    exported.read(0, &mut there).expect("within");
    assert!(there == pattern(1 << 20, 6));
}

/// An end that goes without a word is lost to the other: polling, receiving, sending and asking
/// for memory say so, and name what was in flight.
pub fn a_dropped_peer_is_lost(factory: Factory<'_>) {
    let link = Link::new(factory);
    let Link { ends, pairs } = link;
    let [mut stays, goes] = pairs;
    let [end, other] = ends;
    let into = region(&end, &[0; 64]);
    let receive = Work::new(11, Verb::Receive { into });
    assert_eq!(post_one(&mut *stays, receive), Ok(1));
    drop(goes);
    drop(other);
    let lost = until_lost(&mut *stays);
    assert_eq!(lost.tags, [11]);
    assert!(lost.link == end.info().name, "{lost}");
    let begin = Instant::now();
    let message = [1; 4096];
    let message = Messages::one(&message).expect("not empty");
    // It may take messages for as long as there is room.
    while !matches!(stays.send(message), Err(PostError::Lost(_))) {
        patience(begin);
    }
    while end.export(64, Access::Read).is_ok() {
        patience(begin);
    }
    let begin = Instant::now();
    let closed = stays.close(begin + Duration::from_secs(1));
    assert!(begin.elapsed() < PATIENCE / 2);
    assert_eq!(closed.abandoned, [11]);
}

/// A queue pair may be dropped with work in flight, and the link with it.
pub fn drop_with_work_in_flight(factory: Factory<'_>) {
    for _ in 0..10 {
        let mut link = Link::new(factory);
        let exported = link.ends[1]
            .export(1 << 20, Access::ReadWrite)
            .expect("an export");
        let remote = link.ends[0].import(exported.token()).expect("an import");
        let from = slice(&link.ends[0], &vec![3; 1 << 20]);
        let mut work: VecDeque<Work> = (0..8)
            .map(|tag| write(tag, from.clone(), &remote, 0))
            .collect();
        assert!(link.pairs[0].post(&mut work).expect("the link takes it") > 0);
    }
}
