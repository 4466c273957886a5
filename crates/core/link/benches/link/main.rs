//! Cost of a queue pair over shared memory.
//!
//! `cargo bench -p overside-link --bench link [-- FILTER]`. Both sides of each ratio run in alternating order
//! in one process, on the same two cores, without a copy engine. Goals: 32-byte messages at 0.8 of a bare
//! ring's rate or more, and round trips within 1.3 of its; copies of a MiB and more at 0.95 of `memcpy`;
//! 64-byte messages ten times as fast by polling as by event. The time that two cores need to see each
//! other's stores is printed as well, because everything here depends on the location of the cores.

mod bare;
#[path = "../../../../../benches/cores.rs"]
mod cores;
#[path = "../../../../../benches/turns.rs"]
mod turns;

use std::collections::VecDeque;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bare::MESSAGE;
use cores::{first_two, pin};
use overside_link::shm::{self, ShmOptions};
use overside_link::verbs::{
    Access, Endpoint, LinkConfig, Messages, QueuePair, RecvBatch, Side, Verb, Work,
};
use rustix::event::{PollFd, PollFlags};
use turns::{arguments, take_turns, told};

/// Messages handed over at a time, of both.
const BATCH: usize = 64;
/// Messages that both rings have room for.
const CAPACITY: usize = 1024;

/// A benchmark. Its arguments are `true` for a measurement (not only a trial run), and the two
/// cores to use.
type Run = fn(bool, [usize; 2]);
/// Two connected queue pairs, and the ends that they belong to.
type Link = ([Box<dyn QueuePair>; 2], [Arc<dyn Endpoint>; 2]);

fn main() {
    let (filter, is_bench) = arguments();
    let cores = first_two();
    println!("on cores {cores:?}; every figure is a median over turns (least..most)");
    let runs: [(&str, Run); 6] = [
        ("cores", two_cores),
        ("one core", one_core),
        ("rate", message_rate),
        ("round trip", round_trip),
        ("copy", large_copies),
        ("event", polling_and_events),
    ];
    for (name, run) in runs {
        if filter.as_ref().is_none_or(|filter| name.contains(filter)) {
            run(is_bench, cores);
        }
    }
}

/// Runs the two functions on the two cores and returns how long the first took, in seconds.
fn race(cores: [usize; 2], first: impl FnOnce(), second: impl FnOnce() + Send) -> f64 {
    let ready = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let (ready, [here, there]) = (&ready, cores);
        scope.spawn(move || {
            pin(there);
            ready.wait();
            second();
        });
        pin(here);
        ready.wait();
        let begin = Instant::now();
        first();
        begin.elapsed().as_secs_f64()
    })
}

/// A store seen and answered: the minimum of every queue.
fn two_cores(is_bench: bool, cores: [usize; 2]) {
    let rounds = if is_bench { 200_000 } else { 100 };
    let turned = take_turns(is_bench, |_| {
        let [there, back] = [AtomicU64::new(0), AtomicU64::new(0)];
        let seconds = race(
            cores,
            || {
                for round in 1..=rounds {
                    there.store(round, Ordering::Release);
                    while back.load(Ordering::Acquire) != round {
                        spin_loop();
                    }
                }
            },
            || {
                for round in 1..=rounds {
                    while there.load(Ordering::Acquire) != round {
                        spin_loop();
                    }
                    back.store(round, Ordering::Release);
                }
            },
        );
        seconds / rounds as f64
    });
    let mut all: Vec<f64> = turned.iter().flat_map(|(a, b)| [*a, *b]).collect();
    all.sort_by(f64::total_cmp);
    println!("two cores see and answer a store in {:.0} ns", all[all.len() / 2] * 1e9);
}

fn link(event: bool) -> Link {
    let config = |side| LinkConfig {
        // A ring of 32 KiB, as the bare one has.
        depth: CAPACITY * MESSAGE / 64,
        max_message_bytes: 64,
        event,
        ..LinkConfig::new(side)
    };
    let (host, dpu) = (config(Side::Host), config(Side::Dpu));
    let options = ShmOptions::default();
    let deadline = Instant::now() + Duration::from_secs(10);
    let ends = shm::pair([&host, &dpu], [&options; 2], deadline).expect("a link");
    let ends = ends.map(|end| Arc::new(end) as Arc<dyn Endpoint>);
    let pairs = [0, 1].map(|end| ends[end].open(0).expect("a queue pair"));
    (pairs, ends)
}

/// Both ends in one thread, to measure the work of a send and a receive without the latency between
/// two cores.
fn one_core(is_bench: bool, cores: [usize; 2]) {
    pin(cores[0]);
    let (mut producer, mut consumer) = bare::ring(CAPACITY);
    let ([mut from, mut to], _ends) = link(false);
    let mut inbox = RecvBatch::new();
    for batch in [1, BATCH] {
        let repeats = if is_bench { 200_000 / batch } else { 10 };
        let messages = vec![[7; MESSAGE]; batch];
        let mut into = vec![[0; MESSAGE]; batch];
        let packed = messages.as_flattened();
        let turned = take_turns(is_bench, |side| {
            let begin = Instant::now();
            for _ in 0..repeats {
                match side {
                    turns::Side::First => {
                        assert_eq!(producer.push(black_box(&messages)), batch);
                        assert_eq!(consumer.pop(&mut into), batch);
                        black_box(&into);
                    }
                    turns::Side::Second => {
                        let messages = Messages::packed(black_box(packed), MESSAGE);
                        let sent = from.send(messages.expect("whole messages"));
                        assert_eq!(sent, Ok(batch));
                        inbox.clear();
                        assert_eq!(to.receive(&mut inbox, batch), Ok(batch));
                        black_box(inbox.as_bytes());
                    }
                }
            }
            begin.elapsed().as_secs_f64() / repeats as f64
        });
        println!("{batch} messages there on one core, bare ring / queue pair");
        println!("  {}", told(&turned));
    }
}

/// The number that a message begins with.
fn number(message: &[u8]) -> u64 {
    u64::from_le_bytes(message[..8].try_into().expect("eight bytes"))
}

/// Messages a second, one way. Each batch is numbered and checked.
fn message_rate(is_bench: bool, cores: [usize; 2]) {
    let batches = if is_bench { 300_000 } else { 100 };
    let (mut producer, mut consumer) = bare::ring(CAPACITY);
    let ([mut from, mut to], _ends) = link(false);
    let turned = take_turns(is_bench, |side| {
        let seconds = match side {
            turns::Side::First => race(
                cores,
                || {
                    let mut into = [[0; MESSAGE]; BATCH];
                    let mut received = 0;
                    while received < batches * BATCH {
                        let count = consumer.pop(&mut into);
                        if count == 0 {
                            spin_loop();
                            continue;
                        }
                        received += count;
                        let last = number(black_box(&into)[count - 1].as_slice());
                        assert_eq!(last as usize, (received - 1) / BATCH);
                    }
                },
                || {
                    let mut messages = [[7; MESSAGE]; BATCH];
                    for batch in 0..batches {
                        let stamp = (batch as u64).to_le_bytes();
                        messages.iter_mut().for_each(|m| m[..8].copy_from_slice(&stamp));
                        let mut sent = 0;
                        while sent < BATCH {
                            match producer.push(&messages[sent..]) {
                                0 => spin_loop(),
                                count => sent += count,
                            }
                        }
                    }
                },
            ),
            turns::Side::Second => race(
                cores,
                || {
                    let mut inbox = RecvBatch::new();
                    let mut received = 0;
                    while received < batches * BATCH {
                        inbox.clear();
                        let count = to.receive(&mut inbox, BATCH).expect("the link lives");
                        if count == 0 {
                            spin_loop();
                            continue;
                        }
                        received += count;
                        let bytes = black_box(inbox.as_bytes());
                        let last = number(&bytes[bytes.len() - MESSAGE..]);
                        assert_eq!(last as usize, (received - 1) / BATCH);
                    }
                },
                || {
                    let mut messages = [[7; MESSAGE]; BATCH];
                    for batch in 0..batches {
                        let stamp = (batch as u64).to_le_bytes();
                        messages.iter_mut().for_each(|m| m[..8].copy_from_slice(&stamp));
                        let bytes = messages.as_flattened();
                        let mut left = Messages::packed(bytes, MESSAGE).expect("whole messages");
                        while left.count() > 0 {
                            match from.send(left).expect("the link lives") {
                                0 => spin_loop(),
                                count => left = left.after(count),
                            }
                        }
                    }
                },
            ),
        };
        seconds / (batches * BATCH) as f64
    });
    rates("32-byte messages, queue pair / bare ring", &turned);
    println!("  {}", told(&turned));
}

fn rates(what: &str, turned: &[(f64, f64)]) {
    let middle = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        1e-6 / all[all.len() / 2]
    };
    println!(
        "{what}: {:.0} M/s beside {:.0} M/s",
        middle(turned.iter().map(|turn| turn.1).collect()),
        middle(turned.iter().map(|turn| turn.0).collect()),
    );
}

/// One message there and one back.
fn round_trip(is_bench: bool, cores: [usize; 2]) {
    let rounds: u64 = if is_bench { 100_000 } else { 100 };
    let [mut there, mut back] = [bare::ring(CAPACITY), bare::ring(CAPACITY)];
    let ([mut first, mut second], _ends) = link(false);
    let turned = take_turns(is_bench, |side| {
        let seconds = match side {
            turns::Side::First => {
                let (ping, pong) = (&mut there, &mut back);
                race(
                    cores,
                    || {
                        let mut into = [[0; MESSAGE]; 1];
                        for round in 0..rounds {
                            let mut message = [0; MESSAGE];
                            message[..8].copy_from_slice(&round.to_le_bytes());
                            while ping.0.push(&[message]) == 0 {}
                            while pong.1.pop(&mut into) == 0 {
                                spin_loop();
                            }
                            assert_eq!(number(&into[0]), round);
                        }
                    },
                    || {
                        let mut into = [[0; MESSAGE]; 1];
                        for _ in 0..rounds {
                            while ping.1.pop(&mut into) == 0 {
                                spin_loop();
                            }
                            while pong.0.push(&into) == 0 {}
                        }
                    },
                )
            }
            turns::Side::Second => race(
                cores,
                || ping(&mut *first, MESSAGE, rounds),
                || pong(&mut *second, MESSAGE, rounds),
            ),
        };
        seconds / rounds as f64
    });
    println!("32-byte round trip, bare ring / queue pair (rate: its inverse)");
    println!("  {}", told(&turned));
}

fn send(pair: &mut dyn QueuePair, message: &[u8]) {
    let message = Messages::one(message).expect("not empty");
    while pair.send(message).expect("the link lives") == 0 {}
}

fn ping(pair: &mut dyn QueuePair, bytes: usize, rounds: u64) {
    let (mut inbox, mut message) = (RecvBatch::new(), vec![0; bytes]);
    for round in 0..rounds {
        message[..8].copy_from_slice(&round.to_le_bytes());
        send(pair, &message);
        inbox.clear();
        while pair.receive(&mut inbox, 1).expect("the link lives") == 0 {
            spin_loop();
        }
        assert_eq!(number(inbox.as_bytes()), round);
    }
}

fn pong(pair: &mut dyn QueuePair, bytes: usize, rounds: u64) {
    let mut inbox = RecvBatch::new();
    for _ in 0..rounds {
        inbox.clear();
        while pair.receive(&mut inbox, 1).expect("the link lives") == 0 {
            spin_loop();
        }
        assert_eq!(inbox.as_bytes().len(), bytes);
        send(pair, inbox.as_bytes());
    }
}

/// Writes and reads of whole buffers, compared with `memcpy` of the same bytes between two buffers
/// of this process.
fn large_copies(is_bench: bool, cores: [usize; 2]) {
    pin(cores[0]);
    let (mut pairs, ends) = link(false);
    // Within the caches and beyond: between the two, what a turn finds there is chance.
    for len in [1usize << 20, 64 << 20] {
        let exported = ends[1].export(len, Access::ReadWrite).expect("an export");
        let remote = ends[0].import(exported.token()).expect("an import");
        let mut source = ends[0].alloc(len, 4096).expect("memory");
        source.fill(1);
        let mut ours = Some(ends[0].alloc(len, 4096).expect("memory"));
        let shared = source.share();
        let mut plain = vec![0u8; len];
        let repeats = if is_bench { (128 << 20) / len } else { 1 };
        for reads in [false, true] {
            let turned = take_turns(is_bench, |side| {
                let begin = Instant::now();
                for _ in 0..repeats {
                    match side {
                        turns::Side::First => {
                            plain.copy_from_slice(black_box(&shared));
                            black_box(&plain);
                        }
                        turns::Side::Second => {
                            let verb = if reads {
                                Verb::Read {
                                    from: remote.all(),
                                    into: ours.take().expect("handed back"),
                                }
                            } else {
                                Verb::Write { from: shared.clone(), to: remote.all() }
                            };
                            let mut work = VecDeque::from([Work::new(1, verb)]);
                            let mut done = Vec::with_capacity(1);
                            pairs[0].post(&mut work).expect("the link takes it");
                            while pairs[0].poll(&mut done, 1).expect("the link lives") == 0 {}
                            assert_eq!(done[0].result, Ok(len as u64));
                            if reads {
                                ours = done.remove(0).destination;
                            }
                        }
                    }
                }
                begin.elapsed().as_secs_f64() / repeats as f64
            });
            let verb = if reads { "read" } else { "write" };
            println!("{verb} of {} MiB / memcpy", len >> 20);
            println!("  {}", told(&turned));
        }
    }
}

/// A 64-byte round trip in which both ends poll, or both sleep.
fn polling_and_events(is_bench: bool, cores: [usize; 2]) {
    let rounds: u64 = if is_bench { 5_000 } else { 50 };
    let ([mut first, mut second], _ends) = link(false);
    let ([mut sleeper, mut other], _other_ends) = link(true);
    let turned = take_turns(is_bench, |side| {
        let seconds = match side {
            turns::Side::First => race(
                cores,
                || sleep_and_answer(&mut *sleeper, rounds, true),
                || sleep_and_answer(&mut *other, rounds, false),
            ),
            turns::Side::Second => {
                race(cores, || ping(&mut *first, 64, rounds), || pong(&mut *second, 64, rounds))
            }
        };
        seconds / rounds as f64
    });
    println!("64-byte round trip, by event / by polling");
    println!("  {}", told(&turned));
}

fn sleep_and_answer(pair: &mut dyn QueuePair, rounds: u64, begins: bool) {
    let mut inbox = RecvBatch::new();
    for round in 0..rounds {
        if begins {
            send(pair, &[round as u8; 64]);
        }
        inbox.clear();
        while pair.receive(&mut inbox, 1).expect("the link lives") == 0 {
            if !pair.arm().expect("it has events") {
                let descriptor = pair.event_fd().expect("a descriptor");
                let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
                rustix::event::poll(&mut set, None).expect("waiting works");
            }
        }
        assert_eq!(inbox.as_bytes(), [round as u8; 64]);
        if !begins {
            send(pair, inbox.as_bytes());
        }
    }
}
