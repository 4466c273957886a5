//! Several queue pairs, and how links end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Factory;
use super::driver::{Link, PATIENCE, Pair, config, import, pattern, range, room, source};
use overside_link::verbs::{
    Access, LinkConfig, LinkError, LinkErrorKind, Messages, PostError, RecvBatch, Side, Verb, Work,
};

/// Queue pairs work in parallel on threads of their own, and each is connected with its counterpart.
pub fn queue_pairs_in_threads_of_their_own(make: Factory<'_>) {
    const PAIRS: usize = 4;
    const LEN: usize = 10_000;
    let link = Link::with(make, &LinkConfig { queue_pairs: PAIRS, ..config() });
    let exported = link.dpu.export(PAIRS * LEN, Access::ReadWrite);
    let exported = exported.expect("memory");
    let remote = import(&*link.host, exported.token());
    std::thread::scope(|scope| {
        for index in 0..PAIRS {
            let mut host = Pair::open(&*link.host, index);
            let mut dpu = Pair::open(&*link.dpu, index);
            let (link, remote, exported) = (&link, &remote, &exported);
            scope.spawn(move || {
                for round in 0..50 {
                    let bytes = pattern((round * PAIRS + index) as u64, LEN);
                    let to = range(remote, index * LEN, LEN);
                    host.write(source(&*link.host, &bytes), to);
                    host.send(&bytes[..100]);
                    assert_eq!(dpu.receive(1), [&bytes[..100]]);
                    let mut there = vec![0; LEN];
                    exported.read(index * LEN, &mut there).expect("within");
                    assert!(there == bytes, "queue pair {index}, round {round}");
                    dpu.send(&[index as u8, round as u8]);
                    assert_eq!(host.receive(1), [[index as u8, round as u8]]);
                }
            });
        }
    });
}

/// Receives until the link is lost.
fn until_lost(pair: &mut Pair) -> (RecvBatch, LinkError) {
    let (mut batch, deadline) = (RecvBatch::new(), Instant::now() + PATIENCE);
    loop {
        assert!(Instant::now() < deadline, "nobody notices");
        match pair.0.receive(&mut batch, 8) {
            Ok(0) => std::thread::yield_now(),
            Ok(_) => {}
            Err(lost) => return (batch, lost),
        }
    }
}

/// Closing is noticed by the peer, after everything that was sent before.
pub fn a_closed_queue_pair_is_lost_after_what_was_sent(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    let messages = pattern(1, 5 * 1000);
    let taken = host.0.send(Messages::packed(&messages, 1000).expect("whole"));
    assert_eq!(taken.expect("a live link"), 5);
    let closed = host.0.close(Instant::now() + PATIENCE);
    assert!(closed.completions.is_empty() && closed.abandoned.is_empty());
    let (batch, lost) = until_lost(&mut dpu);
    assert!(batch.as_bytes() == messages);
    assert_eq!(lost.cause, LinkErrorKind::Closed);
    assert!(lost.tags.is_empty());
    let late = dpu.0.send(Messages::one(b"late").expect("not empty"));
    assert!(matches!(late, Err(PostError::Lost(_))), "{late:?}");
    let end = dpu.0.poll(&mut Vec::new(), 1).expect_err("the end");
    assert_eq!(end.cause, LinkErrorKind::Closed);
}

/// Closing waits for posted work, and not for messages that are never sent.
pub fn close_gives_up_waiting(make: Factory<'_>) {
    let link = Link::new(make);
    const LEN: usize = 1 << 20;
    let (mut host, _dpu) = link.pairs();
    let exported = link.dpu.export(LEN, Access::Write).expect("memory");
    let remote = import(&*link.host, exported.token());
    let bytes = pattern(1, LEN);
    let into = room(&*link.host, 10);
    host.post(2, Verb::Receive { into });
    let from = source(&*link.host, &bytes);
    let to = remote.all();
    host.post(1, Verb::Write { from, to });
    let begun = Instant::now();
    let closed = host.0.close(begun + PATIENCE);
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    let done = closed.completions.iter().map(|one| (one.tag, &one.result));
    assert_eq!(done.collect::<Vec<_>>(), [(1, &Ok(LEN as u64))]);
    assert_eq!(closed.abandoned, [2]);
    let mut there = vec![0; LEN];
    exported.read(0, &mut there).expect("all of it");
    assert!(there == bytes);
}

/// Checks that when one end is dropped, the other is lost and reports which work was in flight.
/// Sending and exporting memory then report the loss as well.
pub fn a_dropped_end_is_lost(make: Factory<'_>) {
    let link = Link::new(make);
    let Link { host, dpu } = link;
    let mut queue_pair = Pair::open(&*dpu, 0);
    let into = room(&*dpu, 10);
    queue_pair.post(77, Verb::Receive { into });
    drop(host);
    let (mut out, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    let lost = loop {
        assert!(Instant::now() < deadline, "nobody notices");
        match queue_pair.0.poll(&mut out, 8) {
            Ok(_) => std::thread::yield_now(),
            Err(lost) => break lost,
        }
    };
    assert!(matches!(lost.cause, LinkErrorKind::Closed | LinkErrorKind::Gone(_)), "{lost}");
    assert_eq!(lost.tags, [77]);
    assert_eq!(lost.link, dpu.info().name);
    let again = queue_pair.0.post(&mut VecDeque::<Work>::new());
    assert!(matches!(again, Err(PostError::Lost(_))), "{again:?}");
    let message = [1; 4096];
    let message = Messages::one(&message).expect("not empty");
    // It may take messages for as long as there is room.
    while !matches!(queue_pair.0.send(message), Err(PostError::Lost(_))) {
        assert!(Instant::now() < deadline, "messages are taken without end");
        std::thread::yield_now();
    }
    while dpu.export(64, Access::Read).is_ok() {
        assert!(Instant::now() < deadline, "memory is exported to nobody");
        std::thread::yield_now();
    }
    let begun = Instant::now();
    let closed = queue_pair.0.close(begun + PATIENCE);
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    assert_eq!(closed.abandoned, [77]);
}

/// A queue pair may go with work in flight; nothing is written to memory that is used again.
pub fn dropping_with_work_in_flight(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let exported = link.dpu.export(1 << 20, Access::Read).expect("memory");
    exported.write(0, &vec![0xEE; 1 << 20]).expect("all of it");
    let remote = import(&*link.host, exported.token());
    for tag in 0..8 {
        let into = room(&*link.host, 1 << 20);
        let from = remote.all();
        host.post(tag, Verb::Read { from, into });
    }
    drop(host);
    for _ in 0..20 {
        let fresh = vec![0u8; 1 << 20];
        std::thread::sleep(Duration::from_millis(1));
        assert!(fresh.iter().all(|byte| *byte == 0), "written by an abandoned read");
    }
}

/// Both ends may be dropped, with writes that have not arrived.
pub fn dropping_both_ends_with_work_in_flight(make: Factory<'_>) {
    for _ in 0..3 {
        let link = Link::new(make);
        let (mut host, _dpu) = link.pairs();
        let exported = link.dpu.export(1 << 20, Access::ReadWrite);
        let remote = import(&*link.host, exported.expect("memory").token());
        let from = source(&*link.host, &vec![3; 1 << 20]);
        for tag in 0..8 {
            let (from, to) = (from.clone(), remote.all());
            host.post(tag, Verb::Write { from, to });
        }
    }
}

/// Checks that CPU time of the endpoint's own threads is attributed to its own side or to the
/// emulator.
pub fn processor_time_is_on_the_right_ledger(make: Factory<'_>) {
    let link = Link::new(make);
    let mut host = Pair::open(&*link.host, 0);
    let exported = link.dpu.export(1 << 20, Access::Write).expect("memory");
    let remote = import(&*link.host, exported.token());
    let from = source(&*link.host, &pattern(1, 1 << 20));
    let (mut before, deadline) = (0, Instant::now() + PATIENCE);
    loop {
        assert!(Instant::now() < deadline);
        host.write(from.clone(), remote.all());
        let (here, there) = (link.host.cpu_time(), link.dpu.cpu_time());
        assert_eq!((here.dpu_ns, there.host_ns), (0, 0), "{:?}", Side::Host);
        let spent = here.host_ns + here.emulator_ns + there.dpu_ns + there.emulator_ns;
        assert!(spent >= before, "time goes back");
        // Links without threads of their own spend none; others have by now.
        if spent > 0 || Instant::now() + PATIENCE > deadline + Duration::from_millis(50) {
            break;
        }
        before = spent;
    }
}
