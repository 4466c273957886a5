//! Tests of an agent with many, misbehaving, dead or slow hosts, and of how an agent shuts down.

use crate::common;
use crate::common::Framed as _;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::jobs::{End, assert_copied, copying, job, reap, run};
use common::{SOON, agent, agent_with, cpu, remote, told, until};
use overside_agent::{Agent, Limits};
use overside_device::{ContextConfig, Device, Operation, OperationConfig, SubmitError};
use overside_link::agent::{JobHead, Outbox, Preamble, Request, Setup};
use overside_ops::Format;
use overside_testkit::assert_contains;

#[test]
fn garbage_gets_nothing_and_disturbs_nobody() {
    for secure in [false, true] {
        let agent = agent(cpu(1), secure);
        let device = remote(agent.address(), secure, "cpu");
        let mut context = device.open(copying(2)).unwrap();
        assert!(!told(&agent, b"GET / HTTP/1.1\r\nHost: dpu0\r\n\r\n").starts_with(b"OVER"));
        told(&agent, &[0xFF; 100_000]);
        assert_eq!(run(&mut *context, &device, &[1000; 20]), End::All);
        assert_eq!(agent.connections(), 1);
    }
}

#[test]
fn who_does_not_say_who_it_is_has_to_go() {
    let limits =
        Limits { handshake: Duration::from_millis(200), unauthenticated: 2, ..Limits::default() };
    for secure in [false, true] {
        let agent = agent_with(cpu(1), secure, limits);
        // A byte that may be the first one, and then no more.
        let begin = Instant::now();
        let first = if secure { b"\x16" } else { b"O" };
        assert_eq!(told(&agent, first), b"");
        assert!(begin.elapsed() >= limits.handshake);
        // There is no place for a third, and there is one as soon as the others had to go.
        let waiting: Vec<_> =
            (0..2).map(|_| TcpStream::connect(agent.address()).unwrap()).collect();
        until("a place", || {
            let entry = common::entry(agent.address(), secure);
            overside_backend_remote::ask("dpu0", &entry, common::PATIENT).is_ok()
        });
        drop(waiting);
    }
}

#[test]
fn a_crowd_that_says_nothing_keeps_nobody_out() {
    for secure in [false, true] {
        let agent = agent(cpu(1), secure);
        let entry = common::entry(agent.address(), secure);
        let mut crowd = Vec::new();
        for _ in 0..100 {
            crowd.push(TcpStream::connect(agent.address()).unwrap());
            if crowd.len().is_multiple_of(10) {
                let asked = overside_backend_remote::ask("dpu0", &entry, common::PATIENT);
                assert!(asked.is_ok(), "{:?}", asked.err());
            }
        }
    }
}

#[test]
fn one_address_does_not_take_all_places_of_those_who_are_known() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let agent = agent_with(cpu(1), false, limits);
    let device = remote(agent.address(), false, "cpu");
    let held: Vec<_> = (0..3).map(|_| device.open(copying(1)).unwrap()).collect();
    let fourth = device.open(copying(1)).err().expect("no place").to_string();
    assert_contains(&fourth, "from one address");
    drop(held);
}

#[test]
fn a_context_beyond_the_agents_memory_is_refused_and_says_so() {
    let limits = Limits { memory: 8 << 30, ..Limits::default() };
    let agent = agent_with(cpu(16), false, limits);
    let device = remote(agent.address(), false, "cpu");
    let zstd = |level| ContextConfig {
        operation: OperationConfig {
            variant: "zstd".into(),
            level: Some(level),
            ..OperationConfig::new(Operation::Compress(Format::Zstd))
        },
        depth: 1,
        max_source_bytes: 64 << 20,
        max_destination_bytes: 64 << 20,
    };
    let error = device.open(zstd(22)).err().expect("too much").to_string();
    assert_contains(&error, "the agent has no memory for it: it takes ");
    assert_contains(&error, "of 6144 MiB are left");
    // The connection is as good as before, and so is the agent.
    let mut context = device.open(copying(2)).unwrap();
    assert_eq!(run(&mut *context, &device, &[1000; 20]), End::All);
    assert_contains(context.reconfigure(zstd(22)).unwrap_err().to_string(), "no memory");
    assert_eq!(run(&mut *context, &device, &[1000; 20]), End::All);
    // What a context had is there for the next one.
    for _ in 0..20 {
        drop(device.open(zstd(19)).unwrap());
        until("the memory to be back", || agent.connections() <= 2);
    }
}

#[test]
fn a_host_of_another_time_learns_which_versions_there_are() {
    let agent = agent(cpu(1), false);
    let newer = Preamble(overside_link::agent::Versions { oldest: 7, newest: 9 });
    assert_eq!(told(&agent, &newer.encode()), Preamble::ours());
}

#[test]
fn connections_are_bounded_and_a_place_is_free_again() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let agent = agent_with(cpu(1), true, limits);
    let device = remote(agent.address(), true, "cpu");
    let first = device.open(copying(1)).unwrap();
    let second = device.open(copying(1)).unwrap();
    let third = device.open(copying(1)).err().expect("no place").to_string();
    assert_contains(&third, "it has all the connections that it takes");
    drop(first);
    until("a place", || device.open(copying(1)).is_ok());
    drop(second);
}

#[test]
fn a_host_that_dies_leaves_nothing_behind() {
    let agent = agent(cpu(2), true);
    let device = remote(agent.address(), true, "cpu");
    for _ in 0..5 {
        let mut context = device.open(copying(8)).unwrap();
        let mut jobs = (0..8).map(|tag| job(&device, tag, 1 << 20)).collect();
        assert!(context.submit(&mut jobs).unwrap() > 0);
        drop(context);
    }
    until("all connections to end", || agent.connections() == 0);
}

#[test]
fn jobs_wait_for_memory_and_all_are_done() {
    // Enough for two jobs at a time.
    let limits = Limits { bytes: 4 << 20, ..Limits::default() };
    let agent = agent_with(cpu(2), false, limits);
    let device = remote(agent.address(), false, "cpu");
    let mut context = device.open(copying(16)).unwrap();
    assert_eq!(run(&mut *context, &device, &[1 << 20; 40]), End::All);
}

/// Opens a connection to an agent as a host does, and then sends `say`.
fn rude(agent: &Agent, open: bool, say: &[u8]) -> String {
    let config = ContextConfig { max_source_bytes: 100, max_destination_bytes: 100, ..copying(2) };
    let mut bytes = Preamble::ours().to_vec();
    if open {
        let device = "cpu".into();
        let setup = Setup::from(&config);
        bytes.extend(Request::Open { device, setup }.framed());
    }
    bytes.extend_from_slice(say);
    String::from_utf8_lossy(&told(agent, &bytes)).into_owned()
}

fn frame_of(slot: u32, capacity: usize, source: usize) -> Vec<u8> {
    let mut outbox = Outbox::default();
    let slice = overside_device::Slice::from_external(
        overside_device::ExternalBytes::new(vec![7; source]),
        None,
    );
    outbox.job(JobHead { slot, capacity }, &slice.into());
    let mut pieces = [std::io::IoSlice::new(&[]); 4];
    let count = outbox.gather(&mut pieces);
    pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect()
}

#[test]
fn a_host_that_breaks_the_rules_is_told_so_and_has_to_go() {
    let agent = agent(cpu(1), false);
    let cases: [(bool, Vec<u8>, &str); 9] = [
        (false, frame_of(0, 10, 10), "before a context is open"),
        (true, frame_of(2, 10, 10), "a job's number is 2"),
        (true, frame_of(0, 10, 101), "a source is 101"),
        (true, frame_of(0, 101, 10), "a destination is 101"),
        (true, vec![0xFF; 8], "kind 255"),
        (true, vec![0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0], "a job of 4294967295 bytes"),
        (true, vec![2, 0, 0, 0, 1, 0, 0, 0, b'{', b'}'], "cannot be read"),
        (true, vec![16, 0, 0, 0, 4, 0, 0, 0], "kind 4"),
        (
            true,
            Request::Open { device: "cpu".into(), setup: Setup::from(&copying(1)) }.framed(),
            "a second context",
        ),
    ];
    for (open, say, expected) in cases {
        let said = rude(&agent, open, &say);
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let twice = [frame_of(0, 100, 100), frame_of(1, 100, 100), frame_of(0, 100, 100)].concat();
    // The first may be done already; then its number is free.
    let said = rude(&agent, true, &twice.repeat(50));
    assert!(said.contains("while it is in flight") || said.matches("\"applied\"").count() == 1);
    let device = remote(agent.address(), false, "cpu");
    let mut context = device.open(copying(2)).unwrap();
    assert_eq!(run(&mut *context, &device, &[100; 10]), End::All);
}

#[test]
fn a_host_that_stops_in_the_middle_has_to_go() {
    let limits = Limits { stall: Duration::from_millis(100), ..Limits::default() };
    let agent = agent_with(cpu(1), false, limits);
    let half = &frame_of(0, 100, 100)[..60];
    let said = rude(&agent, true, half);
    assert!(said.contains("in the middle of a job"), "{said}");
}

#[test]
fn an_agent_that_drains_does_the_jobs_that_are_there_and_takes_no_more() {
    let agent = agent(cpu(1), true);
    let address = agent.address();
    let device = remote(address, true, "cpu");
    let mut context = device.open(copying(8)).unwrap();
    let mut jobs = (0..8).map(|tag| job(&device, tag, 500_000)).collect();
    assert_eq!(context.submit(&mut jobs), Ok(8));
    let drained = std::thread::spawn(move || agent.drain(Instant::now() + SOON));
    reap(&mut *context, 8).iter().for_each(assert_copied);
    let begin = Instant::now();
    let lost = loop {
        let mut more = [job(&device, 9, 100)].into();
        match context.submit(&mut more) {
            // It was submitted before the agent's word came.
            Ok(1) => reap(&mut *context, 1).iter().for_each(assert_copied),
            Ok(_) => {}
            Err(SubmitError::Lost(lost)) => break lost,
            Err(error) => panic!("{error}"),
        }
        let _ = context.poll(&mut Vec::new(), 1);
        assert!(begin.elapsed() < SOON);
    };
    assert_eq!(lost.tags, [0; 0]);
    assert!(drained.join().unwrap(), "everybody had their answers");
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    assert!(device.open(copying(1)).is_err());
}

#[test]
fn an_agent_does_not_wait_for_ever_for_a_host_that_does_not_read() {
    let agent = agent(cpu(1), false);
    let device = remote(agent.address(), false, "cpu");
    let mut context = device.open(copying(64)).unwrap();
    let mut jobs = (0..64).map(|tag| job(&device, tag, 1 << 20)).collect();
    context.submit(&mut jobs).unwrap();
    let begin = Instant::now();
    assert!(!agent.drain(begin + Duration::from_millis(300)), "the answers are not fetched");
    assert!(begin.elapsed() < SOON);
}
