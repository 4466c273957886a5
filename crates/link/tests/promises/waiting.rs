//! Completion by event.

use std::time::Duration;

use super::driver::{
    Link, PATIENCE, patience, post_one, receive_until, region, send_all, slice, until_lost, wait,
    write,
};
use crate::Factory;
use overside_link::verbs::{
    Access, Cause, Endpoint, Inbox, LinkConfig, Lost, Messages, Verb, Work,
};

fn events(config: &mut LinkConfig) {
    config.event = true;
}

fn has_events(end: &dyn Endpoint) -> bool {
    end.capabilities().event
}

/// Two ends that sleep between messages wake each other each time.
pub fn messages_wake(factory: Factory<'_>) {
    let mut link = Link::with(factory, events);
    if !has_events(&*link.ends[0]) {
        return;
    }
    let [first, second] = &mut link.pairs;
    let rounds = 200u32;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut inbox = Inbox::new();
            for round in 0..rounds {
                while inbox.is_empty() {
                    assert!(wait(&mut **second, PATIENCE), "slept through {round}");
                    second.receive(&mut inbox, 1).expect("the link lives");
                }
                let message = Messages::packed(inbox.as_bytes(), 4).expect("four bytes");
                send_all(&mut **second, message, || {});
                inbox.clear();
            }
        });
        let mut inbox = Inbox::new();
        for round in 0..rounds {
            if round % 64 == 0 {
                // Long enough for the other one to be asleep.
                std::thread::sleep(Duration::from_millis(5));
            }
            let bytes = round.to_le_bytes();
            send_all(
                &mut **first,
                Messages::one(&bytes).expect("four bytes"),
                || {},
            );
            inbox.clear();
            while inbox.is_empty() {
                assert!(wait(&mut **first, PATIENCE), "slept through {round}");
                first.receive(&mut inbox, 1).expect("the link lives");
            }
            assert_eq!(inbox.as_bytes(), bytes);
        }
    });
    // Nothing to come, so nothing wakes for long: spurious wake-ups end.
    let silent = (0..10).any(|_| !wait(&mut *link.pairs[0], Duration::from_millis(20)));
    assert!(silent, "it wakes for nothing without end");
}

/// A sleeper is woken by the completion of its own reads, writes and receives.
pub fn completions_wake(factory: Factory<'_>) {
    let mut link = Link::with(factory, events);
    if !has_events(&*link.ends[0]) {
        return;
    }
    let exported = link.ends[1]
        .export(1 << 20, Access::ReadWrite)
        .expect("an export");
    let remote = link.ends[0].import(exported.token()).expect("an import");
    let source = slice(&link.ends[0], &vec![1; 1 << 20]);
    for round in 0..50 {
        let into = region(&link.ends[0], &[0; 8]);
        let [first, second] = &mut link.pairs;
        let work = match round % 2 {
            0 => write(round, source.clone(), &remote, 0),
            _ => Work::new(round, Verb::Receive { into }),
        };
        assert_eq!(post_one(&mut **first, work), Ok(1));
        if round % 2 == 1 {
            send_all(
                &mut **second,
                Messages::one(&[1; 8]).expect("eight bytes"),
                || {},
            );
        }
        let mut done = Vec::new();
        while done.is_empty() {
            assert!(wait(&mut **first, PATIENCE), "slept through {round}");
            first.poll(&mut done, 1).expect("the link lives");
        }
        assert_eq!(done[0].tag, round);
    }
}

/// A sender that found the link full is woken when there is room.
pub fn room_wakes(factory: Factory<'_>) {
    let mut link = Link::with(factory, events);
    if !has_events(&*link.ends[0]) {
        return;
    }
    let bytes = [7; 4096];
    let message = Messages::one(&bytes).expect("not empty");
    let [from, to] = &mut link.pairs;
    let (count, mut inbox) = (500, Inbox::new());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for sent in 0..count {
                while from.send(message).expect("the link lives") == 0 {
                    assert!(wait(&mut **from, PATIENCE), "slept through room at {sent}");
                }
            }
        });
        let begin = std::time::Instant::now();
        for received in 0..count {
            if received % 100 == 0 {
                // Long enough for the sender to fill the link and fall asleep.
                std::thread::sleep(Duration::from_millis(5));
            }
            inbox.clear();
            receive_until(&mut **to, &mut inbox, 1);
            patience(begin);
        }
    });
}

/// An end that was connected for polling has no descriptor and says so.
pub fn polling_only_has_no_events(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    for pair in &mut link.pairs {
        assert!(pair.event_fd().is_none());
        let refused = pair.arm();
        assert!(
            matches!(
                &refused,
                Err(Lost {
                    cause: Cause::NoEvents,
                    ..
                })
            ),
            "{refused:?}"
        );
    }
    // And goes on working.
    let [from, to] = &mut link.pairs;
    send_all(&mut **from, Messages::one(&[1]).expect("a byte"), || {});
    receive_until(&mut **to, &mut Inbox::new(), 1);
}

/// A sleeper is woken when its peer goes.
pub fn a_lost_link_wakes(factory: Factory<'_>) {
    let link = Link::with(factory, events);
    if !has_events(&*link.ends[0]) {
        return;
    }
    let Link { ends, pairs } = link;
    let [mut stays, goes] = pairs;
    let [_end, other] = ends;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(goes);
            drop(other);
        });
        let begin = std::time::Instant::now();
        while stays.poll(&mut Vec::new(), 1).is_ok() {
            assert!(wait(&mut *stays, PATIENCE), "slept through the loss");
            patience(begin);
        }
    });
    until_lost(&mut *stays);
}
