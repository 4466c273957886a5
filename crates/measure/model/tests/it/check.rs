//! Leaving published figures out, and the model compared with those that judge it.

use overside_model::{EvidenceLevel, Library};
use std::sync::LazyLock;

use overside_model::check::{Check, Finding, check, leave_one_out, page, spreads};
use overside_model::facts::{Facts, Use};
use overside_model::questions::{OrderingFinding, OrderingVerdict};

/// Limits that docs/measure/model.md states for the facts that judge the model.
const MEDIAN_ERROR_MAX: f64 = 0.12;
const INSIDE_MIN: f64 = 0.92;
const WITHOUT_PREDICTION_MAX: f64 = 0.25;
/// High end over low end.
const CARD_WIDTH_MAX: f64 = 1.5;
const APPLICATION_WIDTH_MAX: f64 = 2.5;

static CHECK: LazyLock<Check> = LazyLock::new(|| check(Facts::published(), Library::published()));

#[test]
fn the_model_meets_the_figures_that_judge_it_within_the_stated_tolerance() {
    let scores = &CHECK.validation;
    println!("{scores:#?}");
    assert!(scores.median_error.unwrap() <= MEDIAN_ERROR_MAX);
    assert!(scores.inside.unwrap() >= INSIDE_MIN);
    assert!(scores.without_prediction <= WITHOUT_PREDICTION_MAX);
    assert!(scores.widths[&EvidenceLevel::Card].median <= CARD_WIDTH_MAX);
    assert!(scores.widths[&EvidenceLevel::Application].median <= APPLICATION_WIDTH_MAX);
}

/// Orderings that the model gets wrong: with both initiators it puts the best share at 76 %, and
/// the study found 50 and 90 %.
const FAILING: [&str; 1] = ["ord.C2"];
/// Orderings that it gets right, with intervals that overlap wholly: nine times as long may be ten
/// times, and two weak cores may be a little slower than pulling.
const LIKELY: [&str; 2] = ["ord.R1", "ord.B6"];

#[test]
fn orderings_hold_by_position_or_are_known_to_fail_and_every_other_has_its_reason() {
    for ordering in &CHECK.orderings {
        match &ordering.finding {
            OrderingFinding::Claimed { verdict, .. } => {
                let id = ordering.id.as_str();
                let must = match (FAILING.contains(&id), LIKELY.contains(&id)) {
                    (true, _) => OrderingVerdict::Fails,
                    (_, true) => OrderingVerdict::Likely,
                    _ => OrderingVerdict::Holds,
                };
                assert_eq!(*verdict, must, "{id}");
            }
            OrderingFinding::NotModelled { reason } => assert!(!reason.is_empty()),
        }
    }
    assert!(CHECK.ordering_scores.claimed * 2 > CHECK.ordering_scores.orderings);
}

#[test]
fn widths_and_the_list_of_errors_are_those_of_this_model() {
    let residuals = leave_one_out(Facts::published(), Library::published());
    let spreads = spreads(&residuals);
    for (closeness, spread) in &spreads {
        let is = closeness.factor();
        let must = spread.rounded();
        assert!(
            (is - must).abs() < 0.005,
            "{closeness:?} is x{is} and must be x{must}: run `make model-figures`"
        );
    }
    let document = include_str!("../../../../../docs/measure/model.md");
    let (before, after) = page::split(document).expect("the page has its two marks");
    let written = &document[before.len()..document.len() - after.len()];
    let must = page::page(&CHECK, &spreads);
    let stale = (must.lines().zip(written.lines())).find(|(must, is)| must != is);
    assert!(
        written == must,
        "docs/measure/model.md is stale, at {stale:?}: run `make model-figures`"
    );
}

#[test]
fn without_a_fact_its_values_are_not_known_and_all_others_are() {
    let all = Library::published();
    let without = all.without(&["coproc.comp.asic.bf2"]);
    let engine = |library: &Library, name: &str| {
        let operation = name.parse().unwrap();
        let profile = library.profile("bf2").unwrap();
        profile.operation(operation).cloned().unwrap()
    };
    assert!(engine(all, "compress-deflate").rate.is_some());
    assert!(engine(&without, "compress-deflate").rate.is_none());
    // What it cannot do without, and what rests on another fact.
    let before = engine(all, "compress-deflate");
    assert_eq!(engine(&without, "compress-deflate").max_source, before.max_source);
    let other = engine(all, "decompress-deflate");
    assert_eq!(engine(&without, "decompress-deflate"), other);
    assert_eq!(all.without(&["no.such.fact"]).profiles(), all.profiles());
}

#[test]
fn without_a_figure_the_others_of_its_fact_stay() {
    let figures = Facts::published().get("coproc.rx.art.q4.buf").unwrap().figures();
    let peak = figures.iter().find(|figure| figure.path == ["1024"]).unwrap();
    let sweep = |library: &Library| {
        let sweeps = library.profile("bf2").unwrap().sweeps();
        let (_, sweep) = sweeps.iter().find(|(key, _)| key.contains("Q4")).unwrap();
        sweep.source_bytes.clone()
    };
    let (all, without) = (Library::published(), Library::published().without_figure(peak));
    assert!(sweep(all).contains(&1024));
    assert!(!sweep(&without).contains(&1024));
    assert_eq!(sweep(&without).len(), sweep(all).len() - 1);
}

#[test]
fn a_derived_value_goes_with_the_figures_that_it_names_and_stays_for_others_of_their_fact() {
    // 40 Gb/s over the gain of SM1.
    let known = |fact: &str, path: &[&str]| {
        let figures = Facts::published().get(fact).unwrap().figures();
        let left_out = figures.iter().find(|figure| figure.path == path).unwrap();
        let without = Library::published().without_figure(left_out);
        let card = without.profile("bf2-200g").unwrap();
        card.values.contains_key("tcp.sm1.rate")
    };
    assert!(known("idio.net.sm.gen23", &["SM2"]));
    assert!(known("idio.net.sm2", &["BF-2"]));
    assert!(!known("idio.net.sm.gen23", &["SM1"]));
    assert!(!known("idio.net.sm2", &["BF-3"]));
}

#[test]
fn a_figure_that_is_not_there_cannot_be_named() {
    for name in ["idio.net.sm2[BF-9]", "idio.net.sm2[BF-3", "no.such.fact[a]"] {
        let value = format!(r#"{{ value = 8, unit = "count", facts = ["{name}"] }}"#);
        let text = include_str!("small.toml");
        let text = format!("{text}\n[values]\n\"cpu.threads\" = {value}\n");
        let error = overside_model::Profile::parse("small.toml", &text).unwrap_err();
        assert!(error.problem.contains("idio") || error.problem.contains("such"), "{error}");
        assert!(error.position.is_some(), "{error}");
    }
}

#[test]
fn doubtful_figures_are_never_compared_and_all_others_are_accounted_for() {
    let check = &*CHECK;
    for figure in &check.figures {
        let fact = Facts::published().get(&figure.fact).unwrap();
        let compared = figure.compared().is_some();
        assert!(!(compared && fact.is_doubtful()), "{}", figure.name);
        let judged_by_itself = figure.compared().is_some_and(|one| one.fitted);
        assert!(!(figure.purpose == Use::Validate && judged_by_itself), "{}", figure.name);
    }
    assert!(check.figures.iter().any(|one| matches!(one.finding, Finding::Doubtful)));
    let all: usize = Facts::published().facts.iter().map(|fact| fact.figures().len()).sum();
    assert_eq!(check.figures.len(), all);
    assert_eq!(check.orderings.len(), Facts::published().orderings.len());
}

/// Counts the values of that profile in the library that cite the fact.
fn knows(library: &Library, profile: &str, fact: &str) -> usize {
    let profile = library.profile(profile).unwrap();
    let quantities = profile.quantities().into_iter();
    let tables = profile.tables.values();
    let cites = |facts: &[String]| facts.iter().any(|id| id == fact);
    quantities.filter(|(_, one)| cites(&one.facts)).count()
        + tables.filter(|one| cites(&one.facts)).map(|one| one.value.len()).sum::<usize>()
}

#[test]
fn a_ratio_goes_with_both_of_its_sides_and_a_machine_with_its_own_row() {
    let all = Library::published();
    let without = |fact: &str, key: &str| {
        let figures = Facts::published().get(fact).unwrap().figures();
        let one = figures.iter().find(|figure| figure.path.iter().any(|at| at == key));
        all.without_figure(one.unwrap_or_else(|| panic!("{fact} has no {key}")))
    };
    // Figures of the host stand in the card's profile, as they are ratios to the card.
    let (fact, key) = ("dpbento.acc.dec.256", "host_threaded");
    for profile in all.profiles().iter().filter(|one| knows(all, &one.name, fact) > 0) {
        let left = knows(&without(fact, key), &profile.name, fact);
        assert!(left < knows(all, &profile.name, fact), "{}", profile.name);
    }
    for fact in ["dpbento.mem.rnd.read.16KB", "idio.net.sm2"] {
        for profile in all.profiles().iter().filter(|one| knows(all, &one.name, fact) > 0) {
            let left = knows(&without(fact, "BF-2"), &profile.name, fact);
            let is_own = profile.name.contains("bf2");
            assert_eq!(left < knows(all, &profile.name, fact), is_own, "{fact}: {}", profile.name);
        }
    }
}
