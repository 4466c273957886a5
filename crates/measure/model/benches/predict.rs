//! Benchmark of the time of one prediction: `cargo bench -p overside-model --bench predict`.
//!
//! Answers every published figure that a question asks about, each from the built-in profiles, and
//! prints by scenario the median and the longest time of a prediction in microseconds. Reading the
//! collection and the profiles is timed apart.

use std::collections::BTreeMap;
use std::time::Instant;

use overside_model::Library;
use overside_model::facts::{Fact, Facts};
use overside_model::questions::Questions;

const ROUNDS: usize = 21;

fn main() {
    let start = Instant::now();
    let (facts, library) = (Facts::published(), Library::published());
    println!("reading facts and profiles: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let mut times: BTreeMap<String, Vec<(f64, String)>> = BTreeMap::new();
    let figures: Vec<_> = facts.facts.iter().flat_map(Fact::figures).collect();
    for figure in &figures {
        let mut rounds: Vec<(f64, String)> = (0..ROUNDS)
            .filter_map(|_| {
                let start = Instant::now();
                let question = Questions::published().of(figure)?;
                let answer = std::hint::black_box(question.answer(library));
                let spent = start.elapsed().as_secs_f64() * 1e6;
                drop(answer);
                Some((spent, question.scenario().to_owned()))
            })
            .collect();
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((median, scenario)) = rounds.get(ROUNDS / 2) {
            times.entry(scenario.clone()).or_default().push((*median, figure.name()));
        }
    }
    println!("{:24} {:>8} {:>12} {:>12}", "scenario", "figures", "median us", "longest us");
    for (scenario, mut all) in times {
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (middle, (last, name)) = (all[all.len() / 2].0, &all[all.len() - 1]);
        println!("{scenario:24} {:>8} {middle:>12.1} {last:>12.1}  {name}", all.len());
    }
}
