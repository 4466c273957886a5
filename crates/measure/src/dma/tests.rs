//! Links that do something else than they say are found out.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Applied, CpuTime, Foreign, MemoryError, Region, Slice};
use overside_link::shm::{self, EngineOptions, ShmOptions};
use overside_link::verbs::{
    Access, Capabilities, Closed, Completion, ConnectError, Endpoint, EndpointId, ExportError,
    Exported, ImportError, Inbox, LinkConfig, LinkInfo, Lost, Messages, PostError, QueuePair,
    Remote, Side, Token, Verb, Work,
};

use super::path::Ends;
use super::taking::over_link;
use crate::kinds::{DmaMeasure, DmaOperation, DmaTest};
use crate::measuring::NoSample;
use crate::sample::{Failure, Kind};
use crate::test::Reaping;

/// What a link does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// A read writes and a write reads.
    Swapped,
    /// Says that it is done and moves nothing.
    Nothing,
    /// Moves the first byte only.
    First,
}

/// An end of a real link whose queue pairs have a fault.
struct Faulty {
    end: shm::ShmEndpoint,
    fault: Fault,
}

impl Endpoint for Faulty {
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
    fn register(&self, foreign: Foreign) -> Result<Slice, MemoryError> {
        self.end.register(foreign)
    }
    fn export(&self, len: usize, _: Access) -> Result<Exported, ExportError> {
        self.end.export(len, Access::ReadWrite)
    }
    fn import(&self, token: &Token) -> Result<Remote, ImportError> {
        self.end.import(token)
    }
    fn open(&self, index: usize) -> Result<Box<dyn QueuePair>, ConnectError> {
        Ok(Box::new(FaultyPair {
            pair: self.end.open(index)?,
            fault: self.fault,
            held: Vec::new(),
        }))
    }
    fn cpu_time(&self) -> CpuTime {
        self.end.cpu_time()
    }
}

struct FaultyPair {
    pair: Box<dyn QueuePair>,
    fault: Fault,
    /// By tag, what the real link did not get.
    held: Vec<(u64, Option<Slice>, Option<Region>, u64)>,
}

impl FaultyPair {
    fn spoil(&mut self, work: Work) -> Work {
        let Work { tag, verb, .. } = work;
        let len = verb.len();
        let held = &mut self.held;
        let verb = match (self.fault, verb) {
            (Fault::Swapped, Verb::Read { from, into }) => {
                let copy = into.to_vec();
                held.push((tag, None, Some(into), len));
                let from_here = Slice::from_foreign(Foreign::new(copy), None);
                Verb::Write {
                    from: from_here,
                    to: from,
                }
            }
            (Fault::Swapped, Verb::Write { from, to }) => {
                held.push((tag, Some(from), None, len));
                let into = Region::allocate(len as usize, 64, None).unwrap();
                Verb::Read { from: to, into }
            }
            (fault, Verb::Write { from, to }) => {
                let moved = if fault == Fault::First { 1 } else { 0 };
                held.push((tag, Some(from.clone()), None, len));
                let start = to.start();
                let mut bytes = from.to_vec();
                if moved == 0 {
                    bytes.iter_mut().for_each(|byte| *byte = !*byte);
                } else {
                    bytes[1..].iter_mut().for_each(|byte| *byte = !*byte);
                }
                let all = to.remote().slice(start..start + len).unwrap();
                Verb::Write {
                    from: Slice::from_foreign(Foreign::new(bytes), None),
                    to: all,
                }
            }
            (_, other) => other,
        };
        Work::new(tag, verb)
    }
}

impl QueuePair for FaultyPair {
    fn post(&mut self, work: &mut VecDeque<Work>) -> Result<usize, PostError> {
        if self.fault == Fault::None {
            return self.pair.post(work);
        }
        let mut other: VecDeque<Work> = work.drain(..).map(|one| self.spoil(one)).collect();
        let taken = self.pair.post(&mut other)?;
        assert!(other.is_empty(), "these tests stay below the depth");
        Ok(taken)
    }
    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        let before = out.len();
        let polled = self.pair.poll(out, max)?;
        for done in &mut out[before..] {
            if let Some(at) = self.held.iter().position(|held| held.0 == done.tag) {
                let (_, source, destination, len) = self.held.swap_remove(at);
                (done.source, done.destination, done.result) = (source, destination, Ok(len));
            }
        }
        Ok(polled)
    }
    fn send(&mut self, messages: Messages<'_>) -> Result<usize, PostError> {
        self.pair.send(messages)
    }
    fn receive(&mut self, inbox: &mut Inbox, max: usize) -> Result<usize, Lost> {
        self.pair.receive(inbox, max)
    }
    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pair.event_fd()
    }
    fn arm(&mut self) -> Result<bool, Lost> {
        self.pair.arm()
    }
    fn in_flight(&self) -> usize {
        self.pair.in_flight()
    }
    fn quarantined(&self) -> usize {
        self.pair.quarantined()
    }
    fn applied(&self) -> &Applied {
        self.pair.applied()
    }
    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        self.pair.close(deadline)
    }
}

fn test(operation: DmaOperation) -> DmaTest {
    DmaTest {
        device: "shm".into(),
        variant: "auto".into(),
        initiator: Side::Host,
        operation,
        completion: Reaping::Poll,
        measure: DmaMeasure::Latency,
        buffer_size: 100,
        depth: 4,
        batch: 2,
        threads: 1,
        cores: None,
        engine_core: None,
        buffers: crate::kinds::DmaBuffers::Distinct,
        inline: false,
        warmup_s: 0.0,
        sample_s: 0.002,
        timeout_s: 10.0,
        seed: 1,
    }
}

fn link(test: &DmaTest) -> [shm::ShmEndpoint; 2] {
    link_over(test, shm::sockets().unwrap())
}

fn link_over(test: &DmaTest, sockets: [OwnedFd; 2]) -> [shm::ShmEndpoint; 2] {
    let configs = [Side::Host, Side::Dpu].map(|side| LinkConfig {
        depth: test.depth,
        event: test.completion == Reaping::Event,
        ..LinkConfig::new(side)
    });
    let deadline = Instant::now() + Duration::from_secs(10);
    let [ours, theirs] = sockets;
    let none = ShmOptions::default();
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| shm::join(theirs, &configs[1], &none, deadline));
        let engine = ShmOptions {
            engine: Some(EngineOptions::default()),
        };
        let host = shm::serve(ours, &configs[0], &engine, deadline).unwrap();
        [host, peer.join().unwrap().unwrap()]
    })
}

fn failure(fault: Fault, operation: DmaOperation) -> Option<Failure> {
    let test = test(operation);
    let [host, dpu] = link(&test);
    let [initiator, peer]: [Arc<dyn Endpoint>; 2] = [
        Arc::new(Faulty { end: host, fault }),
        Arc::new(Faulty {
            end: dpu,
            fault: Fault::None,
        }),
    ];
    let ends = Ends {
        initiator,
        peer,
        emulated: None,
    };
    match over_link(&test, &ends, Instant::now() + Duration::from_secs(10)) {
        Ok(_) => None,
        Err(NoSample::Failed(failure)) => Some(failure),
        Err(NoSample::Skipped(reason)) => panic!("skipped: {reason}"),
    }
}

#[test]
fn a_payload_that_went_the_other_way_fails_the_sample() {
    for operation in [DmaOperation::Read, DmaOperation::Write] {
        assert_eq!(failure(Fault::None, operation), None);
        let failure = failure(Fault::Swapped, operation).expect("a failed sample");
        assert_eq!(failure.kind, Kind::Verification, "{failure}");
    }
}

#[test]
fn a_payload_that_did_not_arrive_or_not_whole_fails_the_sample() {
    for fault in [Fault::Nothing, Fault::First] {
        let failure = failure(fault, DmaOperation::Write).expect("a failed sample");
        assert_eq!(failure.kind, Kind::Verification, "{failure}");
        assert!(failure.message.contains("peer"), "{failure}");
    }
}

#[test]
fn a_connection_that_is_cut_fails_the_sample() {
    for completion in [Reaping::Poll, Reaping::Event] {
        for operation in [DmaOperation::Read, DmaOperation::Send] {
            let test = DmaTest {
                completion,
                sample_s: 5.0,
                ..test(operation)
            };
            let sockets = shm::sockets().unwrap();
            let cable = UnixStream::from(sockets[0].try_clone().unwrap());
            let [host, dpu] = link_over(&test, sockets);
            let ends = Ends {
                initiator: Arc::new(host),
                peer: Arc::new(dpu),
                emulated: None,
            };
            let begin = Instant::now();
            let taken = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(100));
                    cable.shutdown(std::net::Shutdown::Both).unwrap();
                });
                over_link(&test, &ends, begin + Duration::from_secs(10))
            });
            assert!(begin.elapsed() < Duration::from_secs(4));
            let lost = |failure: &Failure| failure.kind == Kind::Lost;
            assert!(
                matches!(&taken, Err(NoSample::Failed(failure)) if lost(failure)),
                "{operation:?} {completion:?}: {taken:?}"
            );
        }
    }
}
