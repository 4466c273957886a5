//! A link that holds writes back, divides them, has their parts arrive in an order that a seed
//! decides, and is lost at a time that the seed decides.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use overside_base::{Random, lock};
use overside_device::{Applied, CpuTime, ExternalBytes, MemoryError, Region, Slice};
use overside_kv::server::Memory;
use overside_kv::{Answer, ProcessingEngine, Refusal, Request};
use overside_kv_offload::{Channel, ChannelOptions, Optimizations, RemoteEngine, Responder};
use overside_link::shm::{self, ShmOptions};
use overside_link::verbs::{
    Access, Capabilities, Closed, Completion, ConnectError, Endpoint, EndpointId, ExportError,
    Exported, ImportError, LinkConfig, LinkError, LinkErrorKind, LinkInfo, Messages, PostError,
    QueuePair, RecvBatch, RemoteMemory, RemoteSlice, Side, Token, Verb, Work,
};

use crate::oracle::Oracle;
use crate::requests::Requests;

const NOW_MS: u64 = 1_000_000;
const OPTIONS: ChannelOptions = ChannelOptions { slot_bytes: 256 << 10, slots: 4 };
/// Far more steps than are needed.
const STEPS_MAX: u64 = 2_000_000;

/// Writes of one direction that are under way.
struct Wire {
    queue_pair: Box<dyn QueuePair>,
    /// Parts that have not arrived, with the numbers of their writes.
    parts: Vec<(u64, Verb)>,
    /// Writes by number: tag, source, and number of parts that have not arrived.
    writes: BTreeMap<u64, (u64, Slice, usize)>,
    finished: Vec<Completion>,
    next: u64,
    /// Writes whose last word arrived before another part.
    overtaken: usize,
    random: Random,
    /// `true` once the link is lost: parts of writes that have not arrived never do.
    is_lost: bool,
}

impl Wire {
    /// Divides a write where a network may: at any word.
    fn hold(&mut self, tag: u64, from: Slice, to: &RemoteSlice) {
        let len = from.len();
        let mut cuts: Vec<usize> = (0..self.random.below(4))
            .map(|_| self.random.below(len as u64 / 8 + 1) as usize * 8)
            .chain([0, len - 8, len])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        // The last word is written at once.
        cuts.retain(|cut| *cut <= len - 8 || *cut == len);
        let number = self.next;
        self.next += 1;
        for cut in cuts.windows(2) {
            let begin = to.start();
            let place = begin + cut[0] as u64..begin + cut[1] as u64;
            let part = Verb::Write {
                from: from.slice(cut[0]..cut[1]),
                to: to.remote().slice(place).unwrap(),
            };
            self.parts.push((number, part));
        }
        self.writes.insert(number, (tag, from, cuts.len() - 1));
    }

    /// Loses the link with all work in flight.
    fn lose(&mut self) {
        self.is_lost = true;
        self.parts.clear();
    }

    fn check(&self) -> Result<(), LinkError> {
        match self.is_lost {
            false => Ok(()),
            true => Err(LinkError {
                link: "held".into(),
                cause: LinkErrorKind::Gone("the test lost it".into()),
                tags: Vec::new(),
            }),
        }
    }

    /// Makes one of the parts arrive, if there is one.
    fn step(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        let chosen = self.random.below(self.parts.len() as u64) as usize;
        let (number, verb) = self.parts.swap_remove(chosen);
        let slot_bytes = OPTIONS.slot_bytes as u64;
        let is_last_word = match &verb {
            Verb::Write { to, .. } => (to.start() + to.len()).is_multiple_of(slot_bytes),
            _ => false,
        };
        let mut work = VecDeque::from([Work::new(number, verb)]);
        while self.queue_pair.post(&mut work).unwrap() == 0 {}
        let mut arrived = Vec::new();
        while self.queue_pair.in_flight() > 0 {
            self.queue_pair.poll(&mut arrived, 1).unwrap();
        }
        arrived.into_iter().for_each(|part| _ = part.result.unwrap());
        let write = self.writes.get_mut(&number).unwrap();
        write.2 -= 1;
        self.overtaken += usize::from(is_last_word && write.2 > 0);
        if write.2 == 0 {
            let (tag, source, _) = self.writes.remove(&number).unwrap();
            self.finished.push(Completion {
                tag,
                result: Ok(source.len() as u64),
                source: Some(source),
                destination: None,
                late: false,
            });
        }
    }
}

/// A queue pair whose writes the test lets arrive.
struct Held(Arc<Mutex<Wire>>, Applied);

impl QueuePair for Held {
    fn post(&mut self, work: &mut VecDeque<Work>) -> Result<usize, PostError> {
        let mut wire = lock(&self.0);
        wire.check()?;
        let count = work.len();
        for work in work.drain(..) {
            match work.verb {
                Verb::Write { from, to } => wire.hold(work.tag, from, &to),
                verb => panic!("{verb:?} is none of a short message"),
            }
        }
        Ok(count)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, _: usize) -> Result<usize, LinkError> {
        let mut wire = lock(&self.0);
        wire.check()?;
        let mut finished = std::mem::take(&mut wire.finished);
        let count = finished.len();
        out.append(&mut finished);
        Ok(count)
    }

    fn send(&mut self, messages: Messages<'_>) -> Result<usize, PostError> {
        let mut wire = lock(&self.0);
        wire.check()?;
        wire.queue_pair.send(messages)
    }

    fn receive(&mut self, batch: &mut RecvBatch, max: usize) -> Result<usize, LinkError> {
        let mut wire = lock(&self.0);
        wire.check()?;
        wire.queue_pair.receive(batch, max)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn arm(&mut self) -> Result<bool, LinkError> {
        Ok(true)
    }

    fn in_flight(&self) -> usize {
        lock(&self.0).writes.len()
    }

    fn quarantined(&self) -> usize {
        0
    }

    fn applied(&self) -> &Applied {
        &self.1
    }

    fn close(self: Box<Self>, _: Instant) -> Closed {
        Closed { completions: Vec::new(), abandoned: Vec::new(), cpu_time: CpuTime::default() }
    }
}

/// An end of a link whose queue pairs are [`Held`].
struct Reordering {
    end: Arc<dyn Endpoint>,
    random: Mutex<Random>,
    wire: Arc<Mutex<Option<Arc<Mutex<Wire>>>>>,
}

impl Endpoint for Reordering {
    fn id(&self) -> EndpointId {
        self.end.id()
    }

    fn info(&self) -> &LinkInfo {
        self.end.info()
    }

    fn capabilities(&self) -> &Capabilities {
        self.end.capabilities()
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        self.end.alloc(len, align)
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        self.end.register(foreign)
    }

    fn export(&self, len: usize, access: Access) -> Result<Exported, ExportError> {
        self.end.export(len, access)
    }

    fn import(&self, token: &Token) -> Result<RemoteMemory, ImportError> {
        self.end.import(token)
    }

    fn open(&self, index: usize) -> Result<Box<dyn QueuePair>, ConnectError> {
        let queue_pair = self.end.open(index)?;
        let applied = queue_pair.applied().clone();
        let wire = Arc::new(Mutex::new(Wire {
            queue_pair,
            parts: Vec::new(),
            writes: BTreeMap::new(),
            finished: Vec::new(),
            next: 0,
            overtaken: 0,
            random: Random::new(lock(&self.random).below(u64::MAX)),
            is_lost: false,
        }));
        *lock(&self.wire) = Some(Arc::clone(&wire));
        Ok(Box::new(Held(wire, applied)))
    }

    fn cpu_time(&self) -> CpuTime {
        self.end.cpu_time()
    }
}

/// Both ends of a channel, and the parts under way in each direction.
fn channel(seed: u64) -> [(Channel, Arc<Mutex<Wire>>); 2] {
    let deadline = Instant::now() + Duration::from_secs(20);
    let configs = [Side::Dpu, Side::Host].map(LinkConfig::new);
    let options = ShmOptions::default();
    let ends = shm::pair([&configs[0], &configs[1]], [&options; 2], deadline).unwrap();
    let mut random = Random::new(seed);
    let ends = ends.map(|end| {
        let random = Mutex::new(Random::new(random.below(u64::MAX)));
        let wire = Arc::default();
        let (end, shown) = (Arc::new(end) as Arc<dyn Endpoint>, Arc::clone(&wire));
        let open = move || {
            let end = Arc::new(Reordering { end, random, wire });
            Channel::open(end, 0, OPTIONS, deadline).unwrap()
        };
        // Each waits for the other.
        (thread::spawn(open), shown)
    });
    ends.map(|(thread, wire)| {
        let channel = thread.join().unwrap();
        let wire = lock(&wire).take().unwrap();
        (channel, wire)
    })
}

/// Executes random batches over a channel whose writes arrive in parts and in random order, and
/// checks the answers. Returns the number of messages whose last word arrived before the rest of
/// them.
fn simulate(seed: u64) -> usize {
    let [(asking, there), (answering, back)] = channel(seed);
    let hasher = Requests::new(0).hasher;
    let mut remote = RemoteEngine::with(asking, Optimizations::default());
    let mut responder = Responder::new(answering, hasher);
    let (mut store, mut model) = (Memory::new(Oracle::default(), NOW_MS), Oracle::default());
    let mut requests = Requests::new(seed);
    let mut random = Random::new(seed);
    let mut steps = 0;
    for _ in 0..60 {
        let count = 1 + requests.random.below(90);
        let batch: Vec<Request<'_>> = (0..count)
            .map(|_| requests.next(NOW_MS))
            // Longer ones are fetched, by a read that waits.
            .filter(|request| format!("{request:?}").len() < 2000)
            .collect();
        let mut expected = Vec::new();
        model.execute(&batch, NOW_MS, &mut |_, answer| expected.push(format!("{answer:?}")));
        let mut received = Vec::new();
        remote.begin(&batch, NOW_MS);
        loop {
            steps += 1;
            assert!(steps < STEPS_MAX, "seed {seed}: it waits for ever");
            match random.below(4) {
                0 => lock(&there).step(),
                1 => lock(&back).step(),
                2 => _ = responder.poll(&mut store, NOW_MS).unwrap(),
                _ => {
                    let mut take =
                        |_: usize, answer: Answer<'_>| received.push(format!("{answer:?}"));
                    if remote.poll(&batch, &mut take) {
                        break;
                    }
                }
            }
        }
        assert_eq!(received, expected, "seed {seed}");
    }
    assert!(remote.failure().is_none());
    lock(&there).overtaken + lock(&back).overtaken
}

#[test]
fn messages_whose_parts_arrive_late_and_in_any_order_are_taken_whole_and_in_order() {
    let overtaken: usize = (0..12).map(simulate).sum();
    assert!(overtaken > 100, "the last word came last nearly always: {overtaken}");
}

/// Requests that were executed and never answered, over all links that were lost.
fn simulate_losses(seed: u64) -> usize {
    let hasher = Requests::new(0).hasher;
    let (mut store, mut model) = (Memory::new(Oracle::default(), NOW_MS), Oracle::default());
    let mut requests = Requests::new(seed);
    let mut random = Random::new(seed);
    let mut unanswered = 0;
    for link in 0..12 {
        let [(asking, there), (answering, back)] = channel(seed + link);
        let mut remote = RemoteEngine::with(asking, Optimizations::default());
        let mut responder = Responder::new(answering, hasher.clone());
        let mut until_lost = 1 + random.below(4000);
        let mut steps = 0;
        while remote.failure().is_none() {
            let batch: Vec<Request<'_>> = (0..1 + requests.random.below(90))
                .map(|_| requests.next(NOW_MS))
                .filter(|request| format!("{request:?}").len() < 2000)
                .collect();
            let before = responder.requests();
            let (mut received, mut refused) = (Vec::new(), 0);
            remote.begin(&batch, NOW_MS);
            loop {
                steps += 1;
                assert!(steps < STEPS_MAX, "seed {seed}: it waits for ever");
                until_lost = until_lost.saturating_sub(1);
                if until_lost == 0 {
                    lock(&there).lose();
                    lock(&back).lose();
                }
                match random.below(4) {
                    0 => lock(&there).step(),
                    1 => lock(&back).step(),
                    // The side with the keys finds out by itself, and goes on with the next link.
                    2 => _ = responder.poll(&mut store, NOW_MS),
                    _ => {
                        let mut take = |_: usize, answer: Answer<'_>| match answer {
                            Answer::Refused(Refusal::Unreachable) => refused += 1,
                            answer => {
                                assert_eq!(refused, 0, "seed {seed}: an answer after none");
                                received.push(format!("{answer:?}"));
                            }
                        };
                        if remote.poll(&batch, &mut take) {
                            break;
                        }
                    }
                }
            }
            // Messages that had arrived may be executed after the requesting side has given up.
            while responder.poll(&mut store, NOW_MS).unwrap_or(false) {}
            let executed = (responder.requests() - before) as usize;
            let mut expected = Vec::new();
            model.execute(&batch[..executed], NOW_MS, &mut |_, answer| {
                expected.push(format!("{answer:?}"));
            });
            // Each at most once and in order; and what was answered was executed.
            assert_eq!(received.len() + refused, batch.len(), "seed {seed}");
            assert!(received.len() <= executed, "seed {seed}: {received:?}");
            assert_eq!(received, expected[..received.len()], "seed {seed}");
            unanswered += executed - received.len();
        }
    }
    unanswered
}

#[test]
fn over_links_that_are_lost_nothing_answered_is_lost_and_nothing_is_executed_twice() {
    let unanswered: usize = (0..8).map(simulate_losses).sum();
    assert!(unanswered > 20, "nothing was lost on its way: {unanswered}");
}
