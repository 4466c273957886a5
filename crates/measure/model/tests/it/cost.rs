//! Tests of the cost of an operation, and of the effect of a device.

use overside_model::Setting::{Reconfiguration, Static};
use overside_model::{
    BreakEven, Cost, Fifo, Outlook, OutlookQuestion, Profile, Setting, StageTimes, Work, cost,
    outlook, profile,
};
use overside_ops::Operation;
use proptest::prelude::*;

use crate::ask::assert_says;

const MIB: u64 = 1 << 20;

fn operation(name: &str) -> Operation {
    name.parse().unwrap()
}

fn question(name: &str, setting: Setting, cpu_mb_per_s: f64, ratio: f64) -> OutlookQuestion {
    OutlookQuestion {
        operation: operation(name),
        patterns: Vec::new(),
        setting,
        cpu_rate_bytes_per_s: cpu_mb_per_s * 1e6,
        ratio,
    }
}

fn ask(device: &str, question: &OutlookQuestion) -> Outlook {
    outlook(&profile(device).unwrap(), question).unwrap()
}

/// The copier of small.toml with every term known: 100 ns a job, 2 us latency, link 4 GB/s.
fn complete() -> Profile {
    let text = include_str!("small.toml");
    let extra = r#"
[operations.per_job]
value = 100
unit = "ns"
facts = ["a.rate"]
[operations.latency]
value = 2
unit = "us"
facts = ["a.rate"]
"#;
    let device = r#"
[link.to_device]
value = 4
unit = "GB/s"
facts = ["a.rate"]
[link.from_device]
value = 4
unit = "GB/s"
facts = ["a.rate"]
[reconfiguration]
low = 1
high = 4
unit = "ms"
facts = ["a.rate"]
[device.engines]
value = 1
unit = "count"
facts = ["a.rate"]
[device.context_init]
value = 1
unit = "ms"
facts = ["a.rate"]
"#;
    Profile::parse("complete", &format!("{text}{extra}{device}")).unwrap()
}

#[test]
fn parts_add_up_when_every_term_is_known() {
    let mut work = Work::new(Operation::Copy, 1_000_000, 1_000_000);
    let fixed = cost(&complete(), &work).unwrap();
    // 500 us in the engine, 250 us each way, 100 ns and 2 us.
    assert_eq!((fixed.typ_ns, fixed.high_ns), (1_002_100, 1_002_100));
    assert_eq!(fixed.low_ns, 502_100, "transfers overlap with the engine at best");
    assert_eq!(fixed.missing, Vec::<String>::new());
    work.setting = Reconfiguration;
    let anew = cost(&complete(), &work).unwrap();
    // The geometric mean of 1 and 4 ms, and 1 ms for the new context.
    assert_eq!(anew.typ_ns - fixed.typ_ns, 3_000_000);
    assert_eq!(anew.low_ns - fixed.low_ns, 2_000_000);
    assert_eq!(anew.high_ns - fixed.high_ns, 5_000_000);
}

#[test]
fn a_rate_counts_the_side_that_its_source_counts() {
    let bf2 = profile("bf2").unwrap();
    // 1.2 GiB/s of compressed input, whatever the output's length, up to 3.2 GiB/s of that.
    let engine = |destination| {
        let work = Work::new(operation("decompress-deflate"), MIB, destination);
        cost(&bf2, &work).unwrap().parts.engine.unwrap().typ_ns
    };
    assert_eq!(engine(MIB), engine(2 * MIB));
    assert_eq!(engine(2 * MIB), (1e9 / 1024.0 / 1.2_f64).round() as u64);
    assert_eq!(engine(10 * MIB), (1e10 / 1024.0 / 3.2_f64).round() as u64);
}

#[test]
fn data_that_compress_poorly_take_an_engine_longer() {
    let bf2 = profile("bf2").unwrap();
    let engine = |destination| {
        let work = Work::new(operation("compress-deflate"), MIB, destination);
        cost(&bf2, &work).unwrap().parts.engine.unwrap()
    };
    // 2.95 GiB/s up to nci's ratio, 1.03 from sao's on, and half of the way in the middle.
    for (ratio, gib_per_s) in
        [(0.0, 2.95), (0.105, 2.95), (0.435, 1.99), (0.765, 1.03), (2.0, 1.03)]
    {
        let found = engine((ratio * MIB as f64) as u64);
        let expected = 1e9 / 1024.0 / gib_per_s;
        assert!((found.typ_ns as f64 / expected - 1.0).abs() < 1e-3, "{ratio}: {found:?}");
        // The published spread is the same for all.
        assert_eq!((found.low_ns, found.high_ns), (engine(0).low_ns, engine(0).high_ns));
    }
}

#[test]
fn a_start_is_known_as_a_limit_and_nothing_of_it_is_left_for_a_long_job() {
    let bf2 = profile("bf2").unwrap();
    let start = |name: &str, uncompressed: u64| {
        let (source, destination) = match name {
            "compress-deflate" => (uncompressed, uncompressed / 2),
            _ => (uncompressed / 2, uncompressed),
        };
        let cost = cost(&bf2, &Work::new(operation(name), source, destination)).unwrap();
        assert_says(&cost.missing, "latency from the doorbell to the engine: only a limit");
        let span = cost.parts.latency.unwrap();
        (span.low_ns, span.typ_ns, span.high_ns)
    };
    for (name, limit_ns) in [("compress-deflate", 400_000), ("decompress-deflate", 610_000)] {
        assert_eq!(start(name, 0), (0, limit_ns, limit_ns), "{name}");
        assert_eq!(start(name, MIB), (0, limit_ns / 2, limit_ns / 2), "{name}");
        assert_eq!(start(name, 2 * MIB), (0, 0, 0), "{name}");
        assert_eq!(start(name, 100 * MIB), (0, 0, 0), "{name}");
    }
}

#[test]
fn what_no_fact_supports_is_listed_and_not_invented() {
    for (device, name) in [("bf2-soc", "compress-deflate"), ("bf3", "decompress-lz4-block")] {
        let cost = cost(&profile(device).unwrap(), &Work::new(operation(name), MIB, MIB)).unwrap();
        assert!(cost.parts.per_job.is_none() && cost.parts.latency.is_none());
        for term in ["cost of one job", "latency", "number of engines"] {
            assert_says(&cost.missing, term);
        }
        assert!(cost.facts.len() > 3, "{:?}", cost.facts);
    }
}

#[test]
fn a_published_pattern_has_its_own_rate() {
    let bf2 = profile("bf2").unwrap();
    let engine = |patterns: &[&str], bytes| {
        let mut work = Work::new(operation("match-count"), bytes, 8);
        work.patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        cost(&bf2, &work).unwrap()
    };
    let of = |patterns: &[&str], bytes| engine(patterns, bytes).parts.engine.unwrap();
    // Q4 at 51 to 52 Gb/s, Q1 at 9 to 10.
    let q4 = of(&["Ramp to (.+)"], 16383);
    assert!(q4.low_ns >= 16383 * 8 / 52 && q4.high_ns <= 16383 * 8 / 51 + 1, "{q4:?}");
    let q1 = of(&["At (.+)Exit (.+)"], 16383);
    assert!(q1.low_ns >= 16383 * 8 / 10 && q1.high_ns <= 16383 * 8 / 9 + 1, "{q1:?}");
    // A short buffer takes as long as the shortest measured.
    assert_eq!(of(&["Ramp to (.+)"], 1), of(&["Ramp to (.+)"], 64));
    assert_eq!(of(&["Ramp to (.+)"], 0), of(&["Ramp to (.+)"], 64));
    // Between two sizes the rate lies between theirs.
    let between = of(&["Ramp to (.+)"], 768);
    assert!(between.low_ns >= 768 * 8 / 27 && between.high_ns <= 768 * 8 / 13, "{between:?}");
    // Below 1 Gb/s is only a limit, and said so.
    let q2 = engine(&["(.+) on (.+) at Exit (.+)"], 4096);
    assert_eq!(q2.parts.engine.unwrap().low_ns, 4096 * 8);
    assert_says(&q2.missing, "Q2");
    // Any other pattern, or several, lies somewhere in the range of all.
    for other in [&["x+"][..], &["Ramp to (.+)", "x+"]] {
        let any = engine(other, 16383);
        let span = any.parts.engine.unwrap();
        assert!(span.low_ns <= q4.low_ns && span.high_ns >= q1.high_ns, "{span:?}");
        assert_says(&any.missing, "for these patterns");
    }
}

#[test]
fn without_a_per_job_cost_there_is_no_static_break_even() {
    let asked = question("compress-deflate", Static, 60.0, 0.42);
    let mut unmeasured = profile("bf2").unwrap();
    for entry in &mut unmeasured.operations {
        entry.one_at_a_time = None;
    }
    let seen = outlook(&unmeasured, &asked).unwrap();
    let BreakEven::None { missing } = &seen.break_even else { panic!("{:?}", seen.break_even) };
    assert_says(missing, "cost of one job");
    assert!(seen.speedup.low > 10.0 && seen.speedup.high < 60.0, "{:?}", seen.speedup);
    assert_eq!(seen.max_buffer_bytes, 128 * MIB);
    assert!(seen.facts.iter().all(|fact| seen.citations[fact].contains("PVLDB")));
}

#[test]
fn jobs_that_were_measured_one_at_a_time_bound_the_break_even_from_above() {
    let from = |cpu_mb_per_s: f64| {
        let asked = question("compress-deflate", Static, cpu_mb_per_s, 0.42);
        ask("bf2", &asked)
    };
    // At 0.5 MiB a job takes 1.06 ms, at 0.1 MiB 0.45 ms.
    let seen = from(460.0);
    let BreakEven::Range { low_bytes, high_bytes } = seen.break_even else {
        panic!("{:?}", seen.break_even)
    };
    assert_eq!(low_bytes, 0);
    assert!((400_000..500_000).contains(&high_bytes), "{high_bytes}");
    assert!(seen.facts.iter().any(|fact| fact.contains("older")));
    // Slower than the CPU at every size that was measured: nothing is bounded.
    assert!(matches!(from(900.0).break_even, BreakEven::None { .. }));
    // The term itself stays unknown.
    assert_says(&seen.missing, "cost of one job");
}

#[test]
fn reconfiguration_bounds_the_break_even_from_below_only() {
    let cpu_mb_per_s = 60.0;
    let asked = question("compress-deflate", Reconfiguration, cpu_mb_per_s, 0.42);
    let seen = ask("bf2", &asked);
    let BreakEven::NotBelow { bytes, .. } = seen.break_even else {
        panic!("{:?}", seen.break_even)
    };
    // 13 ms at the CPU's rate is the least that must be gained back.
    assert!(bytes > (0.013 * cpu_mb_per_s * 1e6) as u64 && bytes < 2_000_000, "{bytes}");
}

#[test]
fn a_device_that_cannot_win_is_never_recommended() {
    let never = |device, asked| {
        let seen = ask(device, &asked);
        assert!(matches!(seen.break_even, BreakEven::Never { .. }), "{:?}", seen.break_even);
    };
    // Faster than the engine's best.
    never("bf2", question("compress-deflate", Static, 4000.0, 0.42));
    never("bf2", question("compress-deflate", Reconfiguration, 4000.0, 0.42));
    // 13 ms are more than this CPU needs for the longest buffer that the device takes.
    never("bf3", question("decompress-deflate", Reconfiguration, 400.0, 0.42));
}

#[test]
fn a_pattern_that_nobody_published_is_not_ruled_out_by_the_published_ones() {
    // Faster than the fastest published pattern at 52 Gb/s.
    let mut asked = question("match-count", Static, 7000.0, 1.0);
    for (pattern, ruled_out) in [("Ramp to (.+)", true), ("my own", false)] {
        asked.patterns = vec![pattern.into()];
        let never = matches!(ask("bf2", &asked).break_even, BreakEven::Never { .. });
        assert_eq!(never, ruled_out, "{pattern}");
    }
    // What 13 ms cost is certain whatever the pattern.
    asked.setting = Reconfiguration;
    assert!(matches!(ask("bf2", &asked).break_even, BreakEven::Never { .. }));
}

#[test]
fn with_every_term_known_the_break_even_is_a_range() {
    let asked = question("copy", Static, 500.0, 1.0);
    let seen = outlook(&complete(), &asked).unwrap();
    let BreakEven::Range { low_bytes, high_bytes } = seen.break_even else {
        panic!("{:?}", seen.break_even)
    };
    // 2.1 us against 2 ns a byte on the CPU and 0.5 to 1 ns a byte on the device.
    assert!(
        low_bytes.abs_diff(1400) <= 1 && high_bytes.abs_diff(2100) <= 1,
        "{low_bytes} {high_bytes}"
    );
}

#[test]
fn a_break_even_above_the_longest_buffer_is_not_certain() {
    // 2.1 us of fixed costs against a gain of 2 to 502 ps a byte: 4.2 KB at best, 1.05 MB at worst,
    // and the device takes 1 MiB.
    for (cpu_mb_per_s, certain) in [(998.0, true), (998.2, false)] {
        let asked = question("copy", Static, cpu_mb_per_s, 1.0);
        let seen = outlook(&complete(), &asked).unwrap().break_even;
        match seen {
            BreakEven::Range { high_bytes, .. } => assert!(certain && high_bytes <= MIB),
            BreakEven::NotBelow { bytes, .. } => assert!(!certain && bytes < 5000),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_rate_that_falls_with_the_size_is_compared_at_all_sizes() {
    // Q2: 3 to 4 Gb/s at 256 bytes, less than 1 at 16383.
    let mut asked = question("match-count", Static, 200.0, 1.0);
    asked.patterns = vec!["(.+) on (.+) at Exit (.+)".into()];
    let seen = ask("bf2", &asked);
    assert!((seen.speedup.high - 2.5).abs() < 0.05, "{:?}", seen.speedup);
    assert!(seen.speedup.typ < 1.0, "{:?}", seen.speedup);
    assert!(matches!(seen.break_even, BreakEven::None { .. }), "{:?}", seen.break_even);
    // Faster than at any size.
    asked.cpu_rate_bytes_per_s = 510e6;
    assert!(matches!(ask("bf2", &asked).break_even, BreakEven::Never { .. }));
}

#[test]
fn a_speedup_is_bounded_only_where_no_unknown_term_can_raise_it() {
    let copy = question("copy", Static, 500.0, 1.0);
    assert!(outlook(&complete(), &copy).unwrap().bounded);
    // Nobody published how many engines a card has.
    let mut asked = question("compress-deflate", Static, 60.0, 0.42);
    assert!(!ask("bf2", &asked).bounded);
    asked.setting = Reconfiguration;
    assert!(ask("bf2", &asked).bounded);
    let mut own = question("match-count", Reconfiguration, 60.0, 1.0);
    own.patterns = vec!["my own".into()];
    assert!(!ask("bf2", &own).bounded);
}

#[test]
fn a_time_below_a_limit_may_be_anything() {
    let mut limited = complete();
    let latency = limited.operations[0].latency.as_mut().unwrap();
    (latency.value, latency.high) = (None, Some(2.0));
    let work = Work::new(Operation::Copy, 1_000_000, 1_000_000);
    let (known, limited) = (cost(&complete(), &work).unwrap(), cost(&limited, &work).unwrap());
    assert_eq!(known.low_ns - limited.low_ns, 2000);
    assert_eq!(known.high_ns, limited.high_ns);
    assert_eq!(limited.missing.len(), 1, "{:?}", limited.missing);
}

#[test]
fn engines_between_two_numbers_widen_the_speedup() {
    let mut several = complete();
    let engines = several.device.engines.as_mut().unwrap();
    (engines.low, engines.value, engines.high) = (Some(1.0), Some(1.5), Some(1.9));
    let copy = question("copy", Static, 500.0, 1.0);
    let one = outlook(&complete(), &copy).unwrap().speedup;
    let more = outlook(&several, &copy).unwrap().speedup;
    assert_eq!(more.low, one.low);
    assert!((more.typ / one.typ - 1.5).abs() < 1e-3, "{more:?}");
    assert!((more.high / one.high - 1.9).abs() < 1e-3, "{more:?}");
}

#[test]
fn questions_without_sense_are_errors() {
    let bf2 = profile("bf2").unwrap();
    let asked = |rate, ratio| question("compress-deflate", Static, rate, ratio);
    let wrong = [(0.0, 0.5), (-1.0, 0.5), (f64::NAN, 0.5), (1.0, 0.0), (1.0, f64::INFINITY)];
    for (rate, ratio) in wrong {
        assert!(outlook(&bf2, &asked(rate, ratio)).is_err());
    }
    assert!(outlook(&profile("bf3").unwrap(), &asked(1.0, 0.5)).is_err());
    // Absurd but possible.
    for ratio in [1e-9, 1e9] {
        for name in ["compress-deflate", "decompress-deflate"] {
            outlook(&bf2, &question(name, Static, 1.0, ratio)).unwrap();
        }
    }
}

#[test]
fn answers_survive_json() {
    let seen = ask("bf2", &question("compress-deflate", Reconfiguration, 60.0, 0.42));
    let text = serde_json::to_string(&seen).unwrap();
    assert!(
        text.contains("\"kind\":\"not-below\"") && text.contains("\"setting\":\"reconfiguration\"")
    );
    let back: Outlook = serde_json::from_str(&text).unwrap();
    assert_eq!(back.break_even, seen.break_even);
    let one = cost(&profile("bf2").unwrap(), &Work::new(operation("match-count"), 100, 8)).unwrap();
    assert_eq!(
        serde_json::from_str::<overside_model::Cost>(&serde_json::to_string(&one).unwrap())
            .unwrap(),
        one
    );
}

fn stages(link_in_ns: u64, engine_ns: u64, link_out_ns: u64) -> StageTimes {
    StageTimes { link_in_ns, engine_ns, link_out_ns, doorbell_ns: 0, latency_ns: None }
}

fn any_work() -> impl Strategy<Value = (&'static str, Work)> {
    let names = prop::sample::select(vec![
        ("bf2", "compress-deflate"),
        ("bf2", "decompress-deflate"),
        ("bf2", "match-count"),
        ("bf3", "decompress-deflate"),
        ("bf3", "decompress-lz4-block"),
    ]);
    (names, 0..16384_u64, 0..15384_u64, any::<bool>()).prop_map(
        |((device, name), source, result, anew)| {
            let mut work = Work::new(operation(name), source, result);
            if anew {
                work.setting = Reconfiguration;
            }
            (device, work)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bounds_are_in_order_and_grow_with_the_buffer((device, work) in any_work(), more in 0..1000_u64) {
        let device = profile(device).unwrap();
        let one = cost(&device, &work).unwrap();
        prop_assert!(one.low_ns <= one.typ_ns && one.typ_ns <= one.high_ns, "{one:?}");
        let mut longer = work.clone();
        longer.source_bytes = (work.source_bytes + more).min(16383);
        longer.destination_bytes += more;
        let two = cost(&device, &longer).unwrap();
        if !matches!(work.operation, Operation::Match(_)) {
            // A start is shorter for a longer job, and each part rounds on its own.
            let moved_ns =
                |cost: &Cost| cost.typ_ns - cost.parts.latency.map_or(0, |start| start.typ_ns);
            prop_assert!(moved_ns(&one) <= moved_ns(&two) + 2 && one.low_ns <= two.low_ns);
        }
        let mut anew = work.clone();
        anew.setting = Reconfiguration;
        prop_assert!(cost(&device, &anew).unwrap().low_ns >= one.low_ns);
    }

    #[test]
    fn the_closed_form_is_what_the_servers_do_with_one_job((device, mut work) in any_work(), now in 0..u64::MAX / 2) {
        work.setting = Static;
        let one = cost(&profile(device).unwrap(), &work).unwrap();
        let pace = profile(device).unwrap().pace(work.operation, &work.patterns).unwrap();
        let stages = pace.stages(work.source_bytes, work.destination_bytes, true);
        let seen = Fifo::new(1).admit(now, &stages);
        // Each rounds on its own.
        prop_assert!((seen.done_ns - now).abs_diff(one.typ_ns) <= 3, "{seen:?} {one:?}");
        prop_assert_eq!(seen.queueing_ns, stages.doorbell_ns);
    }

    #[test]
    fn jobs_leave_in_order_and_no_server_works_on_two(jobs in prop::collection::vec((0..50_u64, 0..100_u64, 0..100_u64, 0..100_u64), 1..60)) {
        let mut fifo = Fifo::new(1);
        let (mut now, mut last) = (0, 0);
        let mut busy = [0; 3];
        for (pause, link_in, engine, link_out) in jobs {
            now += pause;
            let seen = fifo.admit(now, &stages(link_in, engine, link_out));
            prop_assert!(seen.done_ns >= last + link_out);
            prop_assert_eq!(seen.done_ns, now + seen.queueing_ns + link_in + engine + link_out);
            busy = [busy[0] + link_in, busy[1] + engine, busy[2] + link_out];
            last = seen.done_ns;
        }
        prop_assert!(busy.iter().all(|total| last >= *total));
    }
}

#[test]
fn many_jobs_are_paced_by_the_slowest_server() {
    let mut fifo = Fifo::new(1);
    let last = (0..100).map(|_| fifo.admit(0, &stages(10, 30, 20))).last().unwrap();
    assert_eq!(last.done_ns, 10 + 100 * 30 + 20);
    let mut four = Fifo::new(4);
    let last = (0..100).map(|_| four.admit(0, &stages(1, 40, 1))).last();
    // Four of 40 are as fast as one of 10.
    assert_eq!(last.unwrap().done_ns, 4 + 25 * 40 + 1);
    let absurd = fifo.admit(0, &stages(u64::MAX, u64::MAX, 1));
    assert_eq!(absurd.done_ns, u64::MAX);
}
