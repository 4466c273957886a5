//! What a stream over a TCP link costs, beside iperf3.
//!
//! `cargo bench -p overside-link --bench network`. Both send 128 KiB at a time over loopback, in
//! turns, their two ends on the same two cores. The aim: 0.95 of iperf3's rate. Round trips of 64
//! bytes by polling are printed for each transport; they have no aim.

#[path = "../../../benches/cores.rs"]
mod cores;
#[path = "../../../benches/turns.rs"]
mod turns;

use std::collections::VecDeque;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use cores::{first_two, pin};
use overside_device::{Region, Slice};
use overside_link::tcp;
use overside_link::ucx::{self, UcxOptions};
use overside_link::verbs::{
    Endpoint, Inbox, LinkConfig, Messages, QueuePair, Side as End, Verb, Work,
};
use turns::{Side, arguments, take_turns, told};

const MESSAGE_BYTES: usize = 128 << 10;
const DEPTH: usize = 8;
const ROUND_TRIPS: usize = 5_000;

/// What carries it, and both ends.
type Link = (String, Box<dyn Endpoint>, Box<dyn Endpoint>);

fn main() {
    let (filter, is_bench) = arguments();
    let cores = first_two();
    let wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter));
    if wanted("stream") {
        stream(is_bench, cores);
    }
    if wanted("round trip") {
        round_trips(is_bench, cores);
    }
}

fn config(side: End) -> LinkConfig {
    LinkConfig {
        depth: DEPTH,
        max_message_bytes: MESSAGE_BYTES,
        ..LinkConfig::new(side)
    }
}

fn stream(is_bench: bool, cores: [usize; 2]) {
    let version = Command::new("iperf3").arg("--version").output();
    if version.is_err() {
        println!("stream: iperf3 is not there (Debian: apt-get install iperf3)");
        return;
    }
    let bytes = if is_bench { 2 << 30 } else { 16 << 20 };
    let (host, dpu) = tcp::pair(&config(End::Host), &config(End::Dpu)).expect("a link");
    let mut pairs = [
        host.open(0).expect("a queue pair"),
        dpu.open(0).expect("a queue pair"),
    ];
    // Seconds for each, so that the ratio is of rates.
    let turned = take_turns(is_bench, |side| match side {
        Side::First => iperf3(bytes, cores),
        Side::Second => link(&host, &dpu, &mut pairs, bytes, cores),
    });
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "stream of 128 KiB messages over loopback, cores {cores:?}: {:.2} GB/s, iperf3 {:.2} GB/s; \
         beside iperf3, {} turns: {}",
        rate(median(turned.iter().map(|turn| turn.1).collect())),
        rate(median(turned.iter().map(|turn| turn.0).collect())),
        turned.len(),
        told(&turned),
    );
}

/// The server, which is ended if anything fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Seconds that iperf3 takes by its own clock.
fn iperf3(bytes: usize, [here, there]: [usize; 2]) -> f64 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a free port").port().to_string();
    let server = Command::new("iperf3")
        .args(["-s", "-1", "-p", &port, "-A", &there.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Server(server.expect("iperf3"));
    for _ in 0..100 {
        let output = Command::new("iperf3")
            .args([
                "-c",
                "127.0.0.1",
                "-p",
                &port,
                "-A",
                &here.to_string(),
                "-J",
            ])
            .args(["-n", &bytes.to_string(), "-l", &MESSAGE_BYTES.to_string()])
            .output()
            .expect("iperf3");
        let text = String::from_utf8_lossy(&output.stdout);
        let told: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let received = &told["end"]["sum_received"];
        let (count, seconds) = (received["bytes"].as_f64(), received["seconds"].as_f64());
        if let (Some(count), Some(seconds)) = (count, seconds) {
            return seconds * bytes as f64 / count;
        }
        // The server is not listening yet.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("iperf3 does not answer");
}

/// Seconds from the first byte until the last has been received.
fn link(
    host: &dyn Endpoint,
    dpu: &dyn Endpoint,
    pairs: &mut [Box<dyn QueuePair>; 2],
    bytes: usize,
    [here, there]: [usize; 2],
) -> f64 {
    let count = bytes / MESSAGE_BYTES;
    let from = host.alloc(MESSAGE_BYTES, 4096).expect("memory").share();
    let into: Vec<Region> = (0..DEPTH)
        .map(|_| dpu.alloc(MESSAGE_BYTES, 4096).expect("memory"))
        .collect();
    let [sender, receiver] = pairs;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(there);
            receive(&mut **receiver, into, count);
        });
        scope.spawn(move || {
            pin(here);
            send(&mut **sender, &from, count);
        });
    });
    begin.elapsed().as_secs_f64()
}

fn send(pair: &mut dyn QueuePair, from: &Slice, count: usize) {
    let (mut posted, mut over, mut done) = (0, 0, Vec::new());
    let mut work = VecDeque::new();
    while over < count {
        while posted < count && work.len() + (posted - over) < DEPTH {
            let from = from.clone();
            work.push_back(Work::new(0, Verb::Send { from }));
            posted += 1;
        }
        pair.post(&mut work).expect("a live link");
        over += pair.poll(&mut done, DEPTH).expect("a live link");
        done.clear();
    }
}

fn receive(pair: &mut dyn QueuePair, into: Vec<Region>, count: usize) {
    let work = |into| Work::new(0, Verb::Receive { into });
    let (mut posted, mut over, mut done) = (0, 0, Vec::new());
    let mut waiting = VecDeque::new();
    let mut free = into;
    while over < count {
        // No more than there will be messages, so that nothing is left waiting.
        while posted < count
            && let Some(into) = free.pop()
        {
            waiting.push_back(work(into));
            posted += 1;
        }
        pair.post(&mut waiting).expect("a live link");
        over += pair.poll(&mut done, DEPTH).expect("a live link");
        for completion in done.drain(..) {
            assert_eq!(completion.result, Ok(MESSAGE_BYTES as u64));
            free.push(completion.destination.expect("handed back"));
        }
    }
}

fn round_trips(is_bench: bool, cores: [usize; 2]) {
    let (ours, theirs) = (config(End::Host), config(End::Dpu));
    let mut links: Vec<Link> = Vec::new();
    match tcp::pair(&ours, &theirs) {
        Ok((host, dpu)) => links.push(("tcp".into(), Box::new(host), Box::new(dpu))),
        Err(error) => println!("round trip: {error}"),
    }
    for transports in ["posix,cma,self", "tcp,self"] {
        let options = UcxOptions {
            transports: Some(transports.into()),
            ..UcxOptions::default()
        };
        match ucx::pair(&ours, &theirs, &options) {
            Ok((host, dpu)) => {
                let name = format!("rdma over {transports}");
                links.push((name, Box::new(host), Box::new(dpu)));
            }
            Err(error) => println!("round trip over {transports}: {error}"),
        }
    }
    for (name, host, dpu) in links {
        let (mut here, mut there) = (host.open(0).expect("one"), dpu.open(0).expect("one"));
        let count = if is_bench { ROUND_TRIPS } else { 50 };
        let mut times: Vec<f64> = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(cores[1]);
                for _ in 0..count {
                    bounce(&mut *there, false);
                }
            });
            pin(cores[0]);
            for _ in 0..count {
                let begin = Instant::now();
                bounce(&mut *here, true);
                times.push(begin.elapsed().as_secs_f64());
            }
        });
        times.sort_by(f64::total_cmp);
        println!(
            "round trip of 64 bytes over {name}, polling: {:.2} us, the median of {count}",
            times[times.len() / 2] * 1e6
        );
    }
}

/// Sends and then receives, or the other way round.
fn bounce(pair: &mut dyn QueuePair, first: bool) {
    let mut inbox = Inbox::new();
    for step in 0..2 {
        if first == (step == 0) {
            let message = Messages::one(&[1; 64]).expect("not empty");
            while pair.send(message).expect("a live link") == 0 {}
        } else {
            while pair.receive(&mut inbox, 1).expect("a live link") == 0 {
                std::hint::spin_loop();
            }
        }
    }
}
