//! What every scenario promises, and how questions are read.

use overside_config::Error;
use overside_model::scenario::{
    self, Key, Kind, MAX_POINTS, Method, Report, Scenario, ScenarioArgs, presets, scenarios,
};
use overside_model::{Library, Unit};

fn ask(asked: &ScenarioArgs) -> Result<Report, Error> {
    scenario::run(asked, Library::published())
}

fn with(scenario: &str, settings: &[(&str, &str)]) -> Result<Report, Error> {
    let mut asked = ScenarioArgs::of(scenario);
    for (key, value) in settings {
        asked.set(key, value);
    }
    ask(&asked)
}

/// What must be true of every report.
fn sound(report: &Report, about: &str) {
    assert_eq!(report.provenance, "modelled");
    assert!(!report.rows.is_empty(), "{about}: no rows");
    for row in &report.rows {
        for shown in row.shown() {
            let name = &shown.name;
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
                    assert!(
                        report.missing.iter().any(|one| one.figure == *name),
                        "{about}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_scenario_answers_as_it_is_by_default() {
    assert!(!scenarios().is_empty());
    for scenario in scenarios() {
        let report = ask(&ScenarioArgs::of(scenario.name())).expect("its defaults are allowed");
        sound(&report, scenario.name());
        let figures = report.rows.iter().flat_map(|row| row.shown());
        assert!(figures.count() > 0, "{} has no figures", scenario.name());
    }
}

#[test]
fn the_same_question_has_the_same_answer() {
    for scenario in scenarios() {
        let asked = ScenarioArgs::of(scenario.name());
        assert_eq!(ask(&asked), ask(&asked), "{}", scenario.name());
    }
}

#[test]
fn both_ends_of_every_key_have_an_answer_or_are_refused_by_name() {
    for scenario in scenarios() {
        for key in scenario.keys() {
            for value in ends(key) {
                if events(*scenario, key, &value) > 1_000_000 {
                    continue;
                }
                let about = format!("{} {}={value}", scenario.name(), key.name);
                match with(scenario.name(), &[(key.name, &value)]) {
                    Ok(report) => sound(&report, &about),
                    Err(refused) => {
                        let known = scenario.keys().iter().any(|key| key.name == refused.key);
                        assert!(known || refused.key == "parameters", "{about}: {refused}");
                        assert!(!refused.remedy.is_empty(), "{about}: {refused}");
                    }
                }
            }
        }
    }
}

/// What answering would simulate; long simulations are for the benches.
fn events(scenario: &dyn Scenario, key: &Key, value: &str) -> u64 {
    let mut asked = ScenarioArgs::of(scenario.name());
    asked.set(key.name, value);
    let points = asked
        .points(scenario, Library::published())
        .unwrap_or_default();
    let events = points.iter().map(|point| scenario.events(point));
    events.fold(0, u64::saturating_add)
}

/// The extreme values that a key takes.
fn ends(key: &Key) -> Vec<String> {
    match key.kind {
        Kind::Count { low, high } => vec![low.to_string(), high.to_string()],
        Kind::Amount { low, high, .. } => vec![low.to_string(), high.to_string()],
        Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Kind::Profile => {
            let profiles = Library::published().profiles().iter();
            profiles.map(|profile| profile.name.clone()).collect()
        }
    }
}

#[test]
fn names_and_keys_are_well_formed() {
    let mut names: Vec<_> = scenarios().iter().map(|one| one.name()).collect();
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
        let mut keys: Vec<_> = scenario.keys().iter().map(|key| key.name).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), scenario.keys().len(), "{}", scenario.name());
    }
}

#[test]
fn every_ready_made_question_has_an_answer() {
    for one in presets() {
        let asked = ScenarioArgs::named(one.name).expect(one.name);
        assert!(
            !asked.about.is_empty(),
            "{} says nothing of itself",
            one.name
        );
        sound(&ask(&asked).expect(one.name), one.name);
    }
}

/// The files of `scenarios/` and the list of presets are the same.
#[test]
fn every_file_of_scenarios_is_built_in() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut files: Vec<_> = (std::fs::read_dir(directory).expect("the directory is there"))
        .map(|entry| entry.expect("readable").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .map(|path| {
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    files.sort();
    let mut built_in: Vec<_> = presets().iter().map(|one| one.name.to_owned()).collect();
    built_in.sort();
    assert_eq!(files, built_in);
}

const DRIFT: &str = "coprocessing-drift";

#[test]
fn lists_are_swept_as_a_product_and_the_rest_is_common() {
    let settings = [
        ("placement", "cpu,split"),
        ("cores", "1, 2, 4"),
        ("bytes", "64MiB"),
    ];
    let report = with(DRIFT, &settings).expect("it is right");
    assert_eq!(report.rows.len(), 6);
    let labels: Vec<_> = report.rows[4]
        .labels
        .iter()
        .map(|(_, text)| text.as_str())
        .collect();
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
    let file =
        ask(&ScenarioArgs::parse("mine.toml", text).expect("it is right")).expect("it is right");
    let settings = [
        ("placement", "cpu,device"),
        ("bytes", "64 MiB"),
        ("slowdown", "2.5"),
    ];
    let words = with(DRIFT, &settings).expect("it is right");
    assert_eq!(file.rows, words.rows);
    assert_eq!(file.about, "two placements");
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    let refused =
        |settings: &[(&str, &str)]| with(DRIFT, settings).expect_err("it is wrong").to_string();
    let cases = [
        (
            ("coers", "2"),
            "coers: the scenario coprocessing-drift has no such key",
            "\"cores\"",
        ),
        (
            ("cores", "0"),
            "cores: 0 is out of range",
            "a whole number from 1 to 1024",
        ),
        (
            ("cores", "two"),
            "cores: \"two\" is not a whole number",
            "1 to 1024",
        ),
        (
            ("cores", "-1"),
            "cores: \"-1\" is not a whole number",
            "1 to 1024",
        ),
        (
            ("chunk", "1 PiB"),
            "chunk: \"1 PiB\" is not a number in B",
            "from 4 KiB to 128 MiB",
        ),
        (
            ("chunk", "1 TB"),
            "chunk: \"1 TB\" is not a number",
            "from 4 KiB to 128 MiB",
        ),
        (
            ("chunk", "1 ns"),
            "chunk: \"1 ns\" is not a number",
            "from 4 KiB to 128 MiB",
        ),
        (
            ("chunk", "1 GiB"),
            "chunk: 1 GiB is out of range",
            "from 4 KiB to 128 MiB",
        ),
        (
            ("cpu_rate", "nan"),
            "cpu_rate: \"nan\" is not a number",
            "0.01 MB/s",
        ),
        (
            ("cpu_rate", "1e999"),
            "cpu_rate: \"1e999\" is not a number",
            "0.01 MB/s",
        ),
        (
            ("placement", "adaptiv"),
            "placement: \"adaptiv\" is not known",
            "\"adaptive\"",
        ),
        (("profile", "bf9"), "profile: \"bf9\" is not known", "\"bf"),
        (
            ("bytes", ""),
            "bytes: \"\" is not a number",
            "from 4 KiB to 1024 GiB",
        ),
    ];
    for (setting, problem, allowed) in cases {
        let text = refused(&[setting]);
        assert!(
            text.contains(problem) && text.contains(allowed),
            "{setting:?}: {text}"
        );
    }
    let long = "9".repeat(10_000);
    assert!(refused(&[("cores", &long)]).len() < 400);
}

#[test]
fn a_file_that_is_wrong_is_told_where() {
    let head = "schema = \"scenario/1\"\nscenario = \"coprocessing-drift\"\n";
    let cases = [
        (
            "scenario = \"coprocessing-drift\"".to_owned(),
            "schema: missing",
        ),
        (
            "schema = \"scenario/2\"".into(),
            "schema: \"scenario/2\" is not known; write schema = \"scenario/1\"",
        ),
        ("schema = \"scenario/1\"".into(), "scenario: missing"),
        (
            format!("{head}profil = \"bf2\""),
            "did you mean \"profile\"?",
        ),
        (
            format!("{head}[parameters]\ncores = []"),
            "parameters.cores: 0 values; 1 to 10000 values",
        ),
        (
            format!("{head}[parameters.cores]\nx = 1"),
            "parameters.cores: a value is a number, text, or a list of these",
        ),
        (
            format!("{head}parameters = 3"),
            "parameters: not 3; a table",
        ),
        (
            format!("{head}profile = \"bf2\"\n[parameters]\nprofile = \"bf3\""),
            "parameters.profile: set twice",
        ),
        ("= 3".into(), "mine.toml:1:1: not TOML"),
    ];
    for (text, expected) in cases {
        let told = match ScenarioArgs::parse("mine.toml", &text) {
            Ok(_) => panic!("{text} was taken"),
            Err(told) => told.to_string(),
        };
        assert!(
            told.starts_with("mine.toml:") && told.contains(expected),
            "{text}: {told}"
        );
    }
    let asked = ScenarioArgs::parse("mine.toml", &format!("{head}[parameters]\ncorse = 2"));
    let told = ask(&asked.expect("the form is right"))
        .expect_err("no such key")
        .to_string();
    assert!(told.starts_with("mine.toml:4:1: corse: "), "{told}");
    let told = ScenarioArgs::named("coprocesing-drift")
        .expect_err("no such scenario")
        .to_string();
    assert!(
        told.contains("did you mean \"coprocessing-drift\"?"),
        "{told}"
    );
}

#[test]
fn a_question_too_large_is_refused_before_it_is_computed() {
    let many: Vec<_> = (1..=200).map(|count| count.to_string()).collect();
    let many = many.join(",");
    let told = with(DRIFT, &[("cores", &many), ("depth", &many)]).expect_err("40,000 points");
    assert!(told.problem.contains(&MAX_POINTS.to_string()), "{told}");
    let settings = [
        ("cores", many.as_str()),
        ("bytes", "64GiB"),
        ("placement", "cpu, device,split,adaptive"),
    ];
    let told = with(DRIFT, &settings).expect_err("two thousand million events and more");
    assert!(told.problem.contains("events"), "{told}");
}

#[test]
fn values_are_read_in_any_unit_of_their_kind() {
    let key = Key::amount("rate", Unit::GbPerS, (1.0, 400.0), "", "a rate");
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
    // bf2 compresses 1.97 GiB/s, eight cores 480 MB/s; a core's last chunk is little of what it does.
    let settings = [("slowdown", "1"), ("depth", "16"), ("chunk", "64 KiB")];
    let report = with(DRIFT, &settings).expect("it is right");
    let rate = |placement: &str| {
        let row = report.rows.iter().find(|row| row.labels[0].1 == placement);
        let row = row.expect("one of the default sweep");
        assert_eq!(row.method, Method::Simulated);
        let shown = row.throughput.as_ref().expect("a throughput");
        shown.answer.as_ref().expect("known").interval.typ
    };
    let (cores, device) = (8.0 * 60e6, 1.97 * 1_073_741_824.0);
    for (placement, expected) in [
        ("cpu", cores),
        ("device", device),
        ("split", cores + device),
        ("adaptive", cores + device),
    ] {
        let seen = rate(placement);
        assert!(
            (seen / expected - 1.0).abs() < 0.02,
            "{placement}: {seen} for {expected}"
        );
    }
}

#[test]
fn when_the_device_slows_a_fixed_share_loses_what_following_keeps() {
    let report = with(DRIFT, &[]).expect("it is right");
    let of_best = |placement: &str| {
        let row = report.rows.iter().find(|row| row.labels[0].1 == placement);
        let row = row.expect("one of the default sweep");
        let best = row
            .more
            .iter()
            .find(|shown| shown.name == "of the best possible");
        best.expect("shown")
            .answer
            .as_ref()
            .expect("known")
            .interval
            .typ
    };
    assert!(of_best("adaptive") > 0.97, "{}", of_best("adaptive"));
    assert!(of_best("split") < 0.85, "{}", of_best("split"));
}

#[test]
fn keys_of_a_scenario_are_all_read() {
    // A default that the key itself would refuse makes the scenario useless.
    for scenario in scenarios() {
        let scenario: &dyn Scenario = *scenario;
        let points = ScenarioArgs::of(scenario.name()).points(scenario, Library::published());
        let points = points.expect("defaults are allowed");
        for key in scenario.keys().iter().filter(|key| !key.default.is_empty()) {
            assert!(
                points.iter().all(|point| point.get(key.name).is_some()),
                "{}",
                key.name
            );
        }
    }
}

#[test]
fn frames_through_the_card_wait_as_theory_says_and_are_lost_beyond_its_rate() {
    // A frame of 1000 bytes takes 400 ns at 20 Gb/s.
    let figure = |load: &str, name: &str| {
        let settings = [("path_rate", "20"), ("frame", "1000"), ("load", load)];
        let report = with("onpath", &settings).expect("it is right");
        let row = &report.rows[0];
        let shown = row.shown().find(|shown| shown.name == name).expect("shown");
        shown.answer.as_ref().expect("known").interval.typ
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
