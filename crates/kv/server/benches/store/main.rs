//! Lookups and writes of a partition, compared with the memory's speed.
//!
//! `cargo bench -p overside-kv --bench store [-- ITEMS [BATCH]]`, 16 Mi items by default, keys and values of 8 bytes,
//! one core. Keys lie in a buffer as they would be received; hashing them and making requests of them is timed, as the
//! communication engine does that. For comparison, in turns and in the same process, independent reads of two random
//! cache lines for each key, from an array as large as the partition. Printed are the best rates by the thread's CPU
//! time, and the median ratio over the turns. The aim in batches of 64 at 16 Mi items is 40 million GETs a second of
//! uniform keys, 50 million of Zipf 0.99.

mod lines;

use std::hint::black_box;

use lines::Lines;
use overside_base::{Random, Zipf};
use overside_kv::store::{Semantics, Store, StoreOptions};
use overside_kv::{Answer, KeyHasher, Operation, ProcessingEngine, Request};
use rustix::time::{ClockId, clock_gettime};

#[path = "../../../../../benches/cores.rs"]
mod cores;

const NOW_MS: u64 = 1;
const SLICE: usize = 1 << 20;
const TURNS: usize = 15;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse().ok());
    let items: u64 = numbers.next().unwrap_or(if is_bench { 16 << 20 } else { 1 << 14 });
    let only_batch = numbers.next();
    let (slice, turns) = if is_bench { (SLICE, TURNS) } else { (1 << 12, 1) };
    cores::pin(cores::first_two()[0]);

    let mut store = Store::new(StoreOptions {
        memory_bytes: 64 * items as usize + (8 << 20),
        semantics: Semantics::Store,
        hasher: KeyHasher::random(),
        huge_pages: true,
    })
    .expect("address space");
    let keys: Vec<[u8; 8]> = (0..items).map(u64::to_le_bytes).collect();
    let seconds = timed(|| assert_eq!(run(&mut store, &keys, 64, set), items));
    let statistics = store.statistics();
    let overhead = (statistics.memory_bytes - statistics.payload_bytes) as f64 / items as f64;
    let fill_rate = items as f64 / seconds / 1e6;
    println!(
        "{items} items, {overhead:.1} bytes each beyond the payload, {fill_rate:.1} M/s to fill"
    );

    let lines = Lines::new(statistics.memory_bytes as usize);
    let hasher = store.hasher().clone();
    let mut random = Random::new(1);
    for (name, skew) in [("uniform", 0.0), ("Zipf 0.99", 0.99)] {
        let zipf = Zipf::new(items, skew);
        // Frequent keys do not lie side by side.
        let mut draw = || zipf.draw(&mut random).wrapping_mul(0x9e37_79b9_7f4a_7c15) % items;
        let keys: Vec<[u8; 8]> = (0..4 * slice).map(|_| draw().to_le_bytes()).collect();
        for batch in [1, 16, 64] {
            if only_batch.is_some_and(|only| only != batch as u64) {
                continue;
            }
            let mut times = Vec::new();
            for turn in 0..turns {
                let keys = &keys[turn % 4 * slice..][..slice];
                let get = timed(|| assert_eq!(run(&mut store, keys, batch, get), slice as u64));
                let set = timed(|| assert_eq!(run(&mut store, keys, batch, set), slice as u64));
                let bare = timed(|| assert!(black_box(lines.read(keys, batch, &hasher)) > 0));
                times.push([get, set, bare]);
            }
            report(name, batch, slice, &times);
        }
    }
}

fn get(_key: &[u8; 8]) -> Operation<'_> {
    Operation::Get
}

fn set(key: &[u8; 8]) -> Operation<'_> {
    Operation::set(key)
}

/// Number of requests that were answered as they should be.
fn run<'k>(
    store: &mut Store,
    keys: &'k [[u8; 8]],
    batch: usize,
    operation: impl Fn(&'k [u8; 8]) -> Operation<'k>,
) -> u64 {
    let hasher = store.hasher().clone();
    let mut requests = Vec::with_capacity(batch);
    let mut count = 0;
    for keys in keys.chunks(batch) {
        requests.clear();
        requests
            .extend(keys.iter().map(|key| Request::new(key.as_slice(), &hasher, operation(key))));
        store.execute(&requests, NOW_MS, &mut |index, answer| {
            count += match answer {
                Answer::Value(value) => u64::from(value.data == keys[index]),
                Answer::Stored { .. } => 1,
                _ => 0,
            };
        });
    }
    count
}

/// Seconds of the processor, so that other load costs caches, but not turns.
fn timed(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let begin = now();
    work();
    now() - begin
}

fn report(name: &str, batch: usize, slice: usize, times: &[[f64; 3]]) {
    let best = |side: usize| {
        let fastest = times.iter().map(|turn| turn[side]).fold(f64::MAX, f64::min);
        slice as f64 / fastest / 1e6
    };
    let ratio = |side: usize| {
        let mut ratios: Vec<f64> = times.iter().map(|turn| turn[2] / turn[side]).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    };
    println!(
        "  {name:9} batches of {batch:2}: GET {:5.1} M/s, {:.2} of memory; SET {:5.1} M/s, {:.2} of \
         memory; memory {:5.1} M/s",
        best(0),
        ratio(0),
        best(1),
        ratio(1),
        best(2),
    );
}
