//! Benchmark of the link between the two engines, its cost and its saving:
//!
//! 1. the time that `lat` adds to the median time of a request against `cpu-only`: the load is made
//!    inside the communication engine, which sends requests to a store on another core and to one of its
//!    own, in alternating order;
//! 2. CPU time of the host for a request: of `cpu-only` with a client over loopback, all of the
//!    serving thread's; of `sav`, the store's thread for a message with as many requests. Turns in
//!    which it finds no message are not counted, since their number depends on the load.
//!
//! `cargo bench -p overside-kv --bench offload`

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use overside_base::median;
use overside_device::threads::pin;
use overside_kv::clock::Clock;
use overside_kv::server::{Addresses, Memory, Server, Settings};
use overside_kv::store::{Semantics, StoreOptions};
use overside_kv::{Answer, KeyHasher, Operation, ProcessingEngine, Request, Store};
use overside_kv_offload::{Channel, ChannelOptions, Optimizations, RemoteEngine, Responder};
use rustix::time::{ClockId, clock_gettime};

const KEYS: usize = 100_000;
const BLOCKS: usize = 40;
const BLOCK: usize = 2000;
const NOW_MS: u64 = 1_000_000;
/// Requests of a turn for which CPU time is measured.
const BATCHES: [usize; 3] = [1, 16, 64];

fn keys() -> Vec<[u8; 8]> {
    (0..KEYS as u64)
        .map(|key| (key + 10_000_000).to_string().into_bytes().try_into().unwrap())
        .collect()
}

fn filled(hasher: &KeyHasher, keys: &[[u8; 8]]) -> Memory<Store> {
    let store = Store::new(StoreOptions {
        memory_bytes: 64 << 20,
        semantics: Semantics::Store,
        hasher: hasher.clone(),
        huge_pages: true,
    });
    let mut memory = Memory::new(store.unwrap(), NOW_MS);
    for key in keys {
        let set = Operation::set(key);
        memory.execute(&[request(key, hasher, set)], NOW_MS, &mut |_, _| {});
    }
    memory
}

fn request<'a>(key: &'a [u8], hasher: &KeyHasher, operation: Operation<'a>) -> Request<'a> {
    Request::new(key, hasher, operation)
}

fn channel() -> [Channel; 2] {
    Channel::pairs(1, ChannelOptions::default()).unwrap().remove(0)
}

/// Times of single requests in nanoseconds.
fn block(engine: &mut dyn ProcessingEngine, gets: &[Request<'_>], times: &mut Vec<f64>) {
    for get in gets.chunks(1) {
        let begin = Instant::now();
        engine.execute(get, NOW_MS, &mut |_, answer| assert!(matches!(answer, Answer::Value(_))));
        times.push(begin.elapsed().as_nanos() as f64);
    }
}

fn latency(keys: &[[u8; 8]]) {
    let hasher = KeyHasher::random();
    let [asking, answering] = channel();
    let mut own = filled(&hasher, keys);
    let is_over = AtomicBool::new(false);
    let mut times = [Vec::new(), Vec::new()];
    thread::scope(|scope| {
        scope.spawn(|| {
            // Where there is no second core the figures show it.
            let _ = pin(1);
            let mut store = filled(&hasher, keys);
            let mut responder = Responder::new(answering, hasher.clone());
            while !is_over.load(Ordering::Relaxed) {
                if !responder.poll(&mut store, NOW_MS).unwrap() {
                    std::hint::spin_loop();
                }
            }
        });
        let _ = pin(0);
        let mut remote = RemoteEngine::with(asking, Optimizations::default());
        let gets: Vec<_> = keys.iter().map(|key| request(key, &hasher, Operation::Get)).collect();
        for number in 0..BLOCKS {
            let gets = &gets[number * BLOCK % (KEYS - BLOCK)..][..BLOCK];
            block(&mut own, gets, &mut times[0]);
            block(&mut remote, gets, &mut times[1]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let [own, remote] = times.map(|times| median(times).unwrap_or_default());
    println!(
        "median of a GET: cpu-only {own:.0} ns, lat {remote:.0} ns, lat adds {:.0} ns",
        remote - own
    );
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time for a request of a server with a client that sends `batch` at a time.
fn host_alone(keys: &[[u8; 8]], batch: usize, turns: usize) -> f64 {
    let hasher = KeyHasher::random();
    let settings = Settings {
        addresses: Addresses { tcp: vec!["127.0.0.1:0".parse().unwrap()], ..Addresses::default() },
        drain: Duration::from_secs(1),
        ..Settings::default()
    };
    let server = Server::bind(settings).unwrap();
    let address = server.settings().addresses.tcp[0];
    let stop = server.stop_handle();
    let mut store = filled(&hasher, keys);
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let _ = pin(1);
            let begin = cpu();
            server.run(&mut store, &hasher, Clock::start()).unwrap();
            cpu() - begin
        });
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let reply_bytes = "$8\r\n12345678\r\n".len();
        let mut heard = vec![0; reply_bytes * batch];
        for turn in 0..turns {
            let mut commands = Vec::new();
            for key in keys.iter().cycle().skip(turn * 17 % KEYS).take(batch) {
                commands.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$8\r\n");
                commands.extend_from_slice(key);
                commands.extend_from_slice(b"\r\n");
            }
            stream.write_all(&commands).unwrap();
            stream.read_exact(&mut heard).unwrap();
        }
        drop(stream);
        stop.stop();
        let spent = serving.join().expect("the server has no error");
        spent.as_nanos() as f64 / (turns * batch) as f64
    })
}

/// CPU time for a request of the store's thread, for messages of `batch` requests.
fn host_of_sav(keys: &[[u8; 8]], batch: usize, turns: usize) -> f64 {
    let hasher = KeyHasher::random();
    let [asking, answering] = channel();
    let mut remote = RemoteEngine::with(asking, Optimizations::default());
    let mut responder = Responder::new(answering, hasher.clone());
    let mut store = filled(&hasher, keys);
    let gets: Vec<_> = keys.iter().map(|key| request(key, &hasher, Operation::Get)).collect();
    let mut spent = Duration::ZERO;
    for turn in 0..turns {
        let batch = &gets[turn * 17 % (KEYS - batch)..][..batch];
        remote.begin(batch, NOW_MS);
        let begin = Instant::now();
        assert!(responder.poll(&mut store, NOW_MS).unwrap());
        spent += begin.elapsed();
        while !remote.poll(batch, &mut |_, _| {}) {}
    }
    spent.as_nanos() as f64 / (turns * batch) as f64
}

fn main() {
    let keys = keys();
    latency(&keys);
    let _ = pin(0);
    for batch in BATCHES {
        let turns = 40_000 / batch.max(4);
        // By turns, so that both have the machine as it is.
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            figures[0].push(host_alone(&keys, batch, turns));
            figures[1].push(host_of_sav(&keys, batch, turns));
        }
        let [alone, sav] = figures.map(|figures| median(figures).unwrap_or_default());
        println!(
            "host CPU of a GET, {batch} a turn: cpu-only {alone:.0} ns, sav {sav:.0} ns, {:.2} of it",
            sav / alone
        );
    }
}
