//! Tests of ends of tests on an agent: requests, answers, endings and refusals.

use crate::common;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Framed, LOOPBACK, PATIENT, SHORT, SOON, agent_playing, cpu, entry, told, until};
use overside_agent::{Agent, Limits};
use overside_backend_remote::{ProbeError, RemoteProbe, Timeouts};
use overside_link::agent::{
    Host, MAX_PROBE_BYTES, Preamble, Probe, ProbePeer, Reply, Request, Setup, Versions, Welcome,
    probe,
};
use overside_testkit::assert_contains;

/// A test of which one end obeys commands in words.
#[derive(Default)]
struct Puppet {
    /// Parts that have begun and not ended.
    playing: Arc<AtomicUsize>,
}

struct Strings {
    host: Host,
    playing: Arc<AtomicUsize>,
}

impl Probe for Puppet {
    fn kind(&self) -> &str {
        "puppet"
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        let playing = Arc::clone(&self.playing);
        playing.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Strings { host, playing }))
    }
}

impl ProbePeer for Strings {
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        match request {
            b"addresses" => format!("{} {}", self.host.here, self.host.there).into(),
            b"rest" => {
                std::thread::sleep(SHORT.silence + SHORT.ask);
                b"rested".into()
            }
            b"until gone" => {
                let begin = Instant::now();
                while !self.host.cancelled.is_cancelled() && begin.elapsed() < SOON {
                    std::thread::sleep(Duration::from_millis(1));
                }
                b"gone".into()
            }
            b"fall" => panic!("over its strings"),
            b"nothing" => Vec::new(),
            b"too much" => vec![0; MAX_PROBE_BYTES + 1],
            other => other.iter().rev().copied().collect(),
        }
    }
}

impl Drop for Strings {
    fn drop(&mut self) {
        self.playing.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An agent with the puppet, and how many parts are being played.
fn theatre(secure: bool, limits: Limits) -> (Agent, Arc<AtomicUsize>) {
    let puppet = Puppet::default();
    let playing = Arc::clone(&puppet.playing);
    let agent = agent_playing(cpu(1), secure, limits, vec![Arc::new(puppet)]);
    (agent, playing)
}

fn open(agent: &Agent, secure: bool, kind: &str) -> Result<RemoteProbe, ProbeError> {
    RemoteProbe::open("dpu0", &entry(agent.address(), secure), kind, PATIENT)
}

fn refused(opened: Result<RemoteProbe, ProbeError>) -> String {
    match opened {
        Err(ProbeError::Refused { node, reason }) if node == "dpu0" => reason,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it plays"),
    }
}

#[test]
fn questions_are_answered_one_after_the_other() {
    for secure in [false, true] {
        let (agent, playing) = theatre(secure, Limits::default());
        let mut probe = open(&agent, secure, "puppet").unwrap();
        let deadline = Instant::now() + SOON;
        let text = probe.ask(b"addresses", deadline).unwrap();
        let addresses = format!("{} {}", probe.there(), probe.here());
        assert_eq!(String::from_utf8(text).unwrap(), addresses);
        assert_eq!(probe.there(), agent.address());
        let long: Vec<u8> = (0..MAX_PROBE_BYTES).map(|n| n as u8).collect();
        let reversed: Vec<u8> = long.iter().rev().copied().collect();
        assert!(probe.ask(&long, deadline).unwrap() == reversed);
        probe.tell(b"later").unwrap();
        assert_eq!(probe.answer(deadline).unwrap(), b"retal");
        assert_eq!(playing.load(Ordering::SeqCst), 1);
        probe.close().unwrap();
        assert_eq!(playing.load(Ordering::SeqCst), 0, "all is given back");
    }
}

#[test]
fn an_agent_that_is_at_it_for_longer_than_silence_is_allowed_is_not_lost() {
    let (agent, _) = theatre(true, Limits::default());
    let address = entry(agent.address(), true);
    // A busy machine may keep one of them from saying that it is there.
    let rested = (0..5).find_map(|_| {
        let mut probe = RemoteProbe::open("dpu0", &address, "puppet", SHORT).unwrap();
        let begin = Instant::now();
        let answer = probe.ask(b"rest", begin + SOON).ok()?;
        assert!(answer == b"rested" && begin.elapsed() > SHORT.silence);
        Some(probe)
    });
    let mut probe = rested.expect("an agent that is at it");
    let late = probe.ask(b"until gone", Instant::now() + Duration::from_millis(50));
    assert!(matches!(late, Err(ProbeError::Late { .. })));
}

#[test]
fn a_host_that_goes_in_the_middle_takes_its_part_along() {
    for secure in [false, true] {
        let (agent, playing) = theatre(secure, Limits::default());
        let mut probe = open(&agent, secure, "puppet").unwrap();
        probe.tell(b"until gone").unwrap();
        until("a part", || playing.load(Ordering::SeqCst) == 1);
        drop(probe);
        until("its end", || playing.load(Ordering::SeqCst) == 0);
        until("no connection", || agent.connections() == 0);
    }
}

#[test]
fn an_agent_that_goes_in_the_middle_is_lost() {
    let (agent, playing) = theatre(true, Limits::default());
    let mut probe = open(&agent, true, "puppet").unwrap();
    probe.tell(b"until gone").unwrap();
    until("a part", || playing.load(Ordering::SeqCst) == 1);
    drop(agent);
    let lost = probe.answer(Instant::now() + SOON).unwrap_err();
    assert!(matches!(lost, ProbeError::Lost { .. }), "{lost}");
    until("its end", || playing.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_part_that_cannot_go_on_says_why() {
    let (agent, playing) = theatre(true, Limits::default());
    for (request, expected) in [
        (&b"fall"[..], "over its strings"),
        (b"nothing", "an answer has 0 bytes"),
        (b"too much", "an answer has 1048577 bytes"),
    ] {
        let mut probe = open(&agent, true, "puppet").unwrap();
        let lost = probe.ask(request, Instant::now() + SOON).unwrap_err();
        assert!(lost.to_string().contains(expected), "{lost}");
    }
    until("their end", || playing.load(Ordering::SeqCst) == 0);
    let mut probe = open(&agent, true, "puppet").unwrap();
    let next = probe.ask(b"on", Instant::now() + SOON).unwrap();
    assert_eq!(next, b"no", "others are not disturbed");
}

#[test]
fn tests_are_bounded_and_a_seat_is_free_again() {
    let limits = Limits { probes: 2, ..Limits::default() };
    let (agent, _) = theatre(false, limits);
    let first = open(&agent, false, "puppet").unwrap();
    let _second = open(&agent, false, "puppet").unwrap();
    let full = refused(open(&agent, false, "puppet"));
    assert!(full.contains("in 2 tests already"), "{full}");
    first.close().unwrap();
    assert!(open(&agent, false, "puppet").is_ok());
}

#[test]
fn what_an_agent_does_not_play_is_refused() {
    let (agent, _) = theatre(false, Limits::default());
    let unknown = refused(open(&agent, false, "opera"));
    assert!(unknown.contains("\"opera\""), "{unknown}");
    let silent = agent_playing(cpu(1), false, Limits::default(), Vec::new());
    let none = refused(open(&silent, false, "puppet"));
    assert!(none.contains("--no-probes"), "{none}");
}

#[test]
fn an_agent_that_drains_plays_to_the_end() {
    let (agent, _) = theatre(true, Limits::default());
    let mut probe = open(&agent, true, "puppet").unwrap();
    let deadline = Instant::now() + SOON;
    probe.ask(b"one", deadline).unwrap();
    let drained = std::thread::spawn(move || agent.drain(deadline));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(probe.ask(b"two", deadline).unwrap(), b"owt");
    probe.close().unwrap();
    assert!(drained.join().unwrap());
}

#[test]
fn a_host_that_breaks_the_rules_is_told_so_and_has_to_go() {
    let (agent, playing) = theatre(false, Limits::default());
    let begin = Request::Probe { kind: "puppet".into() }.framed();
    let context =
        Request::Open { device: "cpu".into(), setup: Setup::from(&common::jobs::copying(1)) }
            .framed();
    let huge = [((MAX_PROBE_BYTES + 1) as u32).to_le_bytes(), [7, 0, 0, 0]].concat();
    for (say, expected) in [
        (probe(b"?"), "before a probe has begun"),
        (
            [&begin[..], &probe(b"until gone"), &probe(b"?")].concat(),
            "before the last one was answered",
        ),
        ([&begin[..], &begin].concat(), "during a probe"),
        ([&begin[..], &context].concat(), "during a probe"),
        ([&context[..], &begin].concat(), "a second context"),
        ([&context[..], &probe(b"?")].concat(), "before a probe"),
        ([&begin[..], &huge].concat(), "message of a probe of 1048577"),
        ([&begin[..], &[0, 0, 0, 0, 7, 0, 0, 0]].concat(), "of 0 bytes"),
    ] {
        let said = told(&agent, &[&Preamble::ours()[..], &say].concat());
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(expected), "{expected}: {said}");
    }
    until("their end", || playing.load(Ordering::SeqCst) == 0);
    assert!(open(&agent, false, "puppet").is_ok(), "nobody is disturbed");
}

/// An agent of one connection that speaks these versions and sends these messages, one after each
/// that it receives.
fn impostor(versions: Versions, say: Vec<Vec<u8>>, timeouts: Timeouts) -> RemoteProbeOf {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut host, _) = listener.accept().unwrap();
        let mut piece = [0; 4096];
        host.read_exact(&mut piece[..Preamble::BYTES]).unwrap();
        let welcome = Reply::Welcome(Welcome { release: "0".into(), devices: Vec::new() });
        let greeting = [&Preamble(versions).encode()[..], &welcome.framed()].concat();
        let _ = host.write_all(&greeting);
        for one in say {
            if !matches!(host.read(&mut piece), Ok(1..)) {
                return;
            }
            let _ = host.write_all(&one);
        }
        while matches!(host.read(&mut piece), Ok(1..)) {}
    });
    RemoteProbe::open("dpu0", &entry(address, false), "puppet", timeouts)
}

type RemoteProbeOf = Result<RemoteProbe, ProbeError>;

#[test]
fn an_agent_that_breaks_the_rules_is_lost_with_the_reason() {
    let probing = Reply::Probing.framed();
    for (say, expected, timeouts) in [
        (Reply::Probing.framed(), "nothing asked for", PATIENT),
        (vec![0xFF; 16], "kind 255", PATIENT),
        (probe(b"?")[..8].to_vec(), "does not answer", SHORT),
        (Reply::Lost("bye\u{1b}[2J".into()).framed(), "bye [2J", PATIENT),
    ] {
        let mut probe = impostor(Preamble::OURS, vec![probing.clone(), say], timeouts).unwrap();
        assert_eq!(probe.there().ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let lost = probe.ask(b"?", Instant::now() + SOON).unwrap_err();
        assert!(lost.to_string().contains(expected), "{expected}: {lost}");
    }
    let opened = impostor(Preamble::OURS, vec![probe(b"I was not asked")], PATIENT);
    let lost = opened.err().expect("no probe").to_string();
    assert!(lost.contains("nothing was asked"), "{lost}");
}

#[test]
fn an_agent_of_another_time_is_not_asked() {
    let one = Versions { oldest: 1, newest: 1 };
    let old = impostor(one, Vec::new(), PATIENT).err().expect("no probe");
    assert_contains(&old, "install the same release");
}
