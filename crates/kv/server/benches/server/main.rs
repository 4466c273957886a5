//! The server compared with redis-server, and for memcached's meta commands with memcached: the same pipelines, in
//! turns A B B A, as ratios.
//!
//! `cargo bench -p overside-kv --bench server`; `-- 'GET -c 50'` runs those with that in their names. The server runs
//! on core 0, the load on core 1. Pipelines are built before the clock starts, and of replies only the bytes are
//! counted: all of a kind are equally long, and a wrong one would change the sum. `CPU` is the same ratio by the CPU
//! time of the servers' threads a command: it stands also where the load or other programs are the limit.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use overside_base::Random;
use overside_kv::clock::Clock;
use overside_kv::server::{Addresses, Memory, Server, Settings};
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
    /// Meta commands of memcached instead of Redis's.
    is_meta: bool,
    /// The rate that is wanted, as a multiple of the other's.
    goal: f64,
}

const fn meta(is_set: bool) -> Case {
    Case { is_meta: true, ..case(50, 16, is_set, false, 3.0) }
}

const fn case(
    connections: usize,
    pipeline: usize,
    is_set: bool,
    busy_poll: bool,
    goal: f64,
) -> Case {
    Case { connections, pipeline, is_set, busy_poll, is_meta: false, goal }
}

const CASES: [Case; 11] = [
    meta(false),
    meta(true),
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
    /// Returns the name of the case, written as options of redis-benchmark.
    fn name(&self) -> String {
        let kind = match (self.is_meta, self.is_set) {
            (false, false) => "GET",
            (false, true) => "SET",
            (true, false) => "mg",
            (true, true) => "ms",
        };
        let poll = if self.busy_poll { ", polling" } else { "" };
        format!("{kind} -c {} -P {}{poll}", self.connections, self.pipeline)
    }
}

fn main() -> ExitCode {
    if let Some(mode) =
        std::env::args().find_map(|word| word.strip_prefix("--serve=").map(str::to_owned))
    {
        return serve(&mode);
    }
    pin(CLIENT_CORE);
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let filter = filter.unwrap_or_default();
    let is_wanted = |case: &&Case| case.name().contains(&filter);
    let cases = || CASES.iter().filter(is_wanted);
    println!(
        "{:28} {:>12} {:>12} {:>7} {:>7} {:>5}  p50, p99 in us: other, own",
        "", "other/s", "own/s", "ratio", "CPU", "goal"
    );
    if cases().any(|case| case.is_meta) {
        match Peer::memcached() {
            Some(memcached) => {
                let own = Peer::own("memcached");
                for peer in [&memcached, &own] {
                    load(peer.address, true);
                }
                for case in cases().filter(|case| case.is_meta) {
                    compare(case, &memcached, &own);
                }
            }
            None => eprintln!("skipped: no memcached is installed"),
        }
    }
    if cases().all(|case| case.is_meta) {
        return ExitCode::SUCCESS;
    }
    let Some(redis) = Peer::redis() else {
        eprintln!("skipped: no redis-server is installed");
        return ExitCode::SUCCESS;
    };
    let own = Peer::own("sleep");
    for peer in [&redis, &own] {
        load(peer.address, false);
    }
    for case in cases().filter(|case| !case.busy_poll && !case.is_meta) {
        compare(case, &redis, &own);
    }
    drop(own);
    let polling = Peer::own("poll");
    load(polling.address, false);
    for case in cases().filter(|case| case.busy_poll) {
        compare(case, &redis, &polling);
    }
    ExitCode::SUCCESS
}

/// `mode`: `sleep`, `poll` or `memcached`.
fn serve(mode: &str) -> ExitCode {
    let hasher = KeyHasher::random();
    let store = Store::new(StoreOptions {
        memory_bytes: 1 << 30,
        semantics: Semantics::Store,
        hasher: hasher.clone(),
        huge_pages: true,
    });
    let clock = Clock::start();
    let mut backing = Memory::new(store.expect("memory"), clock.start_ms());
    let mut addresses = Addresses::default();
    let listed = match mode {
        "memcached" => &mut addresses.memcached,
        _ => &mut addresses.tcp,
    };
    listed.push((Ipv4Addr::LOCALHOST, 0).into());
    let server = Server::bind(Settings {
        addresses,
        busy_poll: mode == "poll",
        cores: vec![SERVER_CORE],
        ..Settings::default()
    });
    let server = server.expect("a free port");
    for address in server.settings().addresses.of_clients() {
        println!("{address}");
    }
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
        let words = ["redis-server", "--save", "", "--appendonly", "no", "--port"];
        Self::start(&words)
    }

    fn memcached() -> Option<Self> {
        let words = ["memcached", "-u", "nobody", "-l", "127.0.0.1"];
        Self::start(&[&words[..], &["-t", "1", "-m", "1024", "-p"]].concat())
    }

    /// Starts a program, whose last word is its port.
    fn start(words: &[&str]) -> Option<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let process = Command::new("taskset")
            .args(["-c", &SERVER_CORE.to_string()])
            .args(words)
            .arg(address.port().to_string())
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

fn compare(case: &Case, other: &Peer, own: &Peer) {
    let measures = [other, own].map(|peer| move || measure(case, peer));
    let [others, owns] = &measures;
    print_comparison(&case.name(), case.goal, others, owns);
}

/// Measures in turns, and prints a line.
fn print_comparison(name: &str, goal: f64, other: &dyn Fn() -> Sample, own: &dyn Fn() -> Sample) {
    let mut results = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (side, measure) in [(0, other), (1, own), (1, own), (0, other)] {
            results[side].push(measure());
        }
    }
    let [theirs, ours] = results.map(|results| summary(&results));
    println!(
        "{:28} {:12.0} {:12.0} {:7.2} {:7.2} {:5.1}  {:.0}, {:.0}; {:.0}, {:.0}",
        name,
        theirs.rate,
        ours.rate,
        ours.rate / theirs.rate,
        theirs.cpu_ns / ours.cpu_ns,
        goal,
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

impl Sample {
    fn new(rate: f64, cpu_ns: f64, mut latencies_us: Vec<f64>) -> Self {
        latencies_us.sort_by(f64::total_cmp);
        let quantile =
            |share: f64| latencies_us[((latencies_us.len() - 1) as f64 * share) as usize];
        Self { rate, cpu_ns, p50_us: quantile(0.5), p99_us: quantile(0.99) }
    }
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
fn load(address: SocketAddr, is_meta: bool) {
    let mut stream = connect(address);
    let reply = reply(is_meta, true);
    for first in (0..KEYS).step_by(1000) {
        let pipeline = (first..first + 1000).flat_map(|key| command(is_meta, true, key));
        let pipeline: Vec<u8> = pipeline.collect();
        stream.write_all(&pipeline).expect("it reads");
        let mut replies = vec![0; 1000 * reply.len()];
        stream.read_exact(&mut replies).expect("it answers");
        assert_eq!(replies, reply.repeat(1000));
    }
}

/// A reply; the value does not change its length.
fn reply(is_meta: bool, is_set: bool) -> &'static [u8] {
    match (is_meta, is_set) {
        (false, false) => b"$8\r\n00000000\r\n",
        (false, true) => b"+OK\r\n",
        (true, false) => b"VA 8\r\n00000000\r\n",
        (true, true) => b"HD\r\n",
    }
}

fn command(is_meta: bool, is_set: bool, key: u64) -> Vec<u8> {
    let text = match (is_meta, is_set) {
        (false, false) => format!("*2\r\n$3\r\nGET\r\n$8\r\n{key:08}\r\n"),
        (false, true) => format!("*3\r\n$3\r\nSET\r\n$8\r\n{key:08}\r\n$8\r\n{key:08}\r\n"),
        (true, false) => format!("mg {key:08} v\r\n"),
        (true, true) => format!("ms {key:08} 8\r\n{key:08}\r\n"),
    };
    text.into_bytes()
}

struct Connection {
    stream: TcpStream,
    pipelines: Vec<Vec<u8>>,
    next: usize,
    missing_bytes: usize,
    sent: VecDeque<Instant>,
}

/// CPU time of a process's threads (schedstat, proc(5)).
fn cpu_ns(process: &Child) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.id()));
    let threads = threads.into_iter().flatten().flatten();
    let time = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    threads.filter_map(time).sum()
}

fn measure(case: &Case, peer: &Peer) -> Sample {
    let reply_bytes = reply(case.is_meta, case.is_set).len();
    let set_of = epoll::create(CreateFlags::CLOEXEC).expect("epoll");
    let mut connections: Vec<_> = (0..case.connections)
        .map(|number| {
            let mut random = Random::new(number as u64 + 1);
            let mut command = || command(case.is_meta, case.is_set, random.below(KEYS));
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
            assert!(count > 0 && count <= connection.missing_bytes, "a wrong reply");
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
    Sample::new(rate, cpu_ns, latencies_us)
}

impl Connection {
    fn send(&mut self, reply_bytes: usize) {
        self.sent.push_back(Instant::now());
        self.stream.write_all(&self.pipelines[self.next]).expect("it reads");
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
