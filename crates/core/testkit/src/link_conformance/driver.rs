//! Driving queue pairs in tests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_base::Random;
use overside_device::{ExternalBytes, Region, Slice};

use super::{Ends, Factory};
use overside_link::verbs::{
    Completion, Endpoint, LinkConfig, Messages, QueuePair, RecvBatch, RemoteMemory, RemoteSlice,
    Side, Token, Verb, Work,
};

/// Longest time that a test waits for an action that is immediate on an idle machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A link for one test.
pub(super) struct Link {
    pub(super) host: Box<dyn Endpoint>,
    pub(super) dpu: Box<dyn Endpoint>,
}

/// Returns the configuration that both ends are set up with.
pub(super) fn config() -> LinkConfig {
    LinkConfig { depth: 16, max_message_bytes: 4096, ..LinkConfig::new(Side::Host) }
}

impl Link {
    pub(super) fn new(make: Factory<'_>) -> Self {
        Self::with(make, &config())
    }

    pub(super) fn with(make: Factory<'_>, config: &LinkConfig) -> Self {
        let theirs = LinkConfig { side: Side::Dpu, ..config.clone() };
        let (host, dpu): Ends = make(config, &theirs);
        Self { host, dpu }
    }

    /// Queue pair 0 of both ends.
    pub(super) fn pairs(&self) -> (Pair, Pair) {
        (Pair::open(&*self.host, 0), Pair::open(&*self.dpu, 0))
    }
}

/// Imports the peer's region of a token.
pub(super) fn import(endpoint: &dyn Endpoint, token: &Token) -> RemoteMemory {
    let carried = Token::from_bytes(token.as_bytes()).expect("a token");
    endpoint.import(&carried).expect("the peer's region")
}

pub(super) fn range(remote: &RemoteMemory, at: usize, len: usize) -> RemoteSlice {
    let (at, len) = (at as u64, len as u64);
    remote.slice(at..at + len).expect("within the region")
}

/// Random bytes.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

/// Local memory with these bytes, as the endpoint likes it.
pub(super) fn source(endpoint: &dyn Endpoint, bytes: &[u8]) -> Slice {
    let mut region = endpoint.alloc(bytes.len(), 64).expect("memory");
    region.copy_from_slice(bytes);
    region.share()
}

/// Memory of the caller's with these bytes.
pub(super) fn foreign(endpoint: &dyn Endpoint, bytes: &[u8]) -> Slice {
    let registered = endpoint.register(ExternalBytes::new(bytes.to_vec()));
    registered.unwrap_or_else(|_| source(endpoint, bytes))
}

pub(super) fn room(endpoint: &dyn Endpoint, len: usize) -> Region {
    endpoint.alloc(len, 64).expect("memory")
}

/// A queue pair with a limit on how long anything may take.
pub(super) struct Pair(pub(super) Box<dyn QueuePair>);

impl Pair {
    pub(super) fn open(endpoint: &dyn Endpoint, index: usize) -> Self {
        Self(endpoint.open(index).expect("a queue pair"))
    }

    /// Posts one piece, which must be taken.
    pub(super) fn post(&mut self, tag: u64, verb: Verb) {
        self.post_work(Work::new(tag, verb));
    }

    pub(super) fn post_work(&mut self, work: Work) {
        let mut queue = VecDeque::from([work]);
        let deadline = Instant::now() + PATIENCE;
        while !queue.is_empty() {
            assert!(Instant::now() < deadline, "nothing is taken");
            self.0.post(&mut queue).expect("work that is taken");
        }
    }

    /// Waits for `count` completions.
    pub(super) fn complete(&mut self, count: usize) -> Vec<Completion> {
        let (mut all, deadline) = (Vec::new(), Instant::now() + PATIENCE);
        while all.len() < count {
            let left = count - all.len();
            assert!(Instant::now() < deadline, "{left} completions are missing");
            if self.0.poll(&mut all, left).expect("a live link") == 0 {
                std::thread::yield_now();
            }
        }
        all
    }

    /// Posts one piece and waits for it.
    pub(super) fn run(&mut self, verb: Verb) -> Completion {
        self.post(7, verb);
        let completion = self.complete(1).remove(0);
        assert_eq!(completion.tag, 7);
        completion
    }

    /// Writes, and waits until it has arrived.
    pub(super) fn write(&mut self, from: Slice, to: RemoteSlice) {
        let len = from.len() as u64;
        let written = self.run(Verb::Write { from, to });
        assert_eq!(written.result, Ok(len));
    }

    /// Sends one message, waiting for room.
    pub(super) fn send(&mut self, message: &[u8]) {
        let deadline = Instant::now() + PATIENCE;
        let messages = Messages::one(message).expect("not empty");
        while self.0.send(messages).expect("a message that is taken") == 0 {
            assert!(Instant::now() < deadline, "a message is not taken");
            std::thread::yield_now();
        }
    }

    /// Receives `count` messages.
    pub(super) fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let (mut batch, deadline) = (RecvBatch::new(), Instant::now() + PATIENCE);
        while batch.len() < count {
            let left = count - batch.len();
            assert!(Instant::now() < deadline, "{left} messages are missing");
            if self.0.receive(&mut batch, left).expect("a live link") == 0 {
                std::thread::yield_now();
            }
        }
        batch.iter().map(<[u8]>::to_vec).collect()
    }
}
