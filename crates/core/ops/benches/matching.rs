//! Counts records with each engine, in alternating order: `cargo bench -p overside-ops --bench matching FILE`.
//!
//! FILE is text, for example from `overside data make accidents`. Each line of the output is one set of
//! patterns. It has each engine's rate and the two choices of `auto`: by the patterns alone, and after a
//! trial on the first 256 KiB. Each choice has its time relative to the fastest of the other engines.

use std::time::{Duration, Instant};

use overside_ops::{Config, Kernel, MatchKind, Operation, prepare, try_matchers, variants};

const OPERATION: Operation = Operation::Match(MatchKind::Count);
const ROUNDS: usize = 9;
/// Number of bytes that a kernel gets in one call.
const CHUNK_BYTES: usize = 256 << 10;
/// Engines that are one library each.
const LIBRARIES: [&str; 3] = ["hyperscan", "regex", "re2"];
const SETS: [&[&str]; 9] = [
    &["At (.+)Exit (.+)"],
    &["(.+) on (.+) at Exit (.+)"],
    &["on (.+) at (.+)"],
    &["Ramp to (.+)"],
    &["At (.+)Exit (.+)", "(.+) on (.+) at Exit (.+)", "on (.+) at (.+)", "Ramp to (.+)"],
    &["Overturned", "Springfield"],
    &["(?i)ramp to i-[0-9]+"],
    &["I-[0-9]{2} .*Exit [0-9]+A"],
    &["e"],
];

fn main() {
    let path = std::env::args().skip(1).find(|argument| argument != "--bench");
    let Some(path) = path else {
        println!("name a text file; `overside data make accidents` makes one");
        return;
    };
    let text = std::fs::read(&path).expect("the file can be read");
    let chunks = chunks(&text);
    for patterns in SETS {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        let sample = chunks[0];
        let trial = try_matchers(&patterns, sample).expect("the patterns are fine");
        let mut engines = engines(&patterns);
        for _ in 0..ROUNDS {
            for engine in &mut engines {
                engine.round(&chunks);
            }
        }
        let time = |name: &str| {
            let engine = engines.iter().find(|engine| engine.name == name);
            engine.map_or(f64::INFINITY, |engine| engine.time.as_secs_f64())
        };
        let best = LIBRARIES.map(time).into_iter().fold(f64::INFINITY, f64::min);
        let auto = auto(&patterns);
        println!("{patterns:?}: {} records match", engines[0].count);
        println!("  {:?}", trial.times);
        assert!(engines.iter().all(|engine| engine.count == engines[0].count));
        for engine in &engines {
            let seconds = engine.time.as_secs_f64();
            let rate = text.len() as f64 / 1e6 / seconds;
            let chosen = [(auto == engine.name, " auto"), (trial.variant == engine.name, " trial")];
            let chosen: String = chosen.iter().filter(|one| one.0).map(|one| one.1).collect();
            let share = seconds / best;
            println!("  {:<10} {rate:>8.0} MB/s  {share:>6.2}{chosen}", engine.name);
        }
    }
}

/// Splits the text into chunks of whole lines.
fn chunks(text: &[u8]) -> Vec<&[u8]> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let len = CHUNK_BYTES.min(rest.len());
        let end = rest[..len].iter().rposition(|&byte| byte == b'\n');
        let (chunk, behind) = rest.split_at(end.map_or(len, |end| end + 1));
        chunks.push(chunk);
        rest = behind;
    }
    chunks
}

fn auto(patterns: &[String]) -> &'static str {
    let config = Config { patterns: patterns.to_vec(), ..Config::new(OPERATION) };
    prepare(&config).expect("the patterns are fine").variant().name
}

struct Engine {
    name: &'static str,
    kernel: Box<dyn Kernel>,
    time: Duration,
    count: u64,
}

impl Engine {
    fn round(&mut self, chunks: &[&[u8]]) {
        let begin = Instant::now();
        let mut count = 0;
        for chunk in chunks {
            let output = self.kernel.run(&[chunk], &mut []);
            count += output.expect("it counts").value.unwrap_or(0);
        }
        self.time = self.time.min(begin.elapsed());
        self.count = count;
    }
}

/// Returns the engines that accept the patterns.
fn engines(patterns: &[String]) -> Vec<Engine> {
    let mut engines = Vec::new();
    for variant in variants(OPERATION) {
        let config = Config {
            variant: variant.name.into(),
            patterns: patterns.to_vec(),
            ..Config::new(OPERATION)
        };
        if let Ok(prepared) = prepare(&config) {
            engines.push(Engine {
                name: variant.name,
                kernel: prepared.kernel().expect("a kernel can be had"),
                time: Duration::MAX,
                count: 0,
            });
        }
    }
    engines
}
