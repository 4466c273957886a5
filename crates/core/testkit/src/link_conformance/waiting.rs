//! Waiting for messages, completions, room and the end of a link.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::Factory;
use super::driver::{Link, PATIENCE, Pair, config, import, pattern, room, source};
use overside_link::verbs::{Access, LinkConfig, LinkErrorKind, Messages, RecvBatch, Verb};

fn with_events() -> LinkConfig {
    LinkConfig { event: true, ..config() }
}

/// Waits until there may be something, as a program does. `false`: there was nothing.
fn woken_within(pair: &mut Pair, timeout: Duration) -> bool {
    pair.0.arm().expect("a live link") || readable(pair, timeout)
}

fn readable(pair: &Pair, timeout: Duration) -> bool {
    let descriptor = pair.0.event_fd().expect("events were asked for");
    let timeout = timeout.try_into().expect("a timeout");
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    rustix::event::poll(&mut set, Some(&timeout)).expect("waiting") > 0
}

fn wait(pair: &mut Pair) {
    assert!(woken_within(pair, PATIENCE), "nobody was woken");
}

fn receive_by_event(pair: &mut Pair) -> Vec<u8> {
    let mut batch = RecvBatch::new();
    let deadline = Instant::now() + PATIENCE;
    while pair.0.receive(&mut batch, 1).expect("a live link") == 0 {
        assert!(Instant::now() < deadline, "woken for nothing all the time");
        wait(pair);
    }
    batch.as_bytes().to_vec()
}

/// Two threads that sleep until the other has sent something: no wake-up is lost, and nothing wakes
/// for ever when there is nothing.
pub fn events_wake(make: Factory<'_>) {
    let link = Link::with(make, &with_events());
    if !link.host.capabilities().event {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    std::thread::scope(|scope| {
        let dpu = &mut dpu;
        scope.spawn(move || {
            for number in 0..300u32 {
                assert_eq!(receive_by_event(dpu), number.to_le_bytes());
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
    let silent = (0..10).any(|_| !woken_within(&mut host, Duration::from_millis(20)));
    assert!(silent, "it wakes for nothing without end");
}

/// Completions wake as messages do: of writes, and of memory that waits.
pub fn events_of_completions_wake(make: Factory<'_>) {
    let link = Link::with(make, &with_events());
    if !link.host.capabilities().event {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    let exported = link.dpu.export(100_000, Access::Write).expect("memory");
    let remote = import(&*link.host, exported.token());
    let from = source(&*link.host, &pattern(1, 100_000));
    for tag in 0..100 {
        let len = if tag % 2 == 1 {
            let into = room(&*link.host, 8);
            host.post(tag, Verb::Receive { into });
            dpu.send(&[1; 8]);
            8
        } else {
            let (from, to) = (from.clone(), remote.all());
            host.post(tag, Verb::Write { from, to });
            100_000
        };
        let (mut out, deadline) = (Vec::new(), Instant::now() + PATIENCE);
        while host.0.poll(&mut out, 1).expect("a live link") == 0 {
            assert!(Instant::now() < deadline, "woken for nothing all the time");
            wait(&mut host);
        }
        assert_eq!((out[0].tag, &out[0].result), (tag, &Ok(len)));
    }
}

/// A sender that found the link full is woken when there is room.
pub fn room_wakes(make: Factory<'_>) {
    const COUNT: usize = 500;
    let link = Link::with(make, &with_events());
    if !link.host.capabilities().event {
        return;
    }
    let (mut host, mut dpu) = link.pairs();
    let bytes = [7; 4096];
    let message = Messages::one(&bytes).expect("not empty");
    std::thread::scope(|scope| {
        let host = &mut host;
        scope.spawn(move || {
            for _ in 0..COUNT {
                while host.0.send(message).expect("a live link") == 0 {
                    wait(host);
                }
            }
        });
        for received in 0..COUNT {
            if received % 100 == 0 {
                // Long enough for the sender to fill the link and fall asleep.
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(dpu.receive(1), [bytes]);
        }
    });
}

/// An end opened without events has no descriptor, returns an error, and continues to work.
pub fn no_events_unless_asked_for(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    for pair in [&mut host, &mut dpu] {
        assert!(pair.0.event_fd().is_none());
        let lost = pair.0.arm().expect_err("no events");
        assert_eq!(lost.cause, LinkErrorKind::NoEvents);
    }
    host.send(b"goes on");
    assert_eq!(dpu.receive(1), [b"goes on"]);
}

/// Checks that an end that sleeps is woken when its peer goes away.
pub fn a_lost_link_wakes(make: Factory<'_>) {
    let link = Link::with(make, &with_events());
    if !link.host.capabilities().event {
        return;
    }
    let (mut stays, goes) = link.pairs();
    let Link { host: _host, dpu } = link;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(goes);
            drop(dpu);
        });
        let deadline = Instant::now() + PATIENCE;
        while stays.0.poll(&mut Vec::new(), 1).is_ok() {
            assert!(Instant::now() < deadline, "woken for nothing all the time");
            // Where it says that the link is lost, polling says so as well.
            if let Ok(false) = stays.0.arm() {
                assert!(readable(&stays, PATIENCE), "nobody was woken");
            }
        }
    });
}
