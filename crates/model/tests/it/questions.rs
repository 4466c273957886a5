//! Questions are data: what a fact says in words changes nothing, and what is wrong is told where.

use overside_model::check::{Check, Finding, check};
use overside_model::facts::{Fact, Facts, Figure};
use overside_model::questions::{OrderingFinding, Questions};
use overside_model::scenario::{ScenarioArgs, run};
use overside_model::{Library, Unit};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_yaml_ng::Value;
use std::sync::LazyLock;

static CHECK: LazyLock<Check> = LazyLock::new(|| check(Facts::published(), Library::published()));

/// What came of each figure, without what the fact says in words.
fn findings(check: &Check) -> Vec<(String, String)> {
    let finding = |one: &Finding| serde_json::to_string(one).unwrap();
    (check.figures.iter())
        .map(|one| (one.name.clone(), finding(&one.finding)))
        .collect()
}

/// That facts changed like this are answered as they were.
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
        for text in [
            &mut fact.device,
            &mut fact.workload,
            &mut fact.metric,
            &mut fact.conditions,
        ] {
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
            assert!(!commands.is_empty(), "{}", figure.name());
            let [only] = &commands[..] else { continue };
            // As it stands in the fact, typed by hand.
            let mut words = only.command.split(" --set ");
            let scenario = words
                .next()
                .unwrap()
                .strip_prefix("overside simulate ")
                .unwrap();
            let mut asked = ScenarioArgs::of(scenario);
            for word in words {
                let (key, value) = word.trim_matches('\'').split_once('=').unwrap();
                asked.set(key, value);
            }
            let report =
                run(&asked, Library::published()).unwrap_or_else(|e| panic!("{fact:?}: {e}"));
            let shown = report.rows[0]
                .shown()
                .find(|one| one.kind.name == only.figure);
            let printed = shown
                .unwrap()
                .answer
                .as_ref()
                .ok()
                .map(|one| one.interval.typ);
            let scored = question.answer(Library::published()).ok();
            if let (Some(printed), Some(scored)) = (printed, scored)
                && !figure.unit.contains('%')
            {
                assert!(
                    (printed / scored.interval.typ - 1.0).abs() < 1e-9,
                    "{}",
                    figure.name()
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");
}

#[test]
fn figures_that_a_studys_own_code_invalidates_neither_calibrate_nor_judge() {
    for id in [
        "dpbento.str.strcmp.10",
        "dpbento.str.strcmp.1024",
        "dpbento.str.cmp.host",
    ] {
        let fact = Facts::published().get(id).unwrap();
        assert!(
            fact.is_doubtful() && fact.note.as_ref().unwrap().contains("compiler"),
            "{id}"
        );
        let mut those = CHECK.figures.iter().filter(|one| one.fact == id);
        assert!(
            those.all(|one| matches!(one.finding, Finding::Doubtful)),
            "{id}"
        );
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
    assert!(
        compared.inside && compared.error.abs() < 0.01,
        "{compared:?}"
    );
}

#[test]
fn what_is_wrong_with_a_question_is_told_with_its_line() {
    for (ask, line, says) in [
        (
            "    scenario: netwrk\n    figure: TCP\n",
            13,
            "did you mean \"network\"?",
        ),
        (
            "    scenario: network\n    figure: UDP\n    path: sm2\n",
            14,
            "has no figure \"UDP\"",
        ),
        (
            "    scenario: network\n    figure: TCP\n    path: sm9\n",
            15,
            "\"sm9\" is not known",
        ),
        (
            "    scenario: network\n    figure: TCP\n    pth: sm2\n",
            15,
            "did you mean \"path\"?",
        ),
        (
            "    scenario: network\n    figure: TCP\n    path: sm2\n    profile: bf9\n",
            16,
            "\"bf9\"",
        ),
        (
            "    scenario: network\n    figure: TCP\n",
            3,
            "set one value",
        ),
        (
            "    scenario: dma\n    figure: latency\n    primitive: dma\n    initiator: dpu\n    \
          access: read\n    bytes: 64 B\n",
            11,
            "counts in \"Gbps\"",
        ),
        (
            "    scenario: kv\n    figure: throughput\n    design: dual\n    requests: 1000\n",
            14,
            "one answer",
        ),
        (
            "    scenario: network\n    figure: TCP\n    path: sm2\n    one_of: {profile: []}\n",
            16,
            "0 cases",
        ),
    ] {
        let error = asking(ask).unwrap_err();
        assert!(error.contains(says), "{ask}: {error}");
        assert!(
            error.contains(&format!("mine.yaml:{line}:")),
            "{ask}: {error}"
        );
    }
}

#[test]
fn questions_about_what_nobody_published_are_refused() {
    let parse = |text: &str| {
        let error = Questions::parse("q.yaml", text, Facts::published()).unwrap_err();
        error.to_string()
    };
    let error = parse("questions:\n  idio.net.sm3: {scenario: network}\n");
    assert!(
        error.contains("q.yaml:2:") && error.contains("there is no such fact"),
        "{error}"
    );
    let error = parse("orderings:\n  ord.D9: {not_modelled: x}\n");
    assert!(error.contains("there is no such ordering"), "{error}");
    let error = parse("orderings:\n  ord.D2:\n    all: [{rising: [{value: 1}]}]\n");
    assert!(
        error.contains("q.yaml:3:") && error.contains("two questions"),
        "{error}"
    );
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
    let ordering = (Facts::published().orderings.iter())
        .find(|one| one.id == "ord.C2")
        .unwrap();
    for (at, must) in [(0.76, true), (0.5, false)] {
        let questions = Questions::parse("q.yaml", &text(at), Facts::published()).unwrap();
        match questions
            .ordering(ordering)
            .unwrap()
            .answer(Library::published())
        {
            OrderingFinding::Claimed { holds, .. } => assert_eq!(holds, must, "{at}"),
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
    let facts = Facts {
        facts: vec![fact],
        ..Facts::parse("none", "{meta: {}, facts: []}").unwrap()
    };
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
