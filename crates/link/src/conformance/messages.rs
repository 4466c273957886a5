//! Messages: all of them, in order, once; and waiting for them.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::Factory;
use super::driver::{Link, PATIENCE, Pair, config, import, pattern, room, source};
use crate::verbs::{Access, Cause, Inbox, LinkConfig, Messages, QueuePair, Verb, WorkError};

/// Single ones and batches, of all lengths, from both ends.
pub fn messages_arrive_in_order(make: Factory<'_>) {
    let link = Link::new(make);
    if link.host.capabilities().send.is_none() {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    let lengths = [1, 8, 31, 32, 33, 64, 500, 4096];
    for (round, len) in lengths.into_iter().cycle().take(100).enumerate() {
        let count = 1 + round % 5;
        let bytes = pattern(round as u64, len * count);
        let (from, to) = match round % 3 {
            0 => (&mut dpu, &mut host),
            _ => (&mut host, &mut dpu),
        };
        let mut messages = Messages::packed(&bytes, len).expect("whole messages");
        let (mut inbox, deadline) = (Inbox::new(), Instant::now() + PATIENCE);
        while messages.count() > 0 || inbox.len() < count {
            assert!(Instant::now() < deadline, "round {round}");
            let taken = from.0.send(messages).expect("a live link");
            messages = messages.after(taken);
            let before = inbox.len();
            let came = to.0.receive(&mut inbox, 2).expect("a live link");
            assert!(came <= 2 && inbox.len() == before + came);
        }
        assert!(inbox.as_bytes() == bytes, "round {round}");
        assert!(inbox.iter().all(|message| message.len() == len));
    }
}

/// Sent before anybody receives, by both kinds of sending, received by both kinds of receiving.
pub fn messages_wait_until_they_are_received(make: Factory<'_>) {
    let link = Link::new(make);
    if link.host.capabilities().send.is_none() {
        return;
    }
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

/// Whoever sends to somebody who does not receive is told to wait, and nothing is lost.
pub fn a_sender_is_held_back(make: Factory<'_>) {
    let link = Link::new(make);
    if link.host.capabilities().send.is_none() {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    let mut sent = 0u64;
    let mut message = vec![0; 4096];
    let deadline = Instant::now() + PATIENCE;
    let mut quiet = 0;
    // It is held back once nothing has been taken for a while.
    while quiet < 200 {
        assert!(
            Instant::now() < deadline && sent < 1_000_000,
            "{sent} messages are taken"
        );
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

/// The same, received by memory that waits: it makes room as well.
pub fn waiting_memory_makes_room(make: Factory<'_>) {
    let link = Link::new(make);
    if link.host.capabilities().send.is_none() {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    let message = pattern(1, 4096);
    for round in 0..3 {
        let (mut sent, mut quiet) = (0, 0);
        while quiet < 100 {
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

/// Memory that waits gets what was sent first, and nothing is received past it.
pub fn memory_that_waits_comes_first(make: Factory<'_>) {
    let link = Link::new(make);
    if link.host.capabilities().send.is_none() {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    for tag in 0..3 {
        let into = room(&*link.dpu, 4096);
        dpu.post(tag, Verb::Receive { into });
    }
    let mut inbox = Inbox::new();
    assert_eq!(dpu.0.receive(&mut inbox, 1).expect("a live link"), 0);
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

/// A message that is longer than the memory that waits for it is an error of that one alone.
pub fn messages_that_do_not_fit(make: Factory<'_>) {
    let link = Link::new(make);
    if link.host.capabilities().send.is_none() {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    for waiting in [true, false] {
        if waiting {
            dpu.post(
                1,
                Verb::Receive {
                    into: room(&*link.dpu, 10),
                },
            );
        }
        host.send(&[1; 11]);
        host.send(&[2; 10]);
        if !waiting {
            std::thread::sleep(Duration::from_millis(5));
            dpu.post(
                1,
                Verb::Receive {
                    into: room(&*link.dpu, 10),
                },
            );
        }
        let truncated = WorkError::Truncated {
            len: 11,
            capacity: 10,
        };
        assert_eq!(dpu.complete(1)[0].result, Err(truncated));
        assert_eq!(dpu.receive(1), [[2; 10]]);
    }
}

fn with_events() -> LinkConfig {
    LinkConfig {
        event: true,
        ..config()
    }
}

/// Waits until there may be something, as a program does.
fn wait(pair: &mut Pair) {
    if pair.0.arm().expect("a live link") {
        return;
    }
    let descriptor = pair.0.event_fd().expect("events were asked for");
    let timeout = PATIENCE.try_into().expect("a timeout");
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    let woken = rustix::event::poll(&mut set, Some(&timeout)).expect("waiting");
    assert!(woken > 0, "nobody was woken");
}

fn receive_by_event(pair: &mut Pair) -> Vec<u8> {
    let mut inbox = Inbox::new();
    let deadline = Instant::now() + PATIENCE;
    while pair.0.receive(&mut inbox, 1).expect("a live link") == 0 {
        assert!(Instant::now() < deadline, "woken for nothing all the time");
        wait(pair);
    }
    inbox.as_bytes().to_vec()
}

/// Two threads that sleep until the other has sent something: no wake-up is lost.
pub fn events_wake(make: Factory<'_>) {
    let link = Link::with(make, &with_events());
    if link.host.capabilities().send.is_none() || !link.host.capabilities().event {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..300u32 {
                assert_eq!(receive_by_event(&mut dpu), number.to_le_bytes());
                dpu.send(&number.to_be_bytes());
            }
        });
        for number in 0..300u32 {
            host.send(&number.to_le_bytes());
            if number % 50 == 0 {
                // The other end is asleep by now.
                std::thread::sleep(Duration::from_millis(3));
            }
            assert_eq!(receive_by_event(&mut host), number.to_be_bytes());
        }
    });
}

/// Completions wake as messages do.
pub fn events_of_completions_wake(make: Factory<'_>) {
    let link = Link::with(make, &with_events());
    let capabilities = link.host.capabilities();
    if capabilities.write.is_none() || !capabilities.event {
        return;
    }
    let (mut host, _dpu) = link.pairs();
    let exported = link.dpu.export(100_000, Access::Write).expect("memory");
    let remote = import(&*link.host, exported.token());
    let from = source(&*link.host, &pattern(1, 100_000));
    for tag in 0..50 {
        let (from, to) = (from.clone(), remote.all());
        host.post(tag, Verb::Write { from, to });
        let (mut out, deadline) = (Vec::new(), Instant::now() + PATIENCE);
        while host.0.poll(&mut out, 1).expect("a live link") == 0 {
            assert!(Instant::now() < deadline, "woken for nothing all the time");
            wait(&mut host);
        }
        assert_eq!((out[0].tag, &out[0].result), (tag, &Ok(100_000)));
    }
}

/// An end that did not ask for events has none, and says so.
pub fn no_events_unless_asked_for(make: Factory<'_>) {
    let link = Link::new(make);
    let mut queue_pair: Box<dyn QueuePair> = link.host.open(0).expect("a queue pair");
    assert!(queue_pair.event_fd().is_none());
    let lost = queue_pair.arm().expect_err("no events");
    assert_eq!(lost.cause, Cause::NoEvents);
}
