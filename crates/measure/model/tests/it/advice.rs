//! Tests of advice: verdicts follow from the intervals, placements follow from the verdicts, and
//! there is no figure where none was published.

use overside_model::advice::{
    Advice, CpuEvidence, CpuRate, DeviceRate, Host, MeasuredOperation, Plan, Question, advise,
};
use overside_model::{BreakEven, Interval, Profile, Verdict, Workload, profile};

fn rate(low: f64, typ: f64, high: f64) -> Interval {
    Interval { low, typ, high }.scale(1e6)
}

pub(crate) fn near(typ: f64) -> Interval {
    rate(typ * 0.98, typ, typ * 1.02)
}

/// One thread that does `mb_per_s` at every size.
fn cpu(mb_per_s: f64, sizes: &[u64]) -> Vec<CpuRate> {
    (sizes.iter())
        .map(|bytes| CpuRate {
            bytes: *bytes,
            bytes_per_s: near(mb_per_s),
            threads: 1,
            core_bytes_per_s: Some(near(mb_per_s)),
            library: String::new(),
            evidence: CpuEvidence::Measured,
            facts: Vec::new(),
        })
        .collect()
}

pub(crate) fn measured(operation: &str, mb_per_s: f64) -> MeasuredOperation {
    MeasuredOperation {
        operation: operation.into(),
        title: operation.into(),
        patterns: Vec::new(),
        level: None,
        is_example: false,
        ratio: Some(0.4),
        cpu: cpu(mb_per_s, &[4096, 65_536, 1 << 20]),
        devices: Vec::new(),
    }
}

pub(crate) fn question(measured: Vec<MeasuredOperation>) -> Question {
    Question { host: Host { threads: Some(8) }, measured, buffer_bytes: None }
}

fn ask(one: MeasuredOperation, profiles: &[Profile]) -> Advice {
    advise(&question(vec![one]), profiles, None).unwrap()
}

fn bf2() -> Vec<Profile> {
    vec![profile("bf2").unwrap()]
}

#[test]
fn a_card_far_faster_than_the_cpu_gets_the_work_where_its_rate_is_known() {
    let advice = ask(measured("compress-deflate", 20.0), &bf2());
    let target = &advice.operations[0].targets[0];
    let last = target.ranges.last().unwrap();
    assert_eq!(last.c1.verdict, Verdict::Yes, "{:?}", last.c1);
    assert!(["device", "adaptive"].contains(&last.placement.as_str()));
    assert!(last.below_bytes.is_none() && last.from_bytes >= 1 << 20);
    let rate = last.device_bytes_per_s.as_ref().unwrap();
    assert!(rate.interval.low < rate.interval.typ && rate.interval.typ < rate.interval.high);
    // The engine's rate is what the study gives, give or take its spread.
    assert!((5e8..3.5e9).contains(&rate.interval.typ), "{rate:?}");
    assert!(!last.c1.facts.is_empty());
    let cited = |fact: &String| advice.citations.contains_key(fact);
    assert!(last.c1.facts.iter().all(cited));
    // A core is 20 MB/s: nearly all of it is saved, and never more than all.
    let saved = last.host_cpu_saved.unwrap();
    assert!(saved.low > 0.8 && saved.high <= 1.0, "{saved:?}");
}

#[test]
fn what_one_job_costs_is_not_published_so_short_buffers_cannot_be_told() {
    let advice = ask(measured("compress-deflate", 20.0), &bf2());
    let first = &advice.operations[0].targets[0].ranges[0];
    assert_eq!(first.from_bytes, 4096);
    let none = first.device_bytes_per_s.as_ref().unwrap_err();
    assert!(none.why.contains("one job"), "{none}");
    assert!(none.remedy.contains("calibrate"));
    assert_eq!(first.c1.verdict, Verdict::CannotTell);
    assert_eq!(first.placement, "adaptive");
}

#[test]
fn data_that_does_not_shrink_still_gets_an_answer_at_the_longest_buffers() {
    // A source of 2 MiB, all that a BlueField-3 takes, holds a little less than 2 MiB of such data.
    for ratio in [1.0, 1.004, 1.1] {
        let mut lz4 = measured("decompress-lz4-block", 200.0);
        lz4.ratio = Some(ratio);
        let advice = ask(lz4, &[profile("bf3").unwrap()]);
        let last = advice.operations[0].targets[0].ranges.last().unwrap();
        assert!(last.chunk_bytes <= 2 << 20, "{ratio}");
        let rate = last.device_bytes_per_s.as_ref().unwrap();
        assert!(rate.interval.typ > 1e9, "{ratio}: {rate:?}");
        assert_eq!(last.c1.verdict, Verdict::Yes, "{ratio}: {:?}", last.c1);
    }
}

#[test]
fn contexts_are_worth_keeping_where_setting_them_up_takes_milliseconds() {
    let advice = ask(measured("compress-deflate", 200.0), &bf2());
    let target = &advice.operations[0].targets[0];
    let keep = target.keep_contexts.as_ref().unwrap();
    assert_eq!(keep.verdict, Verdict::Yes, "{keep:?}");
    assert!(keep.ratio.unwrap().typ > 2.0);
}

#[test]
fn a_card_without_the_engine_says_why_and_gets_nothing() {
    let advice = ask(measured("decompress-lz4-block", 2000.0), &bf2());
    let target = &advice.operations[0].targets[0];
    assert!(target.unsupported.as_ref().unwrap().contains("bf2"));
    assert!(target.ranges.is_empty());
}

#[test]
fn patterns_that_nobody_published_have_no_prediction() {
    let one = MeasuredOperation {
        patterns: vec!["nobody published (this|that)".into()],
        ratio: None,
        ..measured("match-count", 1000.0)
    };
    let advice = ask(one, &bf2());
    for range in &advice.operations[0].targets[0].ranges {
        let none = range.device_bytes_per_s.as_ref().unwrap_err();
        assert!(none.why.contains("patterns"), "{none}");
        assert_eq!(range.c1.verdict, Verdict::CannotTell);
        assert!(range.device_at_most_bytes_per_s.is_none());
    }
}

#[test]
fn the_cards_limit_bounds_the_chunks() {
    let published = MeasuredOperation {
        patterns: vec!["Ramp to (.+)".into()],
        ratio: None,
        ..measured("match-count", 300.0)
    };
    let advice = ask(published, &bf2());
    let target = &advice.operations[0].targets[0];
    assert!(target.ranges.iter().all(|range| range.chunk_bytes <= 16_383));
}

pub(crate) fn device(bytes: u64, placement: &str, mb_per_s: f64) -> DeviceRate {
    DeviceRate {
        device: "dpdk:compress_isal".into(),
        placement: placement.into(),
        setting: "static".into(),
        completion: "poll".into(),
        bytes,
        bytes_per_s: near(mb_per_s),
        core_bytes_per_s: Some(near(mb_per_s * 10.0)),
    }
}

#[test]
fn a_device_that_was_measured_comes_before_any_profile_and_is_labelled_so() {
    let one = MeasuredOperation {
        devices: vec![device(65_536, "device", 100.0), device(1 << 20, "device", 900.0)],
        ..measured("compress-deflate", 300.0)
    };
    let advice = ask(one, &bf2());
    let targets = &advice.operations[0].targets;
    assert_eq!(targets[0].name, "dpdk:compress_isal");
    assert_eq!((targets[0].provenance, targets[1].provenance), ("measured", "modelled"));
    let (short, long) = (&targets[0].ranges[0], &targets[0].ranges[1]);
    assert_eq!((short.c1.verdict, long.c1.verdict), (Verdict::No, Verdict::Yes));
    assert_eq!(long.c1.provenance, "measured");
    assert_eq!(
        targets[0].pays_from,
        Some(BreakEven::Range { low_bytes: 65_536, high_bytes: 1 << 20 })
    );
}

#[test]
fn a_split_that_was_measured_as_faster_than_both_sides_is_advised() {
    let one = MeasuredOperation {
        devices: vec![
            device(1 << 20, "device", 400.0),
            device(1 << 20, "split:50", 650.0),
            device(1 << 20, "split:80", 480.0),
        ],
        ..measured("compress-deflate", 300.0)
    };
    let advice = ask(one, &[]);
    let range = &advice.operations[0].targets[0].ranges[0];
    assert_eq!(range.placement, "split:50");
    assert_eq!(range.provenance, "measured");
    assert_eq!(range.c2.verdict, Verdict::Yes);
    let saved = range.host_cpu_saved.unwrap();
    assert!((0.9..1.0).contains(&saved.typ), "{saved:?}");
}

const PAGES: &str = r#"
    schema = "workload/1"
    name = "pages"
    rate = "8 Gb/s"
    [[stages]]
    do = "decompress-deflate"
    ratio = 0.5
    [[stages]]
    do = "match-count"
    like = "%green%"
    keep = 0.02
    [[stages]]
    do = "send"
"#;

fn pages() -> Vec<MeasuredOperation> {
    let matching = MeasuredOperation {
        patterns: vec!["green".into()],
        ratio: None,
        ..measured("match-count", 1000.0)
    };
    vec![measured("decompress-deflate", 500.0), matching]
}

fn plans(workload: &str, measured: Vec<MeasuredOperation>, profiles: &[Profile]) -> Vec<Plan> {
    let workload = Workload::parse("pages", workload).unwrap();
    let advice = advise(&question(measured), profiles, Some(&workload)).unwrap();
    advice.workload.unwrap().plans
}

#[test]
fn cores_follow_from_the_rates_of_one() {
    let plans = plans(PAGES, pages(), &[]);
    // 1 GB/s of pages are 2 GB/s of plain bytes: 4 cores decompress, 2 match.
    let cores = plans[0].cores.as_ref().unwrap().interval;
    assert!((cores.typ - 6.0).abs() < 1e-6, "{cores:?}");
    assert!(cores.low < 6.0 && cores.high > 6.0);
    let sent = plans[0].stages[2].enters_bytes_per_s.unwrap();
    assert!((sent.typ - 2e9 * 0.02).abs() < 1.0);
    // Six of the eight threads of the host that was measured.
    assert_eq!(plans[0].bottleneck.what, "cores");
    assert!((plans[0].bottleneck.used.unwrap().typ - 0.75).abs() < 1e-6);
    assert_eq!(plans[0].enough, Verdict::Yes);
}

#[test]
fn too_few_cores_carry_less() {
    let text = format!("{PAGES}\n[host]\ncores = 2\n");
    let plan = &plans(&text, pages(), &[])[0];
    assert_eq!(plan.enough, Verdict::No);
    let carries = plan.carries_bytes_per_s.as_ref().unwrap().as_ref().unwrap();
    assert!((carries.interval.typ - 1e9 / 3.0).abs() < 1e6);
    assert_eq!(plan.bottleneck.what, "cores");
}

#[test]
fn a_card_takes_what_it_can_and_the_cores_the_rest() {
    // Long buffers: the engine's rate is known.
    let text = format!("buffer = \"16 MiB\"\ncards = 1\n{PAGES}");
    let plans = plans(&text, pages(), &bf2());
    let [alone, with] = plans.as_slice() else {
        panic!("two plans");
    };
    assert_eq!(with.name, "bf2");
    assert!(with.stages[0].placement != "cpu", "{:?}", with.stages);
    assert_eq!(with.stages[1].placement, "cpu");
    assert!(with.stages[1].note.contains("patterns"));
    let (before, after) = (alone.cores.as_ref().unwrap(), with.cores.as_ref().unwrap());
    assert!(after.interval.typ < before.interval.typ);
    assert_eq!(with.fewer_cores.as_ref().unwrap().provenance, "modelled");
}

#[test]
fn a_device_that_burns_the_hosts_cores_saves_none_of_them() {
    // Software under a device's name: 400 MB/s for each second of the host's CPU.
    let software =
        DeviceRate { core_bytes_per_s: Some(near(400.0)), ..device(1 << 20, "device", 900.0) };
    let mut all = pages();
    all[0].devices.push(software);
    let plans = plans(PAGES, all, &[]);
    assert_eq!(plans[1].name, "dpdk:compress_isal");
    // One core does 500 MB/s by itself, so that is where it stays.
    assert_eq!(plans[1].stages[0].placement, "cpu");
    assert!(plans[1].fewer_cores.is_none() && plans[1].cards.is_none());
}

#[test]
fn prices_turn_it_into_cost() {
    let priced = format!(
        "buffer = \"16 MiB\"\n{PAGES}\n[prices]\ncard = [1500, 2500]\nyears = 4\ncore_hour = 0.04\n\
         energy_kwh = 0.3\n[watts]\ncore = 10\n"
    );
    let plans = plans(&priced, pages(), &bf2());
    let costs = plans[0].costs.as_ref().unwrap();
    // Six cores at 4 cents and 10 W at 30 cents a kilowatt-hour.
    let hour = costs.per_hour.as_ref().unwrap().interval.typ;
    assert!((hour - (6.0 * 0.04 + 0.06 * 0.3)).abs() < 1e-6, "{hour}");
    assert!(costs.incomplete.is_empty());
    let with = plans[1].costs.as_ref().unwrap();
    assert!(with.cheaper.is_some());
    // The card's watts are published.
    assert!(with.incomplete.is_empty(), "{:?}", with.incomplete);
}

#[test]
fn a_stage_that_was_never_measured_has_no_prediction() {
    let one = vec![measured("decompress-deflate", 500.0)];
    let plan = &plans(PAGES, one, &[])[0];
    let none = plan.cores.as_ref().unwrap_err();
    assert!(none.why.contains("match-count was not measured"), "{none}");
    assert!(none.remedy.contains("core_rate"));
    assert_eq!(plan.enough, Verdict::CannotTell);
}

#[test]
fn a_question_that_no_run_gives_rise_to_is_refused() {
    let mut wrong = measured("compress-deflate", 20.0);
    wrong.cpu[0].bytes_per_s.low = f64::NAN;
    assert!(advise(&question(vec![wrong]), &[], None).is_err());
    let unknown = measured("compress-rar", 20.0);
    assert!(advise(&question(vec![unknown]), &[], None).is_err());
}

#[test]
fn framings_of_deflate_go_to_its_engine_and_zstd_names_the_cards_that_lack_it() {
    let workload = |stage: &str| {
        let text = format!(
            "schema = \"workload/1\"\nname = \"x\"\nrate = \"10 Gb/s\"\nbuffer = \"4 MiB\"\n\
             [host]\ncores = 64\n[[stages]]\ndo = \"{stage}\"\nratio = 0.4\ncore_rate = \"50 MB/s\"\n"
        );
        let workload = Workload::parse("w", &text).unwrap();
        let advice = advise(&question(Vec::new()), &bf2(), Some(&workload)).unwrap();
        advice.workload.unwrap()
    };
    for stage in ["compress-gzip", "compress-zlib", "decompress-gzip"] {
        let found = workload(stage);
        assert_eq!(found.unable, [], "{stage}");
        let plan = &found.plans[1];
        assert!(plan.stages[0].device_bytes_per_s.is_some(), "{stage}: {plan:?}");
    }
    let found = workload("compress-zstd");
    assert_eq!(found.plans.len(), 1);
    assert_eq!(found.unable[0].name, "bf2");
    assert!(found.unable[0].why.contains("compress-zstd"), "{found:?}");
}
