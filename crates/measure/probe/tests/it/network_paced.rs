//! Streams at a given rate: the schedule, one-way delays, and the effects of a network on datagrams.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::plans::{self, any};
use overside_probe::closed_loop::CompletionMode;
use overside_probe::network::{
    Client, Error, Limit, Load, PACED_MESSAGES_MAX, Pass, Plan, Protocol, Receiver, Traffic,
};

/// Bytes of a greeting: magic, secret, index, and the port of datagrams.
const GREETING_BYTES: usize = 8 + 16 + 4 + 2;

fn load(protocol: Protocol) -> Load {
    Load { protocol, paced_messages: Some(10_000), ..plans::load(Traffic::Stream) }
}

/// The receiving end, and the plan of a client that sends `rate_per_s` messages a second.
fn receiving(load: Load, rate_per_s: f64) -> (Receiver, Plan) {
    let config = plans::config(load);
    let secret = config.secret;
    let receiver = Receiver::listen(any(), config).unwrap();
    let plan = Plan {
        rate_per_s: Some(rate_per_s),
        slice: Some(Duration::from_millis(10)),
        ..plans::plan_to(receiver.address(), secret, load)
    };
    (receiver, plan)
}

fn pass(client: &mut Client, limit: Limit) -> Pass {
    let deadline = Instant::now() + Duration::from_secs(60);
    client.pass(limit, deadline, || ()).unwrap()
}

#[test]
fn as_many_messages_are_sent_as_the_schedule_has() {
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for (connections, threads, waiting) in [
            (1, 1, CompletionMode::Event),
            (3, 2, CompletionMode::Event),
            (2, 1, CompletionMode::Poll),
        ] {
            let load = Load { connections, threads, waiting, ..load(protocol) };
            let (_receiver, plan) = receiving(load, 1000.0);
            let mut client = Client::open(plan).unwrap();
            let first = pass(&mut client, Limit::Messages(5));
            assert_eq!(first.one_way.unwrap().sent, 5 * connections as u64);
            let timed = pass(&mut client, Limit::Time(Duration::from_millis(200)));
            let told = timed.one_way.unwrap();
            assert_eq!(told.sent, 200, "{protocol:?} {connections}");
            assert_eq!(timed.messages + told.lost(timed.messages), 200);
            assert_eq!(timed.latencies.count(), timed.messages);
            assert_eq!(timed.bytes, timed.messages * 64);
            let (mut came, mut lost, mut bytes) = (0, 0, 0);
            for slice in &timed.slices {
                (came, lost) = (came + slice.messages, lost + slice.lost);
                bytes += slice.bytes;
            }
            assert_eq!((came, bytes), (timed.messages, timed.bytes));
            assert_eq!(lost, told.lost(timed.messages));
            if protocol == Protocol::Tcp {
                assert_eq!((timed.messages, told.duplicates, told.reordered), (200, 0, 0));
            }
        }
    }
}

#[test]
fn two_ends_that_have_one_clock_see_no_drift_beyond_what_they_say() {
    let (_receiver, plan) = receiving(load(Protocol::Udp), 500.0);
    let mut client = Client::open(plan).unwrap();
    let timed = pass(&mut client, Limit::Time(Duration::from_millis(300)));
    let told = timed.one_way.unwrap();
    // Both read the same clock, so the truth is known.
    assert!(told.drift.abs() <= told.drift_error, "{told:?}");
    let longest = Duration::from_nanos(timed.latencies.max_ns());
    assert!(longest <= timed.elapsed, "{longest:?} of {:?}", timed.elapsed);
}

#[test]
fn a_rate_that_no_connection_carries_shows_in_the_delays_and_loses_nothing_over_tcp() {
    let load = Load { message_bytes: 1 << 20, paced_messages: Some(1000), ..load(Protocol::Tcp) };
    // 1 MiB each 10 µs is more than any of these machines carries.
    let (_receiver, plan) = receiving(load, 100_000.0);
    let mut client = Client::open(plan).unwrap();
    let timed = pass(&mut client, Limit::Time(Duration::from_millis(5)));
    assert_eq!((timed.messages, timed.one_way.unwrap().sent), (500, 500));
    assert!(timed.late > 250, "{}", timed.late);
    let last = Duration::from_nanos(timed.latencies.max_ns());
    assert!(last > timed.elapsed / 2, "{last:?} of {:?}", timed.elapsed);
}

/// Numbers of datagrams that a network between the ends has disturbed.
#[derive(Default)]
struct Interference {
    dropped: AtomicU64,
    repeated: AtomicU64,
    overtaken: AtomicU64,
}

/// Stands between the ends, of one data connection: carries TCP as it is but for the ports that
/// datagrams come from and go to, and of datagrams drops each fifth, sends each seventh twice, and
/// swaps each eleventh with the next.
fn meddling_network(to: SocketAddr, done: &Arc<Interference>) -> SocketAddr {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let done = Arc::clone(done);
    std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut client, _) = listener.accept().unwrap();
            let mut server = TcpStream::connect(to).unwrap();
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let mut greeting = [0; GREETING_BYTES];
            client.read_exact(&mut greeting).unwrap();
            let (_, port) = greeting.split_last_chunk_mut::<2>().unwrap();
            let client_port = u16::from_le_bytes(*port);
            if client_port > 0 {
                let (near, far) =
                    (UdpSocket::bind(any()).unwrap(), UdpSocket::bind(any()).unwrap());
                *port = far.local_addr().unwrap().port().to_le_bytes();
                server.write_all(&greeting).unwrap();
                let mut theirs = [0; 2];
                server.read_exact(&mut theirs).unwrap();
                let server_port = u16::from_le_bytes(theirs);
                far.connect((Ipv4Addr::LOCALHOST, server_port)).unwrap();
                near.connect((Ipv4Addr::LOCALHOST, client_port)).unwrap();
                let port = near.local_addr().unwrap().port();
                client.write_all(&port.to_le_bytes()).unwrap();
                let done = Arc::clone(&done);
                std::thread::spawn(move || meddle(&near, &far, &done));
            } else {
                server.write_all(&greeting).unwrap();
            }
            let (mut back, mut forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut client, &mut server));
            std::thread::spawn(move || std::io::copy(&mut forth, &mut back));
        }
    });
    address
}

fn meddle(near: &UdpSocket, far: &UdpSocket, done: &Interference) {
    let mut room = [0; 2000];
    let mut held: Option<Vec<u8>> = None;
    let count = |what: &AtomicU64| what.fetch_add(1, Ordering::SeqCst);
    for number in 1_u64.. {
        let Ok(length) = near.recv(&mut room) else {
            return;
        };
        let datagram = &room[..length];
        if number % 5 == 0 {
            count(&done.dropped);
            continue;
        }
        if number % 11 == 0 && held.is_none() {
            held = Some(datagram.to_vec());
            continue;
        }
        let _ = far.send(datagram);
        if number % 7 == 0 {
            count(&done.repeated);
            let _ = far.send(datagram);
        }
        if let Some(late) = held.take() {
            count(&done.overtaken);
            let _ = far.send(&late);
        }
    }
}

#[test]
fn what_is_lost_repeated_and_overtaken_is_counted_exactly() {
    // What a busy machine delays for longer than the end of a pass is waited for is lost to it.
    assert!((0..5).any(|_| is_interference_counted_exactly()));
}

fn is_interference_counted_exactly() -> bool {
    let (_receiver, plan) = receiving(load(Protocol::Udp), 1000.0);
    let done = Arc::new(Interference::default());
    let plan = Plan { destination: meddling_network(plan.destination, &done), ..plan };
    let mut client = Client::open(plan).unwrap();
    let counts =
        || [&done.dropped, &done.repeated, &done.overtaken].map(|what| what.load(Ordering::SeqCst));
    let limits = [Limit::Messages(64), Limit::Time(Duration::from_millis(203))];
    limits.into_iter().all(|limit| {
        let before = counts();
        let timed = pass(&mut client, limit);
        let now = counts();
        let told = timed.one_way.unwrap();
        let [dropped, repeated, overtaken] = [0, 1, 2].map(|one| now[one] - before[one]);
        // One that waits to be overtaken when the pass ends is lost to it.
        let lost = told.lost(timed.messages);
        eprintln!("{told:?}, {dropped} dropped, {repeated} repeated, {overtaken} overtaken");
        (dropped > 10 && repeated > 5 && overtaken > 3)
            && (dropped..=dropped + 1).contains(&lost)
            && (told.duplicates, told.reordered) == (repeated, overtaken)
    })
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let good = load(Protocol::Udp);
    for (bad, rate_per_s, named) in [
        (Load { message_bytes: 15, ..good }, Some(1.0), "message_bytes is 15"),
        (Load { message_bytes: 65_508, ..good }, Some(1.0), "it can be 16 to 65507"),
        (Load { paced_messages: None, ..good }, Some(1.0), "protocol udp is given"),
        (
            Load { paced_messages: Some(PACED_MESSAGES_MAX + 1), ..good },
            Some(1.0),
            "rate * sample_s",
        ),
        (Load { traffic: Traffic::RoundTrips, ..good }, Some(1.0), "only for streams"),
        (good, None, "rate_per_s of a stream"),
    ] {
        let plan = Plan { load: bad, rate_per_s, ..receiving(load(Protocol::Tcp), 1.0).1 };
        let error = Client::open(plan).err().unwrap().to_string();
        assert!(error.contains(named), "{error}");
    }
    // More messages than the receiver has been told of.
    let (_receiver, plan) = receiving(load(Protocol::Tcp), 1e6);
    let mut client = Client::open(plan).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let refused = client.pass(Limit::Time(Duration::from_secs(1)), deadline, || ());
    assert!(
        matches!(&refused, Err(Error::Wrong(text)) if text.contains("at most 10000")),
        "{refused:?}"
    );
}

/// A receiver that keeps to the protocol and lies: about the clock, about arrivals, and by
/// repeating counts.
#[test]
fn a_receiver_that_lies_gives_no_figures() {
    let honest = r#"{"received":[5],"duplicates":0,"reordered":0,"last_ns":9,"slices":[],"#;
    let delays = |count: u64| {
        format!(
            r#""delays":{{"buckets":[[100,{count}]],"min_ns":100,"max_ns":100,"sum_ns":500}}}}"#
        )
    };
    let too_many = honest.replace("[5]", "[6]") + &delays(6);
    let contradicts = honest.to_owned() + &delays(4);
    let other_connections = honest.replace("[5]", "[3,2]") + &delays(5);
    let overflows = honest.replace("[5]", "[18446744073709551615]") + &delays(5);
    let many_slices = honest.replace(
        "\"slices\":[]",
        &format!("\"slices\":[{}]", vec!["[1,1,1,1,1,1,1]"; 5000].join(",")),
    ) + &delays(5);
    for figures in [too_many, contradicts, other_connections, overflows, many_slices] {
        let told = told_of(&figures, 1);
        assert!(matches!(told, Err(Error::Wrong(_))), "{told:?}");
    }
    let told = told_of(&(honest.to_owned() + &delays(5)), 1_000_000);
    assert!(matches!(&told, Err(Error::Wrong(text)) if text.contains("clocks")), "{told:?}");
    let told = told_of(&(honest.to_owned() + &delays(5)), 1);
    assert_eq!(told.unwrap().messages, 5);
}

/// Runs a pass against a receiver that reports these arrival figures, and whose clock runs
/// `clock_rate` times as fast. Returns the client's result.
fn told_of(figures: &str, clock_rate: u64) -> Result<Pass, Error> {
    let listener = TcpListener::bind(any()).unwrap();
    let plan = Plan {
        destination: listener.local_addr().unwrap(),
        ..receiving(load(Protocol::Tcp), 1000.0).1
    };
    let figures = figures.to_owned();
    let liar = std::thread::spawn(move || {
        let (mut reports, _) = listener.accept().unwrap();
        let (mut data, _) = listener.accept().unwrap();
        let mut greeting = [0; GREETING_BYTES];
        reports.read_exact(&mut greeting).unwrap();
        std::thread::spawn(move || std::io::copy(&mut data, &mut std::io::sink()));
        let begun = Instant::now();
        loop {
            let mut length = [0; 4];
            if reports.read_exact(&mut length).is_err() {
                return;
            }
            let mut request = vec![0; u32::from_le_bytes(length) as usize];
            reports.read_exact(&mut request).unwrap();
            let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
            let now_ns = begun.elapsed().as_nanos() as u64 * clock_rate;
            let reply = if let Some(counts) = request.get("counts") {
                let bytes = &counts["bytes"];
                format!(
                    r#"{{"counts":{{"clock_ns":1,"messages":1,"wrong":0,"cpu_ns":1,"received":[{bytes}]}}}}"#
                )
            } else if request.get("begin").is_some() {
                "\"begun\"".into()
            } else if request.get("arrivals").is_some() {
                format!(r#"{{"arrivals":{figures}}}"#)
            } else {
                format!(r#"{{"clock":{now_ns}}}"#)
            };
            let bytes = [&(reply.len() as u32).to_le_bytes(), reply.as_bytes()].concat();
            if reports.write_all(&bytes).is_err() {
                return;
            }
        }
    });
    let mut client = Client::open(plan)?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let told = client.pass(Limit::Messages(5), deadline, || ());
    drop(client);
    liar.join().unwrap();
    told
}
