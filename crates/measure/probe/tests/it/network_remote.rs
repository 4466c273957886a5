//! Ends of network tests as an agent plays them, without the agent: requests in, answers out.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use crate::plans;
use overside_base::MemoryBudget;
use overside_link::Secret;
use overside_link::agent::{CancellationToken, Host, Probe, ProbePeer};
use overside_link::codec::Message;
use overside_probe::network::remote::{FailedKind, NetworkProbe, NetworkReply, NetworkRequest};
use overside_probe::network::{Client, Error, Limit, Load, Plan, Receiver, Role, Traffic, machine};
use serde_json::{Value, json};

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn end() -> (Box<dyn ProbePeer>, CancellationToken) {
    let gone = CancellationToken::default();
    let host = Host {
        here: loopback(7433),
        there: loopback(40_000),
        cancelled: gone.clone(),
        memory: MemoryBudget::new(4 << 30),
    };
    let far = NetworkProbe { role: Role::Dpu };
    assert_eq!(far.kind(), "network");
    (far.begin(host).unwrap(), gone)
}

fn ask(end: &mut Box<dyn ProbePeer>, request: &NetworkRequest) -> NetworkReply {
    NetworkReply::decode(&end.answer(&request.encode())).unwrap()
}

/// Returns the kind and the message of a failed reply; panics on any other.
fn failed(told: NetworkReply) -> (FailedKind, String) {
    match told {
        NetworkReply::Failed { kind, message } => (kind, message),
        other => panic!("{other:?}"),
    }
}

fn load(traffic: Traffic) -> Load {
    Load { connections: 2, threads: 2, ..plans::load(traffic) }
}

fn plan(destination: SocketAddr, secret: Secret) -> Plan {
    Plan { depth: 4, ..plans::plan_to(destination, secret, load(Traffic::RoundTrips)) }
}

/// The receiving end, in this process, and the plan of the other.
fn receiver(traffic: Traffic) -> (Receiver, Plan) {
    let config = plans::config(load(traffic));
    let secret = config.secret;
    let receiver = Receiver::listen(loopback(0), config).unwrap();
    let plan = Plan { load: load(traffic), ..plan(receiver.address(), secret) };
    (receiver, plan)
}

fn receive(cores: Option<Vec<usize>>) -> NetworkRequest {
    NetworkRequest::Receive { load: load(Traffic::RoundTrips), cores }
}

const SECOND_NS: u64 = 1_000_000_000;

fn messages(count: u64) -> NetworkRequest {
    NetworkRequest::Pass { limit: Limit::Messages(count), within_ns: 60 * SECOND_NS }
}

#[test]
fn an_agent_receives_from_one_client() {
    let (mut end, _) = end();
    let reply = ask(&mut end, &receive(None));
    let NetworkReply::Receiving { port, secret, role, machine: there } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!((role, there), (Role::Dpu, machine()));
    let mut client = Client::open(plan(loopback(port), secret)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let pass = client.pass(Limit::Messages(10), deadline, || ());
    assert_eq!(pass.unwrap().messages, 20);
    drop(end);
    let over = Client::open(plan(loopback(port), secret)).err();
    assert!(matches!(over, Some(Error::Unreachable { .. })), "{over:?}");
}

#[test]
fn a_client_tells_all_that_it_has_measured() {
    let (mut end, _) = end();
    for (traffic, slice) in [
        (Traffic::RoundTrips, Some(Duration::from_millis(5))),
        (Traffic::Stream, Some(Duration::from_millis(5))),
    ] {
        let (_receiver, plan) = receiver(traffic);
        let plan = Plan { slice, ..plan };
        let (mut far, _) = self::end();
        let reply = ask(&mut far, &NetworkRequest::Connect(Box::new(plan.clone())));
        let NetworkReply::Connected { role, machine: there } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!((role, there), (Role::Dpu, machine()));
        let timed = NetworkRequest::Pass {
            limit: Limit::Time(Duration::from_millis(40)),
            within_ns: 60 * SECOND_NS,
        };
        let mut slices_max = 0;
        // A busy machine may keep one that looks from its turn for most of the time.
        for request in [vec![messages(10)], vec![timed; 20]].concat() {
            let NetworkReply::Passed(pass) = ask(&mut far, &request) else {
                panic!("it has not passed");
            };
            pass.check(&plan).unwrap();
            slices_max = slices_max.max(pass.slices.len());
            let latencies = &pass.latencies;
            assert!(pass.messages >= 2 && pass.elapsed > Duration::ZERO);
            assert_eq!(pass.bytes, pass.messages * 64);
            assert_eq!(pass.connection_bytes.len(), 2);
            assert!(pass.client_cpu > Duration::ZERO && pass.server_cpu > Duration::ZERO);
            let trips = traffic == Traffic::RoundTrips;
            assert_eq!(latencies.count(), if trips { pass.messages } else { 0 });
            if trips {
                assert!(latencies.min_ns() > 0 && latencies.min_ns() <= latencies.max_ns());
                assert!(Duration::from_nanos(latencies.max_ns()) <= pass.elapsed);
            }
            let mut other = plan.clone();
            other.load.connections = 3;
            let Err(lie) = pass.check(&other) else {
                panic!("figures of other connections");
            };
            assert!(lie.to_string().contains("2 connections"), "{lie}");
            if slices_max >= 4 {
                break;
            }
        }
        assert!(slices_max >= 4, "{slices_max}");
    }
    let (kind, _) = failed(ask(&mut end, &messages(1)));
    assert_eq!(kind, FailedKind::Question);
}

#[test]
fn what_comes_at_the_wrong_time_or_asks_for_too_much_is_refused() {
    let secret = Secret::random().unwrap();
    let nowhere = || Box::new(plan(loopback(9), secret));
    let (mut server, _) = end();
    ask(&mut server, &receive(None));
    for request in [receive(None), NetworkRequest::Connect(nowhere()), messages(1)] {
        let (kind, message) = failed(ask(&mut server, &request));
        assert_eq!(kind, FailedKind::Question, "{message}");
    }
    let (mut end, _) = end();
    let connect = |change: fn(&mut Plan)| {
        let mut plan = nowhere();
        change(&mut plan);
        NetworkRequest::Connect(plan)
    };
    for (request, expected) in [
        (connect(|plan| plan.load.connections = 1 << 40), "connections is"),
        (connect(|plan| plan.load.message_bytes = 0), "message_bytes is 0"),
        (connect(|plan| plan.cores = Some(vec![5000])), "highest core"),
        (connect(|plan| plan.cores = Some(vec![0; 5000])), "of cores"),
        (connect(|plan| plan.slice = Some(Duration::from_nanos(1))), "slice is"),
        (receive(Some(Vec::new())), "the number of cores is 0"),
        (
            NetworkRequest::Receive {
                load: Load { threads: 3, ..load(Traffic::Stream) },
                cores: None,
            },
            "threads is 3",
        ),
        (NetworkRequest::Pass { limit: Limit::Messages(1), within_ns: u64::MAX }, "within_ns is"),
        (
            NetworkRequest::Pass {
                limit: Limit::Time(Duration::from_secs(u64::MAX)),
                within_ns: 1,
            },
            "time_ns is",
        ),
    ] {
        let (kind, message) = failed(ask(&mut end, &request));
        assert_eq!(kind, FailedKind::Question, "{message}");
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let (kind, message) = failed(ask(&mut end, &NetworkRequest::Connect(nowhere())));
    assert_eq!(kind, FailedKind::Other, "{message}");
    for text in [&b"\xff"[..], b"{}", b"\"receive\"", b"{\"pass\":{\"limit\":{\"messages\":-1}}}"] {
        let told = NetworkReply::decode(&end.answer(text)).unwrap();
        assert_eq!(failed(told).0, FailedKind::Question);
    }
    // Which namespace a socket is made in is for this machine to say.
    let mut smuggled: Value =
        serde_json::from_slice(&NetworkRequest::Connect(nowhere()).encode()).unwrap();
    smuggled["connect"]["namespace"] = "/proc/1/ns/net".into();
    let answer = end.answer(smuggled.to_string().as_bytes());
    let (kind, message) = failed(NetworkReply::decode(&answer).unwrap());
    assert_eq!(kind, FailedKind::Question);
    assert!(message.contains("namespace"), "{message}");
}

#[test]
fn a_client_whose_host_has_gone_gives_up() {
    for traffic in [Traffic::RoundTrips, Traffic::Stream] {
        let (mut end, gone) = end();
        let (_receiver, plan) = receiver(traffic);
        ask(&mut end, &NetworkRequest::Connect(Box::new(plan)));
        let begin = Instant::now();
        let leaves = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            gone.cancel();
        });
        let long = NetworkRequest::Pass {
            limit: Limit::Time(Duration::from_secs(600)),
            within_ns: 700 * SECOND_NS,
        };
        let (kind, _) = failed(ask(&mut end, &long));
        assert_eq!(kind, FailedKind::Closed);
        assert!(begin.elapsed() < Duration::from_secs(60));
        leaves.join().unwrap();
    }
}

#[test]
fn figures_that_cannot_be_are_no_figures() {
    let plan = plan(loopback(1), Secret::random().unwrap());
    let good = json!({"passed": {
        "elapsed_ns": 1000, "messages": 4, "bytes": 256, "connection_bytes": [128, 128],
        "writes": 4, "client_cpu_ns": 5, "server_cpu_ns": 6, "late": 0, "slices": [],
        "latencies": {"buckets": [[100, 4]], "min_ns": 99, "max_ns": 101, "sum_ns": 400},
    }});
    let read = |value: &Value| match NetworkReply::decode(value.to_string().as_bytes()) {
        Ok(NetworkReply::Passed(pass)) => pass.check(&plan).map_err(|e| e.to_string()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!(read(&good), Ok(()));
    for (name, value) in [
        ("messages", json!(u64::MAX)),
        ("messages", json!(0)),
        ("elapsed_ns", json!(0)),
        ("elapsed_ns", json!(u64::MAX)),
        ("bytes", json!(255)),
        ("connection_bytes", json!([u64::MAX, u64::MAX])),
        ("connection_bytes", json!([256])),
        ("late", json!(5)),
        ("slices", json!(vec![[0; 7]; 5000])),
        ("latencies", json!({"buckets": [[100, 5]], "min_ns": 1, "max_ns": 1, "sum_ns": 1})),
        ("latencies", json!({"buckets": [[100, 4]], "min_ns": 2, "max_ns": 1, "sum_ns": 1})),
    ] {
        let mut lie = good.clone();
        lie["passed"][name] = value;
        assert!(read(&lie).is_err(), "{name}");
    }
}
