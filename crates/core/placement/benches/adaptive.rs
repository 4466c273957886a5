//! Benchmark that compares adaptive placement with the best fixed split, on emulated cards.
//!
//! `cargo bench -p overside-placement --bench adaptive [-- FILTER]`. For each card and operation,
//! streams of equal chunks run under `split:0` to `split:100` in steps of ten and under `adaptive`,
//! in turns, beside one thread of the CPU. The card replays results computed before the clock
//! starts, so that the emulation takes next to nothing from the CPU. Printed are the median
//! rates, the best fixed split, and adaptive's part of it; the aims are at least 0.95 of the best
//! split and of the better target alone. Opening the device and learning count for adaptive.

#[path = "../../../../benches/data.rs"]
mod data;
#[path = "../../../../benches/turns.rs"]
#[allow(dead_code)]
mod turns;

use std::sync::Arc;
use std::time::{Duration, Instant};

use data::{compressed, plain};
use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_device::{Device, ExternalBytes, Operation, OperationConfig, Slice};
use overside_model::profile;
use overside_placement::{DeviceSetup, Executor, Policy, Setup};

const CHUNKS: usize = 48;
const LONG: Duration = Duration::from_secs(10);

fn main() {
    let (filter, is_bench) = turns::arguments();
    let cases = [
        ("bf2", "compress-deflate"),
        ("bf2", "decompress-deflate"),
        ("bf3", "decompress-deflate"),
        ("bf3", "decompress-lz4-block"),
    ];
    for bytes in [64 << 10, 1 << 20] {
        let plain = plain(bytes, CHUNKS);
        for (card, name) in cases {
            let title = format!("{card} {name} {} KiB", bytes >> 10);
            if filter.as_ref().is_none_or(|filter| title.contains(filter)) {
                sweep(&title, card, name, &plain, is_bench);
            }
        }
    }
}

fn sweep(title: &str, card: &str, name: &str, plain: &[Vec<u8>], is_bench: bool) {
    let (rounds, time) =
        if is_bench { (7, Duration::from_millis(600)) } else { (1, Duration::from_millis(5)) };
    let operation = OperationConfig::new(name.parse().expect("a name"));
    let inputs = compressed(&operation, plain);
    let card = profile(card).expect("a profile");
    let device: Arc<dyn Device> = Arc::new(EmulatedDevice::new(card, Mode::Replay));
    let cpu: Arc<dyn Device> = Arc::new(CpuDevice::new(CpuOptions::default()).expect("a thread"));
    let longest = inputs.iter().chain(plain).map(Vec::len).max().unwrap_or(0);
    let setup = |policy| Setup {
        cpu: Some(Arc::clone(&cpu)),
        devices: vec![DeviceSetup::new(Arc::clone(&device))],
        source_bytes: longest,
        destination_bytes: longest,
        cpu_depth: 2,
        ..Setup::new(operation.clone(), policy)
    };
    let sources: Vec<Slice> = (inputs.iter())
        .map(|input| device.register(ExternalBytes::new(input.clone())).expect("reachable"))
        .collect();
    // Of what throughput counts: the uncompressed side.
    let counted: Vec<usize> = match operation.operation {
        Operation::Decompress(_) => plain.iter().map(Vec::len).collect(),
        _ => inputs.iter().map(Vec::len).collect(),
    };
    let run = |policy, time| rate(setup(policy), &sources, &counted, time);
    run(Policy::Device, Duration::ZERO);
    let mut policies: Vec<Policy> =
        (0..=10).map(|tenths| Policy::split(10.0 * f64::from(tenths)).unwrap()).collect();
    policies.push(Policy::Adaptive);
    let mut rates = vec![Vec::new(); policies.len()];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..policies.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            rates[at].push(run(policies[at], time));
        }
    }
    tell(title, &policies, rates);
}

/// Bytes a second of a stream of about that time; at least every source once.
fn rate(setup: Setup, sources: &[Slice], counted: &[usize], time: Duration) -> f64 {
    let explain = setup.policy == Policy::Adaptive && std::env::var_os("EXPLAIN").is_some();
    let mut executor = Executor::open(setup).expect("it can do that");
    let begin = Instant::now();
    let (mut pushed, mut bytes) = (0, 0);
    let mut open = true;
    while open || executor.in_flight() > 0 {
        while open && executor.has_capacity() {
            let at = pushed % sources.len();
            executor.push(sources[at].clone().into()).expect("there is room");
            bytes += counted[at];
            pushed += 1;
        }
        executor.wait(LONG).expect("waiting works");
        while let Some(piece) = executor.pull().expect("the threads live") {
            assert!(piece.result.is_ok(), "{:?}", piece.result);
        }
        open = open && (pushed < sources.len() || begin.elapsed() < time);
    }
    let rate = bytes as f64 / begin.elapsed().as_secs_f64();
    let report = executor.close();
    assert_eq!(report.events, []);
    if explain {
        for decided in &report.decisions {
            println!("    {:.3} s {}", decided.at_ns as f64 / 1e9, decided.reason);
        }
    }
    rate
}

fn tell(title: &str, policies: &[Policy], rates: Vec<Vec<f64>>) {
    let medians: Vec<f64> = (rates.into_iter())
        .map(|mut rates| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2] / 1e6
        })
        .collect();
    let (fixed, adaptive) = medians.split_at(medians.len() - 1);
    let best = (0..fixed.len()).max_by(|a, b| fixed[*a].total_cmp(&fixed[*b])).unwrap_or(0);
    let pure = fixed[0].max(fixed[fixed.len() - 1]);
    let all: Vec<String> = fixed.iter().map(|rate| format!("{rate:.0}")).collect();
    println!(
        "{title}: MB/s {}; best {} {:.0}, adaptive {:.0}: {:.3} of the best, {:.3} of the better target",
        all.join(" "),
        policies[best],
        fixed[best],
        adaptive[0],
        adaptive[0] / fixed[best],
        adaptive[0] / pure,
    );
}
