//! Two processes on one machine. The other one is this test program again, told by its environment
//! to play the peer.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use overside_link::shm::{self, Listener, ShmEndpoint, ShmOptions};
use overside_link::verbs::{
    Access, Cause, ConnectError, Endpoint, Inbox, LinkConfig, Messages, QueuePair, Side, Token,
    Verb, Work,
};

/// Where the peer is to call, and what it is to do.
const SOCKET: &str = "OVERSIDE_TEST_LINK_SOCKET";
const ROLE: &str = "OVERSIDE_TEST_LINK_ROLE";
const PATIENCE: Duration = Duration::from_secs(20);

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

fn config(side: Side) -> LinkConfig {
    LinkConfig {
        event: true,
        ..LinkConfig::new(side)
    }
}

/// The peer, which is ended if the test fails.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(role: &str) -> (ShmEndpoint, Peer, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("link");
    let listener = Listener::bind(&path).expect("a socket");
    let program = std::env::current_exe().expect("this program");
    let peer = Command::new(program)
        .args(["--exact", "processes::the_peer", "--nocapture"])
        .env(SOCKET, &path)
        .env(ROLE, role)
        .stdout(std::process::Stdio::null())
        .spawn();
    let peer = Peer(peer.expect("another process"));
    let options = ShmOptions::default();
    let end = listener.accept(&config(Side::Host), &options, deadline());
    (end.expect("a link"), peer, directory)
}

fn receive(pair: &mut dyn QueuePair) -> Vec<u8> {
    let (mut inbox, begin) = (Inbox::new(), Instant::now());
    while pair.receive(&mut inbox, 1).expect("the link lives") == 0 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    inbox.as_bytes().to_vec()
}

fn send(pair: &mut dyn QueuePair, message: &[u8]) {
    let message = Messages::one(message).expect("not empty");
    while pair.send(message).expect("the link lives") == 0 {}
}

/// Not a test of its own: what the other process does. As a test it does nothing.
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
    assert!(
        end.info().peer.starts_with("process "),
        "{}",
        end.info().peer
    );
    let mut pair = end.open(0).expect("a queue pair");
    let token = Token::from_bytes(&receive(&mut *pair)).expect("a token");
    let remote = end.import(&token).expect("the peer's memory");
    for len in [8usize, 1000, 60_000] {
        let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let mut from = end.alloc(len, 8).expect("memory");
        from.copy_from_slice(&payload);
        let verb = Verb::Write {
            from: from.share(),
            to: remote.slice(0..len as u64).expect("within"),
        };
        assert_eq!(run(&mut *pair, verb).0, len as u64);
        send(&mut *pair, &payload);
        assert!(receive(&mut *pair) == payload, "{len}");
        let verb = Verb::Read {
            from: remote.slice(len as u64..2 * len as u64).expect("within"),
            into: end.alloc(len, 8).expect("memory"),
        };
        let got = run(&mut *pair, verb).1.expect("handed back");
        assert!(got.iter().zip(&payload).all(|(a, b)| *a == !b), "{len}");
    }
    send(&mut *pair, b"end");
    assert!(peer.0.wait().expect("its end").success());
    assert_eq!(until_lost(&mut *pair), Cause::Closed);
}

fn run(pair: &mut dyn QueuePair, verb: Verb) -> (u64, Option<overside_device::Region>) {
    let mut work = VecDeque::from([Work::new(1, verb)]);
    assert_eq!(pair.post(&mut work), Ok(1));
    let (mut done, begin) = (Vec::new(), Instant::now());
    while pair.poll(&mut done, 1).expect("the link lives") == 0 {
        assert!(begin.elapsed() < PATIENCE);
    }
    let done = done.remove(0);
    (done.result.expect("moved"), done.destination)
}

/// Waits by event until the link is lost.
fn until_lost(pair: &mut dyn QueuePair) -> Cause {
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

/// A peer that is killed is lost at once, though it could not say so; its memory stays mapped, so
/// nothing that was imported turns into a fault.
#[test]
fn a_killed_process_is_lost() {
    let (end, mut peer, _directory) = start("wait");
    let mut pair = end.open(0).expect("a queue pair");
    let token = Token::from_bytes(&receive(&mut *pair)).expect("a token");
    let remote = end.import(&token).expect("the peer's memory");
    peer.0.kill().expect("it can be ended");
    peer.0.wait().expect("its end");
    let begin = Instant::now();
    let cause = until_lost(&mut *pair);
    assert!(matches!(cause, Cause::Gone(_)), "{cause}");
    assert!(begin.elapsed() < PATIENCE / 2);
    assert!(end.export(64, Access::Read).is_err());
    drop(remote);
    let closed = pair.close(Instant::now());
    assert!(closed.abandoned.is_empty());
}

/// A path that is in use is an error that says so, and a path without a listener as well.
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
