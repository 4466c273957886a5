//! What the model says of engines, codecs, shared inputs and Arrow tables.

use overside_model::check::check;
use overside_model::facts::{Facts, Use};
use overside_model::{Completion, EvidenceLevel, Library, Profile, Work, cost};
use overside_ops::Operation;

use crate::ask::{ask, assert_says, figure, preset, rate, refused};

/// A fact in the collection's form.
fn fact(device: &str, workload: &str, metric: &str, rest: &str) -> String {
    format!(
        "{{id: x, paper: p, device: {device:?}, workload: {workload:?}, metric: {metric:?}, \
         kind: measured, use: validate, {rest}}}"
    )
}

/// The same of one rate in MiB/s.
fn mib(device: &str, workload: &str, metric: &str) -> String {
    fact(device, workload, metric, "value: 1, unit: MiB/s")
}

/// What is predicted for one figure, in its unit, and how near the evidence is.
fn predicted(library: &Library, fact: &str) -> Option<(f64, f64, EvidenceLevel)> {
    let facts = Facts::parse("test", &format!("meta: {{}}\nfacts:\n- {fact}\n")).unwrap();
    let check = check(&facts, library);
    let compared = check.figures[0].compared()?;
    Some((compared.modelled.typ, compared.width, compared.closeness))
}

fn published(fact: &str) -> (f64, f64, EvidenceLevel) {
    predicted(Library::published(), fact).unwrap_or_else(|| panic!("nothing is said of {fact}"))
}

#[test]
fn figures_that_judge_the_model_are_met() {
    let check = check(Facts::published(), Library::published());
    let mine = ["codec", "split", "arrow"];
    let (mut seen, mut inside) = (0, 0);
    for figure in check
        .figures
        .iter()
        .filter(|one| one.purpose == Use::Validate)
    {
        let Some(compared) = figure.compared().filter(|one| mine.contains(&one.scenario)) else {
            continue;
        };
        seen += 1;
        inside += usize::from(compared.inside);
        assert!(compared.error.abs() < 0.25, "{}: {compared:?}", figure.name);
        assert!(!compared.fitted, "{}", figure.name);
    }
    assert!(seen >= 20, "{seen}");
    assert!(inside * 10 >= seen * 9, "{inside} of {seen}");
}

#[test]
fn shares_and_settings_that_were_not_published_are_answered_by_the_same_formula() {
    let split = |direction: &str, setting: &str, share: u32| {
        let workload = format!("co-process deflate {direction} ({setting})");
        published(&mib(
            "host+BF-2",
            &workload,
            &format!("throughput @{share} %"),
        ))
        .0
    };
    let at = |share| split("compress", "static", share);
    assert!(at(10) < at(50) && at(50) < at(80) && at(80) < at(100));
    assert!(
        (at(50) / at(0) - 2.0).abs() < 0.05,
        "half of the work is left to the CPU"
    );
    // The jump at zero: however little the device gets, its context has to be set up.
    let of = |share, setting| split("decompress", setting, share);
    assert!(of(1, "reconfig") < 0.8 * of(0, "static"));
    assert!(of(1, "static") > 0.99 * of(0, "static"));
}

#[test]
fn a_card_without_figures_of_its_own_is_answered_from_the_other_with_more_doubt() {
    let offload = |device: &str| published(&mib(device, "deflate decompress", "corpus mean"));
    let (bf2, bf2_width, _) = offload("BF-2 HW");
    let (bf3, bf3_width, closeness) = offload("BF-3 HW");
    assert!(bf3 > bf2 && bf3_width > bf2_width);
    assert_eq!(closeness, EvidenceLevel::Application);
    // A card without such an engine gets no figure.
    let absent = mib("BF-3 HW", "deflate compress", "mean throughput");
    assert_eq!(predicted(Library::published(), &absent), None);
}

#[test]
fn without_a_fact_the_nearest_one_answers_or_nothing_does() {
    let figure = |codec: &str| mib("host CPU", codec, "throughput @0 %");
    let inflate = figure("co-process deflate decompress");
    let deflate = figure("co-process deflate compress");
    let poorer = Library::published().without(&["coproc.co.dec.f0", "coproc.co.comp.f0"]);
    let (known, width, _) = published(&inflate);
    let (guessed, wider, closeness) = predicted(&poorer, &inflate).unwrap();
    assert_eq!(closeness, EvidenceLevel::Application);
    assert!(wider > width && (guessed / known).ln().abs() < wider.ln());
    // Nothing relates zlib's level 6 to the levels that were published.
    assert_eq!(predicted(&poorer, &deflate), None);
}

#[test]
fn a_start_up_that_nobody_published_gives_no_size_from_which_offload_pays() {
    let cut = fact(
        "BF-2",
        "deflate compress accel",
        "slower than CPU below",
        "value: 1, unit: KB",
    );
    assert_eq!(predicted(Library::published(), &cut), None);
    // Speed-ups were published for large inputs, of which the start is no part.
    let ratio = |metric: &str| {
        fact(
            "BF-2 accel/host threaded",
            "deflate compress",
            metric,
            "value: 4, unit: x",
        )
    };
    assert!(predicted(Library::published(), &ratio("ratio at 256 MB")).is_some());
    assert_eq!(
        predicted(Library::published(), &ratio("ratio at 1 MB")),
        None
    );
    // With a context for each input there is one: its cost is known.
    let metric = "HW = CPU cut-off";
    let cut = fact(
        "BF-2 HW",
        "deflate decompress",
        metric,
        "value: 7, unit: MiB",
    );
    let (size, _, _) = published(&cut);
    assert!(size > 5.0 && size < 20.0, "{size}");
}

#[test]
fn words_that_are_not_about_codecs_are_left_to_others() {
    for (device, workload, metric) in [
        ("BF-2", "fp64 add", "throughput, 1 core"),
        ("host", "deflate", "colour"),
        ("BF-2", "co-process", "throughput"),
        ("", "", ""),
        ("/", "deflate compress", "ratio %"),
        (
            "BF-2 HW",
            "deflate compress",
            "throughput at 999999999999999999999 GiB",
        ),
    ] {
        for rest in ["value: 1, unit: x", "value: {a: 1, b: [1, 2]}, unit: '%'"] {
            let text = fact(device, workload, metric, rest);
            let _ = predicted(Library::published(), &text);
        }
    }
    let text = fact(
        "BF-2",
        "fp64 add",
        "throughput, 1 core",
        "value: 1, unit: Gops/s",
    );
    let facts = Facts::parse("test", &format!("meta: {{}}\nfacts:\n- {text}\n")).unwrap();
    let check = check(&facts, &Library::new(Vec::new()));
    assert!(check.figures[0].compared().is_none());
}

#[test]
fn the_ready_made_splits_answer_every_row() {
    for name in ["split-deflate", "split-lz4", "arrow-tables"] {
        let report = preset(name);
        assert!(report.missing.is_empty(), "{name}: {:?}", report.missing);
        assert!(!report.facts.is_empty() && report.provenance == "modelled");
        for row in &report.rows {
            assert!(
                row.shown().all(|shown| shown.answer.is_ok()),
                "{name}: {row:?}"
            );
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
    let saved = fixed.rows[0]
        .shown()
        .find(|one| one.kind.name == "CPU time saved");
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
    assert!(
        !device
            .missing
            .iter()
            .any(|missing| missing.contains("cost of a doorbell"))
    );
    assert_eq!(
        device.typ_ns, asked.typ_ns,
        "what is missing counts as zero"
    );
}
