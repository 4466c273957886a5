//! Helpers for tests with two processes. The second process is this test program again; environment
//! variables make it play the peer.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use overside_link::verbs::{
    Completion, Endpoint, LinkConfig, LinkError, Messages, QueuePair, RecvBatch, RemoteMemory,
    Side, Token, Verb, Work,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

pub(crate) fn config(side: Side) -> LinkConfig {
    LinkConfig { event: true, ..LinkConfig::new(side) }
}

/// The peer, which is ended if the test fails.
pub(crate) struct Peer(pub Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    /// Starts it as the test of that name, with these variables.
    pub(crate) fn start<V: AsRef<OsStr>>(test: &str, variables: &[(&str, V)]) -> Self {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args(["--exact", test, "--nocapture"])
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("another process"))
    }
}

pub(crate) fn send(pair: &mut dyn QueuePair, message: &[u8]) {
    let messages = Messages::one(message).expect("not empty");
    while pair.send(messages).expect("a live link") == 0 {
        std::thread::yield_now();
    }
}

pub(crate) fn receive(pair: &mut dyn QueuePair) -> Vec<u8> {
    let (mut batch, begin) = (RecvBatch::new(), Instant::now());
    while pair.receive(&mut batch, 1).expect("a live link") == 0 {
        assert!(begin.elapsed() < PATIENCE, "no message");
        std::thread::yield_now();
    }
    batch.as_bytes().to_vec()
}

/// Posts one piece of work and waits for it.
pub(crate) fn run(pair: &mut dyn QueuePair, verb: Verb) -> Completion {
    let (mut work, mut done) = (VecDeque::from([Work::new(3, verb)]), Vec::new());
    let begin = Instant::now();
    while done.is_empty() {
        pair.post(&mut work).expect("a live link");
        pair.poll(&mut done, 1).expect("a live link");
        assert!(begin.elapsed() < PATIENCE, "nothing completes");
    }
    done.remove(0)
}

/// Receives a token and imports its region.
pub(crate) fn import(end: &dyn Endpoint, pair: &mut dyn QueuePair) -> RemoteMemory {
    let token = Token::from_bytes(&receive(pair)).expect("a token");
    end.import(&token).expect("the peer's region")
}

/// Polls until the link is lost.
pub(crate) fn until_lost(pair: &mut dyn QueuePair) -> LinkError {
    let begin = Instant::now();
    loop {
        if let Err(lost) = pair.poll(&mut Vec::new(), 1) {
            return lost;
        }
        assert!(begin.elapsed() < PATIENCE, "nobody notices");
        std::thread::sleep(Duration::from_millis(1));
    }
}
