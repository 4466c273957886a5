//! Two processes on one machine, over shared memory.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use overside_link::shm::{self, Listener, ShmEndpoint, ShmOptions};
use overside_link::verbs::{Access, ConnectError, Endpoint, LinkErrorKind, QueuePair, Side, Verb};

use crate::peer_process::{PATIENCE, Peer, config, deadline, import, receive, run, send};

/// Environment variables of the peer's process: the socket to connect to, and the role to play.
const SOCKET: &str = "OVERSIDE_TEST_LINK_SOCKET";
const ROLE: &str = "OVERSIDE_TEST_LINK_ROLE";
fn start(role: &str) -> (ShmEndpoint, Peer, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("link");
    let listener = Listener::bind(&path).expect("a socket");
    let variables = [(SOCKET, path.as_os_str()), (ROLE, role.as_ref())];
    let peer = Peer::start("processes::the_peer", &variables);
    let options = ShmOptions::default();
    let end = listener.accept(&config(Side::Host), &options, deadline());
    (end.expect("a link"), peer, directory)
}

/// Main function of the other process, not a test. As a test it does nothing.
#[test]
fn the_peer() {
    let Some(path) = std::env::var_os(SOCKET).map(PathBuf::from) else {
        return;
    };
    let options = ShmOptions::default();
    let end = shm::connect(path, &config(Side::Dpu), &options, deadline()).expect("a link");
    let mut pair = end.open(0).expect("a queue pair");
    let exported = end.export(1 << 20, Access::ReadWrite).expect("an export");
    send(&mut *pair, exported.token().as_bytes());
    match std::env::var(ROLE).expect("a role").as_str() {
        "answer" => loop {
            let message = receive(&mut *pair);
            if message == b"end" {
                pair.close(deadline());
                return;
            }
            let len = message.len();
            let mut there = vec![0; len];
            exported.read(0, &mut there).expect("within");
            there.iter_mut().for_each(|byte| *byte ^= 0xff);
            exported.write(len, &there).expect("within");
            send(&mut *pair, &message);
        },
        // Until it is killed.
        _ => {
            receive(&mut *pair);
        }
    }
}

/// Memory written here is changed there and read back, message by message; the peer's end of the
/// link is orderly.
#[test]
fn two_processes_share_memory() {
    let (end, mut peer, _directory) = start("answer");
    assert!(end.info().peer.starts_with("process "), "{}", end.info().peer);
    let mut pair = end.open(0).expect("a queue pair");
    let remote = import(&end, &mut *pair);
    for len in [8usize, 1000, 60_000] {
        let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let mut from = end.alloc(len, 8).expect("memory");
        from.copy_from_slice(&payload);
        let verb =
            Verb::Write { from: from.share(), to: remote.slice(0..len as u64).expect("within") };
        assert_eq!(run(&mut *pair, verb).result, Ok(len as u64));
        send(&mut *pair, &payload);
        assert!(receive(&mut *pair) == payload, "{len}");
        let verb = Verb::Read {
            from: remote.slice(len as u64..2 * len as u64).expect("within"),
            into: end.alloc(len, 8).expect("memory"),
        };
        let got = run(&mut *pair, verb).destination.expect("handed back");
        assert!(got.iter().zip(&payload).all(|(a, b)| *a == !b), "{len}");
    }
    send(&mut *pair, b"end");
    assert!(peer.0.wait().expect("its end").success());
    assert_eq!(lost_by_event(&mut *pair), LinkErrorKind::Closed);
}

/// Waits by event until the link is lost.
fn lost_by_event(pair: &mut dyn QueuePair) -> LinkErrorKind {
    let begin = Instant::now();
    loop {
        match pair.poll(&mut Vec::new(), 8) {
            Err(lost) => return lost.cause,
            Ok(_) => assert!(begin.elapsed() < PATIENCE),
        }
        if !pair.arm().expect("events") {
            let descriptor = pair.event_fd().expect("a descriptor");
            let flags = rustix::event::PollFlags::IN;
            let mut set = [rustix::event::PollFd::new(&descriptor, flags)];
            let timeout = PATIENCE.try_into().expect("a short time");
            let ready = rustix::event::poll(&mut set, Some(&timeout));
            assert_eq!(ready, Ok(1), "slept through the peer's end");
        }
    }
}

/// A peer that is killed is lost at once, though it sent no message; its memory stays mapped, so
/// nothing that was imported turns into a fault.
#[test]
fn a_killed_process_is_lost() {
    let (end, mut peer, _directory) = start("wait");
    let mut pair = end.open(0).expect("a queue pair");
    let remote = import(&end, &mut *pair);
    peer.0.kill().expect("it can be ended");
    peer.0.wait().expect("its end");
    let begin = Instant::now();
    let cause = lost_by_event(&mut *pair);
    assert!(matches!(cause, LinkErrorKind::Gone(_)), "{cause}");
    assert!(begin.elapsed() < PATIENCE / 2);
    assert!(end.export(64, Access::Read).is_err());
    drop(remote);
    let closed = pair.close(Instant::now());
    assert!(closed.abandoned.is_empty());
}

/// Errors for a path that is in use, and for a path without a listener.
#[test]
fn listeners_and_callers() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("link");
    let options = ShmOptions::default();
    let call = |path: &Path| {
        let end = shm::connect(path, &config(Side::Dpu), &options, deadline());
        end.expect_err("nobody listens")
    };
    let error = call(&path);
    assert!(matches!(error, ConnectError::System { .. }), "{error}");
    let listener = Listener::bind(&path).expect("a socket");
    let error = Listener::bind(&path).expect_err("in use").to_string();
    assert!(error.contains("remove it"), "{error}");
    let begin = Instant::now();
    let soon = begin + Duration::from_millis(30);
    let error = listener.accept(&config(Side::Host), &options, soon);
    let error = error.expect_err("nobody calls");
    assert!(matches!(error, ConnectError::Timeout { .. }), "{error}");
    drop(listener);
    assert!(!path.exists());
    let long = directory.path().join("x".repeat(200));
    assert!(Listener::bind(long).is_err());
}
