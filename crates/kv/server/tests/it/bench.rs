//! The load generator, against Redis and memcached.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use overside_kv::herd::RegionAddress;
use overside_kv::server::{Addresses, Settings as ServerSettings};
use overside_kv_bench::{
    Address, BenchError, Generator, LoadMode, Point, ProtocolKind, Records, Settings, Workload,
    load, run,
};

use crate::peers::{memcached, redis};
use crate::server::running::{Running, addresses, local};

fn settings(address: SocketAddr, protocol: ProtocolKind, letter: char) -> Settings {
    Settings {
        address: Address::Tcp(address),
        further: Vec::new(),
        port: None,
        protocol,
        password: None,
        tls: None,
        workload: Workload::ycsb(letter).unwrap(),
        records: Records { count: 2000, key_bytes: 16, value_bytes: 100 },
        connections: 5,
        threads: 2,
        core: None,
        pipeline: 4,
        mode: LoadMode::Closed,
        warm_up: Duration::from_millis(20),
        duration: Duration::from_millis(200),
        windows: 4,
        seed: 1,
        busy_poll: false,
        generator: Generator::ONLY,
    }
}

/// Checks runs on records that were loaded, until one has requests: a busy machine may leave no time for any.
#[track_caller]
fn assert_finds_all(settings: &Settings, letter: char) {
    let has_requests = |_| {
        let point = run(settings).unwrap();
        // Only the connection that inserts a record asks for it.
        assert_eq!((point.windows.len(), point.misses), (4, 0), "{letter}");
        point.hits > 0 && point.windows.iter().any(|window| window.done > 0)
    };
    assert!((0..20).any(has_requests), "{letter}");
}

fn finds_wrong_values(settings: &Settings) -> bool {
    (0..20).any(|_| matches!(run(settings), Err(BenchError::WrongValue { .. })))
}

#[test]
fn every_workload_finds_what_was_loaded() {
    let Some(peer) = redis() else { return };
    for letter in 'a'..='f' {
        let settings = settings(peer.address, ProtocolKind::Resp, letter);
        assert!(load(&settings).unwrap() > 0.0);
        assert_finds_all(&settings, letter);
    }
}

#[test]
fn memcached_is_measured_in_both_of_its_protocols() {
    let Some(peer) = memcached() else { return };
    for protocol in [ProtocolKind::Memcached, ProtocolKind::MemcachedMeta] {
        for letter in ['a', 'd', 'f'] {
            let settings = settings(peer.address, protocol, letter);
            load(&settings).unwrap();
            assert_finds_all(&settings, letter);
        }
        let scans = run(&settings(peer.address, protocol, 'e'));
        assert!(matches!(scans, Err(BenchError::Settings(_))));
    }
}

#[test]
fn datagrams_are_measured_with_one_worker_and_several() {
    for workers in [1, 2] {
        let running = Running::start(ServerSettings {
            addresses: Addresses { datagram: vec![local()], ..addresses() },
            workers,
            ..crate::server::running::settings()
        });
        for letter in ['a', 'd', 'f'] {
            let address = running.settings.addresses.datagram[0];
            let settings = settings(address, ProtocolKind::Datagram, letter);
            assert!(load(&settings).unwrap() > 0.0);
            assert_finds_all(&settings, letter);
        }
        let address = running.settings.addresses.datagram[0];
        let scans = run(&settings(address, ProtocolKind::Datagram, 'e'));
        assert!(matches!(scans, Err(BenchError::Settings(_))));
        let mut wrong = settings(address, ProtocolKind::Datagram, 'c');
        wrong.records.value_bytes += 1;
        assert!(finds_wrong_values(&wrong));
    }
}

#[test]
fn requests_by_one_sided_writes_are_measured_with_one_worker_and_several() {
    for workers in [1, 2] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("herd");
        let running = Running::start(ServerSettings {
            addresses: Addresses { herd: Some(RegionAddress::Path(path.clone())), ..addresses() },
            workers,
            ..crate::server::running::settings()
        });
        let settings = |letter| Settings {
            address: Address::Unix(path.clone()),
            ..settings(running.address(), ProtocolKind::Herd, letter)
        };
        for letter in ['a', 'd', 'f'] {
            assert!(load(&settings(letter)).unwrap() > 0.0);
            assert_finds_all(&settings(letter), letter);
        }
        assert!(matches!(run(&settings('e')), Err(BenchError::Settings(_))));
        let mut wrong = settings('c');
        wrong.records.value_bytes += 1;
        assert!(finds_wrong_values(&wrong));
        let mut long = settings('c');
        long.records.value_bytes = 2000;
        assert!(matches!(run(&long), Err(BenchError::Settings(_))));
        let mut many = settings('c');
        many.connections = 257;
        assert!(matches!(run(&many), Err(BenchError::Settings(_))));
    }
}

#[test]
fn records_that_are_not_there_are_counted_and_others_are_found_out() {
    let Some(peer) = redis() else { return };
    let empty = settings(peer.address, ProtocolKind::Resp, 'c');
    assert_eq!(run(&empty).unwrap().hits, 0);
    assert!((0..20).any(|_| run(&empty).unwrap().misses > 0));
    load(&empty).unwrap();
    let mut longer = empty;
    longer.records.value_bytes = 101;
    assert!(finds_wrong_values(&longer));
}

#[test]
fn the_open_loop_offers_what_it_was_told_to() {
    let Some(peer) = redis() else { return };
    let rate = 2000.0;
    let open = Settings {
        mode: LoadMode::Open { rate },
        duration: Duration::from_secs(1),
        ..settings(peer.address, ProtocolKind::Resp, 'b')
    };
    load(&open).unwrap();
    let sum = |point: Point| point.windows.iter().map(|window| window.done).sum();
    let mut done = (0..20).map(|_| run(&open).map(sum).unwrap());
    // Poisson: a standard deviation of 45; the machine may be busy.
    assert!(done.any(|done: u64| (1000..2500).contains(&done)));
}

/// A server that answers nothing for a while, once.
fn stalling(stall: Duration) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 1 << 16];
        let mut stalled = false;
        while let Ok(len) = stream.read(&mut bytes) {
            if len == 0 {
                return;
            }
            if !stalled {
                thread::sleep(stall);
                stalled = true;
            }
            let gets = bytes[..len].windows(3).filter(|three| three == b"GET").count();
            if stream.write_all(&b"$-1\r\n".repeat(gets)).is_err() {
                return;
            }
        }
    });
    address
}

#[test]
fn a_stalled_server_cannot_hide_its_queue() {
    let stall = Duration::from_millis(300);
    let base = Settings {
        connections: 1,
        threads: 1,
        pipeline: 1,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(1),
        ..settings(stalling(stall), ProtocolKind::Resp, 'c')
    };
    // Nearly a third of the requests should have been sent during the stall.
    let open = run(&Settings { mode: LoadMode::Open { rate: 500.0 }, ..base.clone() });
    let open = open.unwrap().latencies();
    assert!(open.quantile_ns(0.9) > 100_000_000);
    // The closed loop has waited with one.
    let hides = |_| {
        let address = Address::Tcp(stalling(stall));
        let base = base.clone();
        let closed = run(&Settings { address, ..base }).unwrap().latencies();
        assert!(closed.max_ns() >= 300_000_000);
        closed.quantile_ns(0.9) < closed.max_ns() / 3
    };
    assert!((0..20).any(hides));
}

#[test]
fn what_is_no_answer_is_shown() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]);
        stream.write_all(b"-ERR not today\r\n").unwrap();
        let _ = stream.read(&mut [0; 1000]);
    });
    let settings =
        Settings { connections: 1, threads: 1, ..settings(address, ProtocolKind::Resp, 'c') };
    match run(&settings) {
        Err(BenchError::Answer { answer, .. }) => assert_eq!(answer, "-ERR not today"),
        other => panic!("{other:?}"),
    }
    server.join().unwrap();
    let nobody = run(&settings);
    assert!(matches!(nobody, Err(BenchError::Connection { .. })));
}
