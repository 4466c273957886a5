//! Questions are data: a fact's prose changes nothing, and errors name their position.

use overside_model::check::{Check, Finding, check};
use overside_model::facts::{Fact, Facts, Figure};
use overside_model::questions::{OrderingFinding, OrderingVerdict, Questions};
use overside_model::scenario::{ScenarioArgs, run};
use overside_model::{Library, Unit};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_yaml_ng::Value;
use std::sync::LazyLock;

static CHECK: LazyLock<Check> = LazyLock::new(|| check(Facts::published(), Library::published()));

/// Returns the finding for each figure, without the fact's own words.
fn findings(check: &Check) -> Vec<(String, String)> {
    let finding = |one: &Finding| serde_json::to_string(one).unwrap();
    (check.figures.iter()).map(|one| (one.name.clone(), finding(&one.finding))).collect()
}

/// Asserts that facts changed by `change` get the same answers as before.
#[track_caller]
fn changes_nothing(change: impl Fn(&mut Fact)) {
    let mut facts = Facts::published().clone();
    facts.facts.iter_mut().for_each(change);
    let changed = check(&facts, Library::published());
    for (before, after) in findings(&CHECK).into_iter().zip(findings(&changed)) {
        assert_eq!(before, after);
    }
}

#[test]
fn renamed_papers_change_nothing() {
    changes_nothing(|fact| fact.paper = "another study".into());
}

#[test]
fn capitals_change_nothing() {
    changes_nothing(|fact| {
        for text in [&mut fact.device, &mut fact.workload, &mut fact.metric, &mut fact.conditions] {
            *text = text.to_uppercase();
        }
    });
}

#[test]
fn another_word_for_the_device_changes_nothing() {
    changes_nothing(|fact| fact.device = "a network card with cores".into());
}

#[test]
fn another_word_for_the_workload_changes_nothing() {
    changes_nothing(|fact| fact.workload = format!("how {} was done", fact.workload.len()));
}

#[test]
fn another_word_for_the_metric_changes_nothing() {
    changes_nothing(|fact| fact.metric = "what was seen, up to its mean".into());
}

#[test]
fn conditions_and_notes_change_nothing() {
    changes_nothing(|fact| {
        fact.conditions = "at 70 % of 512 MB on 8 cores, event < 4 KB".into();
        fact.note = None;
        fact.section = "9".into();
    });
}

#[test]
fn what_is_scored_is_what_simulate_prints() {
    let mut seen = 0;
    for fact in &Facts::published().facts {
        for figure in fact.figures() {
            let Some(question) = Questions::published().of(&figure) else {
                continue;
            };
            let commands = question.commands();
            if question.scenario().is_empty() {
                // It says why nothing is asked.
                assert!(question.answer(Library::published()).is_err() && commands.is_empty());
                continue;
            }
            assert!(!commands.is_empty(), "{}", figure.name());
            let [only] = &commands[..] else { continue };
            // As it stands in the fact, typed by hand.
            let mut words = only.command.split(" --set ");
            let scenario = words.next().unwrap().strip_prefix("overside simulate ").unwrap();
            let mut asked = ScenarioArgs::of(scenario);
            for word in words {
                let (key, value) = word.trim_matches('\'').split_once('=').unwrap();
                asked.set(key, value);
            }
            let report =
                run(&asked, Library::published()).unwrap_or_else(|e| panic!("{fact:?}: {e}"));
            let shown = report.rows[0].shown().find(|one| one.kind.name == only.figure);
            let printed = shown.unwrap().answer.as_ref().ok().map(|one| one.interval.typ);
            let scored = question.answer(Library::published()).ok();
            if let (Some(printed), Some(scored)) = (printed, scored)
                && !figure.unit.contains('%')
            {
                assert!((printed / scored.interval.typ - 1.0).abs() < 1e-9, "{}", figure.name());
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");
}

#[test]
fn figures_that_a_studys_own_code_invalidates_neither_calibrate_nor_judge() {
    for id in ["dpbento.str.strcmp.10", "dpbento.str.strcmp.1024", "dpbento.str.cmp.host"] {
        let fact = Facts::published().get(id).unwrap();
        assert!(fact.is_doubtful() && fact.note.as_ref().unwrap().contains("compiler"), "{id}");
        let mut those = CHECK.figures.iter().filter(|one| one.fact == id);
        assert!(those.all(|one| matches!(one.finding, Finding::Doubtful)), "{id}");
    }
}

/// A collection of one fact that asks this.
fn asking(ask: &str) -> Result<Facts, String> {
    let text = format!(
        "meta: {{}}\nfacts:\n- id: mine.net\n  paper: p\n  device: d\n  workload: w\n  metric: m\n  \
         kind: measured\n  use: validate\n  value: 40\n  unit: Gbps\n  ask:\n{ask}"
    );
    Facts::parse("mine.yaml", &text).map_err(|error| error.to_string())
}

#[test]
fn a_fact_of_ones_own_carries_its_question() {
    let facts =
        asking("    scenario: network\n    figure: TCP\n    path: sm2\n    profile: bf3-8c\n");
    let check = check(&facts.unwrap(), Library::published());
    let compared = check.figures[0].compared().unwrap();
    assert!(compared.inside && compared.error.abs() < 0.01, "{compared:?}");
}

#[test]
fn what_is_wrong_with_a_question_is_told_with_its_line() {
    for (ask, line, says) in [
        ("    scenario: netwrk\n    figure: TCP\n", 13, "did you mean \"network\"?"),
        ("    scenario: network\n    figure: UDP\n    path: sm2\n", 14, "has no figure \"UDP\""),
        ("    scenario: network\n    figure: TCP\n    path: sm9\n", 15, "\"sm9\" is not known"),
        ("    scenario: network\n    figure: TCP\n    pth: sm2\n", 15, "did you mean \"path\"?"),
        (
            "    scenario: network\n    figure: TCP\n    path: sm2\n    profile: bf9\n",
            16,
            "\"bf9\"",
        ),
        ("    scenario: network\n    figure: TCP\n", 12, "it is not said which of sm1, sm2"),
        (
            "    scenario: dma\n    figure: latency\n    primitive: dma\n    initiator: dpu\n    \
          access: read\n    bytes: 64 B\n",
            11,
            "counts in \"Gbps\"",
        ),
        (
            "    scenario: kv\n    figure: throughput\n    design: dual\n    requests: 1000\n",
            14,
            "by a formula, once",
        ),
        (
            "    scenario: network\n    figure: TCP\n    path: sm2\n    one_of: {profile: []}\n",
            16,
            "0 cases",
        ),
    ] {
        let error = asking(ask).unwrap_err();
        assert!(error.contains(says), "{ask}: {error}");
        assert!(error.contains(&format!("mine.yaml:{line}:")), "{ask}: {error}");
    }
}

#[test]
fn hostile_figures_and_misspelt_keys_are_told_with_their_line() {
    let ask = "{scenario: network, figure: TCP, path: sm2, profile: bf3-8c}";
    let text = |figure: &str, ask: &str, orderings: &str| {
        format!(
            "meta: {{}}\nfacts:\n- id: mine.net\n  paper: p\n  device: d\n  workload: w\n  metric: m\n  \
             kind: measured\n  use: validate\n  unit: Gbps\n  {figure}\n  ask: {ask}\n\
             orderings: [{orderings}]\n"
        )
    };
    let ordering = |ask: &str| format!("{{id: o, paper: p, statement: s, ask: {ask}}}");
    let constants = |a: &str| ordering(&format!("{{rising: [{{value: {a}}}, {{value: 2}}]}}"));
    let within = ordering("{alike: [{value: 1}, {value: 2}], within: .nan}");
    let deep = format!("value: {}1{}", "[".repeat(5000), "]".repeat(5000));
    for (file, line, says) in [
        (text("value: .nan", ask, ""), 11, "is no figure"),
        (text("value: .inf", ask, ""), 11, "is no figure"),
        (text("value: 1e999", ask, ""), 11, "is no figure"),
        (text("value: '<.inf'", ask, ""), 11, "is no figure"),
        (text("values: {a: {b: -.inf}}", ask, ""), 11, "is no figure"),
        (text("value: twelve", ask, ""), 11, "a number, a bound"),
        (text("value: true", ask, ""), 11, "is no figure"),
        (text("range: [5, 1]", ask, ""), 11, "range: [low, high]"),
        (text("value: [1, 2, 3]", ask, ""), 11, "values by key"),
        (text("note: none", ask, ""), 12, "nothing to compare"),
        (text("valeu: 1", ask, ""), 11, "did you mean \"value\"?"),
        (text("value: 1\n  aks: {}", ask, ""), 12, "did you mean \"ask\"?"),
        (text("value: 1\n  value: 2", ask, ""), 3, "duplicate field"),
        (text("values: {a: 1, a: 2}", ask, ""), 11, "duplicate entry"),
        (text("value: 1", "[1, 2]", ""), 12, "invalid type"),
        (text("value: 1", "{}", ""), 12, "no scenario is called"),
        (text("value: 1", ask, &constants(".nan")), 13, "is no figure"),
        (text("value: 1", ask, &constants("-1")), 13, "is no figure"),
        (text("value: 1", ask, &within), 13, "from 1 to 1000"),
        (text(&deep, ask, ""), 11, "recursion"),
    ] {
        let error = Facts::parse("mine.yaml", &file).unwrap_err().to_string();
        let file: String = file.chars().take(400).collect();
        assert!(error.contains(says), "{file}\n{error}");
        assert!(error.contains(&format!("mine.yaml:{line}:")), "{file}\n{error}");
    }
    // Of two names of which one begins like the other, the right one.
    let two = text("value: 1", ask, "").replace("- id: mine.net\n", "- id: mine.net.x\n")
        + &ordering("{}").replace("id: o", "id: mine.net");
    let two = two.replace("orderings: []\n", "orderings:\n- ");
    let error = Facts::parse("mine.yaml", &two).unwrap_err().to_string();
    assert!(error.contains("mine.yaml:14:"), "{error}");
    // A key of another collection that is not nearly one of these is left alone.
    assert!(Facts::parse("mine.yaml", &text("value: 1\n  url: x", ask, "")).is_ok());
}

#[test]
fn a_mean_over_the_corpus_is_asked_by_name() {
    let ask = |over: &str| {
        format!(
            "    {{scenario: codec, figure: throughput, context: kept, direction: compress, {over}}}\n"
        )
    };
    let answer = |over: &str| {
        let facts = asking(&ask(over)).unwrap();
        let figures = facts.facts[0].figures();
        let question = Questions::published().of(&figures[0]).unwrap();
        question.answer(Library::published()).unwrap().interval
    };
    assert_eq!(answer("mean_over: corpus"), answer("inputs: corpus"));
    let error = asking(&ask("max_over: corpus")).unwrap_err();
    assert!(error.contains("only the mean is known"), "{error}");
    let error = asking("    {scenario: index, figure: gain, mean_over: corpus}\n").unwrap_err();
    assert!(error.contains("no such key"), "{error}");
}

#[test]
fn none_of_what_was_counted_is_met_by_none() {
    let won = CHECK.figures.iter().find(|one| one.fact == "coproc.declz4.hw_wins").unwrap();
    let compared = won.compared().unwrap();
    assert_eq!((compared.modelled.low, compared.modelled.high), (0.0, 0.0));
    assert_eq!((compared.error, compared.width), (0.0, 1.0));
    assert!(compared.inside);
}

#[test]
fn questions_about_what_nobody_published_are_refused() {
    let parse = |text: &str| {
        let error = Questions::parse("q.yaml", text, Facts::published()).unwrap_err();
        error.to_string()
    };
    let error = parse("questions:\n  idio.net.sm3: {scenario: network}\n");
    assert!(error.contains("q.yaml:2:") && error.contains("there is no such fact"), "{error}");
    let error = parse("orderings:\n  ord.D9: {not_modelled: x}\n");
    assert!(error.contains("there is no such ordering"), "{error}");
    let error = parse("orderings:\n  ord.D2:\n    all: [{rising: [{value: 1}]}]\n");
    assert!(error.contains("q.yaml:3:") && error.contains("two questions"), "{error}");
    let error = parse("questios: {}\n");
    assert!(error.contains("unknown field"), "{error}");
    assert!(parse(&"#".repeat(5 << 20)).contains("MiB"));
}

#[test]
fn ratios_inside_each_other_and_many_cases_are_bounded() {
    let deep = |levels: usize| {
        let open = "relative_to: {threads: 2, ".repeat(levels);
        format!(
            "    {{scenario: network, figure: TCP, path: ends, {open}threads: 1{}}}\n",
            "}".repeat(levels)
        )
    };
    assert!(asking(&deep(200)).is_err());
    let many: Vec<String> = (1..=101).map(|one| one.to_string()).collect();
    let ask = format!(
        "    {{scenario: network, figure: TCP, path: ends, one_of: {{threads: [{}]}}}}\n",
        many.join(", ")
    );
    assert!(asking(&ask).unwrap_err().contains("101 cases"));
}

#[test]
fn an_ordering_holds_only_where_the_stated_positions_do() {
    let text = |at: f64| {
        format!(
            "orderings:\n  ord.C2:\n    ask: {{scenario: split, figure: best share, codec: lz4, \
             direction: decompress, setting: static, share: 50}}\n    all: [{{alike: \
             [{{initiator: host}}, {{value: {at}}}]}}]\n"
        )
    };
    let ordering = (Facts::published().orderings.iter()).find(|one| one.id == "ord.C2").unwrap();
    for (at, must) in [(0.76, OrderingVerdict::Holds), (0.5, OrderingVerdict::Fails)] {
        let questions = Questions::parse("q.yaml", &text(at), Facts::published()).unwrap();
        match questions.ordering(ordering).unwrap().answer(Library::published()) {
            OrderingFinding::Claimed { verdict, .. } => assert_eq!(verdict, must, "{at}"),
            other @ OrderingFinding::NotModelled { .. } => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_ratio_has_no_more_doubt_than_what_tells_its_sides_apart() {
    let facts = asking(
        "    scenario: split\n    figure: throughput\n    codec: deflate\n    direction: compress\n    \
         initiator: host\n    setting: static\n    share: 100\n    unit: '%'\n    relative_to: {share: 99}\n",
    );
    let facts = facts.unwrap();
    let figures: Vec<Figure<'_>> = facts.facts[0].figures();
    let question = Questions::published().of(&figures[0]).unwrap();
    let ratio = question.answer(Library::published()).unwrap();
    assert!(ratio.interval.typ > 1.0);
    // The same card's rates stand on both sides, with the doubt of one formula.
    assert!(ratio.interval.high / ratio.interval.low < 3.0, "{ratio:?}");
    assert_eq!(Unit::Percent.in_base(), 0.01);
}

const VALUES: [&str; 14] = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "5e-324",
    "1e-9",
    "4096",
    "[0, 1]",
    "[1, 1e300]",
    "'<0'",
    "'>1e9'",
    "{BF-2: {'0': 1, '-5': 2, '1e400': 3}, host: {x: 7}}",
    "{'BF-3/BF-2': 0, 'host/BF-3': [1, 2], '': 3, ü: 4}",
    "{A: {BF2: 50, BF3: -50}, GET: {req: 101, resp: 0}, '64MB': 1e18, '99999999999999999999 GB': 1}",
];

fn compare(fact: Fact) {
    let facts =
        Facts { facts: vec![fact], ..Facts::parse("none", "{meta: {}, facts: []}").unwrap() };
    let check = check(&facts, Library::published());
    for one in check.figures.iter().filter_map(|one| one.compared()) {
        assert!(one.width >= 1.0 && one.error.is_finite(), "{one:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn facts_with_another_value(fact: Index, value in prop::sample::select(&VALUES[..])) {
        let value: Value = serde_yaml_ng::from_str(value).unwrap();
        let fact = fact.get(&Facts::published().facts).clone();
        compare(Fact { value: Some(value), range: None, values: None, corrected: None, ..fact });
    }
}
