//! The server beside redis-server: the same pipelines, in turns A B B A, as ratios.
//!
//! `cargo bench -p overside-kv --bench server`; `-- 'GET -c 50'` runs what has that in its name. The server runs on core 0, the load on core 1. Pipelines
//! are built before the clock starts, and of replies only the bytes are counted: all of a kind are
//! equally long, and a wrong one would change the sum. `CPU` is the same ratio by the CPU time of the
//! servers' threads a command: it stands also where the load or other programs are the limit.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use overside_base::Random;
use overside_kv::clock::Clock;
use overside_kv::server::{Memory, Server, Settings};
use overside_kv::store::{Semantics, StoreOptions};
use overside_kv::{KeyHasher, Store};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::thread::{CpuSet, sched_setaffinity};

const KEYS: u64 = 1_000_000;
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
/// Different pipelines of a connection, sent in turn.
const VARIANTS: usize = 32;
const WINDOW: Duration = Duration::from_millis(400);
/// A B B A, so often.
const ROUNDS: usize = 3;

struct Case {
    connections: usize,
    pipeline: usize,
    is_set: bool,
    busy_poll: bool,
    /// The rate that is wanted, as a multiple of Redis's.
    goal: f64,
}

const fn case(
    connections: usize,
    pipeline: usize,
    is_set: bool,
    busy_poll: bool,
    goal: f64,
) -> Case {
    Case {
        connections,
        pipeline,
        is_set,
        busy_poll,
        goal,
    }
}

const CASES: [Case; 9] = [
    case(50, 64, false, false, 5.0),
    case(50, 64, true, false, 5.0),
    case(50, 16, false, false, 2.5),
    case(50, 16, true, false, 2.5),
    case(16, 1, false, false, 1.2),
    case(16, 1, true, false, 1.2),
    case(1, 1, false, false, 1.0),
    case(1, 1, false, true, 2.0),
    case(16, 1, false, true, 1.2),
];

impl Case {
    /// As redis-benchmark's options say it.
    fn name(&self) -> String {
        let kind = if self.is_set { "SET" } else { "GET" };
        let poll = if self.busy_poll { ", polling" } else { "" };
        format!("{kind} -c {} -P {}{poll}", self.connections, self.pipeline)
    }
}

fn main() -> ExitCode {
    if let Some(mode) =
        std::env::args().find_map(|word| word.strip_prefix("--serve=").map(str::to_owned))
    {
        return serve(mode == "poll");
    }
    pin(CLIENT_CORE);
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let filter = filter.unwrap_or_default();
    let is_wanted = |case: &&Case| case.name().contains(&filter);
    let Some(redis) = Peer::redis() else {
        eprintln!("skipped: no redis-server is installed");
        return ExitCode::SUCCESS;
    };
    let own = Peer::own("sleep");
    for peer in [&redis, &own] {
        load(peer.address);
    }
    println!(
        "{:28} {:>12} {:>12} {:>7} {:>7} {:>5}  p50, p99 in us: redis, own",
        "", "redis/s", "own/s", "ratio", "CPU", "goal"
    );
    let cases = || CASES.iter().filter(is_wanted);
    for case in cases().filter(|case| !case.busy_poll) {
        compare(case, &redis, &own);
    }
    drop(own);
    let polling = Peer::own("poll");
    load(polling.address);
    for case in cases().filter(|case| case.busy_poll) {
        compare(case, &redis, &polling);
    }
    ExitCode::SUCCESS
}

fn serve(busy_poll: bool) -> ExitCode {
    let hasher = KeyHasher::random();
    let store = Store::new(StoreOptions {
        memory_bytes: 1 << 30,
        semantics: Semantics::Store,
        hasher: hasher.clone(),
        huge_pages: true,
    });
    let clock = Clock::start();
    let mut backing = Memory::new(store.expect("memory"), clock.start_ms());
    let server = Server::bind(Settings {
        tcp: vec![(Ipv4Addr::LOCALHOST, 0).into()],
        busy_poll,
        cores: vec![SERVER_CORE],
        ..Settings::default()
    });
    let server = server.expect("a free port");
    println!("{}", server.settings().tcp[0]);
    server.run(&mut backing, &hasher, clock).expect("it serves");
    ExitCode::SUCCESS
}

/// A server process.
struct Peer {
    process: Child,
    address: SocketAddr,
}

impl Peer {
    fn own(mode: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("a path"))
            .arg(format!("--serve={mode}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = process.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().parse().expect("an address");
        Self { process, address }
    }

    fn redis() -> Option<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let process = Command::new("taskset")
            .args(["-c", &SERVER_CORE.to_string(), "redis-server", "--save", ""])
            .args(["--appendonly", "no", "--port", &address.port().to_string()])
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let peer = Self { process, address };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begin.elapsed() > Duration::from_secs(10) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn compare(case: &Case, redis: &Peer, own: &Peer) {
    let mut results = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (side, peer) in [(0, redis), (1, own), (1, own), (0, redis)] {
            results[side].push(measure(case, peer));
        }
    }
    let [theirs, ours] = results.map(|results| summary(&results));
    println!(
        "{:28} {:12.0} {:12.0} {:7.2} {:7.2} {:5.1}  {:.0}, {:.0}; {:.0}, {:.0}",
        case.name(),
        theirs.rate,
        ours.rate,
        ours.rate / theirs.rate,
        theirs.cpu_ns / ours.cpu_ns,
        case.goal,
        theirs.p50_us,
        theirs.p99_us,
        ours.p50_us,
        ours.p99_us
    );
}

struct Sample {
    rate: f64,
    cpu_ns: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Medians.
fn summary(samples: &[Sample]) -> Sample {
    let median = |of: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Sample {
        rate: median(|sample| sample.rate),
        cpu_ns: median(|sample| sample.cpu_ns),
        p50_us: median(|sample| sample.p50_us),
        p99_us: median(|sample| sample.p99_us),
    }
}

/// Stores every key.
fn load(address: SocketAddr) {
    let mut stream = connect(address);
    for first in (0..KEYS).step_by(1000) {
        let pipeline: Vec<u8> = (first..first + 1000).flat_map(set).collect();
        stream.write_all(&pipeline).expect("it reads");
        let mut replies = vec![0; 1000 * SET_REPLY.len()];
        stream.read_exact(&mut replies).expect("it answers");
        assert_eq!(replies, SET_REPLY.repeat(1000));
    }
}

const SET_REPLY: &[u8] = b"+OK\r\n";
const GET_REPLY_BYTES: usize = b"$8\r\n00000000\r\n".len();

fn set(key: u64) -> Vec<u8> {
    format!("*3\r\n$3\r\nSET\r\n$8\r\n{key:08}\r\n$8\r\n{key:08}\r\n").into_bytes()
}

fn get(key: u64) -> Vec<u8> {
    format!("*2\r\n$3\r\nGET\r\n$8\r\n{key:08}\r\n").into_bytes()
}

struct Connection {
    stream: TcpStream,
    pipelines: Vec<Vec<u8>>,
    next: usize,
    missing_bytes: usize,
    sent: VecDeque<Instant>,
}

/// CPU time of a process's first thread, which serves (schedstat, proc(5)).
fn cpu_ns(process: &Child) -> f64 {
    let path = format!("/proc/{}/schedstat", process.id());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or(f64::NAN)
}

fn measure(case: &Case, peer: &Peer) -> Sample {
    let reply_bytes = match case.is_set {
        true => SET_REPLY.len(),
        false => GET_REPLY_BYTES,
    };
    let set_of = epoll::create(CreateFlags::CLOEXEC).expect("epoll");
    let mut connections: Vec<_> = (0..case.connections)
        .map(|number| {
            let mut random = Random::new(number as u64 + 1);
            let mut command = || match case.is_set {
                true => set(random.below(KEYS)),
                false => get(random.below(KEYS)),
            };
            let mut pipeline = || (0..case.pipeline).flat_map(|_| command()).collect();
            let stream = connect(peer.address);
            let data = EventData::new_u64(number as u64);
            epoll::add(&set_of, &stream, data, EventFlags::IN).expect("epoll");
            Connection {
                stream,
                pipelines: (0..VARIANTS).map(|_| pipeline()).collect(),
                next: 0,
                missing_bytes: 0,
                sent: VecDeque::new(),
            }
        })
        .collect();
    let mut buffer = vec![0; 64 << 10];
    let mut events = Vec::with_capacity(256);
    let mut latencies_us = Vec::with_capacity(1 << 20);
    let mut replies = 0;
    let cpu_before_ns = cpu_ns(&peer.process);
    let begin = Instant::now();
    for connection in &mut connections {
        connection.send(case.pipeline * reply_bytes);
    }
    while begin.elapsed() < WINDOW {
        events.clear();
        let spare = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&set_of, spare, None).expect("epoll");
        for event in &events {
            let connection = &mut connections[event.data.u64() as usize];
            let count = connection.stream.read(&mut buffer).expect("it answers");
            assert!(
                count > 0 && count <= connection.missing_bytes,
                "a wrong reply"
            );
            connection.missing_bytes -= count;
            if connection.missing_bytes == 0 {
                let sent = connection.sent.pop_front().expect("it was sent");
                latencies_us.push(sent.elapsed().as_nanos() as f64 / 1e3);
                replies += case.pipeline;
                connection.send(case.pipeline * reply_bytes);
            }
        }
    }
    let rate = replies as f64 / begin.elapsed().as_secs_f64();
    let cpu_ns = (cpu_ns(&peer.process) - cpu_before_ns) / replies as f64;
    latencies_us.sort_by(f64::total_cmp);
    let quantile = |share: f64| latencies_us[((latencies_us.len() - 1) as f64 * share) as usize];
    Sample {
        rate,
        cpu_ns,
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
    }
}

impl Connection {
    fn send(&mut self, reply_bytes: usize) {
        self.sent.push_back(Instant::now());
        self.stream
            .write_all(&self.pipelines[self.next])
            .expect("it reads");
        self.next = (self.next + 1) % VARIANTS;
        self.missing_bytes += reply_bytes;
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("TCP");
    stream
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // Where there is one core, both are on it.
    let _ = sched_setaffinity(None, &set);
}
