//! Tests of the properties that all scenarios have, and of how questions are read.

use overside_config::Error;
use overside_model::scenario::{
    self, Key, Kind, MAX_POINTS, Method, Point, Report, Scenario, ScenarioArgs, presets, scenarios,
};
use overside_model::{Library, Unit};

use crate::ask::{answered, ask, ask_of, metric, rate, refusals, refused};

fn run(asked: &ScenarioArgs) -> Result<Report, Error> {
    scenario::run(asked, Library::published())
}

/// Asserts the properties that every report must have.
fn sound(report: &Report, about: &str) {
    assert_eq!(report.provenance, "modelled");
    assert!(!report.rows.is_empty(), "{about}: no rows");
    for row in &report.rows {
        for shown in row.shown() {
            let name = &shown.kind.name;
            match &shown.answer {
                Ok(known) => {
                    let all = known.interval;
                    let ordered = 0.0 <= all.low && all.low <= all.typ && all.typ <= all.high;
                    assert!(ordered && all.high.is_finite(), "{about}: {name}: {all:?}");
                    for fact in &known.facts {
                        assert!(report.facts.contains_key(fact), "{about}: {name}: {fact}");
                    }
                }
                Err(unknown) => {
                    assert!(!unknown.remedy.is_empty(), "{about}: {name}");
                    assert!(report.missing.iter().any(|one| one.figure == *name), "{about}");
                }
            }
        }
    }
}

#[test]
fn every_scenario_answers_as_it_is_by_default() {
    assert!(!scenarios().is_empty());
    for scenario in scenarios() {
        let report = ask(&scenario.name, &[]);
        sound(&report, &scenario.name);
        let figures = report.rows.iter().flat_map(|row| row.shown());
        assert!(figures.count() > 0, "{} has no figures", scenario.name);
    }
}

#[test]
fn the_same_question_has_the_same_answer() {
    for scenario in scenarios() {
        let answer = || ask(&scenario.name, &[]);
        assert_eq!(answer(), answer(), "{}", scenario.name);
    }
}

#[test]
fn both_ends_of_every_key_have_an_answer_or_are_refused_by_name() {
    for scenario in scenarios() {
        for key in &scenario.keys {
            for value in ends(key) {
                if events(scenario, key, &value) > 1_000_000 {
                    continue;
                }
                let about = format!("{} {}={value}", scenario.name, key.name);
                match ask_of(Library::published(), &scenario.name, &[(&key.name, &value)]) {
                    Ok(report) => sound(&report, &about),
                    Err(refused) => {
                        let known = scenario.keys.iter().any(|key| key.name == refused.key);
                        assert!(known || refused.key == "parameters", "{about}: {refused}");
                        assert!(!refused.remedy.is_empty(), "{about}: {refused}");
                    }
                }
            }
        }
    }
}

/// Returns the number of events that answering would simulate; long simulations are for the
/// benches.
fn events(scenario: &'static Scenario, key: &Key, value: &str) -> u64 {
    let mut asked = ScenarioArgs::of(&scenario.name);
    asked.set(&key.name, value);
    let points = asked.points(scenario, Library::published()).unwrap_or_default();
    let events = points.iter().map(|point| scenario.events(point));
    events.fold(0, u64::saturating_add)
}

/// The extreme values that a key takes.
fn ends(key: &Key) -> Vec<String> {
    match &key.kind {
        Kind::Count(low, high) => vec![low.to_string(), high.to_string()],
        Kind::Amount(_, low, high) => vec![low.to_string(), high.to_string()],
        Kind::Words(words) => words.clone(),
        Kind::WordsOrCount(words, low, high) => {
            [words.clone(), vec![low.to_string(), high.to_string()]].concat()
        }
        Kind::Pattern(words) => [words.clone(), vec!["(a|.*b){1,3}".into()]].concat(),
        Kind::Profile => {
            let profiles = Library::published().profiles().iter();
            profiles.map(|profile| profile.name.clone()).collect()
        }
    }
}

#[test]
fn names_and_keys_are_well_formed() {
    let mut names: Vec<_> = scenarios().iter().map(|one| one.name.as_str()).collect();
    names.extend(presets().iter().map(|one| one.name));
    for name in &names {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(allowed), "{name}");
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands for two questions");
    for scenario in scenarios() {
        let keys = scenario.keys.iter().map(|key| &key.name);
        let keys: std::collections::BTreeSet<_> = keys.collect();
        assert_eq!(keys.len(), scenario.keys.len(), "{}", scenario.name);
    }
}

#[test]
fn options_are_compared_with_a_baseline_that_can_be_asked() {
    let mut compared = 0;
    for scenario in scenarios() {
        let Some(by) = &scenario.compare else {
            continue;
        };
        let name = &scenario.name;
        for figure in [Some(&by.figure), by.then.as_ref()].into_iter().flatten() {
            assert!(scenario.metrics.iter().any(|one| one.name == *figure), "{name}: {figure}");
        }
        let mut asked = ScenarioArgs::of(name);
        if let Some(key) = &by.key {
            asked.set(key, &by.baseline);
        }
        let alone = run(&asked).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(alone.compared.is_some(), by.key.is_none(), "{name}");
        compared += 1;
    }
    assert!(compared >= 12);

    let report = run(&ScenarioArgs::of("kv")).unwrap();
    let rows = report.compared.unwrap().rows;
    let designs: Vec<_> = rows.iter().filter_map(|row| row.option.as_deref()).collect();
    assert_eq!(designs, ["dpu-only", "lat", "sav", "dual", "shrd"]);
    let throughput = |row: usize| {
        let known = report.rows[row].throughput.as_ref().unwrap();
        known.answer.as_ref().unwrap().interval.typ
    };
    let ratio = rows[4].comparison.ratio.unwrap().typ;
    assert!((ratio - throughput(5) / throughput(0)).abs() < 1e-9);
    let saved = rows[0].host_cpu_saved.unwrap();
    assert_eq!((saved.low, saved.high), (1.0, 1.0), "no host core serves");
}

#[test]
fn every_ready_made_question_has_an_answer() {
    for one in presets() {
        let asked = ScenarioArgs::named(one.name).expect(one.name);
        assert!(!asked.about.is_empty(), "{} says nothing of itself", one.name);
        sound(&run(&asked).expect(one.name), one.name);
    }
}

/// The files of `scenarios/` and the list of presets are the same.
#[test]
fn every_file_of_scenarios_is_built_in() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
    let mut files: Vec<_> = (std::fs::read_dir(directory).expect("the directory is there"))
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut built_in: Vec<_> = presets().iter().map(|one| one.name.to_owned()).collect();
    built_in.sort();
    assert_eq!(files, built_in);
}

const DRIFT: &str = "coprocessing-drift";

#[test]
fn lists_are_swept_as_a_product_and_the_rest_is_common() {
    let settings = [("placement", "cpu,split"), ("cores", "1, 2, 4"), ("bytes", "64MiB")];
    let report = ask(DRIFT, &settings);
    assert_eq!(report.rows.len(), 6);
    let labels: Vec<_> = report.rows[4].labels.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(labels, ["2", "split"]);
    assert_eq!(report.common["bytes"], "64 MiB");
    assert!(!report.common.contains_key("cores"));
}

#[test]
fn a_file_says_the_same_as_the_command_line() {
    let text = r#"
        schema = "scenario/1"
        scenario = "coprocessing-drift"
        about = "two placements"
        profile = "bf2"
        [parameters]
        placement = ["cpu", "device"]
        bytes = 67108864
        slowdown = 2.5
    "#;
    let file = answered(text).unwrap();
    let settings = [("placement", "cpu,device"), ("bytes", "64 MiB"), ("slowdown", "2.5")];
    let words = ask(DRIFT, &settings);
    assert_eq!(file.rows, words.rows);
    assert_eq!(file.about, "two placements");
}

#[test]
fn words_are_taken_as_papers_write_them() {
    for (scenario, key, published, own) in [
        ("network", "path", "SM1,SM4", "sm1,sm4"),
        ("pairings", "pairing", "CH-SH,CDH-SH", "ch-sh,cdh-sh"),
    ] {
        let asked = |word| ask(scenario, &[(key, word)]).rows;
        assert_eq!(asked(published), asked(own));
    }
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    let cases = [
        ("coers", "2"),
        ("cores", "0"),
        ("cores", "two"),
        ("cores", "-1"),
        ("chunk", "1 PiB"),
        ("chunk", "1 TB"),
        ("chunk", "1 ns"),
        ("chunk", "1 GiB"),
        ("cpu_rate", "nan"),
        ("cpu_rate", "1e999"),
        ("placement", "adaptiv"),
        ("profile", "bf9"),
        ("bytes", ""),
    ];
    let cases = cases.map(|set| (format!("{} = {}", set.0, set.1), refused(DRIFT, &[set])));
    insta::assert_snapshot!(refusals(cases));
    let long = "9".repeat(10_000);
    assert!(refused(DRIFT, &[("cores", &long)]).to_string().len() < 400);
}

#[test]
fn a_file_that_is_wrong_is_told_where() {
    let head = "schema = \"scenario/1\"\nscenario = \"coprocessing-drift\"\n";
    let cases = [
        "scenario = \"coprocessing-drift\"",
        "schema = \"scenario/2\"",
        "schema = \"scenario/1\"",
        "= 3",
        &format!("{head}profil = \"bf2\""),
        &format!("{head}[parameters]\ncores = []"),
        &format!("{head}[parameters.cores]\nx = 1"),
        &format!("{head}parameters = 3"),
        &format!("{head}profile = \"bf2\"\n[parameters]\nprofile = \"bf3\""),
        &format!("{head}[parameters]\ncorse = 2"),
    ];
    let cases = cases.map(|text| (text.to_owned(), answered(text).expect_err(text)));
    let name = "coprocesing-drift";
    let unnamed = ScenarioArgs::named(name).expect_err("no such scenario");
    insta::assert_snapshot!(refusals(cases.into_iter().chain([(name.into(), unnamed)])));
}

#[test]
fn a_question_too_large_is_refused_before_it_is_computed() {
    let many: Vec<_> = (1..=200).map(|count| count.to_string()).collect();
    let many = many.join(",");
    let told = refused(DRIFT, &[("cores", &many), ("depth", &many)]);
    assert!(told.problem.contains(&MAX_POINTS.to_string()), "{told}");
    let settings =
        [("cores", many.as_str()), ("bytes", "64GiB"), ("placement", "cpu, device,split,adaptive")];
    let told = refused(DRIFT, &settings);
    assert!(told.problem.contains("events"), "{told}");
}

#[test]
fn values_are_read_in_any_unit_of_their_kind() {
    let key = Key {
        name: "rate".into(),
        about: "a rate".into(),
        kind: Kind::Amount(Unit::GbPerS, 1.0, 400.0),
        default: String::new(),
        only: None,
    };
    let read = |text: &str| key.read(text, Library::published()).expect(text);
    for text in ["40", "40 Gb/s", "40Gb/s", "5 GB/s", "5000MB/s", "4e1"] {
        let number = read(text).number.expect("a number");
        assert!((number / 5e9 - 1.0).abs() < 1e-12, "{text}: {number}");
    }
    assert_eq!(read("5 GB/s").text, "5 GB/s");
    assert_eq!(read("40").text, "40 Gb/s");
}

#[test]
fn without_drift_or_queueing_the_simulation_is_the_closed_form() {
    // bf2 compresses such data at 2.95 GiB/s, eight cores 480 MB/s; a core's last chunk is little of what it does, and
    // the start of the first one is little of what the engine does.
    let settings = [
        ("cpu_rate", "60"),
        ("slowdown", "1"),
        ("depth", "64"),
        ("chunk", "64 KiB"),
        ("ratio", "0.1"),
    ];
    let report = ask(DRIFT, &settings);
    let seen = |placement: &str| {
        let row = report.rows.iter().find(|row| row.labels[0].1 == placement);
        let row = row.expect("one of the default sweep");
        assert_eq!(row.method, Method::Simulated);
        rate(row)
    };
    let (cores, device) = (8.0 * 60e6, 2.95 * 1_073_741_824.0);
    for (placement, expected) in [
        ("cpu", cores),
        ("device", device),
        ("split", cores + device),
        ("adaptive", cores + device),
    ] {
        let seen = seen(placement);
        assert!((seen / expected - 1.0).abs() < 0.02, "{placement}: {seen} for {expected}");
    }
}

#[test]
fn when_the_device_slows_a_fixed_share_loses_what_following_keeps() {
    let report = ask(DRIFT, &[("cpu_rate", "60")]);
    let of_best = |placement: &str| {
        let row = report.rows.iter().find(|row| row.labels[0].1 == placement);
        metric(row.expect("one of the default sweep"), "of the best possible")
    };
    assert!(of_best("adaptive") > 0.97, "{}", of_best("adaptive"));
    assert!(of_best("split") < 0.85, "{}", of_best("split"));
}

#[test]
fn keys_of_a_scenario_are_all_read() {
    // A default that the key itself would refuse makes the scenario useless.
    for scenario in scenarios() {
        let points = ScenarioArgs::of(&scenario.name).points(scenario, Library::published());
        let points = points.expect("defaults are allowed");
        for key in scenario.keys.iter().filter(|key| !key.default.is_empty()) {
            // A key that only means something with one value of another is set with that.
            let reads = |point: &&Point| match &key.only {
                Some(only) => only.of.iter().any(|of| point.word_if_set(&only.key) == Some(of)),
                None => true,
            };
            let mut points = points.iter().filter(reads);
            assert!(points.all(|point| point.get(&key.name).is_some()), "{}", key.name);
        }
    }
}

#[test]
fn frames_through_the_card_wait_as_theory_says_and_are_lost_beyond_its_rate() {
    // A frame of 1000 bytes takes 400 ns at 20 Gb/s.
    let figure = |load: &str, name: &str| {
        let settings = [("path_rate", "20"), ("frame", "1000"), ("load", load)];
        let report = ask("onpath", &settings);
        metric(&report.rows[0], name)
    };
    // Idle: a frame's own time. Half busy: half of it more, on average.
    assert!((figure("0.02", "mean latency") / 400.0 - 1.0).abs() < 0.01);
    assert!((figure("10", "mean latency") / 600.0 - 1.0).abs() < 0.03);
    assert!((figure("10", "throughput") / 1.25e9 - 1.0).abs() < 0.02);
    assert_eq!(figure("10", "lost"), 0.0);
    // Beyond its rate it carries that, and the queue is full.
    assert!((figure("40", "throughput") / 2.5e9 - 1.0).abs() < 0.02);
    assert!((figure("40", "lost") - 0.5).abs() < 0.02);
    assert!((figure("40", "p99 latency") / (1025.0 * 400.0) - 1.0).abs() < 0.01);
}
