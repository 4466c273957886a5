//! Tests of a host whose agent reports false values, sends garbage or falls silent.

use crate::common;

use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::jobs::{End, PATIENCE, copying, is_late, job, reap, run};
use common::{Framed, LOOPBACK, PATIENT, SHORT, cpu, entry};
use overside_backend_remote::{RemoteDevice, RemoteError, Timeouts};
use overside_device::{Applied, Device, Job, Lifecycle, Provenance, Region, Stages};
use overside_link::agent::{AnswerHead, Offer, Opened, Outbox, Preamble, Reply, Status, Welcome};
use overside_testkit::assert_contains;

/// An agent of one connection: it greets with `greeting`, opens any context, and when the first
/// bytes of a job come it does as `then` says.
fn agent(greeting: Vec<u8>, then: impl FnOnce(&mut TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut host, _) = listener.accept().unwrap();
        let mut piece = [0; 4096];
        host.read_exact(&mut piece[..Preamble::BYTES]).unwrap();
        // A host that has heard enough goes; that is for the test to see.
        let _ = host.write_all(&greeting);
        if !matches!(host.read(&mut piece), Ok(1..)) {
            return;
        }
        let opened = Opened { lifecycle: Lifecycle::default() };
        host.write_all(&Reply::Opened(opened).framed()).unwrap();
        if matches!(host.read(&mut piece), Ok(1..)) {
            then(&mut host);
        }
        // Falls silent, until the host goes.
        while matches!(host.read(&mut piece), Ok(1..)) {}
    });
    address
}

fn welcome() -> Vec<u8> {
    let cpu = cpu(1);
    let offer = Offer {
        info: cpu.info().clone(),
        capabilities: cpu.capabilities().iter().cloned().collect(),
    };
    let welcome = Welcome { release: "0".into(), devices: vec![offer] };
    [&Preamble::ours()[..], &Reply::Welcome(welcome).framed()].concat()
}

fn applied() -> Vec<u8> {
    Reply::Applied(Applied {
        device: "cpu".into(),
        driver: "none".into(),
        variant: "none".into(),
        library: "none".into(),
        because: None,
        provenance: Provenance::Measured,
    })
    .framed()
}

fn answer(slot: u32, len: usize) -> Vec<u8> {
    let head = AnswerHead {
        slot,
        status: Status::Done,
        value: None,
        stages: Stages::default(),
        held_ns: u64::MAX,
    };
    let mut outbox = Outbox::default();
    outbox.result(head, Region::allocate(len, 1, None).unwrap(), len);
    let mut pieces = [IoSlice::new(&[]); 4];
    let count = outbox.gather(&mut pieces);
    pieces[..count].iter().flat_map(|piece| piece.to_vec()).collect()
}

/// Returns the reason that a host reports when its only job, of 100 bytes, is answered with the
/// bytes in `say` and the device is lost.
fn lost(say: Vec<u8>, timeouts: Timeouts) -> String {
    let address = agent(welcome(), move |host| host.write_all(&say).unwrap());
    let device = RemoteDevice::connect("dpu0", &entry(address, false), "cpu", timeouts).unwrap();
    let mut context = device.open(copying(2)).unwrap();
    match run(&mut *context, &device, &[100]) {
        End::Lost(reason, 0) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_that_breaks_the_rules_is_lost_with_the_reason() {
    let half = answer(0, 100)[..70].to_vec();
    let opened = Reply::Opened(Opened { lifecycle: Lifecycle::default() });
    for (say, expected) in [
        (answer(0, 100), "an answer to job 0, which there is not"),
        ([applied(), answer(1, 100)].concat(), "an answer to job 1, which there is not"),
        ([applied(), answer(4000, 100)].concat(), "an answer to job 4000"),
        ([applied(), answer(0, 101)].concat(), "a result's length is 101, where at most 100"),
        (vec![0xFF; 64], "kind 255"),
        (opened.framed(), "that nothing asked for"),
        (Reply::Lost("unplugged\u{1b}[2J".into()).framed(), "its agent says: unplugged [2J"),
        ([applied(), half].concat(), "does not answer"),
        (Vec::new(), "does not answer"),
    ] {
        let reason = match expected {
            "does not answer" => lost(say, SHORT),
            _ => lost(say, PATIENT),
        };
        assert!(reason.contains(expected), "{expected}: {reason}");
    }
}

#[test]
fn an_agent_that_raves_holds_nobody_up() {
    let address = agent(welcome(), |host| {
        let mut pong = vec![8, 0, 0, 0, 6, 0, 0, 0];
        pong.extend([0; 8]);
        let pongs = pong.repeat(4096);
        while host.write_all(&pongs).is_ok() {}
    });
    let device = RemoteDevice::connect("dpu0", &entry(address, false), "cpu", PATIENT).unwrap();
    let mut context = device.open(copying(2)).unwrap();
    let deadline = Instant::now() + Duration::from_millis(300);
    let job = Job { deadline: Some(deadline), ..job(&device, 1, 100) };
    assert_eq!(context.submit(&mut [job].into()), Ok(1));
    assert!(is_late(&reap(&mut *context, 1)[0]));
    let begin = Instant::now();
    context.close(begin + Duration::from_millis(100));
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

#[test]
fn what_does_not_greet_as_an_agent_is_none() {
    let connected = |greeting: Vec<u8>, timeouts: Timeouts| {
        let address = agent(greeting, |_| {});
        let connected = RemoteDevice::connect("dpu0", &entry(address, false), "cpu", timeouts);
        connected.err().expect("an error")
    };
    let other = connected(b"HTTP/1.1 400 Bad Request\r\n".to_vec(), PATIENT);
    assert!(matches!(other, RemoteError::Stranger { .. }), "{other}");
    assert!(other.to_string().contains("HTTP/1.1 400"), "{other}");
    let mut newer = Preamble::ours();
    newer[8] = 9;
    newer[10] = 9;
    let newer = connected(newer.to_vec(), PATIENT).to_string();
    assert_contains(&newer, "speaks versions 9");
    assert_contains(&newer, "this one 3");
    let begin = Instant::now();
    let huge = [&Preamble::ours()[..], &[0, 0, 0x70, 0, 1, 0, 0, 0]].concat();
    let soon = Timeouts { connect: Duration::from_secs(1), ..PATIENT };
    let silent = connected(huge, soon);
    assert!(matches!(silent, RemoteError::Unreachable { .. }), "{silent}");
    assert!(begin.elapsed() < PATIENT.connect);
}
