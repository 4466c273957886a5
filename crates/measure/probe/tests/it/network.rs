//! Both ends over loopback, and ends that do not keep to the rules.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::plans::{any, config, load, plan_to};
use overside_link::Secret;
use overside_probe::closed_loop::CompletionMode;
use overside_probe::network::{Client, Error, Limit, Load, Pass, Plan, Receiver, Traffic};

/// Both ends; the first is kept for as long as the test.
fn ends(plan: Plan) -> (Receiver, Client) {
    let (receiver, plan) = receiving(plan);
    let client = Client::open(plan).unwrap();
    (receiver, client)
}

/// The receiving end, and the plan of the other, with address and secret.
fn receiving(plan: Plan) -> (Receiver, Plan) {
    let config = config(plan.load);
    let secret = config.secret;
    let receiver = Receiver::listen(any(), config).unwrap();
    let plan = Plan { destination: receiver.address(), secret, ..plan };
    (receiver, plan)
}

fn plan(load: Load) -> Plan {
    plan_to(any(), Secret::random().unwrap(), load)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn pass(client: &mut Client, limit: Limit) -> Pass {
    client.pass(limit, soon(), || ()).unwrap()
}

fn latency_sum(pass: &Pass) -> f64 {
    (pass.latencies.mean_ns() * pass.latencies.count() as f64).round()
}

#[test]
fn every_message_comes_back_once_and_is_timed() {
    for waiting in [CompletionMode::Event, CompletionMode::Poll] {
        for (message_bytes, connections, threads, depth, batch) in [
            (1, 1, 1, 1, 1),
            (64, 1, 1, 32, 1),
            (64, 5, 2, 7, 4),
            (3000, 3, 3, 4, 3),
            (1 << 20, 2, 1, 3, 2),
        ] {
            let load =
                Load { message_bytes, connections, threads, waiting, ..load(Traffic::RoundTrips) };
            let plan = Plan { depth, batch, ..plan(load) };
            let (_receiver, mut client) = ends(plan);
            for count in [20, 7] {
                let pass = pass(&mut client, Limit::Messages(count));
                assert_eq!(pass.messages, count * connections as u64);
                assert_eq!(pass.bytes, pass.messages * message_bytes as u64);
                assert_eq!(pass.latencies.count(), pass.messages);
                let one = count * message_bytes as u64;
                assert_eq!(pass.connection_bytes, vec![one; connections]);
                let longest = Duration::from_nanos(pass.latencies.max_ns());
                assert!(longest <= pass.elapsed, "{longest:?} of {:?}", pass.elapsed);
            }
        }
    }
}

#[test]
fn a_stream_is_all_received_and_checked_before_the_clock_stops() {
    for (message_bytes, connections, threads, batch) in
        [(1, 1, 1, 64), (64, 3, 2, 1), (131_072, 2, 2, 1), (1 << 20, 1, 1, 2)]
    {
        let load = Load { message_bytes, connections, threads, ..load(Traffic::Stream) };
        let (_receiver, mut client) = ends(Plan { batch, ..plan(load) });
        let first = pass(&mut client, Limit::Messages(70));
        assert_eq!(first.messages, 70 * connections as u64);
        assert_eq!(first.latencies.count(), 0);
        let timed = pass(&mut client, Limit::Time(Duration::from_millis(30)));
        assert!(timed.messages >= connections as u64);
        assert!(timed.elapsed >= Duration::from_millis(30));
        assert_eq!(timed.bytes, timed.connection_bytes.iter().sum::<u64>());
        assert!(timed.server_cpu > Duration::ZERO && timed.client_cpu > Duration::ZERO);
    }
}

#[test]
fn depth_is_what_is_outstanding() {
    // A server that keeps what comes for a while: with a depth of 8 all 8 wait together.
    let deep = |depth| {
        let plan = Plan { depth, ..plan(load(Traffic::RoundTrips)) };
        let (_receiver, mut client) = ends(plan);
        let pass = pass(&mut client, Limit::Messages(4000));
        // Little's law: what is outstanding on average.
        latency_sum(&pass) / pass.elapsed.as_nanos() as f64
    };
    // Nothing is outstanding while a busy machine keeps the client from its turn.
    for (depth, least) in [(1, 0.5), (16, 6.0)] {
        let most = 1.01 * f64::from(depth);
        let found: Vec<f64> = (0..10).map(|_| deep(depth as usize)).collect();
        assert!(found.iter().all(|outstanding| *outstanding <= most), "{found:?}");
        assert!(found.iter().any(|outstanding| *outstanding >= least), "{found:?}");
    }
}

#[test]
fn a_rate_is_kept_and_latencies_begin_at_intended_times() {
    let plan = Plan {
        rate_per_s: Some(2000.0),
        depth: 4,
        ..plan(Load { connections: 2, ..load(Traffic::RoundTrips) })
    };
    let (_receiver, mut client) = ends(plan);
    let timed = pass(&mut client, Limit::Time(Duration::from_millis(200)));
    assert_eq!(timed.messages, 400);
    assert_eq!(timed.latencies.count(), 400);
    assert!(timed.elapsed >= Duration::from_millis(199));
}

#[test]
fn a_rate_that_cannot_be_kept_shows_in_the_latencies() {
    let plan = Plan {
        // 1 MiB each 10 µs is more than any of these machines carries.
        rate_per_s: Some(100_000.0),
        ..plan(Load { message_bytes: 1 << 20, ..load(Traffic::RoundTrips) })
    };
    let (_receiver, mut client) = ends(plan);
    let timed = pass(&mut client, Limit::Time(Duration::from_millis(5)));
    assert_eq!(timed.messages, 500);
    assert!(timed.late > 250, "{}", timed.late);
    // The last waited for nearly all the others.
    let last = Duration::from_nanos(timed.latencies.max_ns());
    assert!(last > timed.elapsed / 2, "{last:?} of {:?}", timed.elapsed);
}

#[test]
fn slices_add_up_to_the_pass() {
    for traffic in [Traffic::RoundTrips, Traffic::Stream] {
        let plan = Plan {
            slice: Some(Duration::from_millis(10)),
            ..plan(Load { message_bytes: 4096, ..load(traffic) })
        };
        let (_receiver, mut client) = ends(plan);
        // A busy machine may keep one that looks from its turn for all of the time.
        let mut passes =
            (0..20).map(|_| pass(&mut client, Limit::Time(Duration::from_millis(100))));
        let sliced = |timed: &Pass| timed.slices.iter().map(|slice| slice.bytes).sum::<u64>();
        let is_whole = |timed: &Pass| timed.slices.len() >= 2 && sliced(timed) > timed.bytes / 2;
        let timed = passes.find(is_whole).expect("slices");
        let ends: Vec<Duration> = timed.slices.iter().map(|slice| slice.end).collect();
        assert!(ends.is_sorted());
        let bytes = sliced(&timed);
        match traffic {
            Traffic::RoundTrips => {
                assert_eq!(bytes, timed.bytes);
                let sum: u64 = timed.slices.iter().map(|slice| slice.latency_sum_ns).sum();
                assert_eq!(sum as f64, latency_sum(&timed));
            }
            // The last request to the server is sent just before or after the threads end.
            Traffic::Stream => assert!(bytes <= timed.bytes),
        }
    }
}

#[test]
fn a_receiver_that_goes_away_is_an_error_and_no_figure() {
    let (receiver, mut client) = ends(plan(load(Traffic::RoundTrips)));
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(receiver);
    });
    let limit = Limit::Time(Duration::from_secs(600));
    let failed = client.pass(limit, soon(), || ());
    assert!(matches!(failed, Err(Error::Closed)), "{failed:?}");
    stopper.join().unwrap();
}

#[test]
fn nobody_and_strangers_are_told_apart() {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let stranger = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let plan = Plan { destination: address, ..plan(load(Traffic::Stream)) };
    assert!(matches!(Client::open(plan.clone()), Err(Error::Stranger { .. } | Error::Closed)));
    stranger.join().unwrap();
    // The listener is closed by now.
    assert!(matches!(Client::open(plan), Err(Error::Unreachable { .. })));
}

#[test]
fn only_who_knows_the_secret_takes_part_and_the_first_who_does() {
    let (receiver, plan) = receiving(plan(load(Traffic::RoundTrips)));
    let wrong = Plan { secret: Secret::random().unwrap(), ..plan.clone() };
    let refused = Client::open(wrong).err().expect("a stranger");
    assert!(matches!(refused, Error::Stranger { .. } | Error::Closed), "{refused}");
    let mut client = Client::open(plan.clone()).unwrap();
    let pass = pass(&mut client, Limit::Messages(10));
    assert_eq!(pass.messages, 10);
    // All connections are there, so the server no longer listens.
    let second = Client::open(plan).err();
    assert!(matches!(second, Some(Error::Unreachable { .. })), "{second:?}");
    drop(receiver);
}

#[test]
fn garbage_does_not_keep_the_client_out() {
    let (_receiver, plan) = receiving(plan(load(Traffic::RoundTrips)));
    let mut idle = Vec::new();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 4096], b"ovs-net\x04"] {
        let mut stream = TcpStream::connect(plan.destination).unwrap();
        stream.write_all(bytes).unwrap();
        idle.push(stream);
    }
    let mut client = Client::open(plan).unwrap();
    let pass = pass(&mut client, Limit::Messages(10));
    assert_eq!(pass.messages, 10);
}

#[test]
fn a_receiver_that_nobody_comes_to_ends_when_it_is_dropped() {
    let (receiver, plan) =
        receiving(plan(Load { connections: 3, threads: 2, ..load(Traffic::Stream) }));
    let _half = TcpStream::connect(plan.destination).unwrap();
    let begun = Instant::now();
    drop(receiver);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn numbers_out_of_bounds_are_named_at_either_end() {
    let good = load(Traffic::Stream);
    for (bad, name) in [
        (Load { message_bytes: 0, ..good }, "message_bytes"),
        (Load { threads: 2, ..good }, "threads"),
        (Load { connections: 1 << 40, ..good }, "connections"),
        (Load { socket_buffer: Some(usize::MAX), ..good }, "socket_buffer"),
        (Load { connections: 1000, message_bytes: 16 << 20, ..good }, "connections * message_size"),
    ] {
        let errors = [Client::open(plan(bad)).err(), Receiver::listen(any(), config(bad)).err()];
        for error in errors {
            match error {
                Some(Error::Bound(bound)) => assert_eq!(bound.field, name),
                other => panic!("{other:?}"),
            }
        }
    }
    let bad = Plan { rate_per_s: Some(f64::NAN), ..plan(good) };
    match Client::open(bad).err() {
        Some(Error::Bound(bound)) => assert_eq!(bound.field, "rate_per_s"),
        other => panic!("{other:?}"),
    }
}
