//! Links that misbehave are noticed.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_link::shm::{self, EngineOptions, ShmOptions};
use overside_link::verbs::{LinkConfig, Side};

use super::path::Ends;
use super::run::between_ends;
use crate::audit::{LinkFault, dma_test, with_fault};
use crate::tasks::{DmaBuffers, DmaCompletion, DmaOperation, DmaTest};
use overside_probe::{Failure, FailureKind};

pub(super) fn test(operation: DmaOperation) -> DmaTest {
    DmaTest {
        begin: None,
        timing: None,
        completion: DmaCompletion::Poll,
        buffer_size: 100,
        batch: 2,
        sample_s: 0.002,
        ..dma_test(operation)
    }
}

fn link(test: &DmaTest) -> [shm::ShmEndpoint; 2] {
    link_over(test, shm::sockets().unwrap())
}

fn link_over(test: &DmaTest, sockets: [OwnedFd; 2]) -> [shm::ShmEndpoint; 2] {
    let configs = [Side::Host, Side::Dpu].map(|side| LinkConfig {
        depth: test.depth,
        event: test.completion == DmaCompletion::Event,
        ..LinkConfig::new(side)
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    let [ours, theirs] = sockets;
    let none = ShmOptions::default();
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| shm::join(theirs, &configs[1], &none, deadline));
        let engine = ShmOptions { engine: Some(EngineOptions::default()) };
        let host = shm::serve(ours, &configs[0], &engine, deadline).unwrap();
        [host, peer.join().unwrap().unwrap()]
    })
}

fn failure(fault: LinkFault, operation: DmaOperation) -> Option<Failure> {
    failure_of(fault, &test(operation))
}

fn failure_of(fault: LinkFault, test: &DmaTest) -> Option<Failure> {
    let [host, dpu] = link(test);
    let ends = Ends {
        initiator: with_fault(Arc::new(host), fault, 0),
        peer: with_fault(Arc::new(dpu), LinkFault::None, 0),
        emulated: None,
    };
    match between_ends(test, ends, Instant::now() + Duration::from_secs(60)) {
        Ok(_) => None,
        Err(failure) if failure.kind != FailureKind::Unsupported => Some(failure),
        Err(failure) => panic!("skipped: {failure}"),
    }
}

#[test]
fn a_payload_that_went_the_other_way_fails_the_sample() {
    for operation in [DmaOperation::Read, DmaOperation::Write] {
        assert_eq!(failure(LinkFault::None, operation), None);
        let failure = failure(LinkFault::Swapped, operation).expect("a failed sample");
        assert_eq!(failure.kind, FailureKind::Verification, "{failure}");
    }
}

#[test]
fn a_payload_that_did_not_arrive_or_not_whole_fails_the_sample() {
    for fault in [LinkFault::Nothing, LinkFault::First] {
        for (operation, where_to) in [
            (DmaOperation::Write, "peer"),
            (DmaOperation::Read, "initiator"),
            (DmaOperation::Send, "peer"),
        ] {
            let failure = failure(fault, operation).expect("a failed sample");
            assert_eq!(failure.kind, FailureKind::Verification, "{failure}");
            assert!(failure.message.contains(where_to), "{failure}");
        }
    }
}

#[test]
fn reads_that_share_places_and_go_wrong_fail_the_sample() {
    // There is memory for four places.
    let test = DmaTest {
        buffer_size: 64 << 20,
        depth: 6,
        buffers: DmaBuffers::Same,
        ..test(DmaOperation::Read)
    };
    assert_eq!(failure_of(LinkFault::None, &test), None);
    for fault in [LinkFault::Swapped, LinkFault::Nothing] {
        let failure = failure_of(fault, &test).expect("a failed sample");
        assert_eq!(failure.kind, FailureKind::Verification, "{failure}");
    }
}

#[test]
fn a_connection_that_is_cut_fails_the_sample() {
    for completion in [DmaCompletion::Poll, DmaCompletion::Event] {
        for operation in [DmaOperation::Read, DmaOperation::Send] {
            let test = DmaTest { completion, sample_s: 600.0, ..test(operation) };
            let sockets = shm::sockets().unwrap();
            let cable = UnixStream::from(sockets[0].try_clone().unwrap());
            let [host, dpu] = link_over(&test, sockets);
            let ends = Ends { initiator: Arc::new(host), peer: Arc::new(dpu), emulated: None };
            let taken = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(100));
                    cable.shutdown(std::net::Shutdown::Both).unwrap();
                });
                between_ends(&test, ends, Instant::now() + Duration::from_secs(60))
            });
            let lost = |failure: &Failure| failure.kind == FailureKind::Lost;
            assert!(
                matches!(&taken, Err(failure) if lost(failure)),
                "{operation:?} {completion:?}: {taken:?}"
            );
        }
    }
}
