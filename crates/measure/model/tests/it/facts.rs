//! The closed-form cost of an operation against facts that no value was taken from.

use overside_model::facts::{Facts, Use};
use overside_model::{BreakEven, OutlookQuestion, Profile, Setting, Work, cost, outlook, profile};
use overside_ops::Operation;

const MIB: f64 = 1_048_576.0;

/// Number, or ends of the range, of a held-out fact, after the numbers among the keys of its path.
fn held_out(id: &str) -> Vec<f64> {
    let fact = Facts::published().get(id);
    let fact = fact.unwrap_or_else(|| panic!("there is no fact {id}"));
    assert_eq!(fact.purpose, Use::Validate, "{id}");
    let numbers = fact.figures().into_iter().flat_map(|figure| {
        let keys = figure.path.iter().filter_map(|key| key.parse().ok());
        assert!(figure.value.is_number(), "{id}: {}", figure.value);
        let values = figure.value.numbers();
        keys.chain(values).collect::<Vec<f64>>()
    });
    numbers.collect()
}

/// MiB of the source a second of one job, as (slowest, fastest).
fn rate_mib_per_s(
    device: &Profile,
    name: &str,
    setting: Setting,
    source: f64,
    result: f64,
) -> (f64, f64) {
    let mut work = Work::new(name.parse().unwrap(), source as u64, result as u64);
    work.setting = setting;
    let cost = cost(device, &work).unwrap();
    let rate = |ns: u64| source / MIB / (ns as f64 / 1e9);
    (rate(cost.high_ns), rate(cost.low_ns))
}

/// Says how a held-out range compares with the model's; by how much they miss each other at most.
fn compare(id: &str, published: &[f64], (low, high): (f64, f64)) -> f64 {
    let min = published.iter().copied().fold(f64::INFINITY, f64::min);
    let max = published.iter().copied().fold(0.0, f64::max);
    let miss = (low / max).max(min / high).max(1.0);
    let verdict = if miss <= 1.0 { "agrees".into() } else { format!("misses by {miss:.2}") };
    println!("{id:32} published {min:.4} to {max:.4}, modelled {low:.4} to {high:.4}: {verdict}");
    miss
}

#[test]
fn held_out_facts_lie_in_the_models_intervals() {
    let (bf2, bf3) = (profile("bf2").unwrap(), profile("bf3").unwrap());
    let anew = Setting::Reconfiguration;
    let mut misses = Vec::new();
    let mut check = |id: &str, modelled: (f64, f64)| {
        misses.push((id.to_owned(), compare(id, &held_out(id), modelled)));
    };

    // Silesia: 17.5 MiB a file on average, 42 % of that compressed. One context per file.
    let (file, compressed) = (17.5 * MIB, 0.42 * 17.5 * MIB);
    let hw = rate_mib_per_s(&bf2, "decompress-deflate", anew, compressed, file);
    check("coproc.decall.hw.bf2", hw);
    let smallest = rate_mib_per_s(&bf2, "decompress-deflate", anew, 7.0 * MIB, 17.0 * MIB);
    let largest = rate_mib_per_s(&bf2, "decompress-deflate", anew, 22.0 * MIB, 51.0 * MIB);
    check("coproc.dec.hw.ge7m", (smallest.0, largest.1));
    let small = rate_mib_per_s(&bf2, "decompress-deflate", anew, 0.1 * MIB, 0.24 * MIB);
    check("coproc.dec.cpu_over_hw.100k", (75.0 / small.1, 182.0 / small.0));
    let (small, large) = (
        rate_mib_per_s(&bf2, "compress-deflate", anew, 0.1 * MIB, 0.04 * MIB),
        rate_mib_per_s(&bf2, "compress-deflate", anew, 10.0 * MIB, 4.0 * MIB),
    );
    check("coproc.comp.cpu_over_hw.small", (37.0 / large.1, 78.0 / small.0));

    // The engine alone against CPUs at 47 to 182 MiB/s of compressed input.
    let engine = bf2.operation("decompress-deflate".parse().unwrap()).unwrap();
    let engine = engine.rate.as_ref().unwrap().interval();
    check("coproc.dec.asic_over_cpu", (engine.low / MIB / 182.0, engine.high / MIB / 47.0));
    let lz4 = bf3.operation("decompress-lz4-block".parse().unwrap()).unwrap();
    let lz4 = lz4.rate.as_ref().unwrap().interval();
    let lz4_cpu = 2.7 * 1024.0 * MIB;
    check("coproc.declz4.asic_over_cpu", (lz4.low / lz4_cpu, lz4.high / lz4_cpu));

    // 2 MiB inputs from the host; the rates count uncompressed bytes.
    let host = rate_mib_per_s(&bf2, "decompress-deflate", anew, 0.42 * 2.0 * MIB, 2.0 * MIB);
    check("coproc.co.dec.r40", (host.0 / 0.42, host.1 / 0.42));
    let tasks = (5.0 * MIB / bf3.operations[0].max_source_bytes() as f64).ceil();
    check("coproc.cap.tasks_xml", (tasks, tasks));

    // Where the CPU at 121 MiB/s of compressed input meets the hardware.
    let asked = OutlookQuestion {
        operation: "decompress-deflate".parse().unwrap(),
        patterns: Vec::new(),
        setting: anew,
        cpu_rate_bytes_per_s: 121.0 * MIB / 0.42,
        ratio: 0.42,
    };
    let BreakEven::NotBelow { bytes, .. } = outlook(&bf2, &asked).unwrap().break_even else {
        panic!("a bound from below was expected")
    };
    check("coproc.dec.cutoff", (bytes as f64 * 0.42 / MIB, f64::INFINITY));

    // Different cards, corpora and paths: what misses must not miss by much, nor many.
    assert!(misses.iter().all(|(_, miss)| *miss <= 1.25), "{misses:?}");
    let missed = misses.iter().filter(|(_, miss)| *miss > 1.0).count();
    println!("{missed} of {} held-out facts lie outside the model's interval", misses.len());
    assert!(missed * 4 <= misses.len(), "{misses:?}");
}

#[test]
fn published_orderings_hold() {
    let orderings = &Facts::published().orderings;
    for id in ["ord.R1", "ord.R2", "ord.R4", "ord.R5", "ord.R6", "ord.C4"] {
        assert!(orderings.iter().any(|known| known.id == id), "{id}");
    }
    let (bf2, bf3) = (profile("bf2").unwrap(), profile("bf3").unwrap());
    let deflate: Operation = "compress-deflate".parse().unwrap();
    // By the card's own cores, as published.
    let soc = profile("bf2-soc").unwrap();
    let at = |setting, mib: f64| {
        let mut work = Work::new(deflate, (mib * MIB) as u64, (mib * 0.42 * MIB) as u64);
        work.setting = setting;
        cost(&soc, &work).unwrap()
    };

    // R1: ending a context takes longer than the engine; C4: static is never slower.
    for mib in [0.1, 1.0, 5.3, 17.5, 51.2] {
        let (fixed, anew) = (at(Setting::Static, mib), at(Setting::Reconfiguration, mib));
        let parts = &anew.parts;
        assert!(parts.reconfiguration.unwrap().typ_ns > parts.engine.unwrap().typ_ns, "{mib}");
        assert!(fixed.low_ns < anew.low_ns && fixed.high_ns < anew.high_ns, "{mib}");
    }

    // R2: the hardware loses to CPUs (37 to 78 MiB/s) on small inputs and wins on large ones.
    let hardware = |mib: f64| mib / (at(Setting::Reconfiguration, mib).typ_ns as f64 / 1e9);
    assert!(hardware(0.1) < 37.0 && hardware(1.0) < 37.0 && hardware(51.2) > 111.0);

    // R4, R5: engine, then CPU, then hardware that is set up for each file.
    let file = |device: &Profile, name: &str, bytes: f64, ratio: f64| {
        let setting = Setting::Reconfiguration;
        let (low, high) = rate_mib_per_s(device, name, setting, bytes * ratio, bytes);
        (low * high).sqrt()
    };
    let typ = |device: &Profile, name: &str| {
        let entry = device.operation(name.parse().unwrap()).unwrap();
        entry.rate.as_ref().unwrap().interval().typ / MIB
    };
    assert!(typ(&bf2, "decompress-deflate") > 260.0, "engine > libdeflate");
    assert!(file(&bf2, "decompress-deflate", 5.3 * MIB, 0.42) < 105.0, "zlib > hardware");
    assert!(typ(&bf3, "decompress-lz4-block") > 2.7 * 1024.0, "engine > CPUs");
    assert!(file(&bf3, "decompress-lz4-block", 2.0 * MIB, 0.55) < 1200.0, "CPUs >> hardware");

    // R6: Q4 > Q1 > Q2 and Q3 on full buffers.
    let matching = |pattern: &str| {
        let mut work = Work::new("match-count".parse().unwrap(), 16383, 8);
        work.patterns = vec![pattern.into()];
        cost(&bf2, &work).unwrap().parts.engine.unwrap()
    };
    let (q1, q2) = (matching("At (.+)Exit (.+)"), matching("(.+) on (.+) at Exit (.+)"));
    let (q3, q4) = (matching("on (.+) at (.+)"), matching("Ramp to (.+)"));
    assert!(q4.high_ns < q1.low_ns && q1.high_ns < q2.low_ns && q1.high_ns < q3.low_ns);
}
