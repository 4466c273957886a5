//! The part of an agent that starts perftest's programs, with hosts that send impossible requests.

use std::net::Ipv4Addr;

use overside_base::MemoryBudget;
use overside_link::agent::{CancellationToken, Host, Probe};
use overside_link::codec::Message;
use overside_probe::dma::Operation;
use overside_probe::perftest::{
    Metric, Perftest, PerftestProbe, PerftestReply, PerftestRequest, Transport, devices,
};
use overside_probe::{Failure, FailureKind};

fn test() -> Perftest {
    Perftest {
        operation: Operation::Send,
        metric: Metric::Latency,
        transport: Transport::Rc,
        device: None,
        message_size: 64,
        iterations: 100,
        depth: None,
        queue_pairs: None,
        event: false,
        inline: false,
    }
}

fn asked(request: &[u8]) -> PerftestReply {
    let host = Host {
        here: (Ipv4Addr::LOCALHOST, 7433).into(),
        there: (Ipv4Addr::LOCALHOST, 40_000).into(),
        cancelled: CancellationToken::default(),
        memory: MemoryBudget::new(1 << 20),
    };
    let mut part = PerftestProbe.begin(host).expect("a part");
    PerftestReply::decode(&part.answer(request)).expect("a reply")
}

fn refused(request: &PerftestRequest) -> Failure {
    match asked(&request.encode()) {
        PerftestReply::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tests_that_cannot_be_are_refused_with_the_bound() {
    let with = |change: fn(&mut Perftest)| {
        let mut test = test();
        change(&mut test);
        test
    };
    for (test, words) in [
        (with(|test| test.message_size = 0), "message_size is 0"),
        (with(|test| test.message_size = u64::MAX), "message_size is"),
        (with(|test| test.iterations = 1), "iterations is 1"),
        (with(|test| test.depth = Some(1 << 20)), "depth is"),
        (with(|test| test.queue_pairs = Some(0)), "queue_pairs is 0"),
        (with(|test| test.device = Some("-h".into())), "name is none"),
        (with(|test| test.device = Some("a b".into())), "name is none"),
        (with(|test| test.device = Some("..".into())), "name is none"),
        (with(|test| test.device = Some("no_such_9".into())), "no RDMA device no_such_9"),
        (
            with(|test| (test.operation, test.transport) = (Operation::Read, Transport::Uc)),
            "UC connections have no read",
        ),
        (with(|test| (test.operation, test.inline) = (Operation::Read, true)), "no payload"),
        (
            with(|test| (test.inline, test.message_size) = (true, 913)),
            "message_size is 913; it can be 1 to 912",
        ),
        (with(|test| (test.operation, test.event) = (Operation::Write, true)), "only polls"),
    ] {
        let serve = PerftestRequest::Serve { test: test.clone(), timeout_ms: 1000 };
        let run = PerftestRequest::Run {
            test,
            server: Ipv4Addr::LOCALHOST.into(),
            port: 1024,
            timeout_ms: 1000,
        };
        for request in [serve, run] {
            let failure = refused(&request);
            assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
            assert!(failure.message.contains(words), "{words}: {failure}");
        }
    }
}

#[test]
fn what_is_no_question_is_refused() {
    for bytes in [&b"{}"[..], b"[", br#"{"serve":{"test":{"program":"rm"},"timeout_ms":1}}"#] {
        assert!(matches!(asked(bytes), PerftestReply::Failed(_)));
    }
}

#[test]
fn without_a_device_there_is_no_program() {
    if devices().is_empty() {
        let failure = refused(&PerftestRequest::Serve { test: test(), timeout_ms: 1000 });
        assert!(failure.message.contains("no RDMA device"), "{failure}");
    }
}
