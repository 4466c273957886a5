//! Tests with two processes, over UCX's transports that need no hardware. They are skipped without UCX.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use overside_link::ucx::{self, UcxEndpoint, UcxOptions};
use overside_link::verbs::{Access, Endpoint, LinkErrorKind, Side, Verb, Work};

use crate::peer_process::{
    PATIENCE, Peer, config, deadline, import, receive, run, send, until_lost,
};

/// Environment variables of the peer's process: the address to connect to, the transports to use,
/// and the role to play.
const ADDRESS: &str = "OVERSIDE_TEST_NETWORK_ADDRESS";
const OVER: &str = "OVERSIDE_TEST_NETWORK_OVER";
const ROLE: &str = "OVERSIDE_TEST_NETWORK_ROLE";
const LEN: usize = 300_000;

fn options(over: &str) -> UcxOptions {
    UcxOptions { transports: Some(over.into()), ..UcxOptions::default() }
}

fn start(options: UcxOptions, role: &str) -> (UcxEndpoint, Peer) {
    let over = options.transports.clone().expect("transports");
    let listener = ucx::Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), options).expect("a port");
    let variables =
        [(ADDRESS, listener.address().to_string()), (OVER, over), (ROLE, role.to_owned())];
    let peer = Peer::start("network_processes::the_peer", &variables);
    let end = listener.accept(&config(Side::Host), deadline());
    (end.expect("the peer"), peer)
}

/// Transports of links that can be tested here.
fn transports() -> Vec<&'static str> {
    match ucx::version() {
        Ok(_) => vec!["posix,cma,self", "tcp,self"],
        Err(reason) => {
            eprintln!("skipped: {reason}");
            Vec::new()
        }
    }
}

/// The peer's side of every test; does nothing in the parent's run of all tests.
#[test]
fn the_peer() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let address = address.parse().expect("an address");
    let (over, role) = (std::env::var(OVER), std::env::var(ROLE));
    let (over, role) = (over.expect("over what"), role.expect("a role"));
    let end =
        ucx::connect(address, &config(Side::Dpu), &options(&over), deadline()).expect("the test");
    let mut pair = end.open(0).expect("a queue pair");
    let exported = end.export(LEN, Access::ReadWrite).expect("memory");
    exported.write(0, &pattern(1)).expect("all of it");
    send(&mut *pair, exported.token().as_bytes());
    // From here on only the service thread is at work, until the test says that it is done.
    if role == "sleeps" {
        std::thread::sleep(PATIENCE);
    }
    let word = receive(&mut *pair);
    let mut bytes = vec![0; LEN];
    exported.read(0, &mut bytes).expect("all of it");
    send(&mut *pair, if bytes == pattern(2) { b"right" } else { b"wrong" });
    assert_eq!(word, b"look");
    pair.close(deadline());
}

fn pattern(seed: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at * 7 + (at >> 8) * seed + seed) as u8).collect()
}

#[test]
fn another_process_is_read_and_written_while_it_is_busy() {
    for over in transports() {
        let (end, mut peer) = start(options(over), "looks");
        let mut pair = end.open(0).expect("a queue pair");
        let remote = import(&end, &mut *pair);
        let into = end.alloc(LEN, 64).expect("memory");
        let from = remote.all();
        let read = run(&mut *pair, Verb::Read { from, into });
        assert_eq!(read.result, Ok(LEN as u64), "{over}");
        assert!(read.destination.expect("handed back")[..] == pattern(1), "{over}");
        let mut source = end.alloc(LEN, 64).expect("memory");
        source.copy_from_slice(&pattern(2));
        let (from, to) = (source.share(), remote.all());
        let written = run(&mut *pair, Verb::Write { from, to });
        assert_eq!(written.result, Ok(LEN as u64), "{over}");
        send(&mut *pair, b"look");
        assert_eq!(receive(&mut *pair), b"right", "{over}");
        let lost = until_lost(&mut *pair);
        assert_eq!(lost.cause, LinkErrorKind::Closed, "{over}");
        pair.close(Instant::now() + Duration::from_secs(1));
        drop(end);
        assert!(peer.0.wait().expect("it ends").success(), "{over}");
    }
}

#[test]
fn a_killed_process_is_noticed() {
    for over in transports() {
        let (end, mut peer) = start(options(over), "sleeps");
        let mut pair = end.open(0).expect("a queue pair");
        let _remote = import(&end, &mut *pair);
        let into = end.alloc(64, 64).expect("memory");
        let mut work = VecDeque::from([Work::new(9, Verb::Receive { into })]);
        assert_eq!(pair.post(&mut work), Ok(1));
        peer.0.kill().expect("it is ours");
        peer.0.wait().expect("it ends");
        let begin = Instant::now();
        let lost = until_lost(&mut *pair);
        // By its connection that ends, before it has been silent for too long.
        assert!(
            matches!(&lost.cause, LinkErrorKind::Gone(why) if !why.contains("sign of life")),
            "{over}: {lost}"
        );
        assert_eq!(lost.tags, [9], "{over}");
        while end.export(64, Access::Read).is_ok() {
            assert!(begin.elapsed() < PATIENCE, "{over}: nobody notices");
        }
    }
}

/// A peer whose process is stopped sends nothing any more, though its connections stand.
#[test]
fn a_peer_that_falls_silent_is_given_up() {
    if transports().is_empty() {
        return;
    }
    // A busy machine may keep a living peer from its turn for longer than a short limit.
    for peer_timeout in [300, 3000, 15_000].map(Duration::from_millis) {
        let options = UcxOptions { peer_timeout, ..options("tcp,self") };
        let (end, peer) = start(options, "sleeps");
        let mut pair = end.open(0).expect("a queue pair");
        std::thread::sleep(2 * peer_timeout);
        if pair.poll(&mut Vec::new(), 1).is_err() {
            continue;
        }
        let number = rustix::process::Pid::from_child(&peer.0);
        rustix::process::kill_process(number, rustix::process::Signal::STOP).expect("it is ours");
        let lost = until_lost(&mut *pair);
        assert!(
            matches!(&lost.cause, LinkErrorKind::Gone(why) if why.contains("sign of life")),
            "{lost}"
        );
        return;
    }
    panic!("a peer that only sleeps is alive");
}
