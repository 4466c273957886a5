//! Benchmark of the time to simulate ten million requests to a key-value store on one core.
//!
//! `cargo bench -p overside-model --bench kv`. The promise is under 20 s.

use std::time::Instant;

use overside_model::Library;
use overside_model::scenario::{ScenarioArgs, run};

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` passes nothing, and only tries it.
    let whole = std::env::args().any(|argument| argument == "--bench");
    let requests = if whole { 10_000_000 } else { 1_000 };
    let library = Library::published();
    println!("seconds for {requests} requests on one core");
    for design in ["cpu-only", "dpu-only", "lat", "sav", "dual", "shrd"] {
        for (keys, load) in [("0", ""), ("0.99", ""), ("0.99", "10 Mops/s")] {
            let mut asked = ScenarioArgs::of("kv");
            asked.set("design", design);
            asked.set("skew", keys);
            asked.set("requests", &requests.to_string());
            if !load.is_empty() {
                asked.set("load", load);
            }
            let begun = Instant::now();
            run(&asked, library).expect("the built-in profiles answer");
            let elapsed = begun.elapsed().as_secs_f64();
            let load = if load.is_empty() { "closed loop" } else { load };
            println!("{design:<10} skew {keys:<5} {load:<12} {elapsed:6.2}");
        }
    }
}
