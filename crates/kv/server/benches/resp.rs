//! Nanoseconds a command of the communication engine with a store, and without one: pipelines of
//! GETs and SETs with keys and values of eight bytes, from memory to memory. Then the cost of
//! timing each stage in a turn of the server, in short passes with and without it in alternation. A
//! real turn also has system calls, so that its part there is smaller.

use std::hint::black_box;
use std::time::{Duration, Instant};

use overside_kv::protocol::{CommunicationEngine, Ready, ServerContext, Session};
use overside_kv::stages::{Stage, StageClock};
use overside_kv::store::StoreOptions;
use overside_kv::{
    Answer, Answers, KeyHasher, Metadata, Operation, ProcessingEngine, Refusal, Request,
    ScanPosition, Statistics, Store, Transaction, Value,
};

/// Answers without looking up keys, to leave only the communication engine.
struct Nothing;

impl ProcessingEngine for Nothing {
    fn execute(&mut self, batch: &[Request<'_>], _: u64, answers: Answers<'_>) {
        let value = Value { data: b"12345678", ..Value::default() };
        for (index, request) in batch.iter().enumerate() {
            match request.operation {
                Operation::Get => answers(index, Answer::Value(value)),
                _ => answers(index, Answer::Stored { version: 1 }),
            }
        }
    }

    fn execute_transaction(&mut self, _: &Transaction<'_>, _: u64, _: Answers<'_>) -> bool {
        false
    }

    fn scan(
        &mut self,
        _: ScanPosition,
        _: usize,
        _: u64,
        _: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        Ok(ScanPosition::default())
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    fn expire_some(&mut self, _: u64, _: usize) -> usize {
        0
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

struct Server<'e> {
    engine: &'e mut dyn ProcessingEngine,
    stages: Option<&'e StageClock>,
}

impl ServerContext for Server<'_> {
    fn engine(&mut self) -> &mut dyn ProcessingEngine {
        self.engine
    }

    fn stages(&self) -> Option<&StageClock> {
        self.stages
    }

    fn now_ms(&mut self) -> u64 {
        1_700_000_000_000
    }

    fn authenticate(&mut self, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn has_password(&self) -> bool {
        false
    }
}

const KEYS: usize = 100_000;

/// Pipelines of `len` commands, together as many as there are keys.
fn pipelines(name: &str, len: usize) -> Vec<Vec<u8>> {
    let commands: Vec<String> = (0..KEYS)
        .map(|n| {
            // Not in the order in which they are stored.
            let key = n * 48_271 % KEYS;
            match name {
                "GET" => format!("*2\r\n$3\r\nGET\r\n$8\r\n{key:08}\r\n"),
                _ => format!("*3\r\n$3\r\nSET\r\n$8\r\n{key:08}\r\n$8\r\n{n:08}\r\n"),
            }
        })
        .collect();
    commands.chunks(len).map(|commands| commands.concat().into_bytes()).collect()
}

/// Nanoseconds a command in the fastest of some passes over all pipelines.
fn measure(engine: &mut dyn ProcessingEngine, hasher: &KeyHasher, pipelines: &[Vec<u8>]) -> f64 {
    let mut communication = CommunicationEngine::default();
    let mut session = Session::new(1, true);
    let mut output = Vec::new();
    let mut pass = || {
        let begin = Instant::now();
        for input in pipelines {
            output.clear();
            let mut ready = [Ready::new(&mut session, input, &mut output)];
            let mut server = Server { engine, stages: None };
            communication.process(&mut ready, hasher, &mut server);
            assert_eq!(ready[0].consumed, input.len());
            black_box(&output);
        }
        begin.elapsed()
    };
    pass();
    let fastest = (0..31).map(|_| pass()).min().unwrap_or(Duration::MAX);
    fastest.as_secs_f64() * 1e9 / KEYS as f64
}

/// Measures the cost of counting stages. Returns the median of the added time per turn in
/// nanoseconds, and the quartiles of the ratio of times with and without counting.
fn measure_stages(
    engine: &mut dyn ProcessingEngine,
    hasher: &KeyHasher,
    pipelines: &[Vec<u8>],
) -> [f64; 4] {
    const ROUNDS: usize = 1001;
    const COMMANDS: usize = 4096;
    let mut communication = CommunicationEngine::default();
    let mut session = Session::new(1, true);
    let mut output = Vec::new();
    let clock = StageClock::start();
    let turns = (COMMANDS * pipelines.len() / KEYS).max(1);
    let mut pass = |stages: Option<&StageClock>| {
        let end = |stage| {
            if let Some(stages) = stages {
                stages.end(stage);
            }
        };
        let begin = Instant::now();
        for input in &pipelines[..turns] {
            // As the server's thread does before and after.
            [Stage::Other, Stage::Wait, Stage::Receive].into_iter().for_each(end);
            output.clear();
            let mut ready = [Ready::new(&mut session, input, &mut output)];
            let mut server = Server { engine: &mut *engine, stages };
            communication.process(&mut ready, hasher, &mut server);
            black_box(&output);
            [Stage::Persist, Stage::Respond].into_iter().for_each(end);
        }
        begin.elapsed().as_secs_f64() * 1e9
    };
    let mut pairs: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|round| {
            if round % 2 == 0 {
                let with = pass(Some(&clock));
                (with, pass(None))
            } else {
                let without = pass(None);
                (pass(Some(&clock)), without)
            }
        })
        .collect();
    pairs.sort_unstable_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let ratio = |at: usize| pairs[at].0 / pairs[at].1;
    let quartiles = [ROUNDS / 4, ROUNDS / 2, 3 * ROUNDS / 4].map(ratio);
    let mut added: Vec<f64> = pairs.iter().map(|(with, without)| with - without).collect();
    added.sort_unstable_by(f64::total_cmp);
    let [low, median, high] = quartiles;
    [added[ROUNDS / 2] / turns as f64, low, median, high]
}

fn main() {
    let hasher = KeyHasher::random();
    let options = StoreOptions::new(64 << 20, &hasher);
    let mut store = Store::new(options).expect("the system has address space");
    println!(
        "{:>8} {:>8} {:>14} {:>16}",
        "command", "pipeline", "with the store", "without a store"
    );
    for name in ["SET", "GET"] {
        for len in [1, 16, 64] {
            let pipelines = pipelines(name, len);
            let with = measure(&mut store, &hasher, &pipelines);
            let without = measure(&mut Nothing, &hasher, &pipelines);
            println!("{name:>8} {len:>8} {with:>11.1} ns {without:>13.1} ns");
        }
    }
    println!(
        "\n{:>8} {:>8}  counting stages: ns a turn, and time as a multiple (quartiles)",
        "command", "pipeline"
    );
    for len in [1, 16, 64, 256] {
        let [added, low, median, high] =
            measure_stages(&mut store, &hasher, &pipelines("GET", len));
        println!("{:>8} {len:>8}  {added:>6.1} ns  {median:.4} ({low:.4} to {high:.4})", "GET");
    }
}
