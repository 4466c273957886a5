//! Measurement of how precisely replayed completions are released, and of the cards and buffer
//! sizes that this machine can emulate. `cargo bench -p overside-backend-emulated`.
//!
//! Depth 16, the submitter waits for events. `over` is how much later than modelled the last of 16
//! jobs handed over at once was seen by the submitter, wake-up included; `late` the share of
//! completions marked as late.

#[path = "../tests/it/common.rs"]
mod common;

use std::time::Duration;

use common::{config, job, run};
use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_base::Random;
use overside_device::Device;
use overside_model::profile;
use overside_testkit::again;

const DEPTH: u64 = 16;
const BATCHES: usize = 200;

/// Words of random letters: compresses to about the half, as real text does.
fn prose(seed: usize, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed as u64);
    let mut next = move |bound: u64| random.below(bound);
    let words: Vec<Vec<u8>> = (0..2000)
        .map(|_| {
            let letters = 2 + next(8);
            (0..letters).map(|_| b'a' + next(26) as u8).chain(*b" ").collect()
        })
        .collect();
    let mut text = Vec::with_capacity(len + 10);
    while text.len() < len {
        text.extend_from_slice(&words[next(2000) as usize]);
    }
    text.truncate(len);
    text
}

fn compressed(seed: usize, len: usize, format: &str) -> Vec<u8> {
    let config = overside_ops::Config::new(format!("compress-{format}").parse().unwrap());
    let mut kernel = overside_ops::prepare(&config).unwrap().kernel().unwrap();
    let mut out = vec![0; len + 64];
    let written = kernel.run(&[&prose(seed, len)], &mut out).unwrap().written;
    out.truncate(written);
    out
}

fn main() {
    println!(
        "{:32} {:>8} {:>10} {:>10} {:>10} {:>7}",
        "", "bytes", "modelled", "over p50", "over p90", "late"
    );
    for (card, name, format) in [
        ("bf2", "compress-deflate", None),
        ("bf2", "decompress-deflate", Some("deflate")),
        ("bf3", "decompress-lz4-block", Some("lz4-block")),
    ] {
        for len in [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            one(card, name, format, len);
        }
    }
}

fn one(card: &str, name: &str, format: Option<&str>, len: usize) {
    let device = EmulatedDevice::new(profile(card).unwrap(), Mode::Replay);
    let mut context = device.open(config(name, DEPTH as usize, len)).unwrap();
    let input =
        |seed| format.map_or_else(|| prose(seed, len), |format| compressed(seed, len, format));
    let mut jobs: Vec<_> =
        (0..DEPTH).map(|tag| job(&device, tag, input(tag as usize), len)).collect();
    let (mut over, mut late, mut modelled) = (Vec::new(), 0, Duration::ZERO);
    for batch in 0..=BATCHES {
        let (begin, seen) = run(&mut *context, jobs);
        let last = seen.last().unwrap();
        let stages = last.completion.stages;
        let ns = [stages.queueing_ns, stages.transfer_ns, stages.engine_ns].into_iter().flatten();
        modelled = Duration::from_nanos(ns.sum());
        // The first batch is computed.
        if batch > 0 {
            over.push((last.at - begin).saturating_sub(modelled));
            late += seen.iter().filter(|one| one.completion.stages.late).count();
        }
        jobs = seen.into_iter().map(|one| again(one.completion)).collect();
    }
    over.sort();
    let share = late as f64 / (BATCHES as f64 * DEPTH as f64);
    println!(
        "emulated:{card:<4}{name:<20}{len:>8} {modelled:>10.1?} {:>10.1?} {:>10.1?} {:>6.1}%",
        over[BATCHES / 2],
        over[BATCHES * 9 / 10],
        share * 100.0
    );
}
