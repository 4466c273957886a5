//! Tests of engines, codecs, shared inputs and Arrow tables.

use overside_model::check::check;
use overside_model::facts::{Facts, Use};
use overside_model::questions::Questions;
use overside_model::scenario::{ScenarioArgs, run, set_measured};
use overside_model::{Completion, EvidenceLevel, Library, Profile, Work, cost};
use overside_ops::Operation;

use crate::ask::{ask, assert_says, figure, metric, preset, rate, refused};

/// Answers a question: the typical figure in base units, the high end over the low end, and the
/// closeness of the evidence. `None` if there is no prediction.
fn predicted(library: &Library, ask: &str) -> Option<(f64, f64, EvidenceLevel)> {
    let text = format!(
        "meta: {{}}\nfacts:\n- {{id: x, paper: p, device: d, workload: w, metric: m, kind: measured, \
         use: validate, value: 1, unit: MiB/s, ask: {{scenario: {ask}}}}}\n"
    );
    let facts = Facts::parse("test", &text).unwrap();
    let figures = facts.facts[0].figures();
    let question = Questions::published().of(&figures[0]).unwrap();
    let known = question.answer(library).ok()?;
    let interval = known.interval;
    Some((interval.typ, interval.high / interval.low, known.closeness))
}

fn published(ask: &str) -> (f64, f64, EvidenceLevel) {
    predicted(Library::published(), ask).unwrap_or_else(|| panic!("nothing is said of {ask}"))
}

#[test]
fn figures_that_judge_the_model_are_met() {
    let check = check(Facts::published(), Library::published());
    let mine = ["codec", "split", "arrow"];
    let (mut seen, mut inside) = (0, 0);
    for figure in check.figures.iter().filter(|one| one.purpose == Use::Validate) {
        let Some(compared) = figure.compared().filter(|one| mine.contains(&one.scenario.as_str()))
        else {
            continue;
        };
        seen += 1;
        inside += usize::from(compared.inside);
        // Of "two orders of magnitude" no more than the order counts.
        let is_order = figure.fact == "coproc.declz4.cpu_over_hw";
        let most = if is_order { 0.5 } else { 0.25 };
        assert!(compared.error.abs() < most, "{}: {compared:?}", figure.name);
        assert!(!compared.fitted, "{}", figure.name);
    }
    assert!(seen >= 20, "{seen}");
    assert!(inside * 10 >= seen * 9, "{inside} of {seen}");
}

/// A split's throughput.
fn split(direction: &str, setting: &str, share: u32) -> String {
    format!(
        "split, figure: throughput, codec: deflate, direction: {direction}, initiator: host, \
         setting: {setting}, share: {share}"
    )
}

#[test]
fn shares_and_settings_that_were_not_published_are_answered_by_the_same_formula() {
    let of = |direction, setting, share| published(&split(direction, setting, share)).0;
    let at = |share| of("compress", "static", share);
    assert!(at(10) < at(50) && at(50) < at(80) && at(80) < at(100));
    assert!((at(50) / at(0) - 2.0).abs() < 0.05, "half of the work is left to the CPU");
    // The jump at zero: however little the device gets, its context has to be set up.
    let inflate = |setting, share| of("decompress", setting, share);
    assert!(inflate("reconfiguration", 1) < 0.8 * inflate("static", 0));
    assert!(inflate("static", 1) > 0.99 * inflate("static", 0));
}

/// An engine's throughput with a context for each input.
fn offload(profile: &str, direction: &str) -> String {
    format!(
        "codec, figure: throughput, profile: {profile}, direction: {direction}, context: new, inputs: corpus"
    )
}

#[test]
fn a_card_without_figures_of_its_own_is_answered_from_the_other_with_more_doubt() {
    let (bf2, bf2_width, _) = published(&offload("bf2-soc", "decompress"));
    let (bf3, bf3_width, closeness) = published(&offload("bf3-soc", "decompress"));
    assert!(bf3 > bf2 && bf3_width > bf2_width);
    assert_eq!(closeness, EvidenceLevel::Application);
    // A card without such an engine gets no figure.
    let absent = offload("bf3-soc", "compress");
    assert_eq!(predicted(Library::published(), &absent), None);
}

#[test]
fn without_a_fact_the_nearest_one_answers_or_nothing_does() {
    let (inflate, deflate) = (split("decompress", "static", 0), split("compress", "static", 0));
    let poorer = Library::published().without(&["coproc.co.dec.f0", "coproc.co.comp.f0"]);
    let (known, width, _) = published(&inflate);
    let (guessed, wider, closeness) = predicted(&poorer, &inflate).unwrap();
    assert_eq!(closeness, EvidenceLevel::Application);
    assert!(wider > width && (guessed / known).ln().abs() < wider.ln());
    // Nothing relates zlib's level 6 to the levels that were published.
    assert_eq!(predicted(&poorer, &deflate), None);
}

#[test]
fn a_kept_context_is_faster_one_at_a_time_from_a_size_at_the_latest() {
    let set = [("profile", "bf2"), ("direction", "compress"), ("context", "kept")];
    let report = ask("codec", &set);
    let row = &report.rows[0];
    let from = row.shown().find(|one| one.kind.name == "faster from");
    let from = figure(from.unwrap());
    // Jobs that were measured whole bound it from above; nothing bounds it from below.
    assert_eq!((from.low, from.typ), (0.0, from.high));
    assert!((5e4..1e6).contains(&from.high), "{from:?}");
    // The same one as advice gives.
    assert!((row.throughput.as_ref()).is_some_and(|one| figure(one).typ > 2e9));
}

#[test]
fn one_figure_stands_for_an_engine_in_splits_and_in_its_profile() {
    let split = [("direction", "compress"), ("setting", "static"), ("share", "100")];
    let engine = [("profile", "bf2"), ("direction", "compress"), ("context", "kept")];
    let (split, engine) = (ask("split", &split), ask("codec", &engine));
    let profile = overside_model::profile("bf2").unwrap();
    let operation: Operation = "compress-deflate".parse().unwrap();
    let stated = (profile.operation(operation).unwrap().rate.as_ref()).unwrap();
    for rate in [rate(&split.rows[0]), rate(&engine.rows[0])] {
        assert!((rate / stated.interval().typ - 1.0).abs() < 0.02, "{rate}");
    }
}

#[test]
fn an_initiator_and_a_level_are_answered_or_refused_by_key() {
    let of = |initiator: &str| {
        let set = [
            ("profile", "bf2"),
            ("initiator", initiator),
            ("direction", "compress"),
            ("context", "kept"),
        ];
        rate(&ask("codec", &set).rows[0])
    };
    assert!(of("host") > of("card"));
    let core = |level: &str| {
        let set = [
            ("on", "cpu"),
            ("profile", "host-coproc-bf2"),
            ("level", level),
            ("direction", "compress"),
            ("context", "kept"),
        ];
        ask("codec", &set).rows[0].throughput.clone().unwrap().answer
    };
    assert!(core("1").unwrap().interval.typ > core("6").unwrap().interval.typ);
    assert!(core("9").unwrap_err().why.contains("level 9"));
    let error = refused("codec", &[("profile", "bf1"), ("initiator", "card")]);
    assert_eq!(error.key, "initiator");
}

#[test]
fn another_host_takes_part_where_it_is_named() {
    let mut own = measured(
        r#"
        "codec.deflate.compress.rate" = { value = 200, unit = "MB/s", citation = "measured" }
        "codec.regex.hyperscan.rate" = { value = 500, unit = "MB/s", citation = "measured" }
        "#,
    );
    own.name = "here".into();
    let mut profiles = Library::published().profiles().to_vec();
    profiles.push(own.clone());
    let library = Library::new(profiles);
    let answered = |scenario: &str, set: &[(&str, &str)]| {
        let mut asked = ScenarioArgs::of(scenario);
        set.iter().for_each(|(key, value)| asked.set(key, value));
        set_measured(&mut asked, &own).unwrap();
        run(&asked, &library).unwrap()
    };
    let set = [("direction", "compress"), ("setting", "static"), ("share", "0")];
    let alone = rate(&answered("split", &set).rows[0]);
    assert!((alone / 200e6 - 1.0).abs() < 0.05, "{alone}");
    let matched = answered("match", &[("on", "hyperscan"), ("pattern", "mean")]);
    assert_eq!(rate(&matched.rows[0]), 500e6);
    let refused = set_measured(&mut ScenarioArgs::of("dma"), &own).unwrap_err();
    assert!(refused.problem.contains("reads dma."), "{refused}");
    let refused = set_measured(&mut ScenarioArgs::of("kv-stages"), &own).unwrap_err();
    assert!(refused.remedy.contains("kv profile"), "{refused}");
}

#[test]
fn a_start_up_that_nobody_published_gives_no_ratio_for_small_inputs() {
    // Speed-ups were published for large inputs, of which the start is no part.
    let ratio = |size: &str| {
        let set =
            [("profile", "bf2"), ("direction", "compress"), ("context", "kept"), ("size", size)];
        let report = ask("codec", &set);
        let named = |one: &&overside_model::scenario::Metric| one.kind.name.ends_with("the host");
        report.rows[0].shown().find(named).unwrap().answer.clone()
    };
    assert!(ratio("256 MB").is_ok());
    assert!(ratio("1 MB").unwrap_err().why.contains("start"));
    // With a context for each input there is one: its cost is known.
    let set = [("direction", "decompress"), ("context", "new"), ("host", "host-coproc-bf2")];
    let from = metric(&ask("codec", &set).rows[0], "faster from") / 1_048_576.0;
    assert!(from > 3.0 && from < 20.0, "{from}");
}

#[test]
fn the_ready_made_splits_answer_every_row() {
    for name in ["split-deflate", "split-lz4", "arrow-tables"] {
        let report = preset(name);
        assert!(report.missing.is_empty(), "{name}: {:?}", report.missing);
        assert!(!report.facts.is_empty() && report.provenance == "modelled");
        for row in &report.rows {
            assert!(row.shown().all(|shown| shown.answer.is_ok()), "{name}: {row:?}");
        }
    }
}

#[test]
fn a_split_names_what_limits_it_and_never_saves_more_than_all() {
    let half = |setting| ask("split", &[("share", "50"), ("setting", setting)]);
    let fixed = half("static");
    assert_eq!(fixed.rows[0].bottleneck.as_deref(), Some("CPU core"));
    let anew = half("reconfiguration");
    assert_eq!(anew.rows[0].bottleneck.as_deref(), Some("context set-up"));
    assert!(rate(&anew.rows[0]) < rate(&fixed.rows[0]));
    let saved = fixed.rows[0].shown().find(|one| one.kind.name == "CPU time saved");
    let saved = figure(saved.unwrap());
    assert!(saved.typ < 0.5 && saved.high <= 1.0);
    // Where a context for each input makes the engine a loss, the row says so.
    assert_says(&anew.notes, "nothing on the engine is best");
}

#[test]
fn questions_that_no_card_answers_are_refused_by_key() {
    let error = refused("split", &[("codec", "lz4"), ("direction", "compress")]);
    assert_eq!(error.key, "direction");
    let error = refused("split", &[("codec", "lz4"), ("share", "101")]);
    assert!(error.remedy.contains("100"));
}

fn measured(values: &str) -> Profile {
    let text = format!(
        r#"
schema = "profile/1"
name = "measured"
card = "a card"
host_link = "a link"
mode = "a test"
[sources]
a = "a source"
[facts]
"a.b" = "somewhere"
[link.to_device]
value = 10
unit = "GB/s"
facts = ["a.b"]
[link.from_device]
value = 10
unit = "GB/s"
facts = ["a.b"]
[device]
facts = ["a.b"]
[device.engines]
value = 2
unit = "count"
facts = ["a.b"]
[[operations]]
does = ["compress-deflate"]
basis = "uncompressed"
[operations.max_source]
value = 1
unit = "MiB"
facts = ["a.b"]
[operations.rate]
value = 1
unit = "GB/s"
facts = ["a.b"]
[values]
{values}
"#
    );
    Profile::parse("measured", &text).unwrap()
}

/// Values that `overside calibrate` measures.
const CALIBRATED: &str = r#"
"batch.cost.compress-deflate.poll" = { value = 8, unit = "us", citation = "measured" }
"job.cost.compress-deflate.poll" = { value = 2, unit = "us", citation = "measured" }
"job.latency.compress-deflate.poll" = { value = 20, unit = "us", citation = "measured" }
"job.cpu.compress-deflate.poll" = { value = 5, unit = "us", citation = "measured" }
"pcie.packet.bytes" = { value = 256, unit = "B", citation = "measured" }
"pcie.packet.time" = { value = 1, unit = "ns", citation = "measured" }
"#;

fn megabyte() -> Work {
    let operation: Operation = "compress-deflate".parse().unwrap();
    let mut work = Work::new(operation, 1_024_000, 512_000);
    work.completion = Some(Completion::Poll);
    work
}

#[test]
fn what_a_calibration_measures_enters_the_closed_form() {
    let profile = measured(CALIBRATED);
    let one = cost(&profile, &megabyte()).unwrap();
    // 102.4 and 51.2 us on the link, 1024 in the engine, 20 + 8 + 2 to hand it over, 6 of packets.
    assert_eq!(one.typ_ns, 102_400 + 51_200 + 1_024_000 + 30_000 + 6_000);
    assert_eq!(one.missing, Vec::<String>::new());
    // Jobs that are too long are refused, not cut.
    let mut long = megabyte();
    long.source_bytes *= 4;
    assert!(cost(&profile, &long).is_err());
}

#[test]
fn terms_that_nobody_measured_are_listed_only_where_they_are_asked_for() {
    let profile = measured("");
    let asked = cost(&profile, &megabyte()).unwrap();
    for term in ["cost of a doorbell", "cost of one job", "latency", "packet"] {
        assert_says(&asked.missing, term);
    }
    let mut device = megabyte();
    device.completion = None;
    let device = cost(&profile, &device).unwrap();
    assert!(!device.missing.iter().any(|missing| missing.contains("cost of a doorbell")));
    assert_eq!(device.typ_ns, asked.typ_ns, "what is missing counts as zero");
}

/// A figure of the one row that answers.
fn one(scenario: &str, set: &[(&str, &str)], name: &str) -> f64 {
    let report = ask(scenario, set);
    assert_eq!(report.rows.len(), 1, "{set:?}");
    metric(&report.rows[0], name)
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-3
}

#[test]
fn an_engine_starts_in_what_whole_jobs_take_beyond_their_bytes() {
    let kept = [("profile", "bf2"), ("context", "kept")];
    let start = |direction: &str| {
        let set = [kept.as_slice(), &[("direction", direction)]].concat();
        one("codec", &set, "start-up") / 1e6
    };
    // 104857 B at 234.11 of 771.53 MB/s, to 1 MiB at 595.33; likewise at 86.07 and 231.37 of 364.99.
    assert!(near(start("compress"), (0.31198_f64 * 0.40226).sqrt()), "{}", start("compress"));
    assert!(near(start("decompress"), (0.93099_f64 * 0.82957).sqrt()), "{}", start("decompress"));
    let new = [("profile", "bf2"), ("context", "new"), ("direction", "compress")];
    assert_eq!(one("codec", &new, "start-up"), one("codec", &new, "context"));
    let bf3 = ask("codec", &[("profile", "bf3"), ("context", "kept"), ("direction", "decompress")]);
    let start = bf3.rows[0].shown().find(|one| one.kind.name == "start-up").unwrap();
    assert!(start.answer.as_ref().unwrap_err().why.contains("no published fact"));
}

#[test]
fn an_engine_beats_all_threads_from_a_larger_size_than_one() {
    let from = |host: &str, direction: &str, threads: &str| {
        let set = [
            ("profile", "bf2"),
            ("context", "kept"),
            ("direction", direction),
            ("host", host),
            ("threads", threads),
        ];
        one("codec", &set, "faster from")
    };
    // The engine is 4.9 times as fast as all threads, and moves 2.95 GiB/s.
    let start = (0.31198e-3_f64 * 0.40226e-3).sqrt();
    let all = from("host-dpbento", "compress", "all");
    assert!(near(all, start * 2.95 * f64::from(1 << 30) / 3.9), "{all}");
    // 13 times as fast as all threads of the host, 21 times as all of the card.
    let (host, card) =
        (from("host-dpbento", "decompress", "all"), from("bf2", "decompress", "all"));
    assert!(near(host / card, 20.0 / 12.0), "{host} {card}");
    // Of other hosts the number of cores is known.
    assert!(from("host-coproc-bf2", "compress", "all") > start * 60e6);
    // With a context for each input the same holds of a much later size.
    let new = [("profile", "bf2-soc"), ("context", "new"), ("direction", "decompress")];
    let with =
        |threads| one("codec", &[new.as_slice(), &[("threads", threads)]].concat(), "faster from");
    assert!(with("all") > 2.0 * with("one"));
}

#[test]
fn arrow_tables_are_answered_by_data_set_and_number_of_threads() {
    let of = |data: &str, codec: &str, threads: &str, name: &str| {
        let set = [("task", "serialise"), ("data", data), ("codec", codec), ("threads", threads)];
        one("arrow", &set, name)
    };
    let speedup = |data: &str, threads: &str| of(data, "lz4", threads, "engine over host");
    assert!(near(speedup("particles", "one"), 4.61) && near(speedup("ships", "all"), 0.95));
    assert!(near(speedup("opensky", "1"), 4.71) && near(speedup("opensky", "64"), 1.44));
    // 8 of 64 threads are half of the way, on logarithmic axes.
    assert!(near(speedup("opensky", "8"), (4.71_f64 * 1.44).sqrt()));
    assert!(near(of("ships", "zstd", "one", "left by the host"), 0.31));
    let time = |codec, threads| of("particles", codec, threads, "time on the host") / 1e6;
    assert!(near(time("lz4", "one"), 223.0));
    assert!(near(time("lz4", "all"), 223.0 * 1.39 / 4.61));
    assert!(near(time("zstd", "one"), 223.0 * 7.55 / 4.61));
    let wrong = refused("arrow", &[("threads", "1025")]);
    assert!(wrong.key == "threads" && wrong.remedy.contains("one, all"), "{wrong}");
    assert_eq!(refused("arrow", &[("threads", "on")]).suggestion.as_deref(), Some("one"));
}

#[test]
fn a_pattern_of_ones_own_is_as_fast_as_those_of_its_form() {
    let rate = |pattern: &str| {
        let report = ask("match", &[("pattern", pattern), ("buffer", "256 B")]);
        assert_eq!(report.rows.len(), 1, "{pattern}");
        figure(report.rows[0].throughput.as_ref().unwrap())
    };
    let (q1, q2, q3, q4) = (rate("q1"), rate("q2"), rate("q3"), rate("q4"));
    for (pattern, like) in [
        ("Ramp to (.+)", q4.typ),
        ("ERROR [0-9]{1,3}", q4.typ),
        ("(.+) at", q2.typ),
        ("(?:x|.*y)", q2.typ),
        ("on ([^ ]+) at [A-Z]+", (q1.typ * q3.typ).sqrt()),
    ] {
        let own = rate(pattern);
        assert!(near(own.typ, like), "{pattern}: {own:?}");
        assert!(own.high / own.low > q4.high / q4.low, "{pattern}: {own:?}");
    }
    assert_eq!(ask("match", &[("pattern", "q1,q2")]).rows.len(), 2);
    let core = |pattern| {
        figure(
            ask("match", &[("on", "re2"), ("pattern", pattern)]).rows[0]
                .throughput
                .as_ref()
                .unwrap(),
        )
    };
    let (mean, own) = (core("mean"), core("a+"));
    assert!(own.typ == mean.typ && own.high > mean.high);
    for (wrong, says) in [("(", "no regular expression"), ("", "1 to 1000"), ("q5", "is not known")]
    {
        let error = refused("match", &[("pattern", wrong)]);
        assert!(error.key == "pattern" && error.problem.contains(says), "{wrong}: {error}");
    }
    assert!(refused("match", &[("pattern", &"a".repeat(1001))]).problem.contains("1 to 1000"));
}
