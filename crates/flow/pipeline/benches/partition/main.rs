//! Partitioning compared with a filter for each output, Arrow's `take` and copying: GB of the input per
//! second of CPU time of the only thread, so that other programs disturb it less.
//!
//!     cargo bench -p overside-flow --bench partition [-- WORDS] [--turns=N]
//!     cargo bench -p overside-flow --bench partition -- --write FOLDER
//!
//! WORDS select the lines that contain all of them. Sides run in alternating order; a figure is the
//! median. `--write` writes the tables as Arrow IPC, for `benches/partition.py` and `benches/peers`.

mod data;
mod sides;

use std::time::{Duration, Instant};

use overside_flow::operators::PartitionKey;
use rustix::time::{ClockId, clock_gettime};

use data::Table;
use sides::{SIDES, Side};

/// Maximum number of turns, and approximate longest time of all sides of a line.
const TURNS: usize = 21;
const TIME: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes no arguments and only checks that it runs.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let bytes = if is_bench { 500_000_000 } else { 2_000_000 };
    let write = arguments.iter().position(|argument| argument == "--write");
    if let Some(folder) = write.and_then(|at| arguments.get(at + 1)) {
        for table in [data::particles(500_000_000), data::ships(500_000_000)] {
            table.write(folder.as_ref());
        }
        return;
    }
    let turns = arguments.iter().find_map(|one| one.strip_prefix("--turns="));
    let turns = match turns {
        _ if !is_bench => 1,
        Some(turns) => turns.parse().expect("--turns=N"),
        None => TURNS,
    };
    let words: Vec<&String> = (arguments.iter()).filter(|one| !one.starts_with('-')).collect();
    let chosen = |name: &str| {
        let line = words.iter().filter(|word| !["particles", "ships"].contains(&word.as_str()));
        line.clone().count() == 0 || line.clone().all(|word| name.contains(word.as_str()))
    };
    let make: fn(usize) -> Table = data::particles;
    for (name, make) in [("particles", make), ("ships", data::ships)] {
        let of_table = words.iter().filter(|word| ["particles", "ships"].contains(&word.as_str()));
        if of_table.clone().count() > 0 && of_table.clone().all(|word| *word != name) {
            continue;
        }
        let table = make(bytes);
        for ways in [4_u32, 16, 256] {
            let method = format!("hash:{ways}");
            for method in [format!("bits:{}", ways.ilog2()), method] {
                let key = PartitionKey::parse(table.key, &method).expect("a key");
                let sides: Vec<&Side> = SIDES
                    .iter()
                    .filter(|side| {
                        chosen(&format!("{method} {}", side.name)) && (ways < 256 || side.is_ours)
                    })
                    .collect();
                measure(&table, &key, &sides, turns);
            }
        }
    }
}

fn measure(table: &Table, key: &PartitionKey, sides: &[&Side], turns: usize) {
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); sides.len()];
    let begin = Instant::now();
    for turn in 0..turns {
        if turn >= 5 && begin.elapsed() > TIME {
            break;
        }
        for at in 0..sides.len() {
            let at = if turn % 2 == 0 { at } else { sides.len() - 1 - at };
            let begin = cpu_seconds();
            (sides[at].run)(table, key);
            seconds[at].push(cpu_seconds() - begin);
        }
    }
    for (side, seconds) in sides.iter().zip(&mut seconds) {
        seconds.sort_by(f64::total_cmp);
        let rate = |seconds: f64| table.bytes as f64 / seconds / 1e9;
        println!(
            "{:<9} {:<8} {:<24} {:6.2} GB/s ({:.2}..{:.2})",
            table.name,
            key.method.to_string(),
            side.name,
            rate(seconds[seconds.len() / 2]),
            rate(seconds[seconds.len() - 1]),
            rate(seconds[0]),
        );
    }
}

/// Returns the CPU time that this thread has used in user and kernel mode, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
