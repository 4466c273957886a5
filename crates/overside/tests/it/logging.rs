//! Logs of hosts and agents: events of lost connections and refused handshakes, and the options
//! that control them.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use serde_json::Value;

use crate::agent::{Running, User, err};
use overside_testkit::assert_contains;

/// Returns the events of a JSON log.
fn events(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    text.lines().map(parse).collect()
}

fn agent(user: &User, arguments: &[&str]) -> Running {
    let log = ["-v", "--log-format", "json", "--log-file", "agent.log"];
    Running::start(user, &[&["--device", "cpu"][..], arguments, &log].concat())
}

/// Makes incompressible bytes, so that the output is as long as the input.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

const CHUNK: usize = 64 << 10;
/// Number of bytes that suffice for both sides to have run jobs when half of the output has arrived.
const BYTES: usize = 128 * CHUNK;

/// Host that compresses from a pipe, half of it on the agent.
struct Host {
    process: Child,
    /// Thread that reads the output.
    output: JoinHandle<()>,
}

impl Host {
    /// Starts a host. Returns once both sides have run jobs.
    fn start(user: &User) -> Self {
        let arguments = "compress -c --chunk 64k --device dpu0/cpu --placement split:50 \
                         --log debug --log-format json --log-file host.log";
        let mut process = user
            .command(&arguments.split_whitespace().collect::<Vec<_>>())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = process.stdout.take().unwrap();
        let (half, at_work) = mpsc::channel();
        let output = std::thread::spawn(move || {
            stdout.read_exact(&mut vec![0; BYTES / 2]).unwrap();
            half.send(()).unwrap();
            std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
        });
        (process.stdin.as_mut().unwrap()).write_all(&noise(BYTES)).unwrap();
        at_work.recv().unwrap();
        Self { process, output }
    }

    /// Sends the rest of the input and closes it. Returns the output.
    fn finish(mut self) -> Output {
        let mut input = self.process.stdin.take().unwrap();
        input.write_all(&noise(BYTES)).unwrap();
        drop(input);
        self.output.join().unwrap();
        self.process.wait_with_output().unwrap()
    }
}

#[test]
fn a_lost_agent_is_in_the_hosts_log() {
    let user = User::new();
    let mut agent = agent(&user, &["--insecure"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);
    let host = Host::start(&user);
    agent.process.kill().unwrap();
    agent.process.wait().unwrap();
    let output = host.finish();
    assert!(output.status.success(), "{}", err(&output));

    let events = events(&user.path("host.log"));
    let on_agent = |event: &&Value| event["device"] == "dpu0/cpu";
    let opened = (events.iter().filter(on_agent))
        .find(|event| event["init_ns"].is_u64() && event["depth"].is_u64());
    assert_eq!(opened.unwrap()["operation"], "compress-deflate");
    let lost = |event: &&Value| event["level"] == "WARN" && event["kind"] == "lost";
    assert!(events.iter().filter(on_agent).any(|event| lost(&event)), "{events:#?}");
}

#[test]
fn a_lost_host_is_in_the_agents_log() {
    let user = User::new();
    let mut agent = agent(&user, &["--insecure"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);
    let mut host = Host::start(&user);
    host.process.kill().unwrap();
    host.process.wait().unwrap();
    assert_eq!(agent.end(), Some(0));

    let events = events(&user.path("agent.log"));
    let within = |event: &&Value| event["spans"][0]["name"] == "connection";
    let connection: Vec<&Value> = events.iter().filter(within).collect();
    // `agents add` and the host's listing of devices also open connections.
    let opened = connection.iter().find(|event| event["init_ns"].is_u64());
    let peer = opened.unwrap()["spans"][0]["peer"].as_str().unwrap();
    assert!(peer.starts_with("127.0.0.1:"), "{peer}");
    let of_peer = connection.iter().filter(|event| event["spans"][0]["peer"] == peer);
    let levels: Vec<_> = of_peer.clone().map(|event| &event["level"]).collect();
    // The host connects, opens a context, and disconnects without closing it.
    assert_eq!(levels[..2], ["INFO", "DEBUG"], "{events:#?}");
    assert!(of_peer.clone().any(|event| event["init_ns"].is_u64()));
    assert!(of_peer.clone().all(|event| event["end_ns"].is_null()));
    assert!(["INFO", "WARN"].contains(&levels.last().unwrap().as_str().unwrap()));
}

#[test]
fn a_refused_handshake_is_in_the_agents_log() {
    let user = User::new();
    let keys = user.keys();
    let mut agent = agent(&user, &["--keys", &keys]);
    // Without keys, which is allowed on one machine, but not by this agent.
    user.done(&["agents", "add", "dpu0", &agent.address]);
    assert!(user.done(&["agents", "list"]).contains("not available"));
    assert_eq!(agent.end(), Some(0));
    let events = events(&user.path("agent.log"));
    let refused = events.iter().find(|event| event["level"] == "WARN").unwrap();
    assert_eq!(refused["spans"][0]["name"], "connection");
    assert!(!refused["reason"].as_str().unwrap().is_empty());
}

#[test]
fn the_log_is_switched_by_options_and_the_environment() {
    let user = User::new();
    for (arguments, code) in [
        (&["devices", "--log", "wran"][..], 2),
        (&["compress", "--log", "link=", "-c"], 1),
        (&["match", "--log-format", "xml", "a"], 2),
        (&["devices", "-v", "--log-file", "/no/such/log"], 2),
    ] {
        user.fails(code, arguments);
    }
    let mut command = user.command(&["devices"]);
    let output = command.env("OVERSIDE_LOG", "loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_contains(err(&output), "OVERSIDE_LOG: ");
}
