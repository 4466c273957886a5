//! Tests of DMA with the DPU's side at an agent on this machine. Some of these agents misbehave on purpose.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use overside_agent::{Agent, Settings, keys};
use overside_backends::Options;
use overside_backends::agents::{Entry, RemoteProbe};
use overside_device::Provenance;
use overside_link::Secret;
use overside_link::agent::{Host, Probe, ProbePeer};
use overside_link::codec::Message;
use overside_link::verbs::Side;
use overside_probe::counters::Events;
use overside_probe::dma::remote::{DmaProbe, DmaReply, KIND};
use overside_probe::dma::{Answer, Link, Reach, RunReport};

use super::agent::with;
use crate::audit::{LinkFault, with_fault};
use crate::sample::Sample;
use crate::tasks::{DmaCompletion, DmaMeasure, DmaOperation, DmaTest};
use overside_probe::{Failure, FailureKind};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const OPERATIONS: [DmaOperation; 3] = [DmaOperation::Read, DmaOperation::Write, DmaOperation::Send];

/// Keys of an authority that all tests share.
fn authority() -> PathBuf {
    static KEYS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
        let directory = tempfile::tempdir().expect("a directory");
        keys::make(directory.path()).expect("keys");
        directory
    });
    KEYS.path().to_owned()
}

/// An agent that plays that, with keys or without.
fn agent(part: Arc<dyn Probe>, secure: bool) -> Agent {
    let keys = secure.then(|| keys::agent(&authority()).expect("the agent's keys"));
    let settings = Settings { probes: vec![part], ..Settings::new(LOOPBACK, keys) };
    let open = |name: &str| overside_backends::open(name, &Options::default());
    Agent::start(settings, &["cpu".into()], open).expect("an agent")
}

fn reach(agent: &Agent, secure: bool) -> RemoteProbe {
    let entry = Entry { address: agent.address().to_string(), keys: secure.then(authority) };
    RemoteProbe::open("dpu0", &entry, KIND, Default::default()).expect("it plays its part")
}

fn test(link: Link, operation: DmaOperation, initiator: Side) -> DmaTest {
    DmaTest {
        begin: None,
        timing: None,
        device: format!("dpu0/{}", link.name()),
        initiator,
        timeout_s: 60.0,
        ..super::tests::test(operation)
    }
}

fn link(test: &DmaTest) -> Link {
    let name = test.device.rsplit('/').next().unwrap_or_default();
    Link::named(name).expect("a link's name")
}

fn taken(test: &DmaTest, probe: RemoteProbe, fault: LinkFault) -> Result<Sample, Failure> {
    let deadline = Instant::now() + Duration::from_secs_f64(test.timeout_s);
    let through = |end| with_fault(end, fault, 0);
    with(test, probe, link(test), (deadline, &through))
}

fn failed(taken: Result<Sample, Failure>) -> Failure {
    match taken {
        Err(failure) if failure.kind != FailureKind::Unsupported => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_primitive_is_measured_with_an_agent_and_verified_there() {
    let agent = agent(Arc::new(DmaProbe), false);
    for link in Link::ALL {
        for operation in OPERATIONS {
            for initiator in [Side::Host, Side::Dpu] {
                for completion in [DmaCompletion::Poll, DmaCompletion::Event] {
                    let test = DmaTest { completion, ..test(link, operation, initiator) };
                    match taken(&test, reach(&agent, false), LinkFault::None) {
                        Ok(sample) => is_whole(&test, &sample),
                        Err(reason)
                            if reason.kind == FailureKind::Unsupported && link == Link::Ucx =>
                        {
                            assert!(
                                reason.message.contains("UCX")
                                    || reason.message.contains("completions"),
                                "{reason}"
                            );
                        }
                        Err(other) => panic!("{test:?}: {other:?}"),
                    }
                }
            }
        }
    }
}

fn is_whole(test: &DmaTest, sample: &Sample) {
    assert_eq!(sample.provenance, Some(Provenance::Measured));
    let applied = sample.applied.as_ref().unwrap();
    assert_eq!(applied.device, test.device);
    assert!(applied.driver.ends_with("with the agent at 127.0.0.1"), "{}", applied.driver);
    let work = sample.work.unwrap();
    let timed = overside_probe::latency::merge_histograms(&[sample.histogram.as_ref().unwrap()]);
    assert_eq!(timed.unwrap().count, work.jobs);
    assert_eq!(work.bytes, 100 * work.jobs);
    assert!(sample.check.as_ref().unwrap().buffers >= 5, "{test:?}");
    let cpu = sample.cpu.unwrap();
    let own = match test.initiator {
        Side::Host => cpu.host_s,
        Side::Dpu => cpu.dpu_s,
    };
    assert!(own > 0.0, "{test:?}: {cpu:?}");
    assert!(sample.warnings.iter().any(|one| one.kind == "one-machine"));
}

#[test]
fn threads_depth_and_throughput_over_an_encrypted_connection() {
    let agent = agent(Arc::new(DmaProbe), true);
    for initiator in [Side::Host, Side::Dpu] {
        let test = DmaTest {
            measure: DmaMeasure::Throughput,
            threads: 3,
            depth: 9,
            batch: 4,
            buffer_size: 70_000,
            ..test(Link::Shm, DmaOperation::Write, initiator)
        };
        let sample = taken(&test, reach(&agent, true), LinkFault::None).unwrap();
        assert!(sample.metrics["throughput"] > 0.0);
        assert!(!sample.metrics.contains_key("latency_p50"));
        assert_eq!(sample.work.unwrap().bytes, 70_000 * sample.work.unwrap().jobs);
    }
}

#[test]
fn a_thousand_writes_of_8_mib_share_buffers_and_tell_what_posting_costs() {
    let agent = agent(Arc::new(DmaProbe), false);
    let test = DmaTest {
        measure: DmaMeasure::Throughput,
        completion: DmaCompletion::None,
        depth: 1024,
        batch: 1,
        buffer_size: 8 << 20,
        timeout_s: 120.0,
        ..test(Link::Shm, DmaOperation::Write, Side::Host)
    };
    let sample = taken(&test, reach(&agent, false), LinkFault::None).unwrap();
    assert!(sample.work.unwrap().jobs >= 1024);
    assert!(sample.metrics["post_time"] > 0.0);
    // Far less than the operations themselves take: they were not waited for.
    let each_ns = sample.elapsed_ns.unwrap() as f64 / sample.work.unwrap().jobs as f64;
    assert!(sample.metrics["post_time"] < each_ns);
}

#[test]
fn wrong_bytes_are_found_at_the_agent() {
    let agent = agent(Arc::new(DmaProbe), false);
    for (fault, operation, whose) in [
        (LinkFault::First, DmaOperation::Write, "dpu0: "),
        (LinkFault::Nothing, DmaOperation::Send, "dpu0: "),
        (LinkFault::First, DmaOperation::Send, "dpu0: "),
        (LinkFault::Nothing, DmaOperation::Read, "initiator"),
    ] {
        let test = test(Link::Shm, operation, Side::Host);
        let failure = failed(taken(&test, reach(&agent, false), fault));
        assert_eq!(failure.kind, FailureKind::Verification, "{failure}");
        assert!(failure.message.contains(whose), "{failure}");
    }
    // What goes the other way does not even get to the bytes: the agent exports them for one.
    for operation in [DmaOperation::Read, DmaOperation::Write] {
        let test = test(Link::Shm, operation, Side::Host);
        let failure = failed(taken(&test, reach(&agent, false), LinkFault::Swapped));
        assert!(failure.message.contains("may not be"), "{failure}");
    }
}

#[test]
fn what_the_agent_cannot_is_skipped_with_its_reason() {
    let agent = agent(Arc::new(DmaProbe), false);
    let base = |initiator| test(Link::Shm, DmaOperation::Write, initiator);
    for (test, words) in [
        (DmaTest { cores: Some(vec![1023]), ..base(Side::Dpu) }, "dpu0: core 1023 cannot be used"),
        (
            DmaTest {
                operation: DmaOperation::Send,
                buffer_size: 1 << 20,
                depth: 1024,
                ..base(Side::Dpu)
            },
            "more than an agent holds",
        ),
        (DmaTest { inline: true, buffer_size: 1 << 20, ..base(Side::Dpu) }, "bytes inline"),
    ] {
        match taken(&test, reach(&agent, false), LinkFault::None) {
            Err(reason) if reason.kind == FailureKind::Unsupported => {
                assert!(reason.message.contains(words), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_agent_that_ends_in_the_middle_fails_the_sample() {
    for initiator in [Side::Host, Side::Dpu] {
        for (operation, completion) in
            [(DmaOperation::Write, DmaCompletion::Poll), (DmaOperation::Send, DmaCompletion::Event)]
        {
            let test =
                DmaTest { completion, sample_s: 600.0, ..test(Link::Shm, operation, initiator) };
            // On a busy machine it may be gone before there is a link.
            let mut failures = (0..10).map(|_| {
                let agent = agent(Arc::new(DmaProbe), false);
                let probe = reach(&agent, false);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        std::thread::sleep(Duration::from_millis(200));
                        drop(agent);
                    });
                    failed(taken(&test, probe, LinkFault::None)).kind
                })
            });
            assert!(failures.any(|kind| kind == FailureKind::Lost));
        }
    }
}

#[test]
fn time_that_is_over_is_a_failed_sample_whoever_initiates() {
    let agent = agent(Arc::new(DmaProbe), false);
    for initiator in [Side::Host, Side::Dpu] {
        let test = DmaTest {
            sample_s: 60.0,
            timeout_s: 0.5,
            ..test(Link::Shm, DmaOperation::Read, initiator)
        };
        let failure = failed(taken(&test, reach(&agent, false), LinkFault::None));
        assert_eq!(failure.kind, FailureKind::Timeout, "{failure}");
    }
}

/// An agent that answers something else than its honest part does.
struct Liar(fn(DmaReply) -> Vec<u8>);

impl Probe for Liar {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(Lying(DmaProbe.begin(host)?, self.0)))
    }
}

struct Lying(Box<dyn ProbePeer>, fn(DmaReply) -> Vec<u8>);

impl ProbePeer for Lying {
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let honest = self.0.answer(request);
        (self.1)(DmaReply::decode(&honest).expect("a reply"))
    }
}

/// The answer, with a change to its report of a run.
fn changed(reply: DmaReply, change: impl Fn(&mut RunReport)) -> Vec<u8> {
    let reply = match reply {
        DmaReply::Answered(Answer::Ran(mut ran)) => {
            change(&mut ran);
            DmaReply::Answered(Answer::Ran(ran))
        }
        other => other,
    };
    reply.encode()
}

#[test]
fn an_agent_that_lies_gives_no_figures() {
    type Lie = fn(DmaReply) -> Vec<u8>;
    let lies: [(Lie, &str); 11] = [
        (|_| b"[[[[".to_vec(), "cannot be read"),
        (|_| br#"{"answered":"done"}"#.to_vec(), "where it listens"),
        (
            |reply| match reply {
                DmaReply::Listening(_) => {
                    let secret = Secret::random().unwrap();
                    DmaReply::Listening(Reach::Port { port: 1, secret }).encode()
                }
                other => other.encode(),
            },
            "no place for shm",
        ),
        (|reply| changed(reply, |ran| ran.elapsed_ns = u64::MAX), "was waited for"),
        (|reply| changed(reply, |ran| ran.elapsed_ns = 0), "was waited for"),
        (|reply| changed(reply, |ran| ran.counts = vec![u64::MAX; 1]), "its latencies"),
        (|reply| changed(reply, |ran| ran.counts = vec![1; 2]), "not each thread"),
        (|reply| changed(reply, |ran| ran.latencies = None), "its latencies"),
        (|reply| changed(reply, |ran| ran.posting_ns = Some(1)), "of posting"),
        (|reply| changed(reply, |ran| ran.events = Some(Events::default())), "of its processor"),
        (
            |reply| match reply {
                DmaReply::Answered(_) => {
                    br#"{"failed":{"kind":"job","message":"\u001b[2Jgone"}}"#.to_vec()
                }
                other => other.encode(),
            },
            "dpu0:  [2Jgone",
        ),
    ];
    for (lie, words) in lies {
        let agent = agent(Arc::new(Liar(lie)), false);
        let test = test(Link::Shm, DmaOperation::Write, Side::Dpu);
        let failure = failed(taken(&test, reach(&agent, false), LinkFault::None));
        assert!(failure.message.contains(words), "{words}: {failure}");
    }
}
