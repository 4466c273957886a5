//! Both ends over loopback, and ends that do not keep to the rules.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use overside_probe::network::{
    Client, Error, Limit, Options, Pass, Plan, Record, Server, Token, Traffic, Waiting,
};

#[derive(Default)]
struct All(Vec<u64>);

impl Record for All {
    fn latency(&mut self, latency_ns: u64) {
        self.0.push(latency_ns);
    }
}

fn server() -> Server {
    Server::start(any(), Options::default()).unwrap()
}

fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn plan(server: &Server, traffic: Traffic) -> Plan {
    Plan {
        destination: server.address(),
        token: Token::default(),
        traffic,
        message_bytes: 64,
        connections: 1,
        threads: 1,
        depth: 1,
        batch: 1,
        rate_per_s: None,
        waiting: Waiting::Event,
        cores: None,
        namespace: None,
        socket_buffer: None,
        slice: None,
        seed: 3,
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn pass(client: &mut Client, threads: usize, limit: Limit) -> (Pass, Vec<u64>) {
    let mut records: Vec<All> = (0..threads).map(|_| All::default()).collect();
    let pass = client.pass(limit, &mut records, soon()).unwrap();
    let latencies = records.into_iter().flat_map(|all| all.0).collect();
    (pass, latencies)
}

#[test]
fn every_message_comes_back_once_and_is_timed() {
    let server = server();
    for waiting in [Waiting::Event, Waiting::Poll] {
        for (message_bytes, connections, threads, depth, batch) in [
            (1, 1, 1, 1, 1),
            (64, 1, 1, 32, 1),
            (64, 5, 2, 7, 4),
            (3000, 3, 3, 4, 3),
            (1 << 20, 2, 1, 3, 2),
        ] {
            let plan = Plan {
                message_bytes,
                connections,
                threads,
                depth,
                batch,
                waiting,
                ..plan(&server, Traffic::RoundTrips)
            };
            let mut client = Client::open(plan).unwrap();
            for count in [20, 7] {
                let (pass, latencies) = pass(&mut client, threads, Limit::Messages(count));
                assert_eq!(pass.messages, count * connections as u64);
                assert_eq!(pass.bytes, pass.messages * message_bytes as u64);
                assert_eq!(latencies.len() as u64, pass.messages);
                let one = count * message_bytes as u64;
                assert_eq!(pass.connection_bytes, vec![one; connections]);
                let longest = Duration::from_nanos(*latencies.iter().max().unwrap());
                assert!(longest <= pass.elapsed, "{longest:?} of {:?}", pass.elapsed);
            }
        }
    }
}

#[test]
fn a_stream_is_all_received_and_checked_before_the_clock_stops() {
    let server = server();
    for (message_bytes, connections, threads, batch) in [
        (1, 1, 1, 64),
        (64, 3, 2, 1),
        (131_072, 2, 2, 1),
        (1 << 20, 1, 1, 2),
    ] {
        let plan = Plan {
            message_bytes,
            connections,
            threads,
            batch,
            ..plan(&server, Traffic::Stream)
        };
        let mut client = Client::open(plan).unwrap();
        let (first, none) = pass(&mut client, threads, Limit::Messages(70));
        assert_eq!(first.messages, 70 * connections as u64);
        assert!(none.is_empty());
        let (timed, _) = pass(&mut client, threads, Limit::Time(Duration::from_millis(30)));
        assert!(timed.messages >= connections as u64);
        assert!(timed.elapsed >= Duration::from_millis(30));
        assert_eq!(timed.bytes, timed.connection_bytes.iter().sum::<u64>());
        assert!(timed.server_cpu > Duration::ZERO && timed.client_cpu > Duration::ZERO);
    }
}

#[test]
fn depth_is_what_is_outstanding() {
    // A server that keeps what comes for a while: with a depth of 8 all 8 wait together.
    let server = server();
    let deep = |depth| {
        let plan = Plan {
            depth,
            ..plan(&server, Traffic::RoundTrips)
        };
        let mut client = Client::open(plan).unwrap();
        let (pass, latencies) = pass(&mut client, 1, Limit::Messages(4000));
        let sum: u64 = latencies.iter().sum();
        // Little's law: what is outstanding on average.
        sum as f64 / pass.elapsed.as_nanos() as f64
    };
    let (one, many) = (deep(1), deep(16));
    assert!((0.5..=1.01).contains(&one), "{one}");
    assert!((6.0..=16.1).contains(&many), "{many}");
}

#[test]
fn a_rate_is_kept_and_latencies_begin_at_intended_times() {
    let server = server();
    let plan = Plan {
        rate_per_s: Some(2000.0),
        connections: 2,
        depth: 4,
        ..plan(&server, Traffic::RoundTrips)
    };
    let mut client = Client::open(plan).unwrap();
    let (timed, latencies) = pass(&mut client, 1, Limit::Time(Duration::from_millis(200)));
    assert_eq!(timed.messages, 400);
    assert_eq!(latencies.len(), 400);
    assert!(timed.elapsed >= Duration::from_millis(199));
}

#[test]
fn a_rate_that_cannot_be_kept_shows_in_the_latencies() {
    let server = server();
    let plan = Plan {
        // 1 MiB each 10 µs is more than any of these machines carries.
        message_bytes: 1 << 20,
        rate_per_s: Some(100_000.0),
        ..plan(&server, Traffic::RoundTrips)
    };
    let mut client = Client::open(plan).unwrap();
    let (timed, latencies) = pass(&mut client, 1, Limit::Time(Duration::from_millis(5)));
    assert_eq!(timed.messages, 500);
    assert!(timed.late > 250, "{}", timed.late);
    // The last waited for nearly all the others.
    let last = Duration::from_nanos(*latencies.last().unwrap());
    assert!(last > timed.elapsed / 2, "{last:?} of {:?}", timed.elapsed);
}

#[test]
fn slices_add_up_to_the_pass() {
    let server = server();
    for traffic in [Traffic::RoundTrips, Traffic::Stream] {
        let plan = Plan {
            message_bytes: 4096,
            slice: Some(Duration::from_millis(10)),
            ..plan(&server, traffic)
        };
        let mut client = Client::open(plan).unwrap();
        let (timed, latencies) = pass(&mut client, 1, Limit::Time(Duration::from_millis(100)));
        assert!(timed.slices.len() >= 2, "{}", timed.slices.len());
        let ends: Vec<Duration> = timed.slices.iter().map(|slice| slice.end).collect();
        assert!(ends.is_sorted());
        let bytes: u64 = timed.slices.iter().map(|slice| slice.bytes).sum();
        match traffic {
            Traffic::RoundTrips => {
                assert_eq!(bytes, timed.bytes);
                let sum: u64 = timed.slices.iter().map(|slice| slice.latency_sum_ns).sum();
                assert_eq!(sum, latencies.iter().sum::<u64>());
            }
            // The server is asked for the last time just before or after the threads end.
            Traffic::Stream => assert!(bytes <= timed.bytes && bytes > timed.bytes / 2),
        }
    }
}

#[test]
fn sessions_end_with_their_clients_and_are_bounded() {
    let options = Options {
        sessions_max: 2,
        ..Options::default()
    };
    let server = Server::start(any(), options).unwrap();
    let open = || Client::open(plan(&server, Traffic::Stream));
    let (one, two) = (open().unwrap(), open().unwrap());
    assert_eq!(server.sessions(), 2);
    assert!(matches!(open(), Err(Error::Refused { .. })));
    drop((one, two));
    let deadline = soon();
    while server.sessions() > 0 {
        assert!(Instant::now() < deadline, "sessions outlive their clients");
        std::thread::sleep(Duration::from_millis(5));
    }
    open().unwrap();
}

#[test]
fn a_server_that_goes_away_is_an_error_and_no_figure() {
    let server = server();
    let mut client = Client::open(plan(&server, Traffic::RoundTrips)).unwrap();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(server);
    });
    let begun = Instant::now();
    let limit = Limit::Time(Duration::from_secs(10));
    let failed = client.pass(limit, &mut [All::default()], soon());
    assert!(matches!(failed, Err(Error::Closed)), "{failed:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    stopper.join().unwrap();
}

#[test]
fn nobody_and_strangers_are_told_apart() {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let plan = Plan {
        destination: address,
        ..plan(&server(), Traffic::Stream)
    };
    assert!(matches!(
        Client::open(plan.clone()),
        Err(Error::Stranger { .. })
    ));
    stranger.join().unwrap();
    // The listener is closed by now.
    assert!(matches!(Client::open(plan), Err(Error::Unreachable { .. })));
}

#[test]
fn garbage_does_not_disturb_a_server() {
    let server = server();
    let mut idle = Vec::new();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 64],
        &[0xff; 4096],
        b"ovs-net\x01",
    ] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(bytes).unwrap();
        idle.push(stream);
    }
    let mut client = Client::open(plan(&server, Traffic::RoundTrips)).unwrap();
    let (pass, _) = pass(&mut client, 1, Limit::Messages(10));
    assert_eq!(pass.messages, 10);
}

#[test]
fn numbers_out_of_bounds_are_named() {
    let server = server();
    let good = plan(&server, Traffic::Stream);
    let named = |plan: Plan| match Client::open(plan).err() {
        Some(Error::Bound { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let bad = Plan {
        message_bytes: 0,
        ..good.clone()
    };
    assert_eq!(named(bad), "message_bytes");
    let bad = Plan {
        threads: 2,
        ..good.clone()
    };
    assert_eq!(named(bad), "threads");
    let bad = Plan {
        connections: 1000,
        message_bytes: 16 << 20,
        ..good.clone()
    };
    assert_eq!(named(bad), "connections * message_bytes");
    let bad = Plan {
        rate_per_s: Some(f64::NAN),
        ..good
    };
    assert_eq!(named(bad), "rate_per_s");
}
